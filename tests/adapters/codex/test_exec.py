"""What the codec of exec makes of its lines, and of their absence."""

import json

import pytest

from interlock.actions import CloseInput, Emit, RunDone, Send
from interlock.events import Notice, Raw, Text, ToolFinished, ToolRequested
from interlock.outcome import Reason, Status
from interlock_adapters.codex import adapter
from interlock_adapters.codex.exec.codec import ExecCodec


@pytest.fixture
def codec(order) -> ExecCodec:
    """A codec that has prompted."""
    made = adapter.transports[0].codec(order(permission={"posture": "read"}))
    assert made.prompt("go") == (Send(b"go"), CloseInput())
    return made


def heard(codec: ExecCodec, *messages: object) -> list:
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    return list(codec.received("stdout", lines.encode()))


def events(actions: list, kind: type) -> list:
    return [
        event for action in actions if isinstance(action, Emit) for event in action.events if isinstance(event, kind)
    ]


def ending(actions: list):
    (done,) = [action for action in actions if isinstance(action, RunDone)]
    return done.ending


STARTED = {"type": "thread.started", "thread_id": "t1"}
SAID = {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "done"}}


@pytest.mark.parametrize(
    "message",
    [
        {"type": "news", "x": 1},
        {"x": 1},
        {"type": "item.completed", "item": {"id": "i", "type": "news", "x": 1}, "at": 5},
        {"type": "item.completed", "item": 5, "at": 5},
    ],
)
def test_what_is_unknown_is_kept_whole_and_ends_nothing(codec, message):
    actions = heard(codec, STARTED, message, SAID, {"type": "turn.completed"})
    assert [event.data for event in events(actions, Raw)] == [message]
    assert (ending(actions).status, ending(actions).text) == (Status.COMPLETED, "done")


def test_a_turn_that_failed_has_failed_whatever_the_exit(codec):
    failed = {"type": "turn.failed", "error": {"message": "You\u2019ve hit your usage limit."}}
    again = {"type": "error", "message": "Reconnecting... 1/2 (unexpected status 500)"}
    actions = heard(codec, STARTED, again, SAID, failed)
    assert (ending(actions).status, ending(actions).reason) == (Status.FAILED, Reason.RATE_LIMIT)
    assert list(codec.exited(0, None, {})) == []


@pytest.mark.parametrize(
    ("message", "status", "by"),
    [
        ("user cancelled MCP tool call", "denied", "agent"),
        ("user rejected MCP tool call", "denied", "agent"),
        ("no such user", "error", ""),
    ],
)
def test_a_call_that_the_agent_cancelled_itself_is_no_denial_of_a_person(codec, message, status, by):
    call = {"id": "item_1", "type": "mcp_tool_call", "server": "s", "tool": "t", "arguments": {}, "status": "failed"}
    cancelled = {"type": "item.completed", "item": call | {"error": {"message": message}}}
    actions = heard(codec, STARTED, cancelled)
    assert [event.tool_name for event in events(actions, ToolRequested)] == ["mcp__s__t"]
    assert [(event.status, event.by) for event in events(actions, ToolFinished)] == [(status, by)]


@pytest.mark.parametrize(
    ("code", "signal", "session", "reason"),
    [
        (1, None, "resume", Reason.SESSION_NOT_FOUND),
        (2, None, "new", Reason.BAD_REQUEST),
        (101, None, "new", Reason.CRASHED),
        (None, 9, "resume", Reason.CRASHED),
    ],
)
def test_an_end_before_the_beginning_has_its_reason(order, code, signal, session, reason):
    chosen = {"kind": "resume", "id": "t1"} if session == "resume" else {"kind": "new"}
    codec = adapter.transports[0].codec(order(session=chosen))
    assert ending(list(codec.exited(code, signal, {}))).reason is reason


def test_noise_and_a_line_that_cannot_be_read_end_nothing(codec):
    actions = heard(codec, STARTED)
    actions += codec.received("stdout", b"npm notice\n[]\n")
    actions += heard(codec, {"type": "item.started", "item": {"type": 5}}, SAID, {"type": "turn.completed"})
    assert [notice.code for notice in events(actions, Notice)] == ["stdout_noise", "stdout_noise", "unreadable_line"]
    assert [event.text for event in events(actions, Text)] == ["done"]
    assert ending(actions).status is Status.COMPLETED
    other = adapter.transports[0].codec(codec._order)
    broken = heard(other, STARTED, {"type": "turn.completed", "usage": 5})
    assert (ending(broken).status, ending(broken).reason) == (Status.FAILED, Reason.PROTOCOL)


def test_an_answer_nested_without_end_is_no_structured_answer(order) -> None:
    codec = adapter.transports[0].codec(order(output_schema={"type": "object"}))
    codec.prompt("go")
    said = {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "[" * 100_000}}
    done = ending(heard(codec, STARTED, said, {"type": "turn.completed", "usage": {}}))
    assert (done.status, done.structured) == (Status.COMPLETED, None)


def test_a_run_ends_once_though_two_ends_of_a_turn_cannot_be_read(codec) -> None:
    broken = {"type": "turn.completed", "usage": 5}
    done = ending(heard(codec, STARTED, broken, broken))
    assert (done.status, done.reason, done.session_id) == (Status.FAILED, Reason.PROTOCOL, "t1")
