"""Every check catches its planted bug, and no other check does."""

import pytest

from interlock_adapters.claude import adapter
from interlock_fixtures.conformance import Subject, checks, run_checks
from interlock_fixtures.recording import load_recording

pytestmark = pytest.mark.behaviour("kit:conformance")

CASES = ("text", "bash", "bash-replace", "question", "approve-edited")
CLAIMS = {name for name, value in adapter.transports[0].capabilities if value not in ((), "none", False)}
NUMBERS = [check.number for check in checks()]
ALONE = [check for check in checks() if check.level != "process"]
TOGETHER = [check for check in checks() if check.level == "process"]


@pytest.fixture
def subject(recordings_folder):
    """Few and short conversations, cut in few places, and long messages that are not so long."""
    folder = recordings_folder / "claude" / "2.1.332"

    def make(adapter, **more):
        recordings = tuple(load_recording(folder / case) for case in CASES)
        few = {"long": 1_500_000, "offsets": 5, "process_offsets": 1, "process_edges": 2, "processes": 2}
        return Subject(adapter, recordings, shown_elsewhere=frozenset(CLAIMS), **{**few, **more})

    return make


def test_without_a_bug_no_check_finds_anything(subject):
    report = run_checks(subject(adapter), checks())
    assert report.ok, report.describe()


def test_each_check_has_a_planted_bug(planted):
    assert sorted([*planted.ADAPTERS, *planted.CLIENTS]) == NUMBERS


@pytest.mark.parametrize(
    "number",
    [number if number < 20 else pytest.param(number, marks=pytest.mark.slow) for number in NUMBERS if number < 50],
)
def test_a_bug_of_an_adapter_is_caught_by_its_check_alone(number, subject, planted):
    report = run_checks(subject(planted.ADAPTERS[number]()), ALONE)
    assert report.failed == (number,), report.describe()


@pytest.mark.parametrize(
    "number",
    [number if number == 51 else pytest.param(number, marks=pytest.mark.slow) for number in NUMBERS if number >= 50],
)
def test_a_bug_that_only_a_process_shows_is_caught_by_its_check_alone(number, subject, planted):
    report = run_checks(subject(adapter, client=planted.CLIENTS[number]), checks())
    assert report.failed == (number,), report.describe()


@pytest.mark.slow
@pytest.mark.parametrize("number", [number for number in NUMBERS if number < 50])
def test_no_check_with_a_process_catches_a_bug_that_another_is_there_for(number, subject, planted):
    report = run_checks(subject(planted.ADAPTERS[number]()), TOGETHER)
    assert report.ok, report.describe()
