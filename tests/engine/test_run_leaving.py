"""However a caller leaves a run, nothing of it is left: no process, no folder, no warning, no noise."""

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import anyio
import pytest
import trio

from interlock.engine.run import Run
from interlock.events import Event, RunStarted, Text
from interlock.outcome import Status

pytestmark = pytest.mark.anyio


Main = Callable[[], Coroutine[Any, Any, None]]


class Left(Exception):
    """What a caller raises inside the block."""


@pytest.mark.behaviour("process:leaving")
async def test_breaking_out_of_the_loop_and_the_block_cancels(bench: Any) -> None:
    with anyio.fail_after(10), bench.listen() as heard:
        async with bench.client().stream(bench.request([bench.sleeper()])) as run:
            await heard.pid()
            async for event in run:
                assert isinstance(event, RunStarted)
                break
        bench.assert_nothing_left()
        outcome = await run.outcome()
    assert outcome.status is Status.CANCELLED


async def test_leaving_the_block_at_once_cancels(bench: Any) -> None:
    with anyio.fail_after(10):
        async with bench.client().stream(bench.request([{"text": "on"}, {"sleep": 600}])) as run:
            pass
        bench.assert_nothing_left()
        assert (await run.outcome()).status is Status.CANCELLED


async def test_an_exception_in_the_block_passes_through_as_it_is(bench: Any) -> None:
    with anyio.fail_after(10), bench.listen() as heard:

        async def leave() -> None:
            async with bench.client().stream(bench.request([bench.sleeper()])):
                await heard.pid()
                raise Left

        with pytest.raises(Left):
            await leave()
        bench.assert_nothing_left()


async def test_a_cancel_scope_round_the_block_ends_the_run_before_it_is_left(bench: Any) -> None:
    with anyio.fail_after(10), bench.listen() as heard:
        with anyio.CancelScope() as scope:
            async with bench.client().stream(bench.request([bench.sleeper()])) as run:
                await heard.pid()
                scope.cancel()
                async for _ in run:
                    pass
        assert scope.cancelled_caught
        bench.assert_nothing_left()
        assert (await run.outcome()).status is Status.CANCELLED


async def test_a_cancel_scope_round_run_ends_it(bench: Any) -> None:
    with anyio.fail_after(10), bench.listen() as heard:
        async with anyio.create_task_group() as group:
            group.start_soon(bench.client().run, bench.request([bench.sleeper()]))
            await heard.pid()
            group.cancel_scope.cancel()
        bench.assert_nothing_left()


@pytest.mark.parametrize("checkpoints", range(0, 12, 3))
async def test_a_cancel_during_the_start_leaves_nothing(bench: Any, checkpoints: int) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(bench.client().run, bench.request([{"text": "on"}, {"sleep": 600}]))
            for _ in range(checkpoints):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        bench.assert_nothing_left()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_task_cancel_ends_the_run(bench: Any) -> None:
    async def consume() -> None:
        async with bench.client().stream(bench.request([bench.sleeper()])) as run:
            async for _ in run:
                pass

    with anyio.fail_after(10), bench.listen() as heard:
        task = asyncio.create_task(consume())
        await heard.pid()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        bench.assert_nothing_left()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_impatient_native_cancel_still_ends_the_run(bench: Any) -> None:
    """The second cancel cuts the waiting short, not the way down."""
    client = bench.client()

    async def consume() -> None:
        async with client.stream(bench.request([{"ignore_term": True}, bench.sleeper()])) as run:
            async for _ in run:
                pass

    with anyio.fail_after(10), bench.listen() as heard:
        task = asyncio.create_task(consume())
        await heard.pid()
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with client:
            pass
        bench.assert_nothing_left()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_timeout_ends_the_run(bench: Any) -> None:
    with anyio.fail_after(10), bench.listen() as heard:

        async def time_out() -> None:
            async with asyncio.timeout(None) as timeout, bench.client().stream(bench.request([bench.sleeper()])) as run:
                await heard.pid()
                timeout.reschedule(asyncio.get_running_loop().time())
                async for _ in run:
                    pass

        with pytest.raises(TimeoutError):
            await time_out()
        bench.assert_nothing_left()


@pytest.mark.behaviour("process:leaving")
async def test_a_dropped_iterator_harms_nothing(bench: Any) -> None:
    with anyio.fail_after(10):
        async with bench.client().stream(bench.request([{"text": "on"}, {"text": "done"}])) as run:
            iterator = aiter(run)
            await anext(iterator)
            del iterator
            gc.collect()
            assert (await run.outcome(check=True)).text == "done"


@pytest.mark.behaviour("process:leaving")
async def test_each_event_may_be_read_from_another_task(bench: Any) -> None:
    seen: list[Event] = []

    async def step(run: Run) -> None:
        seen.append(await anext(run))

    with anyio.fail_after(10):
        async with bench.client().stream(bench.request([{"text": "done"}])) as run:
            for _ in range(3):
                async with anyio.create_task_group() as group:
                    group.start_soon(step, run)
            outcome = await run.outcome(check=True)
    assert [event.seq for event in seen] == [0, 1, 2]
    assert outcome.text == "done"


def generator(bench: Any, *steps: object) -> AsyncGenerator[Event]:
    async def events() -> AsyncGenerator[Event]:
        async with bench.client().stream(bench.request([{"text": "on"}, *steps])) as run:
            async for event in run:
                yield event

    return events()


@pytest.mark.behaviour("process:leaving")
async def test_a_generator_round_a_run_may_be_closed_from_another_task(bench: Any) -> None:
    """As web frameworks do when a client hangs up."""
    with anyio.fail_after(10), bench.listen() as heard:
        events = generator(bench, bench.sleeper())
        await anext(events)
        await heard.pid()
        async with anyio.create_task_group() as group:
            group.start_soon(events.aclose)
        bench.assert_nothing_left()


@pytest.mark.behaviour("process:leaving")
async def test_a_generator_round_a_run_may_be_read_from_one_task_and_closed_by_a_cancelled_one(bench: Any) -> None:
    with anyio.fail_after(10), bench.listen() as heard:
        events = generator(bench, bench.sleeper())

        async def read() -> None:
            try:
                async for _ in events:
                    pass
            finally:
                with anyio.CancelScope(shield=True):
                    await events.aclose()

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await heard.pid()
            group.cancel_scope.cancel()
        bench.assert_nothing_left()


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # trio's own word about any dropped generator
@pytest.mark.behaviour("process:leaving")
async def test_a_generator_round_a_run_may_be_dropped(bench: Any) -> None:
    with anyio.fail_after(10), bench.listen() as heard:
        client_events = generator(bench, bench.sleeper())
        await anext(client_events)
        await heard.pid()
        del client_events
        gc.collect()
        while bench.survivors() or bench.leftovers():  # noqa: ASYNC110  # nobody is left who could tell
            await anyio.sleep(0.02)


async def test_leaving_the_client_ends_its_runs_all_at_once(bench: Any) -> None:
    stubborn = [{"ignore_term": True}, {"text": "on"}, {"hang": True}]
    runs = []
    with anyio.fail_after(12):
        async with bench.client() as client:
            for _ in range(3):
                run = await client.stream(bench.request(stubborn)).__aenter__()  # left open
                await bench.until(run, Text)
                runs.append(run)
        bench.assert_nothing_left()
        assert [(await run.outcome()).status for run in runs] == [Status.CANCELLED] * 3


@pytest.mark.parametrize("run", [lambda main: asyncio.run(main()), trio.run], ids=["asyncio", "trio"])
def test_the_end_of_the_loop_ends_an_open_run(bench: Any, run: Callable[[Main], object]) -> None:
    with bench.listen() as heard:

        async def main() -> None:
            with anyio.fail_after(10):
                await bench.client().stream(bench.request([{"text": "on"}, bench.sleeper()])).__aenter__()
                await heard.pid()

        worker = threading.Thread(target=run, args=(main,))
        worker.start()
        worker.join(8)
        assert not worker.is_alive()
    bench.assert_nothing_left()
