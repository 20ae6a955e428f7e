"""A program answers approvals; whatever goes wrong with it is a denial that says so."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = [{"tool": "Bash", "input": {"command": "touch made"}}, {"text": "done"}]


@pytest.fixture
def program(tmp_path: Path) -> Any:
    def write(body: str, name: str = "approve.py") -> str:
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    return write


def resolved(cli: Any, done: Any) -> dict[str, Any]:
    (event,) = [event for event in cli.events(done) if event["type"] == "approval_resolved"]
    return dict(event)


def run(cli: Any, program: str, *more: str) -> Any:
    return cli.run(SCRIPT, "--approve-with", program, "--json", *more, "hello")


def test_a_program_that_approves_lets_the_call_run(cli: Any, program: Any, tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    approver = program(
        f"open({str(seen)!r}, 'w').write(sys.stdin.read())\nprint(json.dumps({{'decision': 'approve'}}))"
    )
    done = run(cli, approver)
    assert done.returncode == 0
    assert (cli.workspace / "made").exists()
    assert resolved(cli, done)["by"] == "approver"
    approval = json.loads(seen.read_text("utf-8"))
    assert approval["call"]["input"] == {"command": "touch made"}
    assert approval["suggestions"] == ["shell(touch made)"]


def test_a_program_may_deny_with_its_reason(cli: Any, program: Any) -> None:
    done = run(cli, program("print(json.dumps({'decision': 'deny', 'reason': 'after hours'}))"))
    assert done.returncode == 0
    assert resolved(cli, done)["reason"] == "after hours"
    assert not (cli.workspace / "made").exists()


def test_a_program_may_change_the_input(cli: Any, program: Any) -> None:
    body = "a = json.load(sys.stdin)\na['call']['input']['command'] = 'touch other'\n"
    done = run(cli, program(body + "print(json.dumps({'decision': 'approve', 'updated_input': a['call']['input']}))"))
    assert done.returncode == 0
    assert (cli.workspace / "other").exists()
    assert not (cli.workspace / "made").exists()


def test_a_program_takes_arguments_and_no_shell(cli: Any, program: Any) -> None:
    approver = program("print(json.dumps({'decision': 'deny', 'reason': json.dumps(sys.argv[1:])}))")
    done = run(cli, f"{approver} 'a b' '$HOME' ; true")
    assert json.loads(resolved(cli, done)["reason"]) == ["a b", "$HOME", ";", "true"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.stderr.write('no \\x1b[31midea\\n'); sys.exit(3)", "exited with code 3"),
        ('print(\'{"decision": "approve"}\'); sys.exit(1)', "exited with code 1"),
        ("os.kill(os.getpid(), 9)", "signal 9"),
        ("pass", "printed nothing"),
        ("print('yes')", "other than exactly one JSON object"),
        ('print(\'{"decision": "approve"}\' * 2)', "other than exactly one JSON object"),
        ('print(\'[{"decision": "approve"}]\')', "other than exactly one JSON object"),
        ('print(\'{"decision": "allow"}\')', "no decision"),
        ("print('{}')", "no decision"),
        ('print(\'{"decision": "approve", "remember": "shel(l)"}\')', "remember"),
        ('print(\'{"decision": "approve", "updated_input": 5}\')', "updated_input"),
        ("print(' ' * 9_000_000 + '{\"decision\": \"approve\"}')", "more than"),
    ],
)
def test_anything_but_one_decision_is_a_denial_that_names_the_trouble(
    cli: Any, program: Any, body: str, words: str
) -> None:
    done = run(cli, program(body))
    assert done.returncode == 0
    answer = resolved(cli, done)
    assert answer["decision"] == "deny"
    assert words in answer["reason"]
    assert not (cli.workspace / "made").exists()
    assert b"\x1b" not in done.stderr


def test_a_program_that_changes_during_the_run_is_not_asked(cli: Any, program: Any) -> None:
    approver = program("print(json.dumps({'decision': 'approve'}))\nopen(sys.argv[0], 'a').write('#')")
    twice = [SCRIPT[0], {"tool": "Bash", "input": {"command": "touch again"}}, {"text": "done"}]
    done = cli.run(twice, "--approve-with", approver, "--json", "hello")
    answers = [event for event in cli.events(done) if event["type"] == "approval_resolved"]
    assert [answer["decision"] for answer in answers] == ["approve", "deny"]
    assert "not the program of the start" in answers[1]["reason"]


def test_an_interrupt_kills_the_program_and_what_it_started(cli: Any, program: Any, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    body = f"child = os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '300')\nopen({str(pids)!r}, 'w').write(str(child))"
    approver = program(body + "\ntime.sleep(300)")
    process = cli.start(*cli.arguments(SCRIPT, "--approve-with", approver, "hello"))
    child = int(pids.read_text("utf-8"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("'", "quote it"),
        ("", "names no program"),
        ("no-such-program-anywhere", "give its path"),
        ("/etc/passwd", "give its path"),
        (f"{sys.executable} no-such-script.py", "no-such-script.py"),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_program_that_cannot_be_used_ends_with_2(cli: Any, command: str, line: str, words: str) -> None:
    done = cli.interlock(*cli.arguments(SCRIPT, "--approve-with", line, "hello", command=command))
    assert done.returncode == 2
    assert f"--approve-with {line!r}" in done.stderr.decode()
    assert words in done.stderr.decode()


def test_a_program_where_the_agent_works_is_refused(cli: Any, program: Any) -> None:
    inside = cli.workspace / "approve.py"
    inside.write_bytes(Path(program("pass")).read_bytes())
    inside.chmod(0o755)
    for line in (str(inside), f"{sys.executable} {inside}"):
        done = run(cli, line)
        assert done.returncode == 2
        assert b"where the agent works" in done.stderr
