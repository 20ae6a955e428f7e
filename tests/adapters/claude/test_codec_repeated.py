"""What the CLI repeats to us: answers that must be our own, and messages into a turn, which are never lost."""

import json

import pytest

from interlock.actions import Emit, Key, Proceed, RunDone, Send, Suspicion, Wake
from interlock.outcome import Status
from interlock.request import Request
from interlock_adapters.claude import adapter

SETTINGS = {"permissions": {"ask": ["*"], "disableAutoMode": "disable"}}
KEY = Key("main", "t1")
RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s"}


def line(value):
    """One line of the CLI."""
    return json.dumps(value).encode() + b"\n"


def reply(request_id, body):
    """An answer to a request of ours."""
    return line(
        {"type": "control_response", "response": {"subtype": "success", "request_id": request_id, "response": body}}
    )


def settings(*sources):
    """The answer to get_settings."""
    return reply("settings", {"sources": [{"source": name, "settings": value} for name, value in sources]})


def hook(event="PreToolUse", request_id="h1", call="t1", **more):
    """A hook request for a Bash call."""
    told = {
        "hook_event_name": event,
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": call,
        "cwd": "/repo",
    }
    request = {"subtype": "hook_callback", "callback_id": "before", "input": {**told, **more}}
    return line({"type": "control_request", "request_id": request_id, "request": request})


@pytest.fixture
def begin(make_order):
    """A codec, started and prompted; `ready` has answered the handshake."""

    def make(*, ready=True, version="2.1.332", **fields):
        codec = adapter.transports[0].codec(make_order(Request(agent="claude", prompt="go", cwd="/repo", **fields)))
        codec.start()
        codec.prompt("go")
        if ready:
            codec.received("stdout", reply("initialize", {"claude_code_version": version}))
            codec.received("stdout", settings(("flagSettings", SETTINGS)))
        return codec

    return make


def given(codec, data):
    """The actions, with events apart."""
    actions = list(codec.received("stdout", data))
    events = [event for action in actions if isinstance(action, Emit) for event in action.events]
    return [action for action in actions if not isinstance(action, Emit)], events


# ---- What the CLI repeats -------------------------------------------------------------------------------------------


def allowed(codec):
    """A hook that was asked and answered."""
    given(codec, hook())
    return codec.decided(KEY, "before", Proceed())


def test_our_own_answers_come_back_and_are_nothing_new(begin):
    codec = begin()
    allowed(codec)
    assert given(codec, reply("h1", {})) == ([], [])


@pytest.mark.parametrize("before", [(), ("h1",)], ids=["unknown", "repeated"])
def test_an_answer_that_comes_back_and_was_not_ours_is_suspicious(begin, before):
    """Somebody else answered, or answered first."""
    codec = begin()
    if before:
        allowed(codec)
    for request_id in before:
        given(codec, reply(request_id, {}))
    (suspicion,), _ = given(codec, reply("h1", {}))
    assert (type(suspicion), suspicion.kind) == (Suspicion, "unknown_answer")


def test_an_answer_that_comes_back_before_we_gave_one_is_suspicious(begin):
    codec = begin()
    given(codec, hook())
    (suspicion,), _ = given(codec, reply("h1", {"hookSpecificOutput": {}}))
    assert suspicion.kind == "unknown_answer"


# ---- Messages into a turn -------------------------------------------------------------------------------------------


def names(actions):
    """The names of the messages that were sent."""
    return [json.loads(action.data)["uuid"] for action in actions if isinstance(action, Send)]


def taken_up(name):
    """The CLI repeats a message of ours."""
    message = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    return line({"type": "user", "message": message, "uuid": name, "isReplay": True})


def endings(actions):
    """Status and `more` of each turn that ended."""
    return [(action.ending.status, action.ending.more) for action in actions if isinstance(action, RunDone)]


INIT = line({"type": "system", "subtype": "init", "session_id": "s"})


def test_a_message_that_was_taken_up_ends_with_its_turn(begin):
    codec = begin()
    (name,) = names(codec.steer("x"))
    assert given(codec, taken_up(name)) == ([], [])
    assert endings(codec.received("stdout", line(RESULT))) == [(Status.COMPLETED, False)]


def test_a_message_that_was_not_taken_up_has_the_next_turn(begin):
    codec = begin()
    first, second = names([*codec.steer("x"), *codec.steer("y")])
    given(codec, taken_up(first))
    assert endings(codec.received("stdout", line(RESULT))) == [(Status.COMPLETED, True)]
    given(codec, INIT + taken_up(second))
    assert endings(codec.received("stdout", line({**RESULT, "result": "late"}))) == [(Status.COMPLETED, False)]


def test_a_message_that_a_later_turn_missed_too_has_yet_another(begin):
    """The agent had read one of two when it began the turn for them."""
    codec = begin()
    first, second = names([*codec.steer("x"), *codec.steer("y")])
    assert endings(codec.received("stdout", line(RESULT))) == [(Status.COMPLETED, True)]
    given(codec, INIT + taken_up(first))
    actions = codec.received("stdout", line(RESULT))
    assert endings(actions) == [(Status.COMPLETED, True)]
    assert [action.after for action in actions if isinstance(action, Wake)] == [30.0]
    given(codec, INIT + taken_up(second))
    assert endings(codec.received("stdout", line(RESULT))) == [(Status.COMPLETED, False)]


def test_a_message_that_its_own_turn_did_not_take_up_is_soon_given_up(begin):
    codec = begin()
    codec.steer("x")
    given(codec, line(RESULT) + INIT)
    (wake,) = [action for action in codec.received("stdout", line(RESULT)) if isinstance(action, Wake)]
    assert wake.after < 5.0
    actions = codec.woke(wake.key)
    assert endings(actions) == [(Status.COMPLETED, False)]
    assert [event.code for action in actions if isinstance(action, Emit) for event in action.events] == ["message_lost"]


def test_a_next_turn_that_never_begins_ends_the_run_after_all(begin):
    codec = begin()
    codec.steer("x")
    (wake,) = [action for action in codec.received("stdout", line(RESULT)) if isinstance(action, Wake)]
    assert endings(codec.woke(wake.key)) == [(Status.COMPLETED, False)]
    assert list(codec.woke(wake.key)) == []


def test_a_next_turn_that_has_begun_is_not_ended_by_the_clock(begin):
    codec = begin()
    codec.steer("x")
    (wake,) = [action for action in codec.received("stdout", line(RESULT)) if isinstance(action, Wake)]
    given(codec, INIT)
    assert list(codec.woke(wake.key)) == []


def test_messages_before_the_prompt_follow_it(begin):
    codec = begin(ready=False)
    assert list(codec.steer("x")) == []
    given(codec, reply("initialize", {"claude_code_version": "2.1.332", "hooks_applied": True}))
    actions, _ = given(codec, settings(("flagSettings", SETTINGS)))
    texts = [json.loads(one.data)["message"]["content"][0]["text"] for one in actions if isinstance(one, Send)]
    assert texts == ["go", "x"]


def test_no_two_messages_of_a_run_bear_one_name(begin):
    codec = begin()
    assert len(set(names([action for _ in range(50) for action in codec.steer("x")]))) == 50
