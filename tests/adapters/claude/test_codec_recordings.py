"""What the kept recordings are about: how each run ended and how each of its calls did, on both pinned CLIs.

That every way of cutting them means the same, and the rest of the contract, is the conformance suite's to show.
"""

from pathlib import Path

import pytest

from interlock.actions import Consult, Ready, RunDone, Send, Stop, Suspicion
from interlock.events import ToolFinished, ToolRequested
from interlock.outcome import Reason, Status
from interlock_adapters.claude import adapter
from interlock_fixtures.conformance import subject_of
from interlock_fixtures.conformance.conversation import converse, start

RECORDINGS = Path(__file__).parents[3] / "fixtures" / "recordings" / "claude"
SUBJECT = subject_of(adapter, RECORDINGS)
GOOD = (Status.COMPLETED, None)
ENDINGS = {
    "auth": (Status.FAILED, Reason.AUTH),
    "bad-request": (Status.FAILED, Reason.BAD_REQUEST),
    "bash-withhold": (Status.FAILED, Reason.UNREPLACEABLE),
    "budget": (Status.FAILED, Reason.BUDGET),
    "decline-and-stop": (Status.FAILED, Reason.DENIED),
    "forbidden": (Status.FAILED, Reason.AUTH),
    "interrupt": (Status.CANCELLED, None),
    "max-output": (Status.FAILED, Reason.MAX_OUTPUT),
    "max-turns": (Status.FAILED, Reason.MAX_TURNS),
    "no-output": (Status.FAILED, Reason.NO_OUTPUT),
    "not-found": (Status.FAILED, Reason.MODEL_NOT_FOUND),
    "overloaded": (Status.FAILED, Reason.OVERLOADED),
    "refusal": (Status.FAILED, Reason.REFUSED),
    "session-not-found": (Status.FAILED, Reason.SESSION_NOT_FOUND),
}
FINISHED = {
    "bad-arguments": ["error"],
    "bash-deny": ["denied"],
    "bash-fail": ["error"],
    "bash-withhold": ["error"],
    "decline": ["denied"],
    "decline-and-stop": ["denied"],
    "interrupt": ["error"],
    "parallel": ["denied", "ok"],
    "question-declined": ["denied"],
    "unknown-tool": ["error"],
}
ONLY_OLDEST = {"todo": ["ok", "ok"]}
"""The newest does not offer the tool."""


@pytest.fixture(params=SUBJECT.recordings, ids=lambda recording: recording.name)
def recording(request):
    """One of the recordings."""
    return request.param


def test_a_recorded_conversation_ends_as_it_did(recording):
    talk = converse(SUBJECT, recording)
    expected = ENDINGS.get(recording.meta.case, GOOD)
    assert {(ending.status, ending.reason) for ending in talk.endings} == {expected}
    assert not [action for action in talk.flat if isinstance(action, Suspicion | Stop)]


def test_its_calls_end_as_they_did(recording):
    events = converse(SUBJECT, recording).events
    finished = {event.tool_call_id: event.status for event in events if isinstance(event, ToolFinished)}
    assert finished.keys() <= {event.tool_call_id for event in events if isinstance(event, ToolRequested)}
    if recording.meta.case in ONLY_OLDEST and recording.meta.version != adapter.versions.oldest:
        assert set(finished.values()) == {"error"}
    else:
        assert sorted(finished.values()) == FINISHED.get(recording.meta.case, ["ok"] * len(finished))


def test_only_calls_that_were_let_through_are_confirmed(recording):
    asked = [action for action in converse(SUBJECT, recording).flat if isinstance(action, Consult)]
    before = {action.key for action in asked if action.stage == "before"}
    assert {action.key for action in asked if action.stage == "confirm"} <= before


def test_before_the_agent_says_anything_it_is_not_ready_and_not_prompted(recording):
    flat = start(SUBJECT, recording).talk.flat
    assert not [action for action in flat if isinstance(action, Ready | RunDone)]
    assert not [action for action in flat if isinstance(action, Send) and b'"type":"user"' in action.data]
