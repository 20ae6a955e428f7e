"""Whose turn it is: by agent, pace, directory and money. It starts nothing, and the caller says what time it is.

A run whose directory is in use is set aside until that is free; one that cannot be paid for waits as long as others
run, whose reserves may come free, and is given up after that.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from math import inf

from interlock.batch.lanes import Lane
from interlock.batch.options import Options
from interlock.batch.pace import Pace
from interlock.batch.running import Places
from interlock.batch.spending import Reserve, Spending, reserve_of
from interlock.batch.task_file import TaskFile
from interlock.batch.tasks import Task

__all__ = ["Admission", "Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A run that may start now; it is out of its lane."""

    index: int
    task: Task
    lane: Lane
    reserve: Reserve


@dataclass(slots=True)
class Admission:
    """What waits, and what it waits for."""

    options: Options
    places: Places
    tasks: TaskFile
    spending: Spending
    lanes: dict[str, Lane] = field(default_factory=dict[str, Lane])
    dropped: set[int] = field(default_factory=set[int])
    """Runs that were counted while they waited."""
    unaffordable: int = 0
    """Runs that were given up, since nothing is left that could pay for them."""
    _busy: dict[str, int] = field(default_factory=dict[str, int])
    """Given directories in use: by how many runs, or -1 for one that has it for itself."""
    _parked: dict[str, deque[tuple[Lane, int]]] = field(default_factory=dict[str, "deque[tuple[Lane, int]]"])

    def add(self, index: int) -> None:
        """A run that was not tried yet."""
        agent = self.tasks.agents[index]
        lane = self.lanes.get(agent)
        if lane is None:
            lane = self.lanes[agent] = Lane(agent, self._pace(agent))
        lane.add(index)

    def _pace(self, agent: str) -> Pace:
        options, retries = self.options, self.options.retries
        return Pace(
            most=min(options.agents.get(agent, options.concurrency), options.concurrency),
            adaptive=options.adaptive,
            stagger=options.stagger,
            wait=retries.wait,
            longest_wait=retries.longest_wait,
            chance=random.random,
        )

    @property
    def waiting(self) -> bool:
        """Whether a run waits that can have its turn without anybody's help."""
        return any(len(lane) and lane.closed is None for lane in self.lanes.values()) or bool(self._parked)

    @property
    def stuck(self) -> bool:
        """Whether a run waits for an agent that is paused for good."""
        return any(len(lane) and lane.closed is not None for lane in self.lanes.values())

    def next(self, lane: Lane, now: float, *, idle: bool) -> Turn | float | None:
        """The turn of a lane's first run; the seconds to wait for it; or None where one was set aside.

        `idle`: nothing runs, so nothing will come free.
        """
        ready = lane.ready_at(now)
        if lane.closed is not None or ready is None:
            return inf
        if (wait := max(lane.pace.delay(now), ready - now)) > 0:
            return wait
        index = lane.first(now)
        if index is None:
            return inf
        if index in self.dropped:
            lane.take(now)
            return None
        task = self.tasks.read(index)
        if not self._is_free(task):
            lane.take(now)
            self._parked.setdefault(task.request.cwd, deque()).append((lane, index))
            return None
        reserve = reserve_of(task.request, self.options.budget)
        if not self.spending.affords(reserve):
            if not idle:
                return inf
            lane.take(now)
            self.unaffordable += 1
            return None
        lane.take(now)
        self._occupy(task)
        return Turn(index, task, lane, reserve)

    # ---- directories -------------------------------------------------------------------------------------------------

    def _is_free(self, task: Task) -> bool:
        exclusive, used = self.places.exclusive(task), self._busy.get(task.request.cwd, 0)
        return exclusive is None or used == 0 or (used > 0 and not exclusive)

    def _occupy(self, task: Task) -> None:
        exclusive, cwd = self.places.exclusive(task), task.request.cwd
        if exclusive:
            self._busy[cwd] = -1
        elif exclusive is not None:
            self._busy[cwd] = self._busy.get(cwd, 0) + 1
            self._unpark(cwd)  # it may be one that shares

    def vacate(self, task: Task) -> None:
        """A run works in its directory no more."""
        exclusive, cwd = self.places.exclusive(task), task.request.cwd
        if exclusive is None:
            return
        self._busy[cwd] = 0 if exclusive else self._busy[cwd] - 1
        if not self._busy[cwd]:
            del self._busy[cwd]
            self._unpark(cwd)

    def _unpark(self, cwd: str) -> None:
        """Have the first that waits for a directory look again."""
        if waiting := self._parked.get(cwd):
            lane, index = waiting.popleft()
            lane.again(index, 0.0)
            if not waiting:
                del self._parked[cwd]
