"""What waits, by agent: runs in their order, and those that wait for another try. Indices only; pure."""

from __future__ import annotations

import heapq
from array import array
from dataclasses import dataclass, field

from interlock.batch.pace import Pace

__all__ = ["Lane"]


@dataclass(slots=True)
class Lane:
    """The runs of one agent that wait."""

    agent: str
    pace: Pace
    closed: str | None = None
    """Why no more of it are started until the batch is resumed."""
    failures: int = 0
    """In a row for want of something that the next would lack too."""
    _fresh: array[int] = field(default_factory=lambda: array("Q"))
    _at: int = 0
    _again: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])

    def add(self, index: int) -> None:
        """A run that was not tried yet, after those that were added before."""
        self._fresh.append(index)

    def again(self, index: int, at: float) -> None:
        """A run that may be tried again from then on; before those that were not tried yet."""
        heapq.heappush(self._again, (at, index))

    def first(self, now: float) -> int | None:
        """The run whose turn it is; None if there is none yet."""
        if self._again and self._again[0][0] <= now:
            return self._again[0][1]
        return self._fresh[self._at] if self._at < len(self._fresh) else None

    def take(self, now: float) -> int:
        """Take out the run whose turn it is."""
        if self._again and self._again[0][0] <= now:
            return heapq.heappop(self._again)[1]
        self._at += 1
        return self._fresh[self._at - 1]

    def ready_at(self, now: float) -> float | None:
        """When the next can be had; None if none waits."""
        if self._at < len(self._fresh):
            return now
        return max(now, self._again[0][0]) if self._again else None

    @property
    def again_count(self) -> int:
        """How many wait for another try."""
        return len(self._again)

    def __len__(self) -> int:
        return len(self._fresh) - self._at + len(self._again)
