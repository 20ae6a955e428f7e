"""`interlock batch` on scripted agents: tasks, results, exit codes, and looking at it from outside."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.batches import Batches

ESCAPE = "\x1b[2J\u202e"


@pytest.fixture
def batches(cli: Any, tmp_path: Path) -> Iterator[Batches]:
    made = Batches(cli, tmp_path)
    yield made
    made.bench.assert_nothing_left()


def test_a_line_a_result_goes_to_stdout_and_the_rest_to_stderr(batches: Batches) -> None:
    done = batches.begin(*(batches.line(f"r{n}", batches.ran(f"r{n}"), {"text": "ok"}) for n in range(3)))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert sorted(line.split()[:2] for line in lines) == [[f"r{n}", "completed"] for n in range(3)]
    said = done.stderr.decode()
    assert "3 of 3 runs counted: 3 completed" in said
    assert all(f"r{n} started\n" in said for n in range(3))
    assert batches.executions() == {"r0": 1, "r1": 1, "r2": 1}


def test_json_is_one_result_a_line_without_what_the_task_holds(batches: Batches) -> None:
    line = batches.line("r", {"text": "ok"})
    line["env"]["TOKEN"] = "hidden-value"
    done = batches.begin(line, more=("--json",))
    (found,) = [json.loads(one) for one in done.stdout.splitlines()]
    assert (found["run"], found["status"], found["outcome"]["text"]) == ("r", "completed", "ok")
    assert b"hidden-value" not in done.stdout + done.stderr


def test_results_come_in_the_order_of_the_tasks_if_wanted(batches: Batches) -> None:
    lines = [batches.line("slow", {"sleep": 0.7}, {"text": "ok"}), batches.line("quick")]
    done = batches.begin(*lines, more=("--order", "submitted"))
    assert [line.split()[0] for line in done.stdout.decode().splitlines()] == ["slow", "quick"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{not json}", ":2: it is not one JSON object"),
        ('{"agent": "claude", "prompt": "x", "colour": 1}', ":2: `colour`: Extra inputs are not permitted"),
        ('{"agent": "claude"}', ":2: `prompt`: Field required"),
        ('{"agent": "claude", "prompt": "x", "id": "../up"}', ":2: `id`: Value error, '../up' is no id"),
        ('{"agent": "nobody", "prompt": "x"}', "nobody"),
    ],
)
def test_a_bad_line_is_named_by_its_number_and_nothing_starts(batches: Batches, line: str, words: str) -> None:
    done = batches.begin(batches.line("r", batches.ran("r")), line)
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert not batches.out.exists()
    assert not batches.executions()


def test_an_id_twice_is_refused(batches: Batches) -> None:
    done = batches.begin(batches.line("r"), batches.line("r"))
    assert done.returncode == 2
    assert b"'r' is there twice" in done.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--per-agent", "claude"), b"write AGENT=N"),
        (("--per-agent", "cluade=2"), b"cluade"),
        (("--budget-usd", "-1"), b"--budget-usd"),
        (("--budget-usd", "1"), b"run_usd"),
        (("--workspace", "elsewhere"), b"--workspace 'elsewhere'"),
        (("--ignore", "*.pyc"), b"--workspace copy"),
        (("--order", "random"), b"completed or submitted"),
        (("--agents", "claude"), b"goes with --prompt"),
        (("--prompt", "x"), b"give one of the two"),
        (("--hooks", "/nowhere.json"), b"/nowhere.json"),
        (("--policy", "/nowhere.toml"), b"/nowhere.toml"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_starts(batches: Batches, more: Any, words: bytes) -> None:
    done = batches.begin(batches.line("r", batches.ran("r")), more=more)
    assert done.returncode == 2
    assert words in done.stderr
    assert b"Traceback" not in done.stderr
    assert not batches.executions()


def test_what_the_agent_cannot_do_is_said_before_the_first_run(batches: Batches) -> None:
    done = batches.begin(batches.line("r", permission={"posture": "full", "otherwise": "ask"}))
    assert done.returncode == 2
    assert b"otherwise" in done.stderr
    assert b"first task of claude, r" in done.stderr
    missing = batches.begin(batches.line("r", binary="/nowhere/claude"))
    assert missing.returncode == 2
    assert b"/nowhere/claude" in missing.stderr
    assert not batches.out.exists()


def test_one_failure_stops_no_other_and_decides_the_exit_code(batches: Batches) -> None:
    bad = batches.line("bad", {"error_result": {"subtype": "error_during_execution", "result": f"no{ESCAPE}"}})
    done = batches.begin(bad, batches.line("good"), more=("--retries", "0"))
    assert done.returncode == 1
    assert b"2 of 2 runs counted: 1 completed, 1 failed" in done.stderr
    assert b"run again what failed: interlock batch --out" in done.stderr
    assert b"\x1b" not in done.stdout + done.stderr
    assert "\u202e".encode() not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("steps", "more", "fields", "code"),
    [
        ([{"sleep": 60}], ("--attempt-timeout", "1"), {}, 3),
        ([{"text": "ok"}], (), {"resume": 1}, 2),
        ([{"skip_hooks": True}, {"tool": "Bash", "input": {"command": "true"}}], (), {}, 4),
    ],
)
def test_the_exit_code_tells_the_worst(batches: Batches, steps: Any, more: Any, fields: Any, code: int) -> None:
    if "resume" in fields:
        fields = {"permission": {"posture": "full", "otherwise": "ask"}}
    done = batches.begin(batches.line("good"), batches.line("bad", *steps, **fields), more=more)
    assert done.returncode == code, done.stderr


def test_only_failed_runs_again_what_failed_and_nothing_else(batches: Batches) -> None:
    command = f"test -e {batches.folder}/gate && echo mended >> {batches.folder}/ledger"
    step = {"tool": "Bash", "input": {"command": command}}
    bad = batches.line("bad", step, {"sleep": 2}, {"text": "ok"})
    done = batches.begin(
        bad, batches.line("good", batches.ran("good"), {"text": "ok"}), more=("--attempt-timeout", "1")
    )
    assert done.returncode == 3
    assert [run["run"] for run in batches.status("--only-failed")[:-1]] == ["bad"]
    batches.open_gate()
    done = batches.again("--only-failed", "--attempt-timeout", "30")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.decode().splitlines()] == ["bad"]
    assert batches.executions() == {"good": 1, "mended": 1}


def test_denials_are_summed_with_the_option_that_allows_them(batches: Batches) -> None:
    step = {"tool": "Bash", "input": {"command": "rm x"}}
    lines = [batches.line(f"r{n}", step, {"text": "ok"}, permission={"posture": "read"}) for n in range(2)]
    done = batches.begin(*lines)
    assert done.returncode == 0
    assert b"denied: Bash (policy): allow it with --allow 'shell(rm x)' (2 times)" in done.stderr
    assert b"2 denied calls" in done.stderr


def test_hooks_stay_when_a_batch_goes_on_without_naming_them(batches: Batches) -> None:
    guard = batches.folder / "guard"
    guard.write_text('#!/bin/sh\necho \'{"decision":"deny","reason":"never"}\'\n', "utf-8")
    guard.chmod(0o755)
    hooks = batches.folder / "hooks.json"
    entry = {"name": "guard", "command": [str(guard)], "events": ["pre_tool_use"], "tools": ["*"]}
    hooks.write_text(json.dumps({"schema": 1, "hooks": [entry]}), "utf-8")
    line = batches.line("r", batches.ran("r"), {"sleep": 60})
    assert batches.begin(line, more=("--hooks", str(hooks), "--attempt-timeout", "1")).returncode == 3
    done = batches.again("--only-failed")
    assert done.returncode == 3
    assert b"never" in done.stderr
    hooks.unlink()
    assert batches.again("--only-failed").returncode == 2
    assert not batches.executions()


def test_a_batch_of_which_nothing_is_known_does_not_go_on_by_itself(batches: Batches) -> None:
    line = batches.line("r", batches.ran("r"), {"text": "ok"})
    batches.begin(line)
    (batches.out / "command.json").unlink()
    assert b"give the command that began it" in batches.again("--only-failed").stderr
    assert batches.begin(line).returncode == 0
    assert batches.executions() == {"r": 1}


def test_other_tasks_and_an_empty_folder_are_refused(batches: Batches) -> None:
    assert batches.again().returncode == 2
    batches.begin(batches.line("r"))
    changed = batches.begin(batches.line("r", {"text": "other"}))
    assert changed.returncode == 2
    assert b"is not the one it was begun with" in changed.stderr
    assert batches.again("--posture", "full").returncode == 2


def test_copies_leave_the_directory_alone(batches: Batches) -> None:
    line = batches.line("r", {"tool": "Bash", "input": {"command": "echo x > made"}}, {"text": "ok"})
    done = batches.begin(line, more=("--workspace", "copy"))
    assert done.returncode == 0
    assert not (Path(line["cwd"]) / "made").exists()
    assert [path.name for path in batches.folder.glob("out.work/r/*/*")] == ["made"]


def test_approvals_are_answered_by_a_program(batches: Batches) -> None:
    yes = batches.folder / "yes"
    yes.write_text('#!/bin/sh\necho \'{"decision":"approve"}\'\n', "utf-8")
    yes.chmod(0o755)
    asks = {"posture": "read", "otherwise": "ask"}
    lines = [batches.line(f"r{n}", batches.ran(f"r{n}"), {"text": "ok"}, permission=asks) for n in range(2)]
    done = batches.begin(*lines, more=("--approve-with", str(yes)))
    assert done.returncode == 0, done.stderr
    assert batches.executions() == {"r0": 1, "r1": 1}
    inside = Path(lines[0]["cwd"]) / "yes"
    inside.write_bytes(yes.read_bytes())
    inside.chmod(0o755)
    refused = batches.again("--only-failed", "--approve-with", str(inside))
    assert refused.returncode == 2
    assert b"it lies where the agent works" in refused.stderr


def test_a_budget_that_is_used_up_is_a_bound_and_a_larger_one_goes_on(batches: Batches) -> None:
    lines = [batches.line(f"r{n}", batches.ran(f"r{n}"), {"text": "ok"}) for n in range(3)]
    done = batches.begin(*lines, more=("--budget-tokens", "300", "--run-tokens", "300"))
    assert done.returncode == 3
    assert b"2 runs without a result yet (the budget does not pay for another run" in done.stderr
    done = batches.again("--budget-tokens", "3000")
    assert done.returncode == 0, done.stderr
    assert batches.executions() == {"r0": 1, "r1": 1, "r2": 1}


def test_a_matrix_of_one_prompt(batches: Batches) -> None:
    for name in ("a", "b"):
        (batches.folder / name).mkdir()
    dirs = f"{batches.folder}/a,{batches.folder}/b"
    request = ("--binary", batches.program, "--login", "env", "--posture", "full")
    step = {"tool": "Bash", "input": {"command": "touch here"}}
    matrix = ("--prompt", json.dumps([step, {"text": "ok"}]), "--agents", "claude", "--models", "m1,claude:m2,codex:x")
    arguments = ("batch", *matrix, "--dirs", dirs, "--out", str(batches.out), *request)
    done = batches.cli.interlock(*arguments)
    assert done.returncode == 0, done.stderr
    runs = [run["run"] for run in batches.status()[:-1]]
    assert runs == ["0001-claude-m1-a", "0002-claude-m1-b", "0003-claude-m2-a", "0004-claude-m2-b"]
    assert all((batches.folder / name / "here").exists() for name in ("a", "b"))
    assert batches.cli.interlock(*arguments).returncode == 0


def test_a_prompt_wants_agents_and_directories_that_exist(batches: Batches) -> None:
    for more, words in (((), b"--agents"), (("--agents", "claude", "--dirs", "nowhere"), b"--dirs 'nowhere'")):
        done = batches.cli.interlock("batch", "--prompt", "x", "--out", str(batches.out), *more)
        assert done.returncode == 2
        assert words in done.stderr


def test_a_file_called_as_a_command_is_runs_with_its_path(batches: Batches) -> None:
    path = batches.folder / "status"
    path.write_text(json.dumps(batches.line("r")) + "\n", "utf-8")
    for words in (("batch", "run", "status"), ("batch", "./status")):
        done = batches.cli.start(*words, "--out", "out", cwd=batches.folder)
        assert done.wait(30) == 0
        done.communicate()
    assert batches.cli.interlock("batch").returncode == 2
    assert b"Commands:" in batches.cli.interlock("batch", "--help").stdout


def test_show_tells_of_one_run(batches: Batches) -> None:
    batches.begin(batches.line("r", {"text": f"the answer{ESCAPE}"}))
    shown = batches.cli.interlock("batch", "show", str(batches.out), "r")
    assert shown.returncode == 0
    assert b"r completed in" in shown.stdout
    assert b"the answer\\x1b[2J\\u202e" in shown.stdout
    told = json.loads(batches.cli.interlock("batch", "show", str(batches.out), "r", "--json").stdout)
    assert told["run"]["attempts"][0]["state"] == "counted"
    assert (Path(told["files"]) / "events.jsonl").exists()
    unknown = batches.cli.interlock("batch", "show", str(batches.out), f"x{ESCAPE}")
    assert unknown.returncode == 2
    assert b"\x1b" not in unknown.stderr
    assert batches.cli.interlock("batch", "show", str(batches.folder), "r").returncode == 2


def test_a_folder_that_was_damaged_is_said_to_be(batches: Batches) -> None:
    batches.begin(batches.line("r"))
    journal = batches.out / "batch.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"seq":1,', b'"seq":7,', 1))
    for done in (batches.again(), batches.cli.interlock("batch", "status", str(batches.out))):
        assert done.returncode == 1
        assert b"batch.jsonl:" in done.stderr
