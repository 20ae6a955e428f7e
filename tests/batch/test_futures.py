"""Pools of the standard library as executors: bytes out, bytes back, and what they cannot do is refused."""

from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import anyio
import pytest
from tests.batch.conftest import until_gone

from interlock import ChainNames, ExecutorFailed, FuturesExecutor, Unsupported, read_batch
from interlock.batch.executor import Reachable, Telling
from interlock.batch.futures import settled
from interlock.batch.inbox import running_keys

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _state(batches: Any) -> None:
    """Workers make clients of their own, with the default state."""
    batches.bench.state = batches.bench.folder / "default-state" / "interlock"


@pytest.mark.behaviour("batch:executor")
async def test_threads_make_attempts_and_their_events_come_home(batches: Any) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = await batches.results(batches.tasks(3), executor=FuturesExecutor(pool, workers=2))
    assert {run: result.outcome.text for run, result in found.items()} == {f"r{n}": f"answer {n}" for n in range(1, 4)}
    assert batches.executions() == {f"r{n}": 1 for n in range(1, 4)}
    for result in found.values():
        events = batches.folder / "runs" / result.run / result.attempt / "events.jsonl"
        assert b'"type":"run_finished"' in events.read_bytes()


@pytest.mark.behaviour("batch:executor")
async def test_processes_make_attempts_and_record_into_the_folder_they_share(batches: Any) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        executor = FuturesExecutor(pool, workers=1, shares_files=True)
        found = await batches.results(batches.tasks(2), executor=executor)
    assert all(result.ok for result in found.values())
    assert batches.executions() == {"r1": 1, "r2": 1}
    for result in found.values():
        assert (batches.folder / "runs" / result.run / result.attempt / "events.jsonl").exists()


@pytest.mark.behaviour("batch:executor")
async def test_a_process_that_is_killed_breaks_its_pool_and_the_batch_ends_to_be_resumed(batches: Any) -> None:
    binary = batches.first([batches.bench.sleeper()], then=[{"text": "ok"}])
    tasks = [batches.task(id="sleeps", binary=binary), *batches.tasks(1)]
    with (
        anyio.fail_after(60),
        batches.listen() as heard,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        async with batches.open(tasks, executor=FuturesExecutor(pool, workers=1)) as runs:
            await heard.pid()
            for process in (pool._processes or {}).values():
                process.kill()
            with pytest.raises(ExecutorFailed):
                await runs.report()
    assert until_gone(batches.bench) == []
    assert len(batches.lines("lost")) == 1  # the run that was in it; the other never ran
    assert read_batch(batches.folder).report().unfinished == 2
    with ThreadPoolExecutor(1) as pool:  # which removes what the killed one left
        found = await batches.results(tasks, executor=FuturesExecutor(pool, workers=1))
    assert found["sleeps"].attempts == 2
    assert all(result.ok for result in found.values())


@pytest.mark.behaviour("batch:executor")
async def test_an_attempt_in_a_thread_is_cancelled_by_message(batches: Any) -> None:
    with anyio.fail_after(60), batches.listen() as heard, ThreadPoolExecutor(1) as pool:
        task = batches.task(batches.bench.sleeper(), id="r")
        async with batches.open([task], executor=FuturesExecutor(pool, workers=1)) as runs:
            await heard.pid()
            await runs.cancel()
            assert batches.bench.survivors() == []
    assert running_keys() == ()
    assert len(batches.lines("ended")) == 1


@pytest.mark.behaviour("batch:executor")
@pytest.mark.parametrize("wanted", ["asking", "live"])
async def test_what_a_pool_cannot_do_is_unsupported_before_anything_is_started(batches: Any, wanted: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        executor = FuturesExecutor(pool, workers=1)
        assert isinstance(executor, Reachable)
        assert not isinstance(executor, Telling)
        with pytest.raises(Unsupported) as caught:
            batches.open(batches.tasks(1), executor=executor, chain=ChainNames(), **{wanted: True})
    assert [unmet.field for unmet in caught.value.unmet] == [wanted]
    assert not batches.folder.exists()


async def test_a_pool_that_is_shut_down_is_no_fault_of_a_run(batches: Any) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with anyio.fail_after(30):
        async with batches.open(batches.tasks(1), executor=FuturesExecutor(pool, workers=1)) as runs:
            with pytest.raises(ExecutorFailed, match="takes no more"):
                await runs.report()
    assert not batches.lines("lost", "ended", "outcome")


async def test_an_attempt_that_waits_in_the_pool_is_taken_back(batches: Any) -> None:
    class Waits(ThreadPoolExecutor):
        last: Future[Any] | None = None

        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            self.last = Future()
            return self.last

    pool = Waits(1)
    with anyio.fail_after(30):
        async with batches.open(batches.tasks(1), executor=FuturesExecutor(pool, workers=1)) as runs:
            while pool.last is None:
                await anyio.lowlevel.checkpoint()
            await runs.cancel()
    assert pool.last.cancelled()


async def test_a_future_that_another_thread_sets_is_waited_for() -> None:
    with ThreadPoolExecutor(1) as pool, anyio.fail_after(5):
        assert await settled(pool.submit(lambda: 3)) == 3
        with pytest.raises(ZeroDivisionError):
            await settled(pool.submit(lambda: 1 // 0))
