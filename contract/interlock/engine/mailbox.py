"""The channel between a run and whoever reads its events: batches in, events out, bounded.

It is a plain object, not a generator: dropping an iterator over it, or reading each event from another task, is
harmless.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import anyio

from interlock.events import BaseEvent

__all__ = ["Mailbox"]

MOST_UNREAD = 65_536


class Mailbox:
    """Events on their way to the reader. The writer waits for `room()`; what nobody will read is dropped."""

    __slots__ = ("_changed", "_closed", "_limit", "_lossy", "_queue", "_read")

    def __init__(self, limit: int = 4096) -> None:
        self._queue: deque[BaseEvent] = deque()
        self._limit = limit
        self._changed = anyio.Event()
        self._closed = False
        self._lossy = False
        self._read = False

    def put(self, batch: Sequence[BaseEvent]) -> None:
        """Add events; never waits, so that a verdict is never held up by a slow reader."""
        if self._lossy and not self._read:
            return
        self._queue.extend(batch)
        while self._lossy and len(self._queue) > MOST_UNREAD:
            self._queue.popleft()
        self._wake()

    @property
    def full(self) -> bool:
        """Whether the writer should wait before it reads more from the agent."""
        return len(self._queue) >= self._limit and not self._lossy

    async def room(self) -> None:
        """Wait until the reader has caught up."""
        while self.full:
            await self._changed.wait()

    async def take(self) -> BaseEvent | None:
        """The next event, or None after the last."""
        while not self._queue:
            if self._closed:
                return None
            await self._changed.wait()
        self._read = True
        event = self._queue.popleft()
        if len(self._queue) == self._limit - 1:
            self._wake()
        return event

    def relax(self) -> None:
        """Nothing may wait for a reader any more: without one, events are dropped; else the oldest beyond a bound."""
        self._lossy = True
        if not self._read:
            self._queue.clear()
        self._wake()

    def close(self) -> None:
        """No more events; what is there can still be read."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
