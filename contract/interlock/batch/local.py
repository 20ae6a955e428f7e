"""The executor that is always there: attempts as tasks of the driver's own loop."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator

import anyio

from interlock.batch.attempt import execute_attempt_async
from interlock.batch.inbox import deliver
from interlock.batch.machine import MEMORY_A_RUN, room_for
from interlock.engine.client import Client

__all__ = ["LocalExecutor"]

LOOK_AGAIN = 1.0
"""Seconds for which a look at the machine's memory holds."""
MOST_UNREAD = 65_536


class LocalExecutor:
    """Makes attempts in this process, guarded by `client`, or by the chain that a spec names.

    `memory`: bytes that one run is taken to need; as many run as the machine has room for.
    """

    shares_files = True

    def __init__(self, client: Client | None = None, *, memory: int = MEMORY_A_RUN) -> None:
        self._client = client if client is not None else Client()
        self._memory = memory
        self._running = 0
        self._room = 1
        self._looked = float("-inf")
        self._news: deque[bytes] = deque(maxlen=MOST_UNREAD)
        self._told = anyio.Event()

    async def capacity(self) -> int:
        """As many as there is memory and file descriptors for, those that run included."""
        now = time.monotonic()
        if now >= self._looked + LOOK_AGAIN:
            self._looked, self._room = now, room_for(self._running, memory=self._memory)
        return self._room

    async def execute(self, spec: bytes, *, key: str) -> bytes:  # noqa: ARG002  # the spec has it too
        """Make one attempt; cancelled, it leaves nothing."""
        self._running += 1
        try:
            return await execute_attempt_async(spec, self._tell, self._client)
        finally:
            self._running -= 1

    async def send(self, key: str, message: bytes) -> bool:
        """Deliver a message to a running attempt."""
        return deliver(key, message)

    def _tell(self, news: bytes) -> None:
        self._news.append(news)
        self._told.set()

    async def events(self) -> AsyncIterator[bytes]:
        """The news of all attempts."""
        while True:
            while self._news:
                yield self._news.popleft()
            self._told = anyio.Event()
            if not self._news:
                await self._told.wait()
