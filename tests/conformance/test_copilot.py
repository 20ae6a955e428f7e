"""The Copilot adapter keeps the contract: every check, on every recording of both of its transports."""

import pytest

from interlock_adapters.copilot import adapter
from interlock_fixtures.conformance import checks, subject_of

SHOWN_LIVE = frozenset({"asks_in_parallel"})
"""By the live tests of Copilot."""
SPARSE = 10
"""Seeded offsets at which each conversation is cut; more of them where tests may be slow."""


@pytest.fixture(scope="session")
def copilot(recordings_folder):
    """The adapter with the recordings of one transport, or of all."""

    def make(transport=None, **more):
        subject = subject_of(adapter, recordings_folder / "copilot", shown_elsewhere=SHOWN_LIVE, **more)
        return subject.only(*(one for one in subject.recordings if transport in {None, one.meta.transport}))

    return make


@pytest.mark.behaviour("kit:conformance:copilot", "kit:replay:endpoint")
@pytest.mark.parametrize("check", checks(), ids=lambda check: f"{check.number:02}")
def test_the_copilot_adapter_keeps_the_contract(check, copilot) -> None:
    check(copilot(offsets=SPARSE, process_offsets=4, process_edges=4, processes=4))


@pytest.mark.parametrize("number", [51, 52])
def test_prompt_keeps_it_as_a_process_too(number, copilot) -> None:
    chosen = next(check for check in checks() if check.number == number)
    chosen(copilot("prompt", process_offsets=4, process_edges=4, processes=3))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("transport", ["prompt", "server"])
@pytest.mark.parametrize("number", [50, 51, 52, 53])
def test_replays_keep_it_at_all_edges_and_a_hundred_offsets_on_both_loops(number, transport, backend, copilot) -> None:
    chosen = next(check for check in checks() if check.number == number)
    chosen(copilot(transport, process_offsets=100, processes=12, backend=backend))


@pytest.mark.slow
def test_conversations_may_be_cut_at_two_hundred_offsets_each(copilot) -> None:
    chosen = next(check for check in checks() if check.number == 20)
    chosen(copilot(offsets=200))


def test_there_are_many_recordings_of_each_transport(copilot) -> None:
    recordings = copilot().recordings
    assert {recording.meta.version for recording in recordings} == {adapter.versions.oldest, adapter.versions.newest}
    for transport, least in (("server", 40), ("prompt", 25)):
        assert len([one for one in recordings if one.meta.transport == transport]) >= least


def test_each_transport_is_recorded_as_it_frames_its_messages(copilot) -> None:
    assert {one.meta.framing for one in copilot("server").recordings} == {"content_length"}
    assert {one.meta.framing for one in copilot("prompt").recordings} == {"lines"}


def test_what_the_agent_calls_us_with_is_in_the_recordings_of_prompt(copilot) -> None:
    for recording in copilot("prompt").recordings:
        channels = [wire.channel for wire in recording.wire]
        assert channels.count("call") >= 2, recording.name
        assert set(recording.meta.endpoints.values()) == {"http"}
