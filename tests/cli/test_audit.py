"""`interlock audit`: the log of a real run as lines, as JSON and as tables; filters, sums, and lines that are none."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock_adapters.cli.audit import COLUMNS, LAST, Wanted, audit, moment
from interlock_adapters.cli.options import UsageProblem

HOOK = """
import json, sys
call = json.load(sys.stdin)
if call["event"] == "post_tool_use" and call["tool_name"] == "Bash":
    answer = {"decision": "replace", "output": "hidden", "reason": "not for the model"}
elif call["event"] == "pre_tool_use" and call["tool_name"] == "Write" and call["round"] == 1:
    answer = {"decision": "modify", "input": {**call["input"], "content": "y"}, "reason": "y is better"}
else:
    answer = {"decision": "allow"}
print(json.dumps(answer))
"""
SCRIPT = [
    {"tool": "Bash", "input": {"command": "ls"}},
    {"tool": "Bash", "input": {"command": "git push"}},
    {"tool": "Read", "input": {"file_path": ".env"}},
    {"tool": "Write", "input": {"file_path": "a.txt", "content": "x"}},
    {"text": "done"},
]


@pytest.fixture
def log(cli: Any, tmp_path: Path) -> Path:
    """The audit of a run in which everything happened."""
    program, hooks, path = tmp_path / "hook.py", tmp_path / "hooks.json", tmp_path / "audit.jsonl"
    program.write_text(HOOK, encoding="utf-8")
    spec = {
        "name": "guard",
        "command": [sys.executable, str(program)],
        "events": ["pre_tool_use", "post_tool_use"],
        "timeout": 30,
    }
    hooks.write_text(json.dumps({"schema": 1, "hooks": [spec]}), encoding="utf-8")
    options = ("--posture", "edit", "--deny", "read(**/.env)", "--hooks", str(hooks), "--audit", str(path))
    done = cli.run(SCRIPT, *options, "hello")
    assert done.returncode == 0, done.stderr
    return path


def rows(text: str) -> list[dict[str, str]]:
    """The tab-separated records, before the sums."""
    records, _, _ = text.partition("\n\n")
    head, *lines = records.split("\n")
    assert head.split("\t") == [*COLUMNS, LAST]
    return [dict(zip([*COLUMNS, LAST], line.split("\t"), strict=True)) for line in lines]


def sums(text: str) -> dict[str, dict[str, str]]:
    head, *lines = text.partition("\n\n")[2].strip("\n").split("\n")
    found = [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]
    return {row["participant"]: row for row in found}


def test_the_log_of_a_run_says_who_decided_what_and_sums_it_up(cli: Any, log: Path) -> None:
    done = cli.interlock("audit", str(log))
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    found = rows(text)
    assert len({row["run"] for row in found}) == 1
    said = [(row["tool"], row["event"], row["participant"], row["decision"]) for row in found]
    assert said == [
        ("Bash", "before", "guard", "allow"),
        ("Bash", "before", "policy", "allow"),
        ("Bash", "after", "guard", "replace"),
        ("Bash", "before", "guard", "allow"),
        ("Bash", "before", "policy", "deny"),
        ("Read", "before", "read(**/.env)", "deny"),
        ("Write", "before", "guard", "modify"),
        ("Write", "before (2)", "guard", "allow"),
        ("Write", "before", "policy", "allow"),
        ("Write", "after", "guard", "allow"),
    ]
    assert [" -> " in row["changed"] for row in found] == [row["decision"] in {"modify", "replace"} for row in found]
    assert all((row["ms"] == "-") == (row["binding"] != "hook") for row in found)
    guard = sums(text)["guard"]
    assert [guard[name] for name in ("asked", "allowed", "denied", "modified", "replaced", "broken")] == list("640110")
    assert float(guard["median ms"]) <= float(guard["p95 ms"])
    assert sums(text)["read(**/.env)"]["median ms"] == "-"


def test_filters_choose_what_is_shown_and_summed(cli: Any, log: Path) -> None:
    run = json.loads(log.read_text(encoding="utf-8").splitlines()[0])["run_id"]
    chosen = cli.interlock("audit", str(log), "--run", run[-8:], "--tool", "b*", "--decision", "deny", "--since", "1h")
    assert [row["participant"] for row in rows(chosen.stdout.decode())] == ["policy"]
    none = cli.interlock("audit", str(log), "--participant", "nobody")
    assert (none.returncode, none.stdout) == (0, b"no records\n")


def test_json_is_a_record_a_line_and_the_sums_last(cli: Any, log: Path) -> None:
    done = cli.interlock("audit", str(log), "--json")
    *records, last = [json.loads(line) for line in done.stdout.splitlines()]
    originals = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert records == [{"type": "record", "line": n, **record} for n, record in enumerate(originals, 1)]
    assert (last["type"], last["records"]) == ("summary", 10)
    assert last["participants"][0]["participant"] == "guard"
    assert last["participants"][0]["replaced"] == 1


def test_at_a_terminal_there_are_tables(log: Path, typed: Any) -> None:
    child = typed("audit", str(log))
    child.expect("time \\(UTC\\)")
    child.expect("y is better")
    child.expect("median ms")
    child.expect_exact("guard")
    child.wait()
    assert child.exitstatus == 0


# ---- What is no record, and what cannot be used ---------------------------------------------------------------------

GOOD = {
    "run_id": "run-1",
    "agent": "claude",
    "agent_id": "sub\x1b[31m",
    "tool_call_id": "t\n1",
    "tool_name": "Bash\u202e",
    "event": "pre_tool_use",
    "participant": "g\tuard",
    "binding": "hook",
    "decision": "deny",
    "reason": "\x1b]0;title\x07 \x9b31m two\nlines",
    "input_digest": "sha256:0123456789",
    "time": 1e300,
}


def shown(path: Path, capfd: pytest.CaptureFixture[str], **more: Any) -> tuple[int, str, str]:
    code = audit(Wanted(str(path), **more))
    return code, *capfd.readouterr()


def test_bad_lines_are_named_and_passed_over_and_make_the_code_1(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "a"
    path.write_text(f"{json.dumps(GOOD)}\nbad \x1b[31m\n{json.dumps(GOOD)}\n", encoding="utf-8")
    code, out, err = shown(path, capfd)
    assert code == 1
    assert len(rows(out)) == 2
    assert err.startswith("interlock: line 2 is no record")
    assert "\x1b" not in err


def test_a_torn_last_line_is_said_and_is_no_failure(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "a"
    path.write_text(f"{json.dumps(GOOD)}\n{json.dumps(GOOD)[:50]}", encoding="utf-8")
    code, out, err = shown(path, capfd)
    assert code == 0
    assert len(rows(out)) == 1
    assert err.startswith("interlock: line 2 is not finished")


def test_nothing_of_the_file_reaches_the_terminal_as_it_is(tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "a"
    path.write_text(json.dumps(GOOD) + "\n", encoding="utf-8")
    _, out, _ = shown(path, capfd)
    (row,) = rows(out)
    assert not set("\x1b\x07\x9b\u202e") & set(out)
    assert row["agent"] == "claude/sub\\x1b[31m"
    assert row["participant"] == "g\\tuard"
    assert row["reason"].endswith("two\\nlines")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"decision": "maybe"}, "--decision 'maybe': there are allow, deny"),
        ({"since": "yesterday"}, "--since 'yesterday': write how long ago"),
        ({}, "/no/such: it cannot be read"),
    ],
)
def test_what_cannot_be_used_ends_with_2(capfd: Any, more: dict[str, Any], words: str) -> None:
    code, out, err = shown(Path("/no/such"), capfd, **more)
    assert (code, out) == (2, "")
    assert words in err


def test_a_moment_is_a_span_a_date_or_a_number() -> None:
    assert moment("90m", 10_000) == 10_000 - 5400
    assert moment("1.5h", 10_000) == 10_000 - 5400
    assert moment("2026-11-30T10:00:00+00:00", 0) == 1_796_032_800
    assert moment("12.5", 0) == 12.5
    for text in ("", "h", "-1h", "2026-13-01", "nan", "99999999999999999999999999h x"):
        with pytest.raises(UsageProblem):
            moment(text, 0)
