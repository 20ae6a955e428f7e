"""The channel between a run and whoever reads its events: batches in, events out, bounded.

The reader claims all that waits at once and then has it at hand, so that most events cost it neither a task switch nor
a count. What is at hand is bounded like what waits.

It is a plain object, not a generator: dropping an iterator over it, or reading each event from another task, is
harmless.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import cast

import anyio

from interlock.events import BaseEvent, Event

__all__ = ["Mailbox"]

MOST_UNREAD = 65_536
"""Events that are kept for a reader whom nothing waits for."""
MOST_WEIGHT = 16 * 1024 * 1024
"""Bytes of the agent's output that waiting events may come from, as far as the events of one read allow."""

LARGE = 1024 * 1024
"""Bytes past which it is worth looking at the events themselves."""


class Mailbox:
    """Events on their way to the reader. The writer waits for `room()`; what nobody will read is dropped."""

    __slots__ = ("_changed", "_closed", "_coming", "_keep", "_limit", "_queue", "_weight", "at_hand")

    def __init__(self, limit: int = 2048) -> None:
        self.at_hand: deque[Event] = deque()
        """What the reader has claimed; the next event is the first one here, else the one that `take` waits for."""
        self._queue: deque[Event] = deque()
        self._limit = limit
        self._changed = anyio.Event()
        self._closed = False
        self._keep: int | None = None
        self._coming = 0
        self._weight = 0

    def put(self, batch: Sequence[BaseEvent]) -> None:
        """Add events, unless it is closed; never waits, so that a verdict is never held up by a slow reader."""
        if self._closed:
            return
        self._queue.extend(cast("Sequence[Event]", batch))
        self._weight, self._coming = self._weight + self._weight_of(batch), 0
        self._trim()
        self._wake()

    def _weight_of(self, batch: Sequence[BaseEvent]) -> int:
        """At most what they came from; of a read as large as a dropped line can make it, what they truly hold."""
        if self._coming <= LARGE:
            return self._coming
        return min(self._coming, sum(len(event.model_dump_json()) for event in batch))

    def weigh(self, size: int) -> None:
        """The next events come from so many bytes more."""
        self._coming += size

    @property
    def full(self) -> bool:
        """Whether the writer should wait before it reads more from the agent."""
        return self._keep is None and self._over(self._limit - 1)

    async def room(self) -> None:
        """Wait until the reader has caught up."""
        while self.full:
            await self._changed.wait()

    async def take(self) -> Event | None:
        """The next event, or None after the last."""
        while not self.at_hand:
            if self._queue:
                self._claim()
            elif self._closed:
                return None
            else:
                await self._changed.wait()
        return self.at_hand.popleft()

    def _claim(self) -> None:
        was_full = self.full
        self.at_hand.extend(self._queue)
        self._queue.clear()
        self._weight = 0
        if was_full:
            self._wake()

    def relax(self, keep: int = MOST_UNREAD) -> None:
        """Nothing waits for a reader any more: the oldest events beyond `keep` are dropped."""
        self._keep = keep if self._keep is None else min(keep, self._keep)
        self._trim()
        self._wake()

    def close(self) -> None:
        """No more events; what is there can still be read."""
        self._closed = True
        self._wake()

    def _over(self, most: int) -> bool:
        return len(self._queue) > most or (self._weight > MOST_WEIGHT and len(self._queue) > 1)

    def _trim(self) -> None:
        """Drop the oldest; each is taken to weigh as much as any other."""
        while self._keep is not None and self._over(self._keep):
            self._weight -= self._weight // len(self._queue)
            self._queue.popleft()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
