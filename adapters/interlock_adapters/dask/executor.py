"""`DaskExecutor`: the attempts of a batch on the workers of a Dask cluster that is there already.

The cluster's client has an asyncio loop in a thread of its own, so that a batch drives it from asyncio and trio alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from interlock.batch.executor import AttemptLost, ExecutorGone
from interlock.batch.futures import settled
from interlock.batch.inbox import loop_caller
from interlock.batch.wire import AttemptResult, AttemptSpec, Cancel
from interlock.errors import ConfigurationError
from interlock_adapters.dask.artifacts import Artifacts, ArtifactsFailed, store
from interlock_adapters.dask.cluster import Cluster
from interlock_adapters.dask.job import Job

__all__ = ["DaskExecutor"]

T = TypeVar("T")
MOST_UNREAD = 65_536
CANCEL = Cancel().to_json().encode()


class DaskExecutor:
    """Makes attempts on the workers of the cluster whose scheduler has this address; a block, as `batch` is.

        async with DaskExecutor("tcp://10.0.0.1:8786") as executor:
            async with batch(tasks, "out", executor=executor, chain=ChainNames(hooks=...)) as runs: ...

    A worker runs as many attempts as it has `--resources agent=N`, and threads; where none says `agent`, as many as it
    has threads. One that has another Interlock, or cannot build the chain, is given nothing; `refusals` says why.
    `shares_files`: whether the workers see the batch's folder, under the same path. `security` is a
    `distributed.Security`; without one, what Dask's configuration says of TLS holds.

    Entering raises `ConfigurationError` where no scheduler answers within `timeout` seconds.
    """

    def __init__(
        self,
        scheduler: str,
        *,
        shares_files: bool = False,
        artifacts: Artifacts | None = None,
        security: object = None,
        timeout: float = 30.0,
    ) -> None:
        self.shares_files = shares_files
        self._scheduler = scheduler
        self._artifacts = artifacts
        self._security = security
        self._timeout = timeout
        self._job = Job(topic=f"interlock-{uuid4().hex}", artifacts=artifacts)
        self._cluster = Cluster(scheduler, self._job.topic, self._heard)
        self._running: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None
        self._news: deque[bytes] = deque(maxlen=MOST_UNREAD)
        self._told: anyio.Event
        self._call: Callable[[Callable[[], None]], object]

    async def __aenter__(self) -> Self:
        self._told, self._call = anyio.Event(), loop_caller()
        self._running = start_blocking_portal("asyncio")
        self._portal = self._running.__enter__()
        try:
            await settled(self._start(self._open))
        except Exception as error:
            await self._close()
            problem = f"it does not answer, or not to us: {error}"
            raise ConfigurationError(f"scheduler {self._scheduler}", problem) from error
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _open(self) -> None:
        await self._cluster.open(patience=self._timeout, security=self._security)

    async def _close(self) -> None:
        """Close the connection and end its thread."""
        running, self._running = self._running, None
        if running is None:
            return
        with anyio.CancelScope(shield=True):
            with suppress(Exception):
                await settled(self._start(self._cluster.close))
            self._portal = None
            await anyio.to_thread.run_sync(running.__exit__, None, None, None)

    def _start(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Run something on the cluster's loop; raises `ExecutorGone` outside of the block."""
        if self._portal is None:
            raise ExecutorGone("the DaskExecutor is not open")
        return self._portal.start_task_soon(function, *given)

    # ---- the executor ------------------------------------------------------------------------------------------------

    async def capacity(self) -> int:
        """The slots of all workers that can be given attempts, as they are now; raises `ExecutorGone`."""
        return int(await settled(self._start(self._cluster.capacity)))

    @property
    def refusals(self) -> tuple[str, ...]:
        """Which workers are given nothing, and why."""
        return tuple(self._cluster.refusals())

    async def execute(self, spec: bytes, *, key: str) -> bytes:
        """Make one attempt on a worker; cancelled, it sees to it that it ends."""
        asked = AttemptSpec.parse_json(spec)
        made = self._start(self._cluster.execute, spec, key, self._job, asked.chain, asked.chain_digest)
        try:
            result, files = await settled(made)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), suppress(Exception):
                await settled(self._start(self._cluster.end, key, CANCEL))
                made.cancel()
            raise
        except CancelledError as error:
            raise AttemptLost("its task was cancelled") from error
        return await self._stored(asked, result, files)

    async def _stored(self, spec: AttemptSpec, result: bytes, files: dict[str, bytes]) -> bytes:
        """The result, once what came with it is where it belongs."""
        if self._artifacts is None or not files:
            return result
        made = AttemptResult.parse_json(result)
        try:
            await anyio.to_thread.run_sync(store, self._artifacts, spec.run, made.attempt, files)
        except ArtifactsFailed as error:
            warnings = (*made.outcome.warnings, f"its artifacts were not kept: {error}")
            outcome = made.outcome.model_copy(update={"warnings": warnings})
            return made.model_copy(update={"outcome": outcome}).to_json().encode()
        return result

    async def send(self, key: str, message: bytes) -> bool:
        """Deliver a message to a running attempt."""
        return bool(await settled(self._start(self._cluster.send, key, message)))

    async def events(self) -> AsyncIterator[bytes]:
        """The news of all attempts."""
        while True:
            while self._news:
                yield self._news.popleft()
            self._told = anyio.Event()
            if not self._news:
                await self._told.wait()

    def _heard(self, news: bytes) -> None:
        """Called on the cluster's loop."""
        self._news.append(news)
        with suppress(RuntimeError):  # the batch's loop is over
            self._call(self._rouse)

    def _rouse(self) -> None:
        self._told.set()
