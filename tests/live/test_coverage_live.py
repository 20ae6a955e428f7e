"""The coverage table, cell by cell, on the real CLIs: what is claimed is what happens, and what is not, does not.

Most cells are shown by the session that `interlock doctor --guard` plays, here with every class of tools that an agent
has. The rest of this file is what such a session cannot show: backstops behind hooks that do not work, outputs that
stop a run, and classes of tools that only one agent has.
"""

import base64
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli import inert_hooks

from interlock import Allow, Answer, Approve, Deny, DenyCall, Modify, Reason, Replace
from interlock.capabilities import ToolClass
from interlock.coverage import coverage
from interlock.engine.registry import find_adapter, known_agents
from interlock.events import ApprovalRequested, ToolFinished
from interlock_adapters.codex.app_server import hook_calls
from interlock_adapters.codex.app_server.answers import HookAnswer, answer_hook
from interlock_fixtures.clis import CliMissing, clis_required, copilot_cache, find_cli, pinned_ends, require_cli
from interlock_fixtures.proving import Dialect, Place, dialects_of, prove
from interlock_fixtures.proving import session as proving_session
from interlock_fixtures.proving.judging import TRACED
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
ASK = {"posture": "none", "otherwise": "ask"}
DIRECT, CODE = "gpt-5.5", "gpt-6.2-sol"
DEAD_END = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
JUDGED = ("before", "after", "deny", "modify", "replace", "asked")
"""The columns that the session judges."""


def ways() -> list[Any]:
    """Every transport that shows calls, in every style of model, at both ends of the tested range."""
    return [
        pytest.param(
            name,
            transport,
            dialect,
            which,
            id=" ".join(filter(None, (name, transport, dialect.style, which))),
            marks=() if which == pinned_ends(name)[-1] else pytest.mark.slow,
        )
        for name in known_agents()
        for transport in (one.name for one in find_adapter(name).transports if one.capabilities.sees_before == "all")
        for dialect in dialects_of(name)
        for which in pinned_ends(name)
    ]


def place(name: str, which: Any, folder: Path) -> Place:
    """The CLI with a folder of its own, or the reason for which the test cannot run."""
    try:
        made = Place(find_adapter(name), str(require_cli(name, which)), folder, DEAD_END)
    except CliMissing as missing:
        if clis_required():
            raise
        pytest.skip(str(missing))
    if name == "copilot":
        unpacked = made.state / "copilot" / "packages"
        unpacked.parent.mkdir(parents=True)
        unpacked.symlink_to(copilot_cache() / "copilot")
    return made


@pytest.fixture(autouse=True)
def _unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Copilot unpacks at its first start all tests share."""
    if find_cli("copilot", "oldest") is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(copilot_cache()))


def of(name: str, transport: str) -> Any:
    return next(one for one in find_adapter(name).transports if one.name == transport)


@pytest.mark.parametrize(("name", "transport", "dialect", "which"), ways())
async def test_what_the_session_shows_is_what_the_table_claims(name, transport, dialect, which, tmp_path):
    whole = dialect.thorough()
    found = await prove(place(name, which, tmp_path), of(name, transport), whole)
    assert [(one.promise, one.seen) for one in found if one.verdict == "broken"] == []
    held = {one.promise for one in found if one.verdict == "holds"}
    rows = {row.tool_class: row for row in coverage(of(name, transport).capabilities)}
    claimed = {
        f"{tool_class}.{column}"
        for tool_class in whole.calls
        for column in JUDGED
        if column in rows[tool_class].claimed() and not rows[tool_class].cells[column].startswith("stops")
    }
    assert {one for one in held if "." in one} == claimed


# ---- Backstops: the hooks do not work, and what stands behind them does ----------------------------------------------


async def decided(where: Place, dialect: Dialect, transport: str, backstop: str, monkeypatch) -> Any:
    """The session's first run under a backstop; a broken promise stops nothing."""
    play = proving_session.run

    async def under(*given: Any, **fields: Any) -> Any:
        return await play(*given, **{**fields, "permission": {"posture": "full", "backstop": backstop}})

    monkeypatch.setattr(proving_session, "run", under)
    can = of(where.adapter.name, transport).capabilities
    return await proving_session._decide(where, can, dialect)


def happened(seen: Any, dialect: Dialect) -> set[str]:
    """The classes of which a call has taken place, by its traces."""
    traced = {one for one in dialect.calls if one in TRACED and one is not ToolClass.AGENT}
    here = seen.ran.workspace
    ran = {
        str(one)
        for one in traced
        for what in ("no", "old", "new")
        if here.left(f"{one}-{what}") or (one is not ToolClass.EDIT and seen.ran.knows(here.tokens[f"{one}-{what}"]))
    }
    return ran | ({"agent"} if seen.ran.script.prompts else set())


def backed(name: str, transport: str, backstop: str) -> set[str]:
    return {
        str(row.tool_class)
        for row in coverage(of(name, transport).capabilities)
        if backstop in row.cells.get("backstop", "")
    }


@pytest.mark.parametrize("which", pinned_ends("claude"))
@pytest.mark.parametrize("how", ["bare", "dropped"])
@pytest.mark.sampled
async def test_behind_hooks_that_never_fire_the_gate_of_claude_lets_nothing_run(which, how, tmp_path, monkeypatch):
    (dialect,) = dialects_of("claude")
    whole = dialect.thorough()
    where = place("claude", which, tmp_path)
    inert = inert_hooks.install(tmp_path / "inert", "claude", how, Path(where.binary))
    seen = await decided(replace(where, binary=str(inert)), whole, "stream-json", "gate", monkeypatch)
    assert happened(seen, whole) == set()
    assert seen.examiner.before_calls == {}
    assert len(seen.ran.alarms) >= (3 if how == "bare" else len(whole.calls) - 1)
    said = [seen.ran.result(f"{one}-no") or "" for one in (ToolClass.FETCH, ToolClass.QUESTION, ToolClass.UNKNOWN)]
    assert how == "bare" or all("nobody had been shown it before" in one for one in said), said
    assert set(map(str, whole.calls)) <= backed("claude", "stream-json", "gate")


@pytest.mark.parametrize("dialect", dialects_of("codex"), ids=lambda dialect: dialect.style)
async def test_behind_hooks_that_fail_open_the_gate_of_codex_lets_run_only_what_it_never_asks_about(
    dialect, tmp_path, monkeypatch
):
    def broken(asked, verdict, wrapping):
        right = answer_hook(asked, verdict, wrapping)
        return HookAnswer(b"garbage", right.passed, right.reason, right.shown, right.decided, right.told)

    monkeypatch.setattr(hook_calls, "answer_hook", broken)
    seen = await decided(place("codex", "oldest", tmp_path), dialect, "app-server", "gate", monkeypatch)
    bare = set(map(str, dialect.calls)) - backed("codex", "app-server", "gate")
    assert happened(seen, dialect) == bare
    assert seen.ran.alarms


BEHIND = [("server", "stripped"), ("prompt", "stripped"), ("prompt", "without the one before")]


@pytest.mark.parametrize("dialect", dialects_of("copilot"), ids=lambda dialect: dialect.style)
@pytest.mark.parametrize(("transport", "how"), BEHIND)
@pytest.mark.sampled
async def test_behind_hooks_that_are_never_called_copilot_lets_run_only_what_it_never_asks_about(
    dialect, transport, how, tmp_path, monkeypatch
):
    backstop = {"server": "gate", "prompt": "flags"}[transport]
    where = place("copilot", "oldest", tmp_path)
    inert = inert_hooks.install(tmp_path / "inert", "copilot", how, Path(where.binary))
    seen = await decided(replace(where, binary=str(inert)), dialect, transport, backstop, monkeypatch)
    assert happened(seen, dialect) <= set(map(str, dialect.calls)) - backed("copilot", transport, backstop)
    assert (seen.examiner.before_calls, bool(seen.ran.alarms)) == ({}, True)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


OUTSIDE_PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"


@pytest.mark.parametrize("transport", ["exec", "app-server"])
async def test_the_sandbox_confines_commands_typed_input_patches_and_sub_agents(codex, transport):
    """Each tries to write outside, and in the workspace too, to show that it ran at all."""
    outside = codex.folder / "outside"
    outside.mkdir()

    def both(name: str) -> str:
        return f"touch {shlex.quote(str(outside / name))}; touch {name}"

    def call(name: str, given: object, call_id: str) -> ToolCall:
        return ToolCall("exec", {"input": f"text(await tools.{name}({json.dumps(given)}))"}, call_id)

    started = []

    def reply(request):
        if b"INNER" in request.raw and b"the outer one" not in request.raw:
            return Turn(Text("report")) if request.shown else Turn(call("exec_command", {"cmd": both("inner")}, "i1"))
        steps = [
            call("exec_command", {"cmd": both("shell")}, "c1"),
            call("exec_command", {"cmd": f"sleep 0.5; {both('late')}", "yield_time_ms": 250}, "c2"),
            call("apply_patch", OUTSIDE_PATCH.format(outside / "patch"), "p1"),
            call("apply_patch", OUTSIDE_PATCH.format("patch"), "p2"),
            ToolCall(
                "collaboration/spawn_agent", {"task_name": "inner", "message": "INNER", "fork_turns": "none"}, "a1"
            ),
            call("exec_command", {"cmd": "sleep 2", "yield_time_ms": 5000}, "c3"),
        ]
        started.append(request)
        return Turn(steps[len(started) - 1]) if len(started) <= len(steps) else DONE

    fields = {"permission": {"posture": "edit"}, "transport": transport, "model": CODE, "prompt": "the outer one"}
    played = await codex.play([reply] * 12, **fields)
    assert played.outcome.ok, played.outcome
    assert names(outside) == []
    assert names(codex.workspace) == ["inner", "late", "patch", "shell"]


async def test_what_is_typed_into_a_shell_over_exec_is_confined_too(codex):
    outside = codex.folder / "outside"
    outside.mkdir()

    def typing(request):
        found = re.search(r"session(?:_id| ID)\D*(\d+)", request.shown[-1].content)
        assert found, request.shown[-1].content
        text = f"touch {outside / 'typed'}; touch typed\n"
        return Turn(ToolCall("write_stdin", {"session_id": int(found[1]), "chars": text, "yield_time_ms": 2000}, "w1"))

    script = [Turn(ToolCall("exec_command", {"cmd": "bash", "yield_time_ms": 500, "tty": True}, "c1")), typing, DONE]
    played = await codex.play(script, permission={"posture": "edit"}, transport="exec")
    assert played.outcome.ok, played.outcome
    assert (names(outside), "typed" in names(codex.workspace)) == ([], True), [one.content for one in played.shown]


# ---- Outputs that stop the run ---------------------------------------------------------------------------------------

STOPPING = {
    "fetch": ToolCall("WebFetch", {"url": "https://lily.invalid/", "prompt": "what is there?"}, "t1"),
    "unknown": ToolCall("EnterWorktree", {"name": "lily"}, "t1"),
}


@pytest.mark.parametrize("kind", STOPPING)
async def test_an_output_of_claude_that_cannot_be_replaced_stops_the_run(live, policy, monkeypatch, kind):
    for name, url in DEAD_END.items():
        monkeypatch.setenv(name, url)
    guard = policy(after=lambda _: Replace(output="withheld"))
    tools = {"extra_args": ["--tools=Bash,WebFetch,EnterWorktree"]}
    played = await live.play([Turn(STOPPING[kind]), DONE], guard, permission=FULL, **tools)
    assert [call.tool_kind for call in guard.calls] == [kind, kind]
    assert (played.outcome.reason, played.shown) == (Reason.UNREPLACEABLE, []), played.outcome


async def test_outputs_of_tools_that_run_in_codex_itself_are_replaced(codex, policy):
    asked = {"id": "q", "question": "which?", "header": "h", "options": [{"label": "one", "description": "1"}] * 2}
    spawning = {"task_name": "inner", "message": "INNER", "fork_turns": "none"}
    for kind, call in {
        "question": ToolCall("request_user_input", {"questions": [asked]}, "t1"),
        "agent": ToolCall("collaboration/spawn_agent", spawning, "t1"),
        "unknown": ToolCall("clock/sleep", {"duration_ms": 10}, "t1"),
    }.items():
        guard = policy(after=lambda _: Replace(output="withheld"))
        played = await codex.play(
            [Turn(call), DONE, DONE],
            guard,
            permission=FULL,
            model=CODE,
            answer=lambda _: Answer(answers={"q": ("one",)}),
        )
        assert [one.tool_kind for one in guard.calls] == [kind, kind], kind
        assert played.result("t1").content == "withheld", kind
        assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


# ---- Classes that one agent has alone --------------------------------------------------------------------------------

SUBMIT = ToolCall("ExitPlanMode", {"plan": "1. make the file"}, "p1")


async def test_the_plan_tool_of_claude_is_seen_denied_and_asked_about(live, policy):
    guard = policy(
        lambda call: DenyCall(reason="not this plan") if len(guard.calls) == 1 else Allow(), lambda _: Allow()
    )
    script = [Turn(SUBMIT), Turn(replace(SUBMIT, id="p2")), Turn(replace(SUBMIT, id="p3")), DONE]
    permission = {"posture": "full", "otherwise": "ask"}
    answers = iter([Deny(reason="not yet"), Approve()])
    played = await live.play(script, guard, mode="plan", permission=permission, respond=lambda _: next(answers))
    assert ["not this plan" in played.result("p1").content, "not yet" in played.result("p2").content] == [True, True]
    assert [(call.tool_call_id, call.event, call.tool_kind) for call in guard.calls] == [
        ("p1", "pre_tool_use", "plan"),
        ("p2", "pre_tool_use", "plan"),
        ("p3", "pre_tool_use", "plan"),
        ("p3", "post_tool_use", "plan"),
    ]
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


@pytest.mark.parametrize("claude_which", ["oldest", "newest"])
async def test_a_plan_of_claude_that_the_chain_changes_is_the_accepted_one_or_is_denied(claude_which, live, policy):
    """The newest keeps it in a file and calls the tool without input: then nothing of it can be changed."""
    guard = policy(lambda call: Modify(input={"plan": "2. make nothing"}), lambda _: Allow())
    permission = {"posture": "full", "otherwise": "ask"}
    played = await live.play(
        [Turn(SUBMIT), DONE], guard, mode="plan", permission=permission, respond=lambda _: Approve()
    )
    ran = [call.input for call in guard.calls if call.event == "post_tool_use"]
    if claude_which == "oldest":
        assert ran == [{"plan": "2. make nothing"}]
    else:
        assert (ran, played.result("p1").is_error) == ([], True)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


async def test_what_the_plan_tool_of_claude_says_stops_the_run_if_it_must_not_be_shown(live, policy):
    guard = policy(after=lambda _: Replace(output="withheld"))
    permission = {"posture": "full", "otherwise": "ask"}
    played = await live.play(
        [Turn(SUBMIT), DONE], guard, mode="plan", permission=permission, respond=lambda _: Approve()
    )
    assert (played.outcome.reason, played.shown) == (Reason.UNREPLACEABLE, []), played.outcome


async def test_behind_hooks_that_never_fire_no_plan_of_claude_is_accepted(live, policy, tmp_path):
    inert = inert_hooks.install(tmp_path / "inert", "claude", "dropped", live.cli)
    permission = {"posture": "full", "otherwise": "ask"}
    fields = {"mode": "plan", "permission": permission, "binary": str(inert)}
    script = [Turn(SUBMIT), Turn(ToolCall("Bash", {"command": "touch made"}, "b1")), DONE]
    played = await live.play(script, policy(), respond=lambda _: Approve(), **fields)
    assert names(live.workspace) == []
    assert played.outcome.reason is Reason.UNGUARDED


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def image(model: str, name: str, call_id: str) -> ToolCall:
    if model == DIRECT:
        return ToolCall("view_image", {"path": name}, call_id)
    script = f"image(await tools.view_image({json.dumps({'path': name})}))"
    return ToolCall("exec", {"input": script}, call_id)


@pytest.mark.parametrize("model", [DIRECT, CODE])
async def test_an_image_of_codex_is_viewed_only_as_the_chain_and_the_person_say(codex, policy, model):
    for name in ("no.png", "new.png", "yes.png"):
        (codex.workspace / name).write_bytes(base64.b64decode(PIXEL))

    def before(call):
        assert call.tool_kind == "read"
        match call.subject.paths[0].rpartition("/")[2]:
            case "no.png":
                return DenyCall(reason="not this one")
            case "old.png":
                return Modify(input={**call.input, "path": str(codex.workspace / "new.png")})
            case _:
                return Allow()

    script = [Turn(image(model, name, name)) for name in ("no.png", "old.png")]
    played = await codex.play([*script, DONE], policy(before), permission=FULL, model=model)
    assert "not this one" in played.result("no.png").content
    assert played.result("no.png").content.count("[input_image]") == 0
    assert [event.status for event in played.of(ToolFinished)] == ["denied", "ok"]
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome

    def respond(approval):
        return Approve() if "yes" in json.dumps(approval.call.input) else Deny(reason="not that")

    script = [Turn(image(model, name, name)) for name in ("no.png", "yes.png")]
    asking = {"permission": ASK, "respond": respond}
    played = await codex.play([*script, DONE], model=model, **asking)
    assert [list(one.approval.call.subject.paths) for one in played.of(ApprovalRequested)] != []
    assert "not that" in played.result("no.png").content
    assert "not that" not in played.result("yes.png").content
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


async def test_a_tool_of_codex_that_our_table_lacks_is_denied_rewritten_and_asked_about(codex, policy):
    def before(call):
        assert call.tool_kind == "unknown"
        return DenyCall(reason="no sleeping") if call.input["duration_ms"] == 11 else Modify(input={"duration_ms": 1})

    guard = policy(before, lambda _: Allow())
    script = [Turn(ToolCall("clock/sleep", {"duration_ms": time}, f"s{time}")) for time in (11, 12)]
    played = await codex.play([*script, DONE], guard, permission=FULL, model=CODE)
    assert "no sleeping" in played.result("s11").content
    assert [call.input for call in guard.calls if call.event == "post_tool_use"] == [{"duration_ms": 1}]
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    asked = await codex.play(
        [*script, DONE], permission=ASK, model=CODE, respond=lambda _: Deny(reason="no sleeping at all")
    )
    assert len(asked.of(ApprovalRequested)) == 2
    assert "no sleeping at all" in asked.result("s12").content
    narrow = await codex.play([script[0], DONE], permission={"posture": "edit"}, model=CODE)
    assert [denial.by for denial in narrow.outcome.denials] == ["policy"]


@pytest.mark.parametrize("model", [DIRECT, CODE])
@pytest.mark.sampled
async def test_a_command_of_codex_that_goes_on_while_the_model_does_is_denied_rewritten_and_asked_about(
    codex, policy, model
):
    def late(name: str) -> ToolCall:
        given = {"cmd": f"sleep 1; touch {name}", "yield_time_ms": 250}
        if model == DIRECT:
            return ToolCall("exec_command", given, name)
        return ToolCall("exec", {"input": f"text(await tools.exec_command({json.dumps(given)}))"}, name)

    def wait(call_id: str) -> ToolCall:
        given = {"cmd": "sleep 2", "yield_time_ms": 6000}
        if model == DIRECT:
            return ToolCall("exec_command", given, call_id)
        return ToolCall("exec", {"input": f"text(await tools.exec_command({json.dumps(given)}))"}, call_id)

    def before(call):
        text = call.input["command"]
        if "touch no" in text:
            return DenyCall(reason="not this")
        return Modify(input={"command": text.replace("old", "new")}) if "old" in text else Allow()

    script = [Turn(late("no")), Turn(late("old")), Turn(wait("w1")), DONE]
    played = await codex.play(script, policy(before), permission=FULL, model=model)
    assert "not this" in played.result("no").content
    assert names(codex.workspace) == ["new"]
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome

    def respond(approval):
        return Deny(reason="not that") if "touch no" in json.dumps(approval.call.input) else Approve()

    script = [Turn(late("no")), Turn(late("yes")), Turn(wait("w1")), DONE]
    played = await codex.play(script, permission=ASK, respond=respond, model=model)
    assert names(codex.workspace) == ["new", "yes"]
    assert len(played.of(ApprovalRequested)) == 3
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


def bash(command: str, call_id: str, **more: object) -> ToolCall:
    return ToolCall("bash", {"command": command, "description": "x", **more}, call_id)


@pytest.mark.parametrize("transport", ["prompt", "server"])
@pytest.mark.sampled
async def test_a_command_of_copilot_in_the_background_is_denied_rewritten_and_asked_about(copilot, policy, transport):
    def late(name: str) -> ToolCall:
        return bash(f"sleep 0.3; touch {name}", name, mode="async")

    def before(call):
        text = call.input["command"]
        if "touch no" in text:
            return DenyCall(reason="not this")
        return Modify(input={**call.input, "command": text.replace("old", "new")}) if "old" in text else Allow()

    script = [Turn(late("no")), Turn(late("old")), Turn(bash("sleep 2", "w1")), DONE]
    played = await copilot.play(script, policy(before), permission=FULL, transport=transport)
    assert "not this" in played.result("no").content
    assert names(copilot.workspace) == ["new"]
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    if transport == "prompt":
        return

    def respond(approval):
        return Deny(reason="not that") if "touch no" in json.dumps(approval.call.input) else Approve()

    script = [Turn(late("no")), Turn(late("yes")), Turn(bash("sleep 2", "w1")), DONE]
    played = await copilot.play(script, permission=ASK, respond=respond, transport=transport)
    assert names(copilot.workspace) == ["new", "yes"]
    assert len(played.of(ApprovalRequested)) == 3
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


@pytest.mark.parametrize("transport", ["prompt", "server"])
async def test_no_command_of_copilot_runs_in_the_background_where_outputs_are_judged(copilot, policy, transport):
    guard = policy(after=lambda call: Replace(output=str(call.output).replace("tiger-2", "withheld")))
    script = [Turn(bash("sleep 0.3; echo tiger-$((1+1))", "c1", mode="async")), Turn(bash("sleep 1", "w1")), DONE]
    played = await copilot.play(script, guard, permission=FULL, transport=transport)
    assert not played.knows(b"tiger-2")
    assert played.outcome.ok, played.outcome


COPILOT_STOPS = {
    "shell_input": (ToolCall("list_bash", {}, "t1"), ("server",)),
    "fetch": (ToolCall("web_fetch", {"url": "https://lily.invalid/"}, "t1"), ("prompt", "server")),
    "web_search": (ToolCall("web_search", {"query": "lily"}, "t1"), ("prompt", "server")),
    "unknown": (ToolCall("session_store_sql", {"query": "select 1", "description": "x"}, "t1"), ("server",)),
}


@pytest.mark.parametrize(
    ("kind", "transport"), [(kind, way) for kind, (_, stopping) in COPILOT_STOPS.items() for way in stopping]
)
@pytest.mark.sampled
async def test_an_output_of_copilot_that_cannot_be_replaced_stops_the_run(copilot, policy, kind, transport):
    guard = policy(after=lambda _: Replace(output="withheld"))
    call, _ = COPILOT_STOPS[kind]
    played = await copilot.play([Turn(call), DONE], guard, permission=FULL, transport=transport)
    assert [one.tool_kind for one in guard.calls] == [kind, kind]
    assert (played.outcome.reason, played.shown) == (Reason.UNREPLACEABLE, []), played.outcome


# ---- Classes that an agent lacks -------------------------------------------------------------------------------------


async def test_claude_has_no_patches_and_nothing_to_type_into(live, policy):
    patch = "*** Begin Patch\n*** Add File: made\n+x\n*** End Patch\n"
    script = [
        Turn(ToolCall("apply_patch", {"input": patch}, "patch")),
        Turn(ToolCall("TaskOutput", {"task_id": "1", "block": False, "timeout": 1}, "output")),
        Turn(ToolCall("TaskStop", {"task_id": "1"}, "stop")),
        Turn(ToolCall("BashOutput", {"bash_id": "1"}, "bash-output")),
        Turn(ToolCall("KillShell", {"shell_id": "1"}, "kill")),
        Turn(ToolCall("Bash", {"command": "touch made", "run_in_background": True}, "background")),
        DONE,
    ]
    played = await live.play(script, policy(), permission=FULL)
    assert [one.is_error for one in played.shown] == [True] * (len(script) - 1), played.shown
    assert names(live.workspace) == []
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


@pytest.mark.parametrize("transport", ["exec", "app-server"])
async def test_codex_has_no_tools_to_search_edit_write_fetch_or_plan_with(codex, transport):
    (codex.workspace / "a.txt").write_text("one\n")
    calls = {
        "grep": {"pattern": "one"},
        "grep_files": {"pattern": "one"},
        "edit": {"path": "a.txt", "old": "one", "new": "two"},
        "write_file": {"path": "b.txt", "content": "x"},
        "web_fetch": {"url": "http://127.0.0.1:9/"},
        "exit_plan_mode": {"plan": "x"},
    }
    script = [Turn(ToolCall(name, given, name)) for name, given in calls.items()]
    played = await codex.play([*script, DONE], permission=FULL, transport=transport)
    assert all(f"unsupported call: {name}" in played.result(name).content for name in calls), played.shown
    assert names(codex.workspace) == ["a.txt"]
    assert (codex.workspace / "a.txt").read_text() == "one\n"
    offered = json.dumps(played.requests[0].body["tools"])
    assert "web_search" not in offered
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


@pytest.mark.parametrize("transport", ["prompt", "server"])
async def test_copilot_offers_no_plans_and_asks_nothing_where_nobody_can_be_asked(copilot, transport):
    script = [
        Turn(ToolCall("exit_plan_mode", {"summary": "x"}, "plan")),
        Turn(ToolCall("ask_user", {"question": "which?", "choices": ["one", "two"]}, "question")),
        DONE,
    ]
    answer = {"answer": lambda question: Answer(answers={question.items[0].id: ("one",)})}
    played = await copilot.play(
        script, permission=FULL, transport=transport, **(answer if transport == "server" else {})
    )
    offered = {tool["function"]["name"] for tool in played.requests[0].body["tools"]}
    lacking = {"exit_plan_mode", "ask_user"} if transport == "prompt" else {"exit_plan_mode"}
    assert offered.isdisjoint(lacking)
    assert "does not exist" in played.result("plan").content
    assert ("does not exist" in played.result("question").content) is (transport == "prompt")
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
