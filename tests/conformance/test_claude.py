"""The Claude adapter keeps the contract: every check, on every recording of both pinned CLIs."""

import pytest

from interlock_adapters.claude import adapter
from interlock_fixtures.conformance import checks, subject_of

SHOWN_LIVE = frozenset({"asks_in_parallel"})
"""By tests/live/test_claude_approvals.py: several approvals are open at once and are answered in any order."""
SPARSE = 25
"""Seeded offsets at which each conversation is cut; all of them where tests may be slow."""


@pytest.fixture(scope="session")
def claude(recordings_folder):
    """The adapter with all of its recordings."""

    def make(**more):
        return subject_of(adapter, recordings_folder / "claude", shown_elsewhere=SHOWN_LIVE, **more)

    return make


@pytest.mark.behaviour("kit:conformance:claude", "framing:chunking", "framing:line-separators")
@pytest.mark.parametrize("check", checks(), ids=lambda check: f"{check.number:02}")
def test_the_claude_adapter_keeps_the_contract(check, claude) -> None:
    check(claude(offsets=SPARSE, process_offsets=4, process_edges=4, processes=3))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", [50, 51, 52, 53])
def test_replays_keep_it_at_all_edges_and_two_hundred_offsets_on_both_loops(number, backend, claude) -> None:
    chosen = next(check for check in checks() if check.number == number)
    chosen(claude(process_offsets=200, processes=12, backend=backend))


@pytest.mark.slow
def test_conversations_may_be_cut_at_all_edges_and_two_hundred_offsets_each(claude) -> None:
    chosen = next(check for check in checks() if check.number == 20)
    chosen(claude(offsets=200))


def test_there_are_at_least_thirty_recordings_over_both_ends_of_the_range(claude) -> None:
    recordings = claude().recordings
    versions = {recording.meta.version for recording in recordings}
    assert versions == {adapter.versions.oldest, adapter.versions.newest}
    for version in versions:
        assert len([one for one in recordings if one.meta.version == version]) >= 30
