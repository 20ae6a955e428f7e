"""The audit file: a line a decision, nobody else's to read, and never silently lost."""

import json
import os
import stat
from pathlib import Path

import pytest

from interlock.engine.audit import Audit
from interlock.errors import ConfigurationError
from interlock.hooks import AuditRecord


def record(reason: str = "x") -> AuditRecord:
    return AuditRecord(
        run_id="r",
        agent="claude",
        agent_id="main",
        tool_call_id="1",
        tool_name="Bash",
        event="pre_tool_use",
        participant="p",
        binding="hook",
        decision="deny",
        reason=reason,
        input_digest="sha256:0",
    )


def test_each_record_is_one_line_that_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with Audit(path) as audit:
        audit.write(record("a\nb\u2028"))
        audit.write(record())
        assert audit.failure is None
    lines = path.read_bytes().split(b"\n")
    assert [AuditRecord.parse_json(line) for line in lines[:-1]] == [record("a\nb\u2028"), record()]
    assert lines[-1] == b""


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        Audit(tmp_path / "audit.jsonl").close()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600


def test_it_appends_also_beside_another_writer(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with Audit(path) as first, Audit(path) as second:
        for audit in (first, second, first):
            audit.write(record())
    Audit(path).close()
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3


def test_it_begins_on_a_new_line_after_one_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"run_id":"cut', encoding="utf-8")
    with Audit(path) as audit:
        audit.write(record())
    first, second = path.read_text(encoding="utf-8").splitlines()
    assert first == '{"run_id":"cut'
    assert json.loads(second)["run_id"] == "r"


@pytest.mark.parametrize("where", [".", "nowhere/audit.jsonl", "fifo", "file/x"])
def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path, where: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="the audit cannot be written"):
        Audit(tmp_path / where)


def test_a_write_that_fails_is_remembered_and_raises_nothing(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    unwritable = os.open(tmp_path / "audit.jsonl", os.O_RDONLY)
    os.dup2(unwritable, audit.fileno())
    os.close(unwritable)
    audit.write(record())
    assert audit.failure == "Bad file descriptor"
    audit.write(record())
    audit.close()
    audit.close()


def test_writing_to_a_closed_audit_is_a_failure(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl")
    audit.close()
    audit.write(record())
    assert audit.failure == "it is closed"


def test_a_record_that_cannot_be_written_down_is_a_failure(tmp_path: Path) -> None:
    with Audit(tmp_path / "audit.jsonl") as audit:
        audit.write(record("\ud800"))
        assert audit.failure is not None
