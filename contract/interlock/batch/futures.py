"""Attempts through any `concurrent.futures.Executor`: threads, processes, or a client library of a cluster.

Bytes go out and bytes come back, and that is all such an executor can do. What it cannot is refused when the batch is
opened: nobody is asked, and there is no live view. An attempt that waits is taken back; one that runs ends by its own
bounds (`attempt_total`, the request's limits), unless it runs in a thread of this process, where messages reach it.
"""

from __future__ import annotations

import concurrent.futures
from concurrent.futures import Future
from typing import TypeVar

import anyio

from interlock.batch.attempt import execute_attempt
from interlock.batch.executor import AttemptLost, ExecutorGone
from interlock.batch.inbox import deliver, loop_caller

__all__ = ["FuturesExecutor", "settled"]

T = TypeVar("T")


class FuturesExecutor:
    """Makes attempts by `pool.submit`; the pool stays its owner's.

    `workers`: how many attempts it runs at once. `shares_files`: whether its workers see the batch's folder under the
    same path; else the events of an attempt come with its result. A pool that broke, as a
    `ProcessPoolExecutor` does when one of its processes is killed, loses the attempts it had; with the next one the
    batch ends, to be resumed with another pool.
    """

    def __init__(self, pool: concurrent.futures.Executor, *, workers: int, shares_files: bool = False) -> None:
        self.shares_files = shares_files
        self._pool = pool
        self._workers = workers

    async def capacity(self) -> int:
        """As many as there are workers."""
        return self._workers

    async def execute(self, spec: bytes, *, key: str) -> bytes:  # noqa: ARG002  # the spec has it too
        """Make one attempt; cancelled, it takes it back, or waits for its end."""
        try:
            future = self._pool.submit(execute_attempt, spec)
        except RuntimeError as error:  # it broke, or was shut down
            raise ExecutorGone(f"the pool takes no more: {error}") from error
        try:
            return await settled(future)
        except anyio.get_cancelled_exc_class():
            if not future.cancel():
                with anyio.CancelScope(shield=True):
                    await _over(future)
            raise
        except Exception as error:
            raise AttemptLost(str(error) or type(error).__name__) from error

    async def send(self, key: str, message: bytes) -> bool:
        """Deliver a message to an attempt that runs in a thread of this process; False for all others."""
        return deliver(key, message)


async def settled(future: Future[T]) -> T:
    """The result of a future that another thread sets, on asyncio and trio; raises what it holds.

    A future that was cancelled raises `concurrent.futures.CancelledError`, which is no cancellation of the caller.
    """
    await _over(future)
    return future.result()


async def _over(future: Future[T]) -> None:
    over, call = anyio.Event(), loop_caller()

    def tell(_: Future[T]) -> None:
        try:
            call(over.set)
        except RuntimeError:  # the loop is over, and nobody waits
            return

    future.add_done_callback(tell)
    await over.wait()
