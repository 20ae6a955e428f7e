"""What a batch may do: how many runs at once, what they may cost, what is tried again, and who guards them.

None of it belongs to the tasks: a batch may be resumed with other options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from interlock.batch.tasks import Given, Workspace
from interlock.hooks import HookSpec
from interlock.model import FrozenMap, Map, Model

__all__ = ["Budget", "ChainNames", "Options", "Retries"]

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, le=31_536_000)]


class Budget(Model):
    """What all runs together, and one alone, may cost.

    A run is admitted only if what was spent, what running ones have reserved and what it would reserve stay within the
    total. It reserves `run_usd` and `run_tokens`, or its request's `limits.budget_usd` and `limits.budget_tokens` where
    it has them; an attempt that is seen to use more than that is ended as `budget`. What an attempt used counts; where
    that is not known, all that it had reserved does.
    """

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: Count | None = None
    """Input, output, and what was read from or written to a cache."""
    run_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    run_tokens: Count | None = None


class Retries(Model):
    """What is tried again. Throttled and exhausted are no attempts; they wait, and nothing is counted."""

    transient: int = Field(default=2, ge=0)
    """How often a run is tried again after a transient error: the service failed, the agent crashed or stalled."""
    lost: int = Field(default=2, ge=1)
    """With how many lost attempts (the agent or its worker was killed) a run counts as `poison` and is given up."""
    wait: Seconds = 1.0
    """Before the first further try; doubled with each, and spread at random."""
    longest_wait: Seconds = 60.0
    patience: Seconds = 3600.0
    """How long an agent may be throttled without one run going through until it is paused for good."""
    longest_pause: Seconds | None = None
    """An agent whose quota is reset later than this is paused for good. None: than in 32 days, which no quota takes."""
    breaker: int = Field(default=5, ge=1)
    """With how many failures in a row of one agent for want of login, model or sandbox it is paused for good."""


class ChainNames(Model):
    """A chain that another process can build: programs by their specs, interceptors by entry point.

    An interceptor is named by an entry point of the group `interlock.interceptors`, which gives one, or makes one when
    it is called without arguments. A worker whose chain has another digest refuses the attempt.
    """

    hooks: tuple[HookSpec, ...] = ()
    interceptors: tuple[Annotated[str, Field(min_length=1)], ...] = ()


class Options(Model):
    """Everything that `batch` takes beside tasks, folder, client and executor."""

    workspace: Workspace = Field(default_factory=Given)
    work: Path | None = None
    """Where copies and worktrees are made, never inside the batch's folder; None: `<folder>.work` beside it."""
    concurrency: Count = 8
    """Runs at once in all; the executor's capacity bounds it further."""
    agents: Map[Count] = Field(default_factory=FrozenMap[Count])
    """Runs at once by agent; what is not named is bounded by `concurrency` alone."""
    adaptive: bool = True
    """Whether an agent's share shrinks when it is throttled, and recovers."""
    stagger: Seconds = 0.05
    """Between two starts of one agent."""
    budget: Budget = Field(default_factory=Budget)
    retries: Retries = Field(default_factory=Retries)
    total: Seconds | None = None
    """For the whole batch; past it running attempts are ended, and it can be resumed."""
    run_total: Seconds | None = None
    """`limits.total` of requests that have none."""
    attempt_total: Seconds | None = None
    """For one attempt by the wall, waiting for people included; past it, it is ended as `deadline`."""
    asking: bool = False
    """Somebody answers approvals and questions through `Batch.respond` and `Batch.answer`."""
    live: bool = False
    """Whether `Batch.events` carries every event of every run, or only what needs attention."""
    deltas: bool = False
    """Whether `events.jsonl` has deltas, which are for display."""
    only_failed: bool = False
    """Run again those that ended other than completed; what is pending runs too."""
