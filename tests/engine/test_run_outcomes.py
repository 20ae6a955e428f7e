"""How runs end by the agent's own doing: its terminal message is judged first, its exit second."""

import os
import signal
import time
from typing import Any

import anyio
import pytest

from interlock.engine import drive
from interlock.errors import RunFailed, StartFailed
from interlock.events import RunFinished, RunStarted, Text
from interlock.outcome import Reason, Status

pytestmark = pytest.mark.anyio

NO_END = [{"text": "partial"}]


async def test_a_run_completes_with_its_answer_one_start_first_and_one_finish_last(bench: Any) -> None:
    request = bench.request(
        [{"text": "I look."}, {"tool": "Bash", "input": {"command": "touch made"}}, {"text": "done"}]
    )
    with anyio.fail_after(10):
        async with bench.client() as client, client.stream(request) as run:
            events = await bench.events(run)
            outcome = await run.outcome(check=True)
    assert (outcome.status, outcome.reason, outcome.text, outcome.exit_code) == (Status.COMPLETED, None, "done", 0)
    assert outcome.tool_calls == 1
    assert (bench.workspace / "made").exists()
    assert [type(event) for event in (events[0], events[-1])] == [RunStarted, RunFinished]
    assert sum(isinstance(event, RunStarted | RunFinished) for event in events) == 2
    assert [event.seq for event in events] == list(range(len(events)))
    assert {event.run_id for event in events} == {run.id}
    assert events[-1].outcome == outcome
    bench.assert_nothing_left()


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"subtype": "success", "api_error_status": 429, "result": "slow down"}, Reason.RATE_LIMIT),
        ({"subtype": "success", "api_error_status": 400, "result": "no such thing"}, Reason.BAD_REQUEST),
        ({"subtype": "success", "api_error_status": 401, "result": "who are you"}, Reason.AUTH),
        ({"subtype": "success", "api_error_status": 529, "result": "busy"}, Reason.OVERLOADED),
        ({"subtype": "error_max_turns", "is_error": True, "errors": ["too many"]}, Reason.MAX_TURNS),
        ({"subtype": "error_during_execution", "is_error": True, "errors": ["broke"]}, Reason.API),
    ],
)
@pytest.mark.behaviour("outcome:is-error", "cancel:interrupt")
async def test_an_error_result_fails_whatever_its_subtype_and_exit_code_say(
    bench: Any, result: dict[str, Any], reason: Reason
) -> None:
    """`is_error` beats the subtype `success`; an interrupted turn that nobody interrupted has failed."""
    request = bench.request([*NO_END, {"error_result": result}])
    with anyio.fail_after(10):
        outcome = await bench.client().run(request, check=False)
    assert (outcome.status, outcome.reason) == (Status.FAILED, reason)
    assert outcome.message in {result.get("result"), "".join(result.get("errors", []))}
    assert outcome.api_status == result.get("api_error_status")


async def test_a_failed_run_raises_with_its_outcome_unless_told_not_to(bench: Any) -> None:
    request = bench.request([{"error_result": {"api_error_status": 401, "result": "who are you"}}])
    with anyio.fail_after(10), pytest.raises(RunFailed) as raised:
        await bench.client().run(request)
    assert raised.value.outcome.reason is Reason.AUTH
    assert "who are you" in str(raised.value)


@pytest.mark.parametrize("answer", ["", " \n"])
@pytest.mark.behaviour("outcome:empty")
async def test_an_empty_answer_is_no_output(bench: Any, answer: str) -> None:
    with anyio.fail_after(10):
        outcome = await bench.client().run(bench.request([{"text": answer}]), check=False)
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.FAILED, Reason.NO_OUTPUT, 0)


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.behaviour("process:silent-failure")
async def test_an_exit_with_nothing_said_is_never_success(bench: Any, code: int) -> None:
    request = bench.request(binary=bench.program(f"exit {code}"))
    with anyio.fail_after(10):
        outcome = await bench.client().run(request, check=False)
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.FAILED, Reason.CRASHED, code)
    assert outcome.text is None


async def test_a_crash_keeps_what_was_told_before_and_the_exit_code(bench: Any) -> None:
    request = bench.request([*NO_END, {"stderr": "panic: it broke\n"}, {"exit": 3}])
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            events = await bench.events(run)
            outcome = await run.outcome()
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.FAILED, Reason.CRASHED, 3)
    assert [event.text for event in events if isinstance(event, Text)] == ["partial"]
    assert outcome.stderr_tail == "panic: it broke\n"
    assert outcome.session_id is not None


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
async def test_a_death_by_signal_says_which(bench: Any, name: str) -> None:
    with anyio.fail_after(10):
        outcome = await bench.client().run(bench.request([*NO_END, {"die": name}]), check=False)
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.FAILED, Reason.CRASHED, None)
    assert outcome.signal == signal.Signals[name]


async def test_a_death_during_a_command_cuts_its_call_short_and_leaves_no_command(bench: Any) -> None:
    request = bench.request([bench.sleeper()])
    with anyio.fail_after(10), bench.listen() as heard:
        async with bench.client().stream(request) as run:
            pid = await heard.pid()
            agent = [int(line.split()[0]) for line in bench.survivors() if f"{pid} " not in line]
            assert agent
            os.kill(agent[0], signal.SIGKILL)
            events = await bench.events(run)
            outcome = await run.outcome()
            bench.assert_nothing_left()
    assert (outcome.status, outcome.reason, outcome.signal) == (Status.FAILED, Reason.CRASHED, signal.SIGKILL)
    assert [event.status for event in events if event.type == "tool_finished"] == ["error"]


@pytest.mark.behaviour("process:lingers")
async def test_an_agent_that_stays_after_its_result_is_ended_and_the_run_stays_completed(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ignores signals and never exits."""
    monkeypatch.setattr(drive, "EXIT_GRACE", 0.2)
    request = bench.request([{"ignore_term": True}, {"text": "done"}, {"end_turn": True}, {"hang": True}])
    began = time.monotonic()
    with anyio.fail_after(10):
        outcome = await bench.client().run(request, check=False)
    assert (outcome.status, outcome.text, outcome.signal) == (Status.COMPLETED, "done", 9)
    assert time.monotonic() - began < 6


@pytest.mark.parametrize("chatter", ["", "a line that is no message"])
@pytest.mark.behaviour("process:handshake")
async def test_an_exit_before_the_handshake_fails_at_once_with_the_text_of_stderr(bench: Any, chatter: str) -> None:
    request = bench.request([], binary=bench.program(f"echo '{chatter}'; echo 'bad install' >&2; exit 7"))
    began = time.monotonic()
    with anyio.fail_after(10):
        outcome = await bench.client().run(request, check=False)
    spent = time.monotonic() - began
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 7)
    assert outcome.reason is (Reason.PROTOCOL if chatter else Reason.CRASHED)
    assert outcome.stderr_tail == "bad install\n"
    assert chatter in outcome.stdout_noise
    assert spent < 2


async def test_a_program_that_cannot_be_executed_is_a_failed_start_and_leaves_nothing(bench: Any) -> None:
    binary = bench.program("exit 0", shell="/nowhere/sh")
    with anyio.fail_after(10), pytest.raises(StartFailed) as raised:
        await bench.client().run(bench.request(binary=binary))
    assert raised.value.argv0 == binary
    bench.assert_nothing_left()
