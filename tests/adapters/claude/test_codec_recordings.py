"""Real conversations, given to a fresh codec in pieces of every kind."""

import json

import pytest

from interlock.actions import Ask, CloseInput, Consult, Ready, RunDone, Stop, Suspicion
from interlock.events import ToolFinished, ToolRequested, event_adapter
from interlock.outcome import Reason, Status

ENDINGS = {
    "bad-request": (Status.FAILED, Reason.BAD_REQUEST),
    "deny-and-stop": (Status.FAILED, Reason.DENIED),
    "max-turns": (Status.FAILED, Reason.MAX_TURNS),
    "withhold": (Status.FAILED, Reason.UNREPLACEABLE),
}
FINISHED = {
    "deny": ["denied"],
    "deny-and-stop": ["denied"],
    "deny-second-gate": ["denied"],
    "fail": ["error"],
    "parallel": ["denied", "ok"],
    "sub-agent": ["ok", "ok"],
    "withhold": ["error"],
}


def pieces(stretches, size):
    """Each stretch in pieces of one size."""
    return [data[start : start + size] for data in stretches for start in range(0, len(data), size)]


def told(talk):
    """Everything that came out."""
    return (
        talk.events,
        talk.consults,
        [action for action in talk.others if not isinstance(action, CloseInput)],
        talk.sent,
    )


@pytest.mark.parametrize("size", [1, 7, 4093])
def test_pieces_of_any_size_give_the_same_actions(recording, size):
    whole = recording.replay()
    assert told(recording.replay(pieces(recording.stretches, size))) == told(whole)


def test_a_recorded_conversation_ends_as_it_did(recording):
    talk = recording.replay()
    expected = ENDINGS.get(recording.folder.name, (Status.COMPLETED, None))
    assert (talk.ending.status, talk.ending.reason) == expected
    assert not [action for action in talk.others if isinstance(action, Suspicion | Stop)]
    assert talk.ending.session_id is not None
    assert talk.ending.usage.output_tokens is not None


def test_what_we_write_is_what_was_written(recording):
    sent = [json.loads(line) for line in recording.replay().sent.split(b"\n") if line]
    assert sent == recording.stdin


def test_every_call_is_announced_once_and_ends_once(recording):
    talk = recording.replay()
    requested = [event.tool_call_id for event in talk.of(ToolRequested)]
    finished = {event.tool_call_id: event.status for event in talk.of(ToolFinished)}
    assert sorted(set(requested)) == sorted(requested) == sorted(finished)
    assert sorted(finished.values()) == FINISHED.get(recording.folder.name, ["ok"] * len(finished))
    assert {asked.key.call for asked in talk.consults} <= set(requested)


def test_every_event_survives_json(recording):
    adapter = event_adapter()
    for event in recording.replay().events:
        assert adapter.validate_json(adapter.dump_json(event)) == event


def test_a_conversation_that_is_cut_anywhere_has_exactly_one_ending(recording):
    data = recording.stdout
    for end in range(0, len(data), max(1, len(data) // 60)):
        talk = recording.replay([data[:end]])
        endings = [action for action in talk.others if isinstance(action, RunDone)]
        assert len(endings) == 1
        assert endings[0].ending.status is Status.FAILED


def test_the_prompt_goes_out_after_the_agent_is_ready_and_disarmed(recording):
    lines = recording.stdin
    assert [line["request"]["subtype"] for line in lines[:2]] == ["initialize", "get_settings"]
    assert lines[2]["message"]["content"] == [{"type": "text", "text": "go"}, {"type": "text", "text": ""}]
    talk = recording.replay([])
    assert b'"user"' not in talk.sent
    assert not [action for action in talk.others if isinstance(action, Ready)]


def test_only_calls_that_were_let_through_are_confirmed(recording):
    asked = [(one.key.call, one.stage) for one in recording.replay().consults if isinstance(one, Consult)]
    for call, stage in asked:
        if stage == "confirm":
            assert (call, "before") in asked
    assert recording.folder.name != "question" or any(isinstance(one, Ask) for one in recording.replay().consults)
