"""A run that is cancelled or interrupted ends with everything that it started, soon and whatever the agent does."""

import time
from typing import Any

import anyio
import pytest

from interlock.approval import Approval, Approve
from interlock.errors import NotOpen, RunEnded
from interlock.events import ApprovalRequested, ApprovalResolved, RunFinished, Text, ToolDecided, ToolFinished
from interlock.hooks import Allow, HookCall
from interlock.outcome import Reason, Status
from interlock.permission import Permission

pytestmark = pytest.mark.anyio

TOUCH = {"tool": "Bash", "input": {"command": "touch made"}}
ASK = Permission(posture="read", otherwise="ask")


async def test_cancel_ends_a_running_command_and_the_agent(bench: Any) -> None:
    with anyio.fail_after(10), bench.listen() as heard:
        async with bench.client().stream(bench.request([bench.sleeper()])) as run:
            await heard.pid()
            began = time.monotonic()
            await run.cancel()
            assert time.monotonic() - began < 1.5
            bench.assert_nothing_left()
            events = await bench.events(run)
            outcome = await run.outcome()
    assert (outcome.status, outcome.reason) == (Status.CANCELLED, None)
    assert [event.status for event in events if isinstance(event, ToolFinished)] == ["error"]
    assert isinstance(events[-1], RunFinished)


@pytest.mark.parametrize(
    "how", ["setsid sleep 600", "nohup sleep 600 & sleep 600", "(sleep 600 &) ; trap '' TERM; wait"]
)
async def test_cancel_ends_what_the_command_hides(bench: Any, how: str) -> None:
    with anyio.fail_after(10), bench.listen() as heard:
        async with bench.client().stream(bench.request([bench.sleeper(how)])) as run:
            await heard.pid()
            await run.cancel()
            bench.assert_nothing_left()


async def test_cancelling_twice_and_after_the_end_changes_nothing(bench: Any) -> None:
    with anyio.fail_after(10):
        async with bench.client().stream(bench.request([{"text": "done"}])) as run:
            first = await run.outcome(check=True)
            await run.cancel()
            await run.cancel()
            assert await run.outcome() == first


async def test_a_run_that_is_over_takes_no_more_input(bench: Any) -> None:
    with anyio.fail_after(10):
        async with bench.client().stream(bench.request([{"text": "done"}])) as run:
            await run.outcome(check=True)
            with pytest.raises(RunEnded):
                await run.interrupt()
            with pytest.raises(RunEnded):
                await run.send("more")


@pytest.mark.behaviour("cancel:early")
async def test_a_cancel_before_the_agent_is_ready_ends_it_at_once_and_no_tool_starts(bench: Any) -> None:
    script = {"before": [{"sleep": 600}], "turns": [[TOUCH]]}
    with anyio.fail_after(10):
        async with bench.client().stream(bench.request(script)) as run:
            began = time.monotonic()
            await run.cancel()
            outcome = await run.outcome()
    assert outcome.status is Status.CANCELLED
    assert time.monotonic() - began < 4.5
    assert not (bench.workspace / "made").exists()


@pytest.mark.behaviour("cancel:early")
async def test_an_interrupt_before_the_agent_is_ready_cancels_and_no_prompt_is_sent(bench: Any) -> None:
    with anyio.fail_after(10):
        async with bench.client().stream(bench.request([TOUCH, {"text": "done"}])) as run:
            await run.interrupt()
            outcome = await run.outcome()
    assert outcome.status is Status.CANCELLED
    assert not (bench.workspace / "made").exists()


@pytest.mark.behaviour("cancel:interrupt")
async def test_an_interrupt_ends_the_turn_as_cancelled(bench: Any) -> None:
    """The same error result without our interrupt is a failure, see the outcomes."""
    request = bench.request([{"text": "on"}, bench.sleeper(), {"text": "never"}])
    with anyio.fail_after(10), bench.listen() as heard:
        async with bench.client().stream(request) as run:
            await heard.pid()
            await run.interrupt()
            events = await bench.events(run)
            outcome = await run.outcome()
    assert (outcome.status, outcome.reason, outcome.signal) == (Status.CANCELLED, None, None)
    assert [event.text for event in events if isinstance(event, Text)] == ["on"]


@pytest.mark.behaviour("cancel:open-approval")
async def test_a_cancel_while_an_approval_is_open_resolves_it_as_cancelled(bench: Any) -> None:
    with anyio.fail_after(10):
        async with bench.client().stream(bench.request([TOUCH, {"text": "done"}], permission=ASK)) as run:
            asked = await bench.until(run, ApprovalRequested)
            await run.cancel()
            with pytest.raises(NotOpen):
                run.respond(asked.approval.id, Approve())
            events = await bench.events(run)
            outcome = await run.outcome()
    [resolved] = [event for event in events if isinstance(event, ApprovalResolved)]
    assert (resolved.id, resolved.decision, resolved.by) == (asked.approval.id, "deny", "cancelled")
    assert [event.decision for event in events if isinstance(event, ToolDecided)] == ["deny"]
    assert [denial.by for denial in outcome.denials] == ["cancelled"]
    assert outcome.status is Status.CANCELLED
    assert run.open_approvals == ()
    assert not (bench.workspace / "made").exists()


async def test_an_interrupt_while_an_approval_is_open_withdraws_it(bench: Any) -> None:
    with anyio.fail_after(10):
        async with bench.client().stream(bench.request([TOUCH, {"text": "done"}], permission=ASK)) as run:
            await bench.until(run, ApprovalRequested)
            await run.interrupt()
            events = await bench.events(run)
            outcome = await run.outcome()
    [resolved] = [event for event in events if isinstance(event, ApprovalResolved)]
    assert (resolved.decision, resolved.by) == ("withdrawn", "agent")
    assert outcome.status is Status.CANCELLED


@pytest.mark.parametrize("stubborn", [False, True], ids=["willing", "swallowing"])
async def test_a_cancel_while_a_hook_runs_cancels_the_hook(bench: Any, stubborn: bool) -> None:
    entered, left = anyio.Event(), anyio.Event()

    class Slow:
        name = "slow"
        deadline = 50.0

        async def before(self, call: HookCall) -> Allow:
            entered.set()
            try:
                await anyio.sleep(600)
            except anyio.get_cancelled_exc_class():
                if not stubborn:
                    raise
            finally:
                left.set()
            return Allow()

    with anyio.fail_after(10):
        async with bench.client(interceptors=[Slow()]) as client, client.stream(bench.request([TOUCH])) as run:
            await entered.wait()
            await run.cancel()
            outcome = await run.outcome()
    assert left.is_set()
    assert outcome.status is Status.CANCELLED
    assert not (bench.workspace / "made").exists()


async def test_a_cancel_while_an_approver_thinks_cancels_the_approver(bench: Any) -> None:
    entered, left = anyio.Event(), anyio.Event()

    async def approver(approval: Approval) -> Approve:
        entered.set()
        try:
            await anyio.sleep(600)
        finally:
            left.set()
        return Approve()

    with anyio.fail_after(10):
        client = bench.client(approver=approver)
        async with client.stream(bench.request([TOUCH], permission=ASK)) as run:
            await entered.wait()
            await run.cancel()
    assert left.is_set()
    assert not (bench.workspace / "made").exists()


@pytest.mark.parametrize("handler", ["hook", "approver"])
async def test_a_handler_that_shields_itself_does_not_hold_the_run_up(bench: Any, handler: str) -> None:
    entered, free = anyio.Event(), anyio.Event()

    async def wait() -> None:
        entered.set()
        with anyio.CancelScope(shield=True):
            await free.wait()

    class Slow:
        name = "slow"
        deadline = 50.0

        async def before(self, call: HookCall) -> Allow:
            if handler == "hook":
                await wait()
            return Allow()

    async def approver(approval: Approval) -> Approve:
        await wait()
        return Approve()

    with anyio.fail_after(10):
        async with bench.client(interceptors=[Slow()], approver=approver) as client:
            async with client.stream(bench.request([TOUCH], permission=ASK)) as run:
                await entered.wait()
                await run.cancel()
                outcome = await run.outcome()
                bench.assert_nothing_left()
            free.set()
    assert outcome.status is Status.CANCELLED
    assert not (bench.workspace / "made").exists()


@pytest.mark.behaviour("cancel:ignored")
async def test_an_agent_that_ignores_interrupts_and_signals_is_killed_within_the_ladder(bench: Any) -> None:
    request = bench.request([{"ignore_term": True}, {"text": "on"}, {"hang": True}])
    with anyio.fail_after(12):
        async with bench.client().stream(request) as run:
            await bench.until(run, Text)
            began = time.monotonic()
            await run.cancel()
            assert time.monotonic() - began < 8
            outcome = await run.outcome()
            bench.assert_nothing_left()
    assert (outcome.status, outcome.signal) == (Status.CANCELLED, 9)


async def test_a_cancel_with_a_full_mailbox_is_as_fast_as_any(bench: Any) -> None:
    request = bench.request([{"text": "x" * 60_000, "chunk": 4}, {"sleep": 600}])
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            await anyio.sleep(1)  # nobody reads: the mailbox fills, and the agent is held up
            began = time.monotonic()
            await run.cancel()
            assert time.monotonic() - began < 1.5
            outcome = await run.outcome()
    assert outcome.status is Status.CANCELLED


async def test_the_first_end_counts(bench: Any) -> None:
    """A limit that trips first is not made a cancellation by who leaves later, nor a result by what comes later."""
    with anyio.fail_after(10):
        async with bench.client().stream(bench.request([{"text": "on"}, {"sleep": 600}], limits={"idle": 0.3})) as run:
            await bench.until(run, RunFinished)
            await run.cancel()
            outcome = await run.outcome()
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, Reason.STALLED)
