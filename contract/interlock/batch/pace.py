"""How many runs of one agent at once, and how soon after one another. Pure: the caller says what time it is.

Additive increase, multiplicative decrease. Each run that goes through raises the limit by a part of one, so that as
many as run at once raise it by one. A throttled one halves what ran, and starts wait; those that were started before
are of the same storm, and change nothing any more. The wait doubles with each further storm, spread at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Pace"]


@dataclass(slots=True)
class Pace:
    """The pace of one agent; times are seconds on one clock, and may start anywhere."""

    most: int
    adaptive: bool = True
    stagger: float = 0.0
    wait: float = 1.0
    longest_wait: float = 60.0
    chance: Callable[[], float] = lambda: 0.5
    """Between 0 and 1."""
    limit: float = field(init=False)
    running: int = 0
    storm: int = 0
    """How many there were."""
    throttled_since: float | None = None
    """Since when none has gone through."""
    _strikes: int = 0
    _next_start: float = -math.inf
    _held_until: float = -math.inf

    def __post_init__(self) -> None:
        self.limit = float(self.most)

    def delay(self, now: float) -> float:
        """Seconds until one more may start; infinite until one has ended."""
        if self.running >= math.floor(self.limit):
            return math.inf
        return max(0.0, self._next_start - now, self._held_until - now)

    def started(self, now: float) -> int:
        """One was started; gives the number of storms before it, for `throttled`."""
        self.running += 1
        self._next_start = now + self.stagger
        return self.storm

    def ended(self) -> None:
        """One has ended, however."""
        self.running -= 1

    def went_through(self) -> None:
        """The service let one through, whatever became of it."""
        self._strikes = 0
        self.throttled_since = None
        if self.adaptive:
            self.limit = min(float(self.most), self.limit + 1 / self.limit)

    def throttled(self, now: float, began_in: int) -> None:
        """One was throttled that was started in storm `began_in`; call it before `ended`."""
        if self.throttled_since is None:
            self.throttled_since = now
        if began_in < self.storm:
            return
        self.storm += 1
        self._strikes += 1
        if self.adaptive:
            self.limit = max(1.0, math.floor(min(self.limit, self.running) / 2))
        wait = min(self.longest_wait, self.wait * 2.0 ** min(self._strikes - 1, 30))
        self.hold(now + wait * (0.5 + self.chance()))

    def hold(self, until: float) -> None:
        """None is started before that."""
        self._held_until = max(self._held_until, until)
