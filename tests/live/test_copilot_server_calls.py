"""Calls of the real Copilot over its server: each is shown before it runs, and what was decided is what happens."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from interlock import Allow, DenyCall, HookSpec, Modify, Notice
from interlock.events import FilesChanged, Raw, ToolDecided, ToolFinished, ToolRequested
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
MISDEEDS = runpy.run_path(str(Path(__file__).parent / "hook_rows.py"))
PROGRAM, ROWS, HARMLESS = MISDEEDS["PROGRAM"], MISDEEDS["ROWS"], MISDEEDS["HARMLESS"]
INTERCEPTED, Wayward = MISDEEDS["INTERCEPTED"], MISDEEDS["Wayward"]
BIRDS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    params, result = asked.get("params", {}), {}
    if asked["method"] == "initialize":
        serves = {"name": "birds", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": serves}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("say", "fail")]}
    elif asked["method"] == "tools/call":
        said = json.dumps(params["arguments"])
        result = {"content": [{"type": "text", "text": said}], "isError": params["name"] == "fail"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def bash(command: str, call_id: str = "c1", **more: object) -> ToolCall:
    return ToolCall("bash", {"command": command, "description": "x", **more}, call_id)


def create(path: str, text: str, call_id: str = "c1") -> ToolCall:
    return ToolCall("create", {"path": path, "file_text": text}, call_id)


def edit(path: str, old: str, new: str, call_id: str = "c1") -> ToolCall:
    return ToolCall("edit", {"path": path, "old_str": old, "new_str": new}, call_id)


def patch(path: str, line: str, call_id: str = "c1") -> ToolCall:
    return ToolCall(
        "apply_patch", {"input": f"*** Begin Patch\n*** Add File: {path}\n+{line}\n*** End Patch\n"}, call_id
    )


def task(prompt: str, call_id: str = "t1", **more: object) -> ToolCall:
    given = {"name": "n", "prompt": prompt, "agent_type": "general-purpose", "description": "d", **more}
    return ToolCall("task", given, call_id)


def sql(query: str, call_id: str = "c1") -> ToolCall:
    return ToolCall("sql", {"description": "d", "query": query}, call_id)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def objecting(word: str):
    return lambda call: DenyCall(reason=f"no {word}") if word in json.dumps(call.input) else Allow()


def replacing(old: str, new: str):
    """Rewrites every input that holds a word, whatever tool it is for."""

    def rewrite(call):
        text = json.dumps(call.input)
        return Modify(input=json.loads(text.replace(old, new))) if old in text else Allow()

    return rewrite


@pytest.fixture
def birds(copilot) -> dict[str, object]:
    """An MCP server."""
    program = copilot.folder / "birds.py"
    program.write_text(BIRDS)
    return {"birds": {"type": "stdio", "command": sys.executable, "args": [str(program)]}}


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_denied_call_does_not_run_the_model_reads_the_reason_and_the_run_goes_on(copilot, policy, birds):
    script = [
        Turn(bash("touch forbidden", "c1"), bash("touch made", "c2")),
        Turn(create("forbidden.txt", "x", "c3"), ToolCall("birds-say", {"text": "forbidden"}, "c4")),
        Turn(ToolCall("view", {"path": "forbidden.md"}, "c5"), sql("select 'forbidden'", "c6")),
        Turn(task("forbidden", "c7"), ToolCall("no_such_tool", {"a": "forbidden"}, "c8")),
        DONE,
    ]
    guard = policy(objecting("forbidden"))
    played = await copilot.play(script, guard, permission=FULL, mcp_servers=birds)
    denied = {f"c{number}": "deny by hook" for number in (1, 3, 4, 5, 6, 7, 8)}
    assert played.decisions() == {**denied, "c2": "allow by posture"}
    assert names(copilot.workspace) == ["made"]
    assert all("no forbidden" in played.result(call).content for call in denied)
    assert {event.tool_call_id: event.status for event in played.of(ToolFinished)} == {
        **dict.fromkeys(denied, "denied"),
        "c2": "ok",
    }
    assert {denial.by for denial in played.outcome.denials} == {"hook"}
    assert (played.outcome.ok, played.outcome.text, played.unguarded()) == (True, "done", [])


async def test_a_rewritten_call_is_the_one_that_runs(copilot, policy, birds):
    kept = copilot.workspace / "changed.txt"
    script = [
        Turn(bash("touch plain", "c1"), create("plain.txt", "one\n", "c2")),
        Turn(edit("plain.txt", "one", "two", "c3"), ToolCall("birds-say", {"text": "plain"}, "c4")),
        Turn(ToolCall("view", {"path": "plain.txt"}, "c5")),
        Turn(ToolCall("grep", {"pattern": "tw", "output_mode": "content", "paths": "plain.txt"}, "c6")),
        Turn(ToolCall("glob", {"pattern": "plain*"}, "c7"), sql("select 'plain'", "c8")),
        Turn(task("plain", "c9")),
        Turn(Text("inner")),
        DONE,
    ]
    guard = policy(replacing("plain", "changed"))
    played = await copilot.play(script, guard, permission=FULL, mcp_servers=birds)
    assert names(copilot.workspace) == ["changed", "changed.txt"]
    assert kept.read_text() == "two\n"
    for call, shown in (("c4", "changed"), ("c5", "two"), ("c6", "two"), ("c7", "changed"), ("c8", "changed")):
        assert shown in played.result(call).content
    assert b"changed" in played.requests[-2].raw
    assert [one.input for one in played.of(ToolDecided) if one.tool_call_id == "c4"] == [{"text": "changed"}]
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_patch_is_a_text_that_is_denied_and_rewritten(copilot, policy):
    script = [Turn(patch("plain.txt", "x", "c1")), Turn(patch("no.txt", "x", "c2")), DONE]

    def guard(call):
        assert call.tool_kind == "patch"
        if call.subject.paths == (str(copilot.workspace / "no.txt"),):
            return DenyCall(reason="no such file")
        return Modify(input=call.input.replace("plain", "changed"))

    played = await copilot.play(script, policy(guard), permission=FULL, model="gpt-5.4")
    assert names(copilot.workspace) == ["changed.txt"]
    assert "no such file" in played.result("c2").content
    assert played.of(FilesChanged)[0].changes[0].change == "add"
    assert (played.outcome.ok, played.unguarded()) == (True, [])


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-5.4"])
async def test_under_the_posture_none_nothing_runs(copilot, birds, model):
    (copilot.workspace / "a.txt").write_text("tiger-lily\n")
    writing = create("made.txt", "x", "c2") if model == "gpt-4.1" else patch("made.txt", "x", "c2")
    search = ToolCall("grep" if model == "gpt-4.1" else "rg", {"pattern": "tiger"}, "c4")
    script = [
        Turn(bash("touch made", "c1"), writing),
        Turn(ToolCall("view", {"path": "a.txt"}, "c3"), search),
        Turn(ToolCall("glob", {"pattern": "*"}, "c5"), ToolCall("birds-say", {"text": "x"}, "c6"), task("go", "c7")),
        DONE,
    ]
    permission = {"posture": "none"}
    played = await copilot.play(script, permission=permission, mcp_servers=birds, model=model)
    assert set(played.decisions().values()) == {"deny by policy"}
    assert len(played.decisions()) == 7
    assert names(copilot.workspace) == ["a.txt"]
    assert not played.knows(b"tiger-lily")
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_without_a_chain_an_allow_list_with_nothing_else_truly_restricts(copilot):
    script = [
        Turn(bash("touch yes", "c1")),
        Turn(bash("touch no", "c2")),
        Turn(bash("touch yes; touch no", "c3")),
        DONE,
    ]
    played = await copilot.play(script, permission={"posture": "none", "allow": ["shell(touch yes)"]})
    assert played.decisions() == {"c1": "allow by rule", "c2": "deny by policy", "c3": "deny by policy"}
    assert names(copilot.workspace) == ["yes"]


async def test_a_participant_with_the_power_to_grant_lets_run_what_it_does_not_object_to(copilot, policy):
    granting = policy(objecting("no"), may=("deny", "grant"))
    script = [Turn(bash("touch yes", "c1")), Turn(bash("touch no", "c2")), DONE]
    played = await copilot.play(script, granting, permission={"posture": "read", "otherwise": "chain"})
    assert played.decisions() == {"c1": "allow by grant", "c2": "deny by hook"}
    assert names(copilot.workspace) == ["yes"]


async def test_a_call_of_a_sub_agent_is_judged_under_its_own_name(copilot, policy):
    outside = copilot.folder / "outside.txt"
    outside.write_text("x")
    script = [
        Turn(task("INNER")),
        Turn(bash("touch no", "i1"), ToolCall("view", {"path": str(outside)}, "i2"), bash("touch yes", "i3")),
        Turn(Text("inner")),
        DONE,
    ]
    guard = policy(objecting("touch no"))
    played = await copilot.play(script, guard, permission=FULL)
    assert played.decisions()["i1"] == "deny by hook"
    agents = {call.tool_call_id: call.agent_id for call in guard.calls}
    assert agents["t1"] == "main"
    assert agents["i1"] == agents["i2"] == agents["i3"] != "main"
    assert names(copilot.workspace) == ["yes"]
    assert (played.outcome.ok, played.outcome.text, played.unguarded()) == (True, "done", [])


async def test_an_mcp_tool_runs_unasked_only_by_rule_or_under_full(copilot, birds):
    script = [Turn(ToolCall("birds-say", {"text": "x"}, "c1")), DONE]
    found = []
    for permission in ({"posture": "edit"}, {"posture": "edit", "allow": ["mcp(birds/say)"]}, FULL):
        played = await copilot.play(script, permission=permission, mcp_servers=birds)
        found.append(played.decisions()["c1"])
    assert found == ["deny by policy", "allow by rule", "allow by posture"]


CORPUS = [
    Turn(bash("echo one > ./a.txt; cat a.txt", "h1"), bash("cd /tmp && pwd", "h2", shellId="s")),
    Turn(bash("pwd", "h3", shellId="s"), bash("exit 3", "h4"), bash("cat <<'E'\nheredoc\nE", "h5")),
    Turn(ToolCall("view", {"path": "a.txt"}, "h6"), ToolCall("view", {"path": "./sub/../a.txt"}, "h7")),
    Turn(ToolCall("view", {"path": "missing.txt"}, "h8"), ToolCall("view", {"path": "/etc/hostname"}, "h9")),
    Turn(ToolCall("view", {"path": "."}, "h10"), ToolCall("view", {"path": "a.txt", "view_range": [1, -1]}, "h11")),
    Turn(create("sub/b.txt", "x", "h12"), create("link/c.txt", "x", "h13"), create("a.txt", "x", "h14")),
    Turn(edit("a.txt", "one", "two", "h15"), edit("a.txt", "never", "two", "h16")),
    Turn(
        ToolCall("grep", {"pattern": "two"}, "h17"), ToolCall("grep", {"pattern": "x", "paths": ["sub", "/etc"]}, "h18")
    ),
    Turn(ToolCall("glob", {"pattern": "**/*.txt"}, "h19"), ToolCall("glob", {"pattern": "/etc/host*"}, "h20")),
    Turn(ToolCall("birds-say", {"text": "1", "n": 1.0}, "h21"), ToolCall("birds-fail", {}, "h22")),
    Turn(bash("sleep 0.2; echo late", "h23", mode="async"), sql("select 1", "h24"), sql("nonsense", "h25")),
    Turn(ToolCall("bash", {"command": 7, "description": "x"}, "h26"), ToolCall("bash", {}, "h27")),
    Turn(ToolCall("no_such_tool", {"a": 1}, "h28"), ToolCall("read_bash", {"shellId": "9", "delay": 0}, "h29")),
    Turn(bash("echo same", "h30"), bash("echo same", "h31"), ToolCall("list_bash", {}, "h32")),
    Turn(task("INNER", "h33")),
    Turn(bash("echo inner", "h34"), ToolCall("view", {"path": "a.txt"}, "h35")),
    Turn(Text("inner done")),
    Turn(ToolCall("view", {"path": "~/x"}, "h36"), ToolCall("glob", {"pattern": "../*"}, "h37")),
    *([DONE] * 3),
]


async def corpus(copilot, birds, *chain, **fields):
    (copilot.workspace / "sub").mkdir()
    (copilot.workspace / "link").symlink_to(copilot.workspace / "sub")
    return await copilot.play(CORPUS, *chain, mcp_servers=birds, **fields)


@pytest.mark.sampled
async def test_an_honest_corpus_raises_no_alarm(copilot, policy, birds):
    guard = policy()
    played = await corpus(copilot, birds, guard, permission=FULL)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert {event.tool_call_id for event in played.of(ToolRequested)} >= {f"h{n}" for n in range(1, 38)}
    ended = {event.tool_call_id: event.status for event in played.of(ToolFinished)}
    assert set(ended.values()) == {"ok", "error"}
    assert (ended["h4"], ended["h8"], ended["h22"]) == ("error", "error", "error")
    assert str(copilot.workspace) in played.result("h3").content
    assert played.of(Raw) == []
    assert "permission_mismatch" not in [notice.code for notice in played.of(Notice)]


async def test_the_same_corpus_where_outputs_are_judged_raises_no_alarm(copilot, policy, birds):
    played = await corpus(copilot, birds, policy(after=lambda _: Allow()), permission=FULL)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert "late" in played.result("h23").content


async def test_the_same_corpus_without_permission_raises_no_alarm_and_changes_nothing(copilot, policy, birds):
    played = await corpus(copilot, birds, policy(), permission={"posture": "none"})
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert names(copilot.workspace) == ["link", "sub"]
    assert names(copilot.workspace / "sub") == []


async def test_patches_of_every_kind_raise_no_alarm(copilot, policy):
    (copilot.workspace / "old.txt").write_text("one\ntwo\n")
    (copilot.workspace / "gone.txt").write_text("x\n")
    text = (
        "*** Begin Patch\n*** Add File: new.txt\n+x\n*** Update File: old.txt\n*** Move to: moved.txt\n@@\n one\n-two\n"
        "+three\n*** Delete File: gone.txt\n*** End Patch\n"
    )
    bad = text.replace("one\n-two", "one\n-never")
    script = [Turn(ToolCall("apply_patch", {"input": one}, f"c{n}")) for n, one in enumerate((text, bad, "nonsense"))]
    played = await copilot.play([*script, DONE], policy(), permission={"posture": "edit"}, model="gpt-5.4")
    assert (played.outcome.ok, played.unguarded()) == (True, [])
    assert names(copilot.workspace) == ["moved.txt", "new.txt"]
    assert [event.status for event in played.of(ToolFinished)][:2] == ["ok", "error"]


async def test_arguments_that_are_no_json_run_nothing(copilot, policy):
    broken = ToolCall("bash", {}, "c1", raw='{"command": "touch made", ')
    sql_broken = ToolCall("sql", {}, "c2", raw="nonsense")
    guard = policy(after=lambda _: Allow())
    played = await copilot.play([Turn(broken, sql_broken, bash("echo fine", "c3")), DONE], guard, permission=FULL)
    assert names(copilot.workspace) == []
    assert played.decisions() == {"c3": "allow by posture"}
    ended = {event.tool_call_id: event.status for event in played.of(ToolFinished)}
    assert ended == {"c1": "error", "c2": "error", "c3": "ok"}
    assert (played.outcome.ok, played.unguarded()) == (True, [])


# ---- what hooks do wrong ---------------------------------------------------------------------------------------------


def rows(which) -> list[Turn]:
    return [*(Turn(bash(f"touch {row}", row)) for row in which), DONE]


@pytest.fixture
def hook(copilot) -> HookSpec:
    """The hook that obeys the command."""
    program = copilot.folder / "guard.py"
    program.write_text(PROGRAM, encoding="utf-8")
    return HookSpec(name="guard", command=(sys.executable, str(program)), timeout=1.0)


async def test_a_hook_that_misbehaves_leaves_no_file(copilot, hook):
    which = [row for row in ROWS if row not in HARMLESS]
    assert len(which) > 30
    played = await copilot.play(rows(which), permission=FULL, hooks=[hook])
    assert names(copilot.workspace) == []
    assert played.decisions() == dict.fromkeys(which, "deny by hook")
    assert {event.status for event in played.of(ToolFinished)} == {"denied"}
    assert "the hook says no" in played.result("deny").content
    reported = [notice.message for notice in played.of(Notice) if notice.code == "hook_broken"]
    assert len(reported) == len(which) - 1
    assert (played.outcome.ok, played.unguarded()) == (True, [])


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_interceptor_that_misbehaves_leaves_no_file(copilot):
    played = await copilot.play(rows(INTERCEPTED), Wayward(), permission=FULL)
    assert names(copilot.workspace) == []
    assert played.decisions() == dict.fromkeys(INTERCEPTED, "deny by hook")
    assert (played.outcome.ok, played.unguarded()) == (True, [])
