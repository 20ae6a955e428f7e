"""`interlock run` against the scripted agent, as a program among programs: exit codes, streams, signals."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from interlock.events import event_adapter

ANSWER = [{"text": "the answer"}]
TOUCH = {"tool": "Bash", "input": {"command": "touch made"}}
PATIENT = [{"text": "I start."}, {"sleep": 60}]


def test_the_answer_alone_is_on_stdout_and_the_rest_on_stderr(cli: Any) -> None:
    done = cli.run([{"text": "First I look."}, TOUCH, {"text": "the answer"}], "--posture", "full", "hello")
    assert done.returncode == 0
    assert done.stdout == b"the answer\n"
    assert b"> Bash touch made" in done.stderr
    assert b"completed in" in done.stderr
    assert (cli.workspace / "made").exists()


def test_to_a_pipe_the_answer_is_written_as_it_is_whatever_the_locale(cli: Any) -> None:
    text = "naïve \x1b[31m日本\u202e\r\n"
    done = cli.run([{"text": text}], "hello", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0
    assert done.stdout == text.encode()


def test_a_denied_call_is_not_a_failed_run_and_the_last_line_says_how_to_allow_it(cli: Any) -> None:
    done = cli.run([TOUCH, {"text": "I could not."}], "hello")
    assert done.returncode == 0
    last = done.stderr.decode().splitlines()[-1]
    assert last == "denied: Bash \"touch made\" (policy): allow it with --allow 'shell(touch made)'"
    assert not (cli.workspace / "made").exists()
    again = cli.run([TOUCH, {"text": "I could."}], "--allow", "shell(touch made)", "hello")
    assert again.returncode == 0
    assert (cli.workspace / "made").exists()


def test_json_is_one_event_a_line_and_nothing_else(cli: Any) -> None:
    done = cli.run([TOUCH, {"text": "I could\u2028 not."}], "--json", "hello")
    assert done.returncode == 0
    lines = done.stdout.split(b"\n")
    assert lines.pop() == b""
    parsed = [event_adapter().validate_json(line) for line in lines]
    kinds = [event.type for event in parsed]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_finished")
    assert kinds.count("run_finished") == 1
    assert [event.seq for event in parsed] == list(range(len(parsed)))
    assert parsed[-1].outcome.text == "I could\u2028 not."
    assert done.stderr.decode().splitlines()[-1].startswith("denied: Bash")


def test_with_json_a_failure_is_on_stdout_as_an_event_and_on_stderr_in_words(cli: Any) -> None:
    done = cli.run([{"error_result": {"api_error_status": 401}}], "--json", "hello")
    assert done.returncode == 1
    assert cli.events(done)[-1]["outcome"]["status"] == "failed"
    assert b"claude run failed" in done.stderr


def test_a_failed_run_ends_with_1_and_says_why(cli: Any) -> None:
    done = cli.run([{"stderr": "no \x1b[31mluck\n"}, {"exit": 3}], "hello")
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"claude run failed" in done.stderr
    assert b"\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--effort", "frantic"), ("--effort frantic", "--effort high")),
        (("--otherwise", "ask"), ("--otherwise ask", "nobody is there", "--approve-with PROGRAM")),
        (("--otherwise", "chain", "--effort", "frantic"), ("--otherwise chain", "--effort frantic")),
        (("--binary", "/no/such/claude"), ("/no/such/claude", "--binary PATH")),
        (("--hooks", "/no/such/hooks.json"), ("/no/such/hooks.json",)),
        (("--transport", "pigeon"), ("pigeon", "stream-json")),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_what_cannot_be_ends_with_2_and_every_reason_before_anything_starts(
    cli: Any, command: str, more: tuple[str, ...], words: tuple[str, ...]
) -> None:
    arguments = cli.arguments([{"text": "never"}], *more, "--json", "hello", command=command)
    done = cli.interlock(*arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    for word in words:
        assert word in done.stderr.decode()


def test_an_unknown_agent_ends_with_2_and_names_those_there_are(cli: Any) -> None:
    done = cli.interlock("run", "-a", "cluade", "hello")
    assert done.returncode == 2
    assert b"cluade" in done.stderr
    assert b"claude" in done.stderr


def test_a_bound_that_trips_ends_with_3(cli: Any) -> None:
    done = cli.run(PATIENT, "--timeout", "0.5", "hello")
    assert done.returncode == 3
    assert b"timed_out" in done.stderr


def test_a_broken_promise_ends_with_4(cli: Any) -> None:
    done = cli.run([{"skip_hooks": True}, TOUCH, {"text": "I did it unasked."}], "--posture", "full", "hello")
    assert done.returncode == 4
    assert b"UNGUARDED" in done.stderr


def test_the_prompt_comes_from_stdin_where_none_or_a_dash_is_given(cli: Any) -> None:
    prompt = json.dumps([{"text": "from stdin: é"}]).encode()
    for more in ((), ("-",)):
        assert cli.run([], *more, stdin=prompt).stdout == "from stdin: é\n".encode()


def test_a_prompt_that_begins_with_a_dash_stands_behind_two(cli: Any) -> None:
    done = cli.run([{"text": "ok"}], "--", "--help me")
    assert done.returncode == 0
    assert done.stdout == b"ok\n"


def test_a_question_of_the_agent_is_declined_where_nobody_is_there(cli: Any) -> None:
    asked = {"ask_question": [{"question": "Which?", "header": "h", "options": [{"label": "a"}, {"label": "b"}]}]}
    done = cli.run([asked, {"text": "Then not."}], "--json", "hello")
    assert done.returncode == 0
    resolved = [event for event in cli.events(done) if event["type"] == "approval_resolved"]
    assert [event["decision"] for event in resolved] == ["declined"]


def test_the_audit_file_holds_every_decision(cli: Any, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    cli.run([TOUCH, {"text": "no"}], "--audit", str(audit), "hello")
    assert "touch" not in audit.name
    assert [json.loads(line)["tool_name"] for line in audit.read_text("utf-8").splitlines()] == ["Bash"]


def test_hooks_of_a_file_take_part(cli: Any, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks.json"
    answer = '{"decision": "deny", "reason": "not on a Monday"}'
    spec = {"name": "calendar", "command": ["/bin/sh", "-c", f"echo '{answer}'"]}
    hooks.write_text(json.dumps({"schema": 1, "hooks": [spec]}), encoding="utf-8")
    done = cli.run([TOUCH, {"text": "no"}], "--posture", "full", "--hooks", str(hooks), "hello")
    assert done.returncode == 0
    assert b"not on a Monday" in done.stderr.splitlines()[-1]
    assert not (cli.workspace / "made").exists()


# ---- streams that are not what they should be -----------------------------------------------------------------------


@pytest.mark.parametrize("more", [("--json",), ()])
def test_a_reader_who_goes_away_ends_the_run_quietly(cli: Any, more: tuple[str, ...]) -> None:
    script = [*({"text": f"{n} " * 2000} for n in range(50)), {"sleep": 60} if more else {"text": "end"}]
    process = cli.start(*cli.arguments(script, *more, "hello"))
    assert process.stdout is not None
    assert process.stderr is not None
    if more:
        process.stdout.readline()
    process.stdout.close()
    stderr = process.stderr.read()
    assert b"Traceback" not in stderr
    assert b"rror" not in stderr
    assert process.wait(20) == (130 if more else 0)


def test_a_full_disk_is_a_failure_that_is_named(cli: Any) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 -- a device
        process = cli.start(*cli.arguments(ANSWER, "hello"), stdout=full)
    assert process.stderr is not None
    assert b"stdout cannot be written: No space left" in process.stderr.read()
    assert process.wait(20) == 1


def test_a_closed_stdout_or_stdin_lends_its_number_to_nobody(cli: Any) -> None:
    line = 'exec "$@" <&- >&- 2>&-'
    arguments = cli.arguments([TOUCH, {"text": "x" * 5000}], "--posture", "full", "hello")
    program = ["/bin/sh", "-c", line, "sh", *cli.start("--version").args[:3]]  # type: ignore[index]  # a list
    done = subprocess.run([*program, *arguments], env=cli.env, timeout=40, check=False)
    assert done.returncode == 0
    assert (cli.workspace / "made").exists()


# ---- signals -------------------------------------------------------------------------------------------------------


def started(process: "subprocess.Popen[bytes]") -> None:
    """Wait until the agent has said something."""
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["type"] == "text":
            return


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_the_run_and_its_last_event_is_still_written(cli: Any, number: signal.Signals) -> None:
    process = cli.start(*cli.arguments(PATIENT, "--json", "hello"))
    started(process)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert json.loads(stdout.splitlines()[-1])["outcome"]["status"] == "cancelled"
    assert b"Traceback" not in stderr


def test_a_second_interrupt_leaves_at_once_and_nothing_stays_behind(cli: Any, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    orphan = ["/bin/sh", "-c", f"echo $$ > {pids}; exec sleep 300"]
    script = [{"ignore_term": True}, {"spawn_orphan": orphan}, {"text": "I start."}, {"hang": True}]
    process = cli.start(*cli.arguments(script, "--json", "hello"))
    started(process)
    orphan_pid = int(pids.read_text("utf-8"))
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while b"interrupted" not in process.stderr.readline():
        assert process.poll() is None
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert time.monotonic() - begin < 2
    gone(orphan_pid)


def test_an_interrupt_before_the_agent_is_ready_ends_it_as_well(cli: Any) -> None:
    process = cli.start(*cli.arguments({"turns": [], "before": [{"sleep": 60}]}, "--json", "hello"))
    assert json.loads(process.stdout.readline())["type"] == "run_started"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert json.loads(stdout.splitlines()[-1])["outcome"]["status"] == "cancelled"
    assert b"Traceback" not in stderr


def gone(pid: int) -> None:
    """Wait until no such process is left."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    raise AssertionError(pid)


def test_an_interrupt_ends_a_run_whose_reader_reads_no_more(cli: Any) -> None:
    script = [*({"text": f"{n} " * 20_000} for n in range(20)), {"sleep": 60}]
    process = cli.start(*cli.arguments(script, "--json", "hello"))
    started(process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert b"interrupted" in process.stderr.read()
    assert process.wait(20) == 130
