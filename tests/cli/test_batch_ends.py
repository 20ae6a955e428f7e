"""`interlock batch` when it is killed, interrupted, or driven twice."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.batch.conftest import until_gone, until_swept
from tests.cli.batches import Batches


@pytest.fixture
def batches(cli: Any, tmp_path: Path) -> Iterator[Batches]:
    made = Batches(cli, tmp_path)
    yield made
    assert until_gone(made.bench, 5.0) == []


def waiting(batches: Batches, *more: str) -> subprocess.Popen[bytes]:
    """A batch of which two runs are counted, two wait at the gate, and two have not begun."""
    lines = [batches.line(f"r{n}", batches.ran(f"r{n}"), {"text": "ok"}) for n in (1, 2)]
    lines += [
        batches.line(f"r{n}", batches.until_gate(f"r{n}"), batches.ran(f"r{n}"), {"text": "ok"}) for n in (3, 4, 5, 6)
    ]
    with batches.listen() as heard:
        process = batches.start(*lines, more=("-j", "2", *more))
        for _ in range(2):
            heard.pid_within(30)
    return process


ALL_ONCE = {f"r{n}": 1 for n in range(1, 7)}


@pytest.mark.behaviour("batch:killed")
def test_a_batch_that_is_killed_goes_on_with_what_is_not_counted(batches: Batches) -> None:
    process = waiting(batches)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    states = {run["run"]: run["status"] for run in batches.status()[:-1]}
    assert states == {"r1": "completed", "r2": "completed", **dict.fromkeys(("r3", "r4", "r5", "r6"))}
    told = batches.cli.interlock("batch", "status", str(batches.out)).stdout
    assert b"r3 waiting (its driver was killed)" in told
    assert b"nobody drives it; the last driver was killed; go on with: interlock batch --out" in told
    batches.open_gate()
    done = batches.again()
    assert done.returncode == 0, done.stderr
    assert b"2 of them counted before" in done.stderr
    assert sorted(line.split()[0] for line in done.stdout.decode().splitlines()) == ["r3", "r4", "r5", "r6"]
    assert batches.executions() == ALL_ONCE
    assert b"6 of 6 runs counted: 6 completed" in batches.begin_same().stderr
    assert batches.executions() == ALL_ONCE
    assert until_swept(batches.bench) == []


@pytest.mark.behaviour("batch:cancel")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_and_says_how_to_go_on(batches: Batches, number: signal.Signals) -> None:
    process = waiting(batches)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    batches.bench.assert_nothing_left()
    assert b"interrupted: ending 2 running runs" in stderr
    assert b"4 runs without a result yet (it was interrupted); go on: interlock batch --out" in stderr
    assert b"Traceback" not in stderr
    assert len(stdout.splitlines()) == 2
    batches.open_gate()
    assert batches.again().returncode == 0
    assert batches.executions() == ALL_ONCE


def test_a_second_interrupt_leaves_at_once_and_nothing_stays_behind(batches: Batches) -> None:
    line = batches.line("r", {"ignore_term": True}, batches.until_gate("r"), {"hang": True})
    with batches.listen() as heard:
        process = batches.start(line, batches.line("stubborn", {"ignore_term": True}, {"hang": True}))
        heard.pid_within(30)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while b"interrupted" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert until_gone(batches.bench, 10.0) == []


def test_a_reader_of_stdout_who_goes_away_ends_the_batch(batches: Batches) -> None:
    with batches.listen() as heard:
        process = batches.start(
            batches.line("r1", {"text": "ok"}),
            batches.line("r2", {"sleep": 1}),
            batches.line("r3", batches.until_gate("r3")),
        )
        heard.pid_within(30)
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        stderr = process.stderr.read()
    assert process.wait(30) == 130
    assert b"1 run without a result yet" in stderr
    batches.bench.assert_nothing_left()


@pytest.mark.behaviour("batch:second-driver")
def test_status_is_seen_while_it_runs_and_a_second_driver_is_refused(batches: Batches) -> None:
    process = waiting(batches)
    *runs, sums = batches.status()
    states = [(run["status"], [attempt["state"] for attempt in run["attempts"]]) for run in runs]
    assert states[:3] == [("completed", ["counted"]), ("completed", ["counted"]), (None, ["running"])]
    assert str(process.pid) in sums["driven_by"]
    told = batches.cli.interlock("batch", "status", str(batches.out)).stdout
    assert b"r3 running\n" in told
    assert b"r5 waiting\n" in told
    shown = batches.cli.interlock("batch", "show", str(batches.out), "r3").stdout
    assert b"attempt 1 running" in shown
    second = batches.again()
    assert second.returncode == 1
    assert b"another driver has it" in second.stderr
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)


EXHAUSTED = (
    {"rate_limit_event": {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": 4_000_000_000}},
    {"error_result": {"api_error_status": 429, "subtype": "success", "result": "the limit is reached"}},
)


def test_an_agent_that_is_paused_is_said_with_its_time_and_can_be_waited_for(batches: Batches) -> None:
    tomorrow = int(time.time()) + 86_400
    limits, error = EXHAUSTED
    limits = {"rate_limit_event": {**limits["rate_limit_event"], "resetsAt": tomorrow}}
    told = f"claude is paused until {time.strftime('%Y-', time.localtime(tomorrow))}".encode()
    process = batches.start(batches.line("r", limits, error))
    assert process.stderr is not None
    while told not in (line := process.stderr.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    stderr = process.stderr.read()
    assert process.wait(30) == 130
    assert told in stderr
    assert b"1 run without a result yet" in stderr


def test_who_does_not_want_to_wait_that_long_is_told_how_to_go_on(batches: Batches) -> None:
    done = batches.begin(batches.line("r", *EXHAUSTED), more=("--longest-pause", "60"))
    assert done.returncode == 1
    assert b"claude is paused until 2096-" in done.stderr
    assert b"1 run without a result yet (agents are paused); go on: interlock batch --out" in done.stderr
