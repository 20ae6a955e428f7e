"""One attempt as the driver sees it: what it is about, what was heard of it, and how its spec is made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import anyio

from interlock.batch.attempt import tokens_of
from interlock.batch.lanes import Lane
from interlock.batch.options import ChainNames, Options
from interlock.batch.results import Running
from interlock.batch.spending import Reserve
from interlock.batch.tasks import Copy, Given, Task, Workspace, Worktree
from interlock.batch.wire import AttemptSpec, Happened, Place
from interlock.outcome import Usage
from interlock.request import Request

__all__ = ["Live", "Places", "cost_of", "usage_of"]


@dataclass(slots=True)
class Live:
    """An attempt that was admitted and is not settled."""

    index: int
    run: str
    key: str
    number: int
    task: Task
    lane: Lane
    reserve: Reserve
    storm: int
    since: float
    """Seconds since the epoch."""
    attempt: str | None = None
    workspace: str | None = None
    branch: str | None = None
    usd: float | None = None
    tokens: int | None = None
    doing: str = ""
    cancelled: bool = False
    """This run alone was told to end."""
    executing: bool = True
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def heard(self, news: Happened) -> None:
        """Remember what an event says of cost and calls."""
        event: Mapping[str, object] = news.event
        match event.get("type"):
            case "usage_updated":
                self.usd, self.tokens = usage_of(event)
            case "tool_requested":
                self.doing = str(event.get("tool_name", ""))
            case "tool_finished":
                self.doing = ""
            case "retrying":
                self.doing = "retrying"
            case _:
                pass

    def shown(self, waiting: int) -> Running:
        """For a display; `waiting` approvals."""
        return Running(
            run=self.run,
            attempt=self.attempt,
            agent=self.lane.agent,
            since=self.since,
            usd=self.usd,
            tokens=self.tokens,
            doing="approval" if waiting else self.doing,
            approvals=waiting,
        )


def usage_of(event: Mapping[str, object]) -> tuple[float | None, int | None]:
    """Cost and tokens that a `usage_updated` event as JSON tells of."""
    cost, usage = event.get("cost_usd"), event.get("usage")
    return cost_of(cost), tokens_of(Usage.model_validate(usage)) if isinstance(usage, dict) else None


def cost_of(told: object) -> float | None:
    """What an agent says that it cost; None for what is no cost, which nobody may take off the total."""
    return float(told) if isinstance(told, int | float) and 0 <= told < inf else None


@dataclass(frozen=True, slots=True)
class Places:
    """Where the attempts of a batch work and record."""

    folder: Path
    """The batch's."""
    options: Options
    work: Path
    real: str
    """The batch's folder, with links resolved."""

    @classmethod
    def of(cls, folder: Path, options: Options) -> Places:
        """The places of a batch."""
        work = options.work or folder.with_name(folder.name + ".work")
        return cls(folder, options, work, os.path.realpath(folder))

    def workspace(self, task: Task) -> Workspace:
        """Where a task runs."""
        return task.workspace or self.options.workspace

    def owns(self, root: str) -> bool:
        """Whether a directory is one that was made for this batch."""
        return Path(os.path.realpath(root)).is_relative_to(os.path.realpath(self.work))

    def exclusive(self, task: Task) -> bool | None:
        """Whether a run wants its directory for itself; None: it has one of its own."""
        workspace = self.workspace(task)
        if not isinstance(workspace, Given):
            return None
        return task.may_write if workspace.exclusive is None else workspace.exclusive

    def problem(self, task: Task) -> str | None:
        """Why a task must not run: the journal would lie where its agent writes, or in what is copied."""
        request, workspace = task.request, self.workspace(task)
        if isinstance(workspace, Copy | Worktree) and self.work.is_relative_to(self.folder):
            return f"the workspaces would lie in the batch's own folder ({self.work}); give another `work`"
        roots = [*request.add_dirs, *request.permission.writable]
        if isinstance(workspace, Given | Copy):
            roots.append(request.cwd)
        for root in roots:
            place = os.path.realpath(os.path.join(request.cwd, root))  # noqa: PTH118  # many times a second
            if f"{self.real}/".startswith(f"{place.rstrip('/')}/"):
                return f"the batch's folder ({self.folder}) would lie inside of {place}; give it another place"
            if place.startswith(f"{self.real}/"):
                return f"{place} lies in the batch's own folder ({self.folder})"
        return None

    def spec(
        self, live: Live, batch: str, chain: ChainNames | None, digest: str | None, *, shared: bool
    ) -> AttemptSpec:
        """What an attempt is made from."""
        return AttemptSpec(
            batch=batch,
            run=live.run,
            number=live.number,
            key=live.key,
            request=self._request(live.task.request),
            place=Place(
                workspace=self.workspace(live.task),
                work=str(self.work / live.run),
                record=str(self.folder / "runs" / live.run) if shared else None,
            ),
            chain=chain,
            chain_digest=digest,
            asking=self.options.asking,
            live=self.options.live,
            deltas=self.options.deltas,
            wall=self.options.attempt_total,
            most_usd=live.reserve.usd,
            most_tokens=live.reserve.tokens,
        )

    def _request(self, request: Request) -> Request:
        if self.options.run_total is None or request.limits.total is not None:
            return request
        limits = request.limits.model_copy(update={"total": self.options.run_total})
        return request.model_copy(update={"limits": limits})
