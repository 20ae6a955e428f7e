"""What the CLI repeats to us: answers that must be our own, and messages into a turn, which are never lost."""

import json
import runpy
from pathlib import Path

import pytest

from interlock.actions import Emit, Key, Proceed, RunDone, Send, Suspicion, Wake
from interlock.outcome import Status

LINES = runpy.run_path(str(Path(__file__).parent / "cli_lines.py"))
SETTINGS, RESULT = LINES["SETTINGS"], LINES["RESULT"]
line, reply, settings = LINES["line"], LINES["reply"], LINES["settings"]
hook, given = LINES["hook"], LINES["given"]
KEY = Key("main", "t1")


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
