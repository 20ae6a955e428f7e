"""What a run asks about its calls: rules, chain, posture and policy together, and nothing that gets out as an error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.audit import Audit
from interlock.engine.chain import Chain
from interlock.engine.judge import Judge, Ruling
from interlock.engine.participants import from_interceptor
from interlock.errors import ConfigurationError
from interlock.hooks import Allow, DenyCall, HookCall, HookOutcome, Modify, Power, Replace
from interlock.model import JsonValue
from interlock.permission import Otherwise, Permission, Posture
from interlock.tools import Subject, ToolCall, ToolKind

pytestmark = pytest.mark.anyio

KINDS = {"Bash": ToolKind.SHELL, "Read": ToolKind.READ, "Write": ToolKind.WRITE, "TodoWrite": ToolKind.INTERNAL}


def describe(call: ToolCall) -> ToolCall:
    """What an adapter does: kind and subject out of the native name and input."""
    fields = call.input if isinstance(call.input, dict) else {}
    command, path = fields.get("command"), fields.get("file_path")
    subject = Subject(
        command=command if isinstance(command, str) else None, paths=(path,) if isinstance(path, str) else ()
    )
    kind = KINDS.get(call.tool_name, ToolKind.UNKNOWN)
    return call.model_copy(update={"tool_kind": kind, "subject": subject})


def tool(name: str, **fields: JsonValue) -> ToolCall:
    return describe(ToolCall(tool_call_id="t1", tool_name=name, input=dict(fields)))


def bash(command: str) -> ToolCall:
    return tool("Bash", command=command)


class Guard:
    """Answers before a call as told, and remembers what it was asked."""

    def __init__(self, name: str, said: Any, *, may: tuple[Power, ...] = ("deny", "modify", "replace")) -> None:
        self.name, self.said, self.may = name, said, may
        self.asked: list[HookCall] = []

    async def before(self, call: HookCall) -> HookOutcome:
        self.asked.append(call)
        return cast("HookOutcome", self.said(call) if callable(self.said) else self.said)

    async def after(self, call: HookCall) -> HookOutcome:
        return await self.before(call)


def judge(workspace: Path | str = "/ws", *guards: Any, **more: Any) -> Judge:
    permission = {key: more.pop(key) for key in ("posture", "allow", "deny", "otherwise") if key in more}
    settings: dict[str, Any] = {
        "run_id": "r1",
        "agent": "claude",
        "workspace": str(workspace),
        "add_dirs": (),
        "chain": Chain([from_interceptor(one, 5.0) for one in guards]),
        "describe": describe,
        "confined": False,
        "clock": lambda: 7.0,
        **more,
    }
    return Judge(permission=Permission(**permission), **settings)


async def before(one: Judge, call: ToolCall, **more: Any) -> Ruling:
    with anyio.fail_after(10):
        return await one.before(call, **more)


def said(ruling: Ruling) -> tuple[str, str]:
    return ruling.result, ruling.by


# ---- The order of things --------------------------------------------------------------------------------------------


async def test_a_deny_rule_denies_and_the_chain_is_not_asked() -> None:
    guard = Guard("a", Allow())
    ruling = await before(judge("/ws", guard, posture="full", deny=("shell(git push:*)",)), bash("git push origin"))
    assert said(ruling) == ("deny", "rule")
    assert ruling.reason == "denied by rule 'shell(git push:*)'"
    assert not guard.asked
    record = ruling.records[0]
    assert (record.participant, record.binding, record.decision) == ("shell(git push:*)", "rule", "deny")


async def test_a_denial_of_the_chain_beats_rule_and_posture() -> None:
    guard = Guard("a", DenyCall(reason="no"))
    ruling = await before(judge("/ws", guard, posture="full", allow=("*",)), bash("ls"))
    assert said(ruling) == ("deny", "hook")
    assert ruling.reason == "denied by interceptor 'a': no"
    assert [record.binding for record in ruling.records] == ["interceptor"]


async def test_an_allow_rule_spares_the_question_and_never_the_chain() -> None:
    guard = Guard("a", Allow())
    ruling = await before(judge("/ws", guard, posture="none", allow=("shell(npm test)",)), bash("npm test"))
    assert said(ruling) == ("run", "rule")
    assert len(guard.asked) == 1
    assert [record.binding for record in ruling.records] == ["interceptor", "rule"]


@pytest.mark.parametrize(
    ("otherwise", "result"), [("deny", "deny"), ("ask", "ask"), ("chain", "deny"), ("agent", "agent")]
)
async def test_what_nothing_covers_becomes_what_was_said_for_the_rest(otherwise: str, result: str) -> None:
    ruling = await before(judge("/ws", posture="read", otherwise=otherwise), bash("npm test"))
    assert said(ruling) == (result, "policy")
    assert ruling.allow_rule == "shell(npm test)"
    assert "posture read does not cover it" in ruling.reason
    assert f"otherwise: {otherwise}" in ruling.reason
    assert [(record.participant, record.decision, record.time) for record in ruling.records] == [
        ("policy", result, 7.0)
    ]


async def test_a_grant_of_the_chain_lets_run_under_otherwise_chain_alone() -> None:
    grants = Guard("a", Allow(), may=("grant",))
    assert said(await before(judge("/ws", grants, otherwise="chain"), bash("make"))) == ("run", "grant")
    assert said(await before(judge("/ws", grants, otherwise="deny"), bash("make"))) == ("deny", "policy")
    assert said(await before(judge("/ws", Guard("a", Allow()), otherwise="chain"), bash("make"))) == ("deny", "policy")


async def test_internal_calls_run_under_every_posture_unless_somebody_says_no() -> None:
    assert said(await before(judge(posture="none"), tool("TodoWrite"))) == ("run", "internal")
    assert said(await before(judge("/ws", Guard("a", DenyCall(reason="x"))), tool("TodoWrite"))) == ("deny", "hook")
    assert said(await before(judge(deny=("*",)), tool("TodoWrite"))) == ("deny", "rule")


async def test_the_posture_covers_what_lies_inside(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("", encoding="utf-8")
    one = judge(tmp_path, posture="read")
    assert said(await before(one, tool("Read", file_path="a"))) == ("run", "posture")
    assert said(await before(one, tool("Read", file_path="/etc/passwd"))) == ("deny", "policy")
    assert said(await before(one, tool("Write", file_path="a"))) == ("deny", "policy")
    assert said(await before(judge(tmp_path, posture="edit"), tool("Write", file_path="a"))) == ("run", "posture")


# ---- Rewrites -------------------------------------------------------------------------------------------------------


async def test_a_rewritten_call_is_described_anew_and_judged_as_what_it_became() -> None:
    guard = Guard("a", Modify(input={"command": "npm test"}))
    ruling = await before(judge("/ws", guard, posture="none", allow=("shell(npm test)",)), bash("make"))
    assert said(ruling) == ("run", "rule")
    assert ruling.changed
    assert ruling.call.subject.command == "npm test"
    assert ruling.call.input == {"command": "npm test"}
    assert "rewritten by interceptor 'a'" in ruling.reason
    assert [call.round for call in guard.asked] == [1, 2]
    assert guard.asked[1].subject.command == "npm test"


async def test_a_rewritten_call_runs_into_deny_rules() -> None:
    guard = Guard("a", Modify(input={"command": "git push"}))
    ruling = await before(judge("/ws", guard, posture="full", deny=("shell(git push:*)",)), bash("ls"))
    assert said(ruling) == ("deny", "rule")
    assert ruling.reason == "denied by rule 'shell(git push:*)' (rewritten by interceptor 'a')"
    assert len(guard.asked) == 1


async def test_who_rewrote_a_call_is_named_when_the_policy_refuses_it() -> None:
    guard = Guard("a", Modify(input={"command": "make"}, reason="shorter"))
    ruling = await before(judge("/ws", guard), bash("ls"))
    assert said(ruling) == ("deny", "policy")
    assert "rewritten by interceptor 'a': shorter" in ruling.reason


async def test_a_rewrite_cannot_make_it_another_call() -> None:
    def other(call: ToolCall) -> ToolCall:
        return describe(call).model_copy(
            update={"tool_name": "Read", "tool_call_id": "t2", "agent_id": "x", "input": {"command": "evil"}}
        )

    guard = Guard("a", Modify(input={"command": "npm test"}))
    ruling = await before(judge("/ws", guard, posture="full", describe=other), bash("make"))
    assert (ruling.call.tool_name, ruling.call.tool_call_id, ruling.call.agent_id) == ("Bash", "t1", "main")
    assert ruling.call.input == {"command": "npm test"}


async def test_the_callers_input_is_never_touched() -> None:
    call = bash("ls")
    held = cast("dict[str, Any]", call.input)

    def tampers(asked: HookCall) -> HookOutcome:
        cast("dict[str, Any]", asked.input)["command"] = "rm"
        return Modify(input=asked.input)

    ruling = await before(judge("/ws", Guard("a", tampers), posture="full"), call)
    assert held == {"command": "ls"}
    held["command"] = "evil"
    assert ruling.call.input == {"command": "rm"}


# ---- What the chain is shown ----------------------------------------------------------------------------------------


async def test_hooks_see_paths_absolute_with_links_followed(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (tmp_path / "real").write_text("", encoding="utf-8")
    (workspace / "link").symlink_to(tmp_path / "real")
    guard = Guard("a", Allow())
    call = tool("Read", file_path="sub/../link").model_copy(update={"hidden": ("limit",), "agent_id": "sub"})
    (workspace / "sub").mkdir()
    await before(judge(workspace, guard), call)
    shown = guard.asked[0]
    assert shown.subject.paths == (str(tmp_path / "real"),)
    assert shown.input == {"file_path": "sub/../link"}
    assert (shown.cwd, shown.workspace) == (str(workspace), str(workspace))
    assert (shown.hidden, shown.agent_id, shown.round, shown.run_id) == (("limit",), "sub", 1, "r1")


# ---- Readers --------------------------------------------------------------------------------------------------------


async def test_readers_run_until_another_unsandboxed_command_ran(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("", encoding="utf-8")
    one = judge(tmp_path, posture="read", allow=("shell(make)",))
    first = await before(one, bash("cat a"))
    assert said(first) == ("run", "posture")
    one.ran(first.call)
    assert said(await before(one, bash("cat a"))) == ("run", "posture")
    one.ran((await before(one, bash("make"))).call)
    assert said(await before(one, bash("cat a"))) == ("deny", "policy")


async def test_readers_are_void_in_a_session_that_began_elsewhere(tmp_path: Path) -> None:
    one = judge(tmp_path, posture="read", readers_void=True)
    assert said(await before(one, bash("ls"))) == ("deny", "policy")


async def test_what_a_reader_reads_runs_into_deny_rules_over_reading(tmp_path: Path) -> None:
    one = judge(tmp_path, posture="full", deny=("read(**/.env)",))
    for command in ("cat .env", "head -n 3 a .env", "tail .ENV"):
        assert said(await before(one, bash(command))) == ("deny", "rule"), command
    assert said(await before(one, bash("cat a"))) == ("run", "posture")


async def test_a_confined_shell_is_covered_unless_the_call_leaves_the_sandbox(tmp_path: Path) -> None:
    one = judge(tmp_path, posture="read", confined=True)
    assert said(await before(one, bash("make"))) == ("run", "posture")
    assert said(await before(one, bash("make"), leaves_sandbox=True)) == ("deny", "policy")
    one.ran(bash("make"))
    assert said(await before(one, bash("ls"), leaves_sandbox=True)) == ("run", "posture")


# ---- People ---------------------------------------------------------------------------------------------------------


async def test_an_edited_input_passes_deny_rules_and_chain_and_not_otherwise() -> None:
    guard = Guard("a", Allow())
    one = judge("/ws", guard, posture="none", otherwise="ask", deny=("shell(rm:*)",))
    ruling = await one.approved(bash("make"))
    assert said(ruling) == ("run", "user")
    assert [call.round for call in guard.asked] == [2]
    assert [record.binding for record in ruling.records] == ["interceptor", "approval"]
    assert said(await one.approved(bash("rm x"))) == ("deny", "rule")
    guard.said = DenyCall(reason="no")
    assert said(await one.approved(bash("make"))) == ("deny", "hook")
    guard.said = Modify(input={"command": "other"})
    assert said(await one.approved(bash("make"))) == ("deny", "hook")
    guard.said = Modify(input={"command": "make"})
    assert said(await one.approved(bash("make"))) == ("run", "user")


async def test_an_edited_input_is_judged_by_what_it_says_and_not_by_an_old_subject() -> None:
    one = judge("/ws", deny=("shell(rm:*)",), otherwise="ask")
    edited = bash("ls").model_copy(update={"input": {"command": "rm x"}})
    assert said(await one.approved(edited)) == ("deny", "rule")


async def test_a_remembered_rule_allows_further_calls_and_never_beats_a_no() -> None:
    one = judge("/ws", posture="none", otherwise="ask", deny=("shell(make install)",))
    assert said(await before(one, bash("make"))) == ("ask", "policy")
    assert one.remember("shell(make:*)")
    assert said(await before(one, bash("make"))) == ("run", "rule")
    assert said(await before(one, bash("make install"))) == ("deny", "rule")


async def test_a_rule_that_cannot_be_understood_is_not_remembered() -> None:
    one = judge("/ws", otherwise="ask")
    for rule in ("shell(a * b)", "nonsense(", "shell(sudo:*)", ""):
        assert not one.remember(rule)


def test_a_rule_that_cannot_be_understood_is_an_error_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match=r"shell\(git \* x\)"):
        judge("/ws", deny=("shell(git * x)",))


# ---- After a call ---------------------------------------------------------------------------------------------------


async def test_after_a_call_the_model_sees_the_output_unless_the_chain_says_otherwise() -> None:
    guard = Guard("a", Allow())
    one = judge("/ws", guard)
    kept = await one.after(bash("ls"), {"stdout": "x"}, False)
    assert (kept.result, kept.output, kept.is_error, kept.by) == ("keep", {"stdout": "x"}, False, "")
    assert (guard.asked[0].event, guard.asked[0].output, guard.asked[0].is_error) == (
        "post_tool_use",
        {"stdout": "x"},
        False,
    )
    guard.said = Replace(output="***", is_error=True, reason="secret")
    replaced = await one.after(bash("ls"), "key", False)
    assert (replaced.result, replaced.output, replaced.is_error, replaced.by) == ("replace", "***", True, "hook")
    assert replaced.reason == "interceptor 'a': secret"
    guard.said = DenyCall(reason="secret")
    denied = await one.after(bash("ls"), "key", False)
    assert (denied.result, denied.output, denied.is_error) == ("deny", "denied by interceptor 'a': secret", True)
    assert [record.event for record in denied.records] == ["post_tool_use"]


async def test_without_anybody_to_ask_an_output_is_kept_and_nothing_recorded() -> None:
    ruling = await judge().after(bash("ls"), None, True)
    assert (ruling.result, ruling.output, ruling.is_error, ruling.records) == ("keep", None, True, ())


async def test_an_output_that_cannot_be_judged_is_withheld() -> None:
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    ruling = await judge("/ws", Guard("a", Allow())).after(bash("ls"), cast("JsonValue", deep), False)
    assert (ruling.result, ruling.by) == ("deny", "policy")
    assert "could not be judged" in ruling.reason


# ---- Nothing gets out -----------------------------------------------------------------------------------------------


def failing(_: ToolCall) -> ToolCall:
    raise ZeroDivisionError


async def test_an_adapter_that_cannot_describe_a_call_denies_it() -> None:
    one = judge("/ws", Guard("a", Modify(input={"command": "x"})), posture="full", describe=failing)
    assert (await before(one, bash("ls"))).result == "deny"
    ruling = await one.approved(bash("ls"))
    assert said(ruling) == ("deny", "policy")
    assert ruling.reason == "the call could not be judged (ZeroDivisionError)"


@pytest.mark.parametrize("text", ["\ud800", "x\udfff"])
async def test_a_call_that_is_no_unicode_is_denied(text: str) -> None:
    call = ToolCall.model_construct(
        tool_call_id="1",
        tool_name="Bash",
        input={"command": text},
        tool_kind=ToolKind.SHELL,
        subject=Subject(),
        agent_id="main",
        cwd=None,
        hidden=(),
    )
    assert said(await before(judge(posture="full"), call)) == ("deny", "policy")


async def test_a_call_of_no_shape_at_all_is_denied() -> None:
    ruling = await before(judge("/ws", posture="full", deny=("read(x)",)), cast("ToolCall", object()))
    assert said(ruling) == ("deny", "policy")


async def test_cancellation_passes_through() -> None:
    async def hangs(_: HookCall) -> HookOutcome:
        await anyio.sleep_forever()
        return Allow()

    guard = Guard("a", Allow())
    guard.before = hangs
    with anyio.move_on_after(0.05) as scope:
        await judge("/ws", guard).before(bash("ls"))
    assert scope.cancelled_caught


async def test_nothing_runs_that_could_not_be_written_down(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    one = judge(tmp_path, posture="full", audit=audit)
    ruling = await before(one, bash("ls"))
    assert ruling.result == "run"
    audit.close()
    audit.write(ruling.records[0])
    denied = await before(one, bash("ls"))
    assert said(denied) == ("deny", "policy")
    assert denied.reason == "the audit cannot be written (it is closed)"
    assert said(await one.approved(bash("ls"))) == ("deny", "policy")


outcomes = st.sampled_from(
    [
        Allow(),
        DenyCall(reason="x"),
        Modify(input={"command": "make"}),
        Modify(input={"command": "git push"}),
        Replace(output=1),
        None,
    ]
)


@given(
    posture=st.sampled_from(Posture),
    otherwise=st.sampled_from(Otherwise),
    allow=st.lists(st.sampled_from(["*", "shell(make)", "shell(ls:*)", "read"]), max_size=2),
    deny=st.lists(st.sampled_from(["shell(git push:*)", "shell(ls)", "write"]), max_size=2),
    answers=st.lists(st.tuples(outcomes, st.booleans()), max_size=3),
    command=st.sampled_from(["ls", "make", "git push", "ls; make"]),
)
def test_whatever_is_combined_no_beats_everything(
    posture: Posture,
    otherwise: Otherwise,
    allow: list[str],
    deny: list[str],
    answers: list[tuple[HookOutcome | None, bool]],
    command: str,
) -> None:
    guards = [
        Guard(str(n), answer, may=("deny", "modify", "grant") if grants else ("deny", "modify"))
        for n, (answer, grants) in enumerate(answers)
    ]
    one = judge("/ws", *guards, posture=posture, otherwise=otherwise, allow=tuple(allow), deny=tuple(deny))
    ruling = anyio.run(before, one, bash(command))
    if ruling.result == "deny":
        return
    assert all(isinstance(answer, Allow | Modify) for answer, _ in answers)
    assert judge("/ws", deny=tuple(deny))._forbidden(ruling.call) is None
    final = cast("dict[str, str]", ruling.call.input)["command"]
    if ruling.result == "run":
        covered: dict[str, Callable[[], bool]] = {
            "rule": lambda: bool(allow),
            "posture": lambda: posture is Posture.FULL or (posture is not Posture.NONE and final == "ls"),
            "grant": lambda: otherwise is Otherwise.CHAIN and any(grants for _, grants in answers),
        }
        assert covered[ruling.by]()
    else:
        assert ruling.result == otherwise.value
