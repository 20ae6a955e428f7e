"""A clock that stands still while a person or the chain is asked, so that deadlines measure the agent alone."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio

__all__ = ["Stopwatch"]


class Stopwatch:
    """Seconds of agent time since the start; nested pauses count once."""

    __slots__ = ("_clock", "_paused_at", "_paused_for", "_pauses", "_since")

    def __init__(self, clock: Callable[[], float] = anyio.current_time) -> None:
        self._clock = clock
        self._since = clock()
        self._paused_for = 0.0
        self._paused_at = 0.0
        self._pauses = 0

    def elapsed(self) -> float:
        """Seconds that ran; those of a pause, also of one that still lasts, are left out."""
        now = self._paused_at if self._pauses else self._clock()
        return now - self._since - self._paused_for

    def pause(self) -> None:
        """Stand still until as many `resume` as `pause`."""
        if not self._pauses:
            self._paused_at = self._clock()
        self._pauses += 1

    def resume(self) -> None:
        """Undo one `pause`."""
        self._pauses -= 1
        if not self._pauses:
            self._paused_for += self._clock() - self._paused_at

    @contextmanager
    def paused(self) -> Generator[None]:
        """Stand still inside the block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()
