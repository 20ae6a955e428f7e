"""The turns of a run: one, or in a conversation as many as the caller sends.

A turn ends with the agent's terminal message. In a conversation the process then waits for the next text; what is
sent while a turn still ends (it was interrupted, or takes no message) waits for its end, so that nothing of an old turn
lands in a new one. A message into a running turn that came too late for it begins a turn of its own, in any run: no
message is lost. Between turns the clocks that measure the agent stand still.
"""

from __future__ import annotations

from collections import deque

from interlock.actions import Ending
from interlock.engine.stopwatch import Stopwatch
from interlock.events import TurnFinished

__all__ = ["Turns"]


class Turns:
    """Which turn runs, and what waits for the next."""

    def __init__(self, stopwatch: Stopwatch, *, several: bool) -> None:
        self.several = several
        self.number = 1
        self.interrupting = False
        """The turn was told to end and has not ended yet."""
        self.last: Ending | None = None
        """How the last turn ended; None while a turn runs."""
        self.closing = False
        """No more turns: the run ends with the turn that runs."""
        self._waiting: deque[str] = deque()
        self._stopwatch = stopwatch

    @property
    def idle(self) -> bool:
        """Whether the agent waits for the next text."""
        return self.last is not None

    def go_on(self, ending: Ending) -> bool:
        """Whether the run goes on after a turn that ended so."""
        if ending.more:
            return True
        return self.several and not ending.final and (not self.closing or bool(self._waiting))

    def wait(self, text: str) -> None:
        """Keep a text for the next turn."""
        self._waiting.append(text)

    def end(self, ending: Ending) -> TurnFinished:
        """The turn is over."""
        self.last, self.interrupting = ending, False
        self._stopwatch.pause()
        return TurnFinished(
            status=ending.status,
            reason=ending.reason,
            message=ending.message,
            text=ending.text,
            structured=ending.structured,
            usage=ending.usage,
        )

    def next(self) -> str | None:
        """The text that waits for the next turn, which begins with it."""
        if not self._waiting:
            return None
        self.begin()
        return self._waiting.popleft()

    def begin(self) -> None:
        """The next turn begins."""
        self.number += 1
        self.last = None
        self._stopwatch.resume()
