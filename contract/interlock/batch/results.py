"""What comes of a batch: a result a run, a report at the end, and at any moment how far it is."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from interlock.batch.tasks import Task
from interlock.model import FrozenMap, Map, Model
from interlock.outcome import Outcome

__all__ = ["BatchReport", "BatchResult", "Paused", "Progress", "RunStatus", "Running", "Spent"]


class RunStatus(StrEnum):
    """How a run of a batch was counted; of a run that has no status yet, nothing is counted."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """By `Batch.cancel` of this run alone. Runs that end with the batch are not counted, and run when it is resumed."""
    TIMED_OUT = "timed_out"
    LOST = "lost"
    """It was lost in the middle, and its task says that it must not run again."""
    POISON = "poison"
    """It was lost so often that it is not tried again."""


class Spent(Model):
    """What runs cost; where the agents did not say, what they had reserved."""

    usd: float = 0.0
    tokens: int = 0
    unknown: int = 0
    """Attempts of which neither is known and nothing was reserved."""


class BatchResult(Model):
    """One run, counted."""

    run: str
    """The id of the task, or its number."""
    index: int
    """The place of the task among all, from 0."""
    task: Task
    status: RunStatus
    attempt: str | None
    """The attempt that counts, which names a folder under `runs/<run>/`; None if there was none."""
    attempts: int
    """How many were started, throttled ones not counted."""
    outcome: Outcome
    workspace: str | None = None
    """The directory that the attempt worked in, if it still exists."""
    branch: str | None = None
    """Of a worktree."""
    warnings: tuple[str, ...] = ()
    earlier: bool = False
    """It was counted before this driver was started."""

    @property
    def ok(self) -> bool:
        """Whether the run completed."""
        return self.status is RunStatus.COMPLETED


class Running(Model):
    """An attempt that runs now."""

    run: str
    attempt: str | None
    """None until it has been heard of."""
    agent: str
    since: float
    """Seconds since the epoch."""
    usd: float | None = None
    tokens: int | None = None
    doing: str = ""
    """The last thing that was heard of it: a tool's name, `approval`, ..."""
    approvals: int = 0
    """That wait for an answer."""


class Paused(Model):
    """An agent of which no run is started for now."""

    agent: str
    reason: str
    until: float | None = None
    """Seconds since the epoch; None: until the batch is resumed."""


class Progress(Model):
    """How far a batch is, at one moment."""

    total: int
    counted: int
    """Runs that have a status; those of earlier drivers too."""
    completed: int
    failed: int
    """All other statuses together."""
    running: tuple[Running, ...] = ()
    waiting: int = 0
    """Runs that wait for another try."""
    denials: int = 0
    """Calls that did not run, in counted runs."""
    throttled: int = 0
    """How often runs were sent back by their service."""
    spent: Spent = Field(default_factory=Spent)
    reserved_usd: float = 0.0
    paused: tuple[Paused, ...] = ()
    limits: Map[float] = Field(default_factory=FrozenMap[float])
    """Runs at once by agent, as its pace allows now."""
    elapsed: float = 0.0
    """Seconds since this driver was started."""
    time_left: float | None = None
    """Seconds, from the pace so far; None while nothing is known."""


class BatchReport(Model):
    """How a batch, or one driver's share of it, ended."""

    total: int
    statuses: Map[int] = Field(default_factory=FrozenMap[int])
    """Counted runs by `RunStatus`."""
    unfinished: int = 0
    """Runs that have no status; resuming runs them."""
    why: str = "done"
    """done, cancelled, deadline, budget, paused, failed: why there is nothing more to do for now."""
    message: str = ""
    paused: tuple[Paused, ...] = ()
    denials: int = 0
    spent: Spent = Field(default_factory=Spent)
    attempts: int = 0
    lost: int = 0
    throttled: int = 0
    elapsed: float = 0.0
    """Seconds of this driver."""

    @property
    def ok(self) -> bool:
        """Whether every run has completed."""
        return self.statuses.get(RunStatus.COMPLETED, 0) == self.total
