"""Reading an audit back: what is a record, what is not, which are wanted, and what they sum up to."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from interlock.engine import audit_log
from interlock.engine.audit_log import BadLine, Entry, Filter, Summary, Tally, read_audit
from interlock.errors import ConfigurationError
from interlock.hooks import AuditRecord

RECORD: dict[str, Any] = {
    "run_id": "run-abc",
    "agent": "claude",
    "agent_id": "main",
    "tool_call_id": "t1",
    "tool_name": "Bash",
    "event": "pre_tool_use",
    "participant": "guard",
    "binding": "hook",
    "decision": "allow",
    "input_digest": "sha256:0123456789",
    "duration": 0.01,
    "time": 1000,
}


def record(**fields: Any) -> AuditRecord:
    return AuditRecord.model_validate({**RECORD, **fields})


def written(path: Path, *lines: object, end: str = "\n") -> str:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text(text + end, encoding="utf-8")
    return str(path)


def test_records_come_with_their_line_and_what_a_later_version_added_is_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path / "a", RECORD, "", {**RECORD, "mood": "good", "tool_name": "Read"})
    assert list(read_audit(path)) == [Entry(1, record()), Entry(3, record(tool_name="Read"))]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "JSON"),
        ("[1]", "JSON"),
        ("{}", "`run_id`"),
        ({**RECORD, "decision": 1}, "`decision`"),
        ({**RECORD, "binding": "oracle"}, "`binding`"),
        ('{"a": 1} {"b": 2}', "JSON"),
    ],
)
def test_a_line_that_is_no_record_is_named_and_the_rest_is_read(tmp_path: Path, line: object, problem: str) -> None:
    bad, good = read_audit(written(tmp_path / "a", line, RECORD))
    assert isinstance(bad, BadLine)
    assert (bad.line, bad.torn) == (1, False)
    assert problem in bad.problem
    assert good == Entry(2, record())


def test_a_last_line_without_its_end_is_a_record_or_torn(tmp_path: Path) -> None:
    assert list(read_audit(written(tmp_path / "a", RECORD, end=""))) == [Entry(1, record())]
    whole = json.dumps(RECORD)
    for cut in (1, 40, len(whole) - 1):
        first, last = read_audit(written(tmp_path / "b", RECORD, whole[:cut], end=""))
        assert first == Entry(1, record())
        assert isinstance(last, BadLine)
        assert (last.line, last.torn) == (2, True)


def test_a_line_past_the_bound_is_passed_over_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "LONGEST_LINE", 1000)
    bad, good = read_audit(written(tmp_path / "a", {**RECORD, "reason": "x" * 2000}, RECORD))
    assert isinstance(bad, BadLine)
    assert "longer than 1000 bytes" in bad.problem
    assert good == Entry(2, record())


def test_an_empty_file_has_no_records_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert list(read_audit(str(tmp_path / "empty"))) == []
    for name in ("none", "."):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            list(read_audit(str(tmp_path / name)))


@pytest.mark.parametrize(
    ("wanted", "wants"),
    [
        ({}, True),
        ({"run": "run-abc"}, True),
        ({"run": "abc"}, True),
        ({"run": "run-ab"}, True),
        ({"run": "b"}, False),
        ({"tool": "ba*"}, True),
        ({"tool": "Ba"}, False),
        ({"decision": "allow"}, True),
        ({"decision": "broken"}, True),
        ({"decision": "deny"}, False),
        ({"participant": "guard"}, True),
        ({"participant": "gua"}, False),
        ({"since": 1000.0}, True),
        ({"since": 1000.1}, False),
        ({"tool": "*", "since": 1000.1}, False),
    ],
)
def test_a_filter_wants_what_fits_all_that_it_says(wanted: dict[str, Any], wants: bool) -> None:
    assert Filter(**wanted).wants(record(broken=True)) is wants


def test_a_tally_counts_each_decision_once_and_broken_ones_beside() -> None:
    tally = Tally()
    for decision in ("allow", "grant", "deny", "modify", "replace", "ask", "agent"):
        tally.add(record(decision=decision))
    tally.add(record(decision="deny", broken=True))
    assert (tally.asked, tally.allowed, tally.denied, tally.modified) == (8, 2, 2, 1)
    assert (tally.replaced, tally.passed_on, tally.broken) == (1, 2, 1)


def test_quantiles_are_right_within_a_hundredth_and_exact_for_one() -> None:
    chance = random.Random(7)
    durations = sorted(chance.lognormvariate(-5, 1.5) for _ in range(2001))
    tally = Tally()
    for duration in chance.sample(durations, len(durations)):
        tally.add(record(duration=duration))
    assert tally.quantile(0.5) == pytest.approx(durations[1000], rel=0.011)
    assert tally.quantile(0.95) == pytest.approx(durations[1900], rel=0.011)
    assert tally.longest == durations[-1]
    alone = Tally()
    alone.add(record(duration=0.25))
    assert (alone.quantile(0.5), alone.quantile(0.95)) == (0.25, 0.25)


def test_what_was_never_measured_has_no_quantile() -> None:
    tally = Tally()
    tally.add(record(duration=0))
    tally.add(record(duration=-1))
    assert tally.quantile(0.5) is None


def test_a_summary_is_bounded_however_many_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "MOST_PARTICIPANTS", 3)
    summary = Summary()
    for number in range(10):
        summary.add(record(participant=f"rule {number}", binding="rule"))
    assert summary.records == 10
    assert [tally.asked for tally in summary.tallies.values()] == [1, 1, 1, 7]
    assert list(summary.tallies)[-1] == audit_log.OTHERS
