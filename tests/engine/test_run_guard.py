"""The promise is verified: what ran undecided, after a denial or otherwise than decided stops the run."""

import json
from typing import Any

import anyio
import pytest

from interlock.events import BaseEvent, Notice, ToolDecided, ToolFinished, ToolRequested, Unguarded
from interlock.hooks import Allow, DenyCall, HookCall, Modify, Replace
from interlock.outcome import Reason, Status
from interlock.permission import Permission

pytestmark = pytest.mark.anyio

SECRET = "hunter2-and-more"
TOUCH = {"tool": "Bash", "input": {"command": "touch made"}, "id": "call-1"}
DONE = {"text": "done"}


class Guard:
    """Answers before and after every call as it is told."""

    name = "guard"

    def __init__(self, before: Any = None, after: Any = None) -> None:
        self.asked: list[HookCall] = []
        self._before = before or Allow()
        self._after = after or Allow()

    async def before(self, call: HookCall) -> Any:
        self.asked.append(call)
        return self._before

    async def after(self, call: HookCall) -> Any:
        self.asked.append(call)
        return self._after


async def play(bench: Any, script: Any, guard: Guard | None = None, **more: Any) -> tuple[list[BaseEvent], Any]:
    """Run it to its end, however it ends."""
    client = {key: more.pop(key) for key in ("on_unguarded",) if key in more}
    with anyio.fail_after(12):
        interlock = bench.client(interceptors=[guard] if guard else [], **client)
        async with interlock.stream(bench.request(script, **more)) as run:
            events = await bench.events(run)
            return events, await run.outcome()


def unguarded(events: list[BaseEvent]) -> list[tuple[str, str | None]]:
    return [(event.kind, event.tool_call_id) for event in events if isinstance(event, Unguarded)]


@pytest.mark.behaviour("hooks:not-loaded", "approvals:never-asked")
async def test_inert_hooks_are_found_at_the_first_call_and_the_run_is_stopped(bench: Any) -> None:
    """The tool runs with nobody asked."""
    second = {"tool": "Bash", "input": {"command": "touch second"}}
    events, outcome = await play(bench, [{"skip_hooks": True}, TOUCH, {"sleep": 1}, second, DONE], Guard())
    assert unguarded(events) == [("no_decision", "call-1")]
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.UNGUARDED)
    assert not (bench.workspace / "second").exists()


@pytest.mark.behaviour("hooks:not-loaded")
async def test_inert_hooks_with_the_question_still_asked_are_a_denial_and_are_found(bench: Any) -> None:
    """What is asked about a call that no hook showed is answered with no."""
    events, outcome = await play(bench, [{"inert_hooks": True}, TOUCH, DONE], Guard())
    assert not (bench.workspace / "made").exists()
    assert unguarded(events) == [("no_decision", "call-1")]
    assert outcome.reason is Reason.UNGUARDED


async def test_a_broken_promise_may_be_reported_alone(bench: Any) -> None:
    events, outcome = await play(bench, [{"skip_hooks": True}, TOUCH, DONE], Guard(), on_unguarded="report")
    assert unguarded(events) == [("no_decision", "call-1")]
    assert (outcome.status, outcome.text) == (Status.COMPLETED, "done")


@pytest.mark.behaviour("hooks:rewrite")
async def test_a_forged_call_that_shows_what_ran_is_found(bench: Any) -> None:
    """Another input ran than was decided."""
    forged = {**TOUCH, "runs": {"command": "touch other"}}
    events, outcome = await play(bench, [{"forge": forged}, {"sleep": 1}, DONE], Guard())
    assert unguarded(events) == [("other_input", "call-1")]
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.UNGUARDED)


def line(kind: str, **members: Any) -> dict[str, Any]:
    return {"unknown_event": {"type": kind, "session_id": "s", **members}}


def result(call: str, **members: Any) -> dict[str, Any]:
    content = [{"type": "tool_result", "tool_use_id": call, "content": "done", **members}]
    return line("user", message={"role": "user", "content": content})


def hook(event: str, call: str, request: str, command: str = "touch made", **members: Any) -> dict[str, Any]:
    told = {"hook_event_name": event, "tool_name": "Bash", "tool_use_id": call, "tool_input": {"command": command}}
    body = {"subtype": "hook_callback", "callback_id": "x", "input": {**told, "cwd": "/", **members}}
    return line("control_request", request_id=request, request=body)


@pytest.mark.behaviour("hooks:deny")
async def test_a_success_after_a_denial_is_found(bench: Any) -> None:
    use = {"type": "tool_use", "id": "call-1", "name": "Bash", "input": {"command": "touch made"}}
    said = line("assistant", message={"role": "assistant", "content": [use]})
    script = [said, hook("PreToolUse", "call-1", "r1"), {"sleep": 0.3}, result("call-1"), {"sleep": 1}, DONE]
    events, outcome = await play(bench, script, Guard(before=DenyCall(reason="no")))
    assert unguarded(events) == [("ran_after_deny", "call-1")]
    assert outcome.reason is Reason.UNGUARDED


async def test_an_output_after_a_denial_is_found_and_withheld(bench: Any) -> None:
    script = [
        hook("PreToolUse", "call-1", "r1"),
        {"sleep": 0.3},
        hook("PostToolUse", "call-1", "r2", tool_response={"stdout": SECRET, "stderr": "", "interrupted": False}),
        {"sleep": 1},
        DONE,
    ]
    events, outcome = await play(bench, script, Guard(before=DenyCall(reason="no")))
    assert unguarded(events) == [("ran_after_deny", "call-1")]
    assert outcome.reason is Reason.UNGUARDED
    assert SECRET not in "".join(event.model_dump_json() for event in events)


async def test_a_second_question_about_one_call_is_found(bench: Any) -> None:
    script = [hook("PreToolUse", "call-1", "r1"), hook("PreToolUse", "call-1", "r2"), {"sleep": 1}, DONE]
    guard = Guard()
    events, outcome = await play(bench, script, guard)
    assert unguarded(events) == [("second_consult", "call-1")]
    assert outcome.reason is Reason.UNGUARDED
    assert len(guard.asked) <= 1


async def test_a_second_question_while_the_first_is_open_is_found(bench: Any) -> None:
    entered = anyio.Event()

    class Slow:
        name = "slow"

        async def before(self, call: HookCall) -> Allow:
            entered.set()
            await anyio.sleep(4)
            return Allow()

    first, second = hook("PreToolUse", "call-1", "r1"), hook("PreToolUse", "call-1", "r2")
    script = [first, {"sleep": 0.2}, second, {"sleep": 1}, DONE]
    with anyio.fail_after(12):
        async with bench.client(interceptors=[Slow()]) as client, client.stream(bench.request(script)) as run:
            events = await bench.events(run)
            outcome = await run.outcome()
    assert entered.is_set()
    assert unguarded(events) == [("second_consult", "call-1")]
    assert outcome.reason is Reason.UNGUARDED


@pytest.mark.parametrize("name", ["interrupt-1", "forged"])
@pytest.mark.behaviour("tampering:answers")
async def test_an_answer_to_what_was_never_asked_is_found(bench: Any, name: str) -> None:
    """Somebody speaks on the channel who is not the agent, or answers for us."""
    answer = {"subtype": "success", "request_id": name, "response": {}}
    events, outcome = await play(bench, [line("control_response", response=answer), {"sleep": 1}, DONE])
    assert unguarded(events) == [("unknown_answer", None)]
    assert [event.agent_id for event in events if isinstance(event, Unguarded)] == ["main"]
    assert outcome.reason is Reason.UNGUARDED


@pytest.mark.behaviour("approvals:unknown-request")
async def test_a_request_that_cannot_be_read_is_refused_and_ends_nothing(bench: Any) -> None:
    """Everything gets an answer, and what is unknown is a no that is said."""
    asks = [
        line("control_request", request_id="r1", request={"subtype": "brand_new"}),
        line("control_request", request_id="r2", request={"subtype": "hook_callback", "input": {"x": 1}}),
        line("control_request", request_id="r3", request={"subtype": "can_use_tool"}),
        line("control_request", request_id="r4"),
    ]
    events, outcome = await play(bench, [*asks, DONE], Guard())
    assert outcome.text == "done"
    assert sum(isinstance(event, Notice) for event in events) >= 4


async def test_a_modified_input_is_what_ran(bench: Any) -> None:
    guard = Guard(before=Modify(input={"command": "touch modified"}, reason="safer"))
    events, outcome = await play(bench, [TOUCH, DONE], guard)
    assert {path.name for path in bench.workspace.iterdir()} == {"modified"}
    assert outcome.text == "done"
    [decided] = [event for event in events if isinstance(event, ToolDecided) and event.event == "pre_tool_use"]
    assert decided.input == {"command": "touch modified"}
    assert [(call.event, call.round, call.input["command"]) for call in guard.asked] == [  # type: ignore[call-overload,index]
        ("pre_tool_use", 1, "touch made"),
        ("pre_tool_use", 2, "touch modified"),
        ("post_tool_use", 1, "touch modified"),
    ]


async def test_a_modification_into_what_is_forbidden_is_denied(bench: Any) -> None:
    guard = Guard(before=Modify(input={"command": "touch evil"}))
    permission = Permission(posture="full", deny=["shell(touch evil)"])
    _, outcome = await play(bench, [TOUCH, DONE], guard, permission=permission)
    assert list(bench.workspace.iterdir()) == []
    assert [denial.by for denial in outcome.denials] == ["rule"]


@pytest.mark.parametrize("answer", [None, "allow", Replace(output="x")], ids=["nothing", "a word", "a replacement"])
async def test_a_broken_participant_denies_and_is_reported(bench: Any, answer: Any) -> None:
    class Broken:
        name = "broken"

        async def before(self, call: HookCall) -> Any:
            return answer

    with anyio.fail_after(10):
        async with bench.client(interceptors=[Broken()]).stream(bench.request([TOUCH, DONE])) as run:
            events = await bench.events(run)
            outcome = await run.outcome(check=True)
    assert list(bench.workspace.iterdir()) == []
    assert [denial.by for denial in outcome.denials] == ["hook"]
    assert "hook_broken" in [event.code for event in events if isinstance(event, Notice)]


@pytest.mark.behaviour("hooks:visible")
async def test_every_attempt_is_in_the_stream_denied_or_not(bench: Any) -> None:
    events, _ = await play(bench, [TOUCH, DONE], Guard(before=DenyCall(reason="house rules")))
    kinds = [type(event) for event in events if isinstance(event, ToolRequested | ToolDecided | ToolFinished)]
    assert kinds == [ToolRequested, ToolDecided, ToolFinished]
    [end] = [event for event in events if isinstance(event, ToolFinished)]
    assert (end.status, end.by) == ("denied", "hook")
    assert "house rules" in json.dumps(end.output)


# ---- outputs --------------------------------------------------------------------------------------------------------


@pytest.mark.behaviour("hooks:replace")
async def test_a_replaced_output_is_all_that_is_shown(bench: Any) -> None:
    (bench.workspace / "keys").write_text(f"{SECRET}\n")
    read = {"tool": "Read", "input": {"file_path": "keys"}}
    bash = {"tool": "Bash", "input": {"command": "cat keys"}}
    mcp = {"tool": "mcp__s__t", "input": {}, "output": SECRET}
    guard = Guard(after=Replace(output="[removed]"))
    events, outcome = await play(bench, [read, bash, mcp, DONE], guard)
    assert outcome.text == "done"
    ends = [event.output for event in events if isinstance(event, ToolFinished)]
    assert [str(output).endswith("[removed]") for output in ends] == [True] * 3
    assert SECRET not in "".join(event.model_dump_json() for event in events)
    assert SECRET not in outcome.model_dump_json()
    assert [SECRET in str(call.output) for call in guard.asked if call.event == "post_tool_use"] == [True] * 3


async def test_a_denied_output_shows_the_reason_instead(bench: Any) -> None:
    (bench.workspace / "keys").write_text(f"{SECRET}\n")
    bash = {"tool": "Bash", "input": {"command": "cat keys"}}
    events, outcome = await play(bench, [bash, DONE], Guard(after=DenyCall(reason="holds a key")))
    assert outcome.text == "done"
    [end] = [event for event in events if isinstance(event, ToolFinished)]
    assert "holds a key" in str(end.output)
    assert SECRET not in "".join(event.model_dump_json() for event in events)


@pytest.mark.parametrize("answer", [Replace(output="[removed]"), DenyCall(reason="holds a key")])
@pytest.mark.behaviour("tampering:other-roads", "hooks:replace")
async def test_an_output_that_cannot_be_replaced_stops_the_run_before_the_model_sees_it(
    bench: Any, answer: Any
) -> None:
    """A failed command shows its output whatever the hook says."""
    (bench.workspace / "keys").write_text(f"{SECRET}\n")
    bash = {"tool": "Bash", "input": {"command": "cat keys; exit 3"}}
    events, outcome = await play(bench, [bash, {"text": "I saw it"}], Guard(after=answer))
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.UNREPLACEABLE)
    assert SECRET not in "".join(event.model_dump_json() for event in events)
    assert "I saw it" not in [getattr(event, "text", "") for event in events]


async def test_an_output_that_may_stay_stays(bench: Any) -> None:
    bash = {"tool": "Bash", "input": {"command": "echo fine; exit 3"}}
    events, outcome = await play(bench, [bash, DONE], Guard())
    assert outcome.text == "done"
    [end] = [event for event in events if isinstance(event, ToolFinished)]
    assert (end.status, "fine" in str(end.output)) == ("error", True)
