"""The counted runs of a batch, in the order of counting, and who waits for the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import anyio

from interlock.batch.history import Counted, History
from interlock.batch.journal import Line

__all__ = ["Tally", "not_completed"]


class Tally:
    """What is counted so far."""

    def __init__(self, history: History, index: Mapping[str, int]) -> None:
        """`index`: of each run."""
        self._index = index
        self.changed = anyio.Event()
        """Set at the next change, and then another."""
        self.order: list[int] = []
        """Indices, in the order of counting."""
        self.before: frozenset[int] = frozenset()
        """Those that an earlier driver counted."""
        self.statuses: Counter[str] = Counter()
        self.denials = 0
        self.recount(history)

    def recount(self, history: History) -> None:
        """Begin with what was counted before this driver."""
        lines = [line for run in history.order if (line := history.counted(run)) is not None]
        self.order = [self._index[line.run] for line in lines]
        self.before = frozenset(self.order)
        self.statuses = Counter(line.status for line in lines)
        self.denials = sum(line.denials for line in lines)

    def add(self, line: Line) -> None:
        """One more is counted."""
        self.order.append(self._index[line.run or ""])
        self.statuses[str(line.status)] += 1
        self.denials += line.denials or 0
        self.wake()

    def wake(self) -> None:
        """Have those who wait look again."""
        changed, self.changed = self.changed, anyio.Event()
        changed.set()


def not_completed(history: History) -> list[Counted]:
    """The counted runs that ended other than completed."""
    lines = (history.counted(run) for run in history.order)
    return [line for line in lines if line is not None and line.status != "completed"]
