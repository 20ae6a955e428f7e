"""Bounds on a run: they measure the agent, hold whatever it does, and stand still while somebody is asked."""

import time
from typing import Any

import anyio
import pytest

from interlock.approval import Approval, Approve
from interlock.events import ApprovalRequested, Retrying, Text
from interlock.hooks import Allow, HookCall
from interlock.outcome import Reason, Status
from interlock.permission import Permission

pytestmark = pytest.mark.anyio

TOUCH = {"tool": "Bash", "input": {"command": "touch made"}}
ASK = Permission(posture="read", otherwise="ask")


@pytest.mark.behaviour("process:never-ready", "process:handshake")
async def test_an_agent_that_is_never_ready_is_stalled_after_the_start_up_limit(bench: Any) -> None:
    """It reads everything and answers nothing."""
    request = bench.request(binary=bench.program("cat >/dev/null"), limits={"start_up": 0.3})
    with anyio.fail_after(10):
        outcome = await bench.client().run(request, check=False)
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, Reason.STALLED)
    assert "start-up" in outcome.message


@pytest.mark.behaviour("process:handshake")
async def test_a_slow_start_within_the_limit_works_and_does_not_count_as_idle(bench: Any) -> None:
    """The idle limit measures progress, and before the prompt there is none to be made."""
    request = bench.request(
        {"before": [{"sleep": 1.2}], "turns": [[{"text": "done"}]]}, limits={"start_up": 9, "idle": 0.8}
    )
    with anyio.fail_after(10):
        outcome = await bench.client().run(request)
    assert outcome.text == "done"


@pytest.mark.parametrize(
    "stall",
    [
        [{"sleep": 600}],
        [{"retry_notice": 1000, "every": 0.1}],
        [{"rate_limit_event": {"status": "allowed"}}, {"sleep": 600}],
        [{"hang": True}],
    ],
    ids=["silence", "retries", "notices", "deafness"],
)
@pytest.mark.behaviour("process:stall")
async def test_without_progress_a_run_is_stalled_and_keeps_what_was_told(
    bench: Any, stall: list[dict[str, Any]]
) -> None:
    """Retries and notices are no progress."""
    request = bench.request([{"text": "partial"}, {"stderr": "waiting\n"}, *stall], limits={"idle": 0.6, "total": 60})
    with anyio.fail_after(12):
        async with bench.client().stream(request) as run:
            events = await bench.events(run)
            outcome = await run.outcome()
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, Reason.STALLED)
    assert [event.text for event in events if isinstance(event, Text)] == ["partial"]
    assert outcome.stderr_tail == "waiting\n"
    bench.assert_nothing_left()


async def test_progress_keeps_a_run_going_past_its_idle_limit(bench: Any) -> None:
    steps = [step for _ in range(6) for step in ({"text": "on"}, {"sleep": 0.2})]
    with anyio.fail_after(10):
        outcome = await bench.client().run(bench.request([*steps, {"text": "done"}], limits={"idle": 0.8}))
    assert outcome.text == "done"


@pytest.mark.behaviour("process:stall")
async def test_the_total_limit_ends_a_run_that_gets_on_for_ever(bench: Any) -> None:
    """A retry notice at short intervals is an event each, and no reason to go on."""
    request = bench.request(
        [{"text": "partial"}, {"retry_notice": 1000, "every": 0.05}], limits={"total": 0.8, "idle": None}
    )
    began = time.monotonic()
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            events = await bench.events(run)
            outcome = await run.outcome()
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, Reason.DEADLINE)
    assert sum(isinstance(event, Retrying) for event in events) > 3
    assert time.monotonic() - began < 4


async def test_a_stalled_command_ends_with_its_run(bench: Any) -> None:
    with anyio.fail_after(10), bench.listen() as heard:
        async with bench.client().stream(bench.request([bench.sleeper()], limits={"idle": 1})) as run:
            await heard.pid()
            outcome = await run.outcome()
            bench.assert_nothing_left()
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, Reason.STALLED)


async def test_limits_stand_still_while_an_approval_waits(bench: Any) -> None:
    request = bench.request([TOUCH, {"text": "done"}], permission=ASK, limits={"total": 1.5, "idle": 0.7})
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            asked = await bench.until(run, ApprovalRequested)
            await anyio.sleep(2)  # longer than any limit: what is tested is that time passes and nothing happens
            run.respond(asked.approval.id, Approve())
            outcome = await run.outcome()
    assert outcome.text == "done"
    assert (bench.workspace / "made").exists()


async def test_limits_stand_still_while_an_approver_or_the_chain_thinks(bench: Any) -> None:
    class Slow:
        name = "slow"

        async def before(self, call: HookCall) -> Allow:
            await anyio.sleep(1)
            return Allow()

    async def approver(approval: Approval) -> Approve:
        await anyio.sleep(1)
        return Approve()

    request = bench.request([TOUCH, {"text": "done"}], permission=ASK, limits={"total": 1.2, "idle": 0.7})
    with anyio.fail_after(10):
        async with bench.client(interceptors=[Slow()], approver=approver) as client:
            outcome = await client.run(request)
    assert outcome.text == "done"


async def test_limits_stand_still_while_the_reader_of_the_events_is_slow(bench: Any) -> None:
    request = bench.request([{"text": "x" * 40_000, "chunk": 8}, {"text": "done"}], limits={"idle": 0.5, "total": 4})
    with anyio.fail_after(20):
        async with bench.client().stream(request) as run:
            async for _ in run:
                await anyio.sleep(1)
                break
            events = await bench.events(run)
            outcome = await run.outcome()
    assert outcome.text == "done"
    assert sum(event.type == "text_delta" for event in events) > 4096
