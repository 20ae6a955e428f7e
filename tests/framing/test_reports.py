"""Events are joined without a change of order, and of noise only the end is kept."""

from __future__ import annotations

from interlock.actions import CloseInput, Emit
from interlock.events import Text
from interlock.framing.lines import LineFramer, Oversized
from interlock.framing.reports import NOISE_KEPT, Noise, joined, too_long
from interlock.outcome import Reason, Status


def test_events_that_follow_each_other_are_joined_and_nothing_overtakes_another():
    one, two, three = (Emit([Text(text=text)]) for text in ("one", "two", "three"))
    out = joined([one, two, CloseInput(), three])
    assert [_texts(action) for action in out] == [["one", "two"], None, ["three"]]
    assert joined([]) == []


def test_an_agent_that_never_sent_a_message_is_told_by_the_end_of_its_text():
    noise = Noise()
    noise.keep(b"x" * NOISE_KEPT)
    noise.keep(b"no such option")
    status, reason, message = noise.crash(2, None, spoke=False)
    assert (status, reason) == (Status.FAILED, Reason.PROTOCOL)
    assert "(exit 2)" in message
    assert message.endswith("x\nno such option")
    assert len(message) < NOISE_KEPT + 100


def test_what_an_agent_wrote_between_its_messages_is_not_why_it_ended():
    noise = Noise()
    noise.keep(b"a warning")
    assert noise.crash(None, 9, spoke=True) == (
        Status.FAILED,
        Reason.CRASHED,
        "the agent ended without a result (signal 9)",
    )


def test_of_a_line_over_the_limit_the_length_and_the_beginning_are_told():
    (dropped,) = LineFramer(limit=4).feed(b"12345\n")
    assert isinstance(dropped, Oversized)
    (notice,) = too_long(dropped).events
    assert notice.message == "a line of 5 bytes is over the limit and was dropped: 12345"


def _texts(action):
    return [event.text for event in action.events] if isinstance(action, Emit) else None
