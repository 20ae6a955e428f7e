"""What a journal adds up to: which runs are counted and how, what is open, what was spent. Lines in, facts out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from sys import intern

from interlock.batch.journal import Line
from interlock.batch.results import BatchReport, Paused, RunStatus, Spent
from interlock.model import FrozenMap, Model

__all__ = ["AttemptView", "Counted", "History", "RunRecord", "RunView", "Submission"]


class AttemptView(Model):
    """One attempt, as the journal tells it."""

    number: int
    attempt: str | None = None
    """None: it was submitted, and nothing was heard of it."""
    state: str = "running"
    """running, throttled, retried, lost, ended (with the batch), or counted."""
    reason: str | None = None
    message: str | None = None
    submitted: float
    """Seconds since the epoch."""
    ended: float | None = None
    usd: float | None = None
    tokens: int | None = None
    workspace: str | None = None
    branch: str | None = None


class RunView(Model):
    """One run, as the journal tells it."""

    run: str
    index: int
    status: RunStatus | None = None
    reason: str | None = None
    message: str | None = None
    attempt: str | None = None
    """The one that counts."""
    attempts: tuple[AttemptView, ...] = ()


@dataclass(slots=True)
class Submission:
    """An attempt that is not over, as far as the journal knows."""

    run: str
    key: str
    number: int
    usd: float | None
    tokens: int | None
    """What it reserves."""
    attempt: str | None = None
    workspace: str | None = None
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """What the line says that counts a run; of ten thousand runs there are ten thousand, so it is a small thing."""

    run: str
    status: str
    attempt: str | None
    reason: str | None
    message: str | None
    usd: float | None
    denials: int
    duration: float
    digest: str | None
    """Of `outcome.json`."""
    workspace: str | None
    branch: str | None

    @classmethod
    def of(cls, line: Line) -> Counted:
        """What an `outcome` line says."""
        return cls(
            run=line.run or "",
            status=intern(line.status or ""),
            attempt=line.attempt,
            reason=line.reason and intern(line.reason),
            message=line.message,
            usd=line.usd,
            denials=line.denials or 0,
            duration=line.duration or 0.0,
            digest=line.digest,
            workspace=line.workspace,
            branch=line.branch,
        )


@dataclass(slots=True)
class RunRecord:
    """What is known of one run; `counted` is what its last outcome line says, unless it was reopened."""

    attempts: int = 0
    numbered: int = 0
    """The number of its last attempt, throttled ones too."""
    lost: int = 0
    transient: int = 0
    counted: Counted | None = None
    views: tuple[AttemptView, ...] = ()


@dataclass(slots=True)
class History:
    """The sum of a journal's lines."""

    detailed: bool = False
    """Whether each attempt is remembered, and not only counted."""
    runs: dict[str, RunRecord] = field(default_factory=dict[str, RunRecord])
    open: dict[str, Submission] = field(default_factory=dict[str, Submission])
    """By key."""
    order: dict[str, None] = field(default_factory=dict[str, None])
    """The runs with a status, in the order in which they were counted."""
    paused: dict[str, Paused] = field(default_factory=dict[str, Paused])
    drivers: int = 0
    ended: str | None = None
    """Why the last driver ended; None: it still runs, or was killed."""
    message: str = ""
    usd: float = 0.0
    tokens: int = 0
    unknown: int = 0
    attempts: int = 0
    lost: int = 0
    throttled: int = 0

    def take(self, line: Line) -> None:
        """Add one line; a kind that is unknown adds nothing."""
        taker = _TAKERS.get(line.kind)
        if taker is not None:
            taker(self, line)

    def record(self, run: str) -> RunRecord:
        """What is known of a run; nothing yet, if it was never heard of."""
        found = self.runs.get(run)
        if found is None:
            found = self.runs[run] = RunRecord()
        return found

    def counted(self, run: str) -> Counted | None:
        """What the line says that counts a run; None if there is none."""
        found = self.runs.get(run)
        return found.counted if found is not None else None

    @property
    def spent(self) -> Spent:
        """What it has cost."""
        return Spent(usd=self.usd, tokens=self.tokens, unknown=self.unknown)

    def report(self, total: int) -> BatchReport:
        """The counts."""
        lines = [record.counted for record in self.runs.values() if record.counted is not None]
        return BatchReport(
            total=total,
            statuses=FrozenMap(Counter(line.status for line in lines)),
            unfinished=total - len(lines),
            why=self.ended or "running",
            message=self.message,
            paused=tuple(self.paused.values()),
            denials=sum(line.denials for line in lines),
            spent=self.spent,
            attempts=self.attempts,
            lost=self.lost,
            throttled=self.throttled,
        )

    def view(self, run: str, index: int) -> RunView:
        """One run; its attempts only if the history is detailed."""
        record = self.runs.get(run) or RunRecord()
        line = record.counted
        if line is None:
            return RunView(run=run, index=index, attempts=record.views)
        return RunView(
            run=run,
            index=index,
            status=RunStatus(line.status),
            reason=line.reason,
            message=line.message,
            attempt=line.attempt,
            attempts=record.views,
        )

    # ---- one kind of line each ---------------------------------------------------------------------------------------

    def opened(self, _line: Line) -> None:
        self.drivers += 1
        self.paused.clear()
        self.ended, self.message = None, ""

    def submitted(self, line: Line) -> None:
        run, key, number = line.run or "", line.key or "", line.number or 1
        self.open[key] = Submission(run, key, number, line.usd, line.tokens)
        record = self.record(run)
        record.numbered = max(record.numbered, number)
        if self.detailed:
            record.views += (AttemptView(number=number, submitted=line.ts),)

    def started(self, line: Line) -> None:
        submission = self.open.get(line.key or "")
        if submission is None:
            return
        submission.attempt, submission.workspace, submission.branch = line.attempt, line.workspace, line.branch
        fields = {"attempt": line.attempt, "workspace": line.workspace, "branch": line.branch}
        self._change_view(line, submission.number, fields)

    def throttled_(self, line: Line) -> None:
        self.throttled += 1
        self._over(line, "throttled")

    def retried(self, line: Line) -> None:
        self._attempted(line).transient += 1
        self._over(line, "retried")

    def lost_(self, line: Line) -> None:
        self.lost += 1
        self._attempted(line).lost += bool(line.counts)
        self._over(line, "lost")

    def ended_(self, line: Line) -> None:
        self._attempted(line)
        self._over(line, "ended")

    def outcome(self, line: Line) -> None:
        record = self.record(line.run or "")
        if line.key is not None:
            self._attempted(line)
            self._over(line, "counted")
        if record.counted is None:
            self.order[line.run or ""] = None
        record.counted = Counted.of(line)

    def reopened(self, line: Line) -> None:
        record = self.record(line.run or "")
        record.counted, record.lost, record.transient = None, 0, 0
        self.order.pop(line.run or "", None)

    def paused_(self, line: Line) -> None:
        agent = line.agent or ""
        self.paused[agent] = Paused(agent=agent, reason=line.reason or "", until=line.until)

    def end(self, line: Line) -> None:
        self.ended, self.message = line.reason, line.message or ""

    def _attempted(self, line: Line) -> RunRecord:
        record = self.record(line.run or "")
        record.attempts += 1
        self.attempts += 1
        return record

    def _over(self, line: Line, state: str) -> None:
        """An attempt is over: what it used counts, and where that is not known, what it had reserved."""
        submission = self.open.pop(line.key or "", None)
        reserved = (submission.usd, submission.tokens) if submission is not None else (None, None)
        usd = line.usd if line.usd is not None else reserved[0]
        tokens = line.tokens if line.tokens is not None else reserved[1]
        self.usd += usd or 0.0
        self.tokens += tokens or 0
        self.unknown += usd is None and tokens is None
        if submission is not None:
            fields = {
                "state": state,
                "reason": line.reason,
                "message": line.message,
                "ended": line.ts,
                "usd": line.usd,
                "tokens": line.tokens,
            }
            self._change_view(line, submission.number, fields)

    def _change_view(self, line: Line, number: int, fields: Mapping[str, object]) -> None:
        if self.detailed:
            record = self.record(line.run or "")
            record.views = tuple(
                view.model_copy(update=fields) if view.number == number else view for view in record.views
            )


_TAKERS: dict[str, Callable[[History, Line], None]] = {
    "opened": History.opened,
    "submitted": History.submitted,
    "started": History.started,
    "throttled": History.throttled_,
    "retried": History.retried,
    "lost": History.lost_,
    "ended": History.ended_,
    "outcome": History.outcome,
    "reopened": History.reopened,
    "paused": History.paused_,
    "end": History.end,
}
