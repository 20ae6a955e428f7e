"""The deadlines that measure the agent: total, idle, start-up. They stand still while somebody is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import anyio

from interlock.actions import Ending
from interlock.engine.stopwatch import Stopwatch
from interlock.outcome import Reason, Status
from interlock.request import Limits

__all__ = ["Deadlines"]

TICK = 0.05


@dataclass(slots=True)
class Deadlines:
    """Watches one run's bounds."""

    limits: Limits
    stopwatch: Stopwatch
    ready: bool = False
    """Whether the agent is ready for the prompt."""
    _progress: float = 0.0

    def started(self) -> None:
        """The agent is ready for the prompt: from here on it is to get on."""
        self.ready = True
        self.progressed()

    def progressed(self) -> None:
        """The agent got on."""
        self._progress = self.stopwatch.elapsed()

    async def watch(self, settle: Callable[[Ending], None]) -> None:
        """Wait for the first bound to trip, and say so."""
        while True:
            nearest = self.limits.idle or 3600.0  # it may begin to count while we sleep
            for limit, spent, reason, words in self._bounds():
                if limit is not None and spent >= limit:
                    settle(Ending(Status.TIMED_OUT, reason, f"{words} of {limit:g} s"))
                    return
                nearest = min(nearest, nearest if limit is None else limit - spent)
            await anyio.sleep(max(TICK, nearest))

    def _bounds(self) -> Iterator[tuple[float | None, float, Reason, str]]:
        now = self.stopwatch.elapsed()
        yield self.limits.total, now, Reason.DEADLINE, "the run took longer than its limit"
        if self.ready:
            yield self.limits.idle, now - self._progress, Reason.STALLED, "no progress within the idle limit"
        else:
            yield self.limits.start_up, now, Reason.STALLED, "the agent was not ready within the start-up limit"
