"""What the end of an attempt leads to: lines in the journal, a slower or faster pace, another try, or a count."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
from pydantic_core import from_json

from interlock.batch.attempt import tokens_of
from interlock.batch.history import Submission
from interlock.batch.journal import Line, whole_lines
from interlock.batch.results import RunStatus
from interlock.batch.running import Live, cost_of, usage_of
from interlock.batch.verdict import Fate, Verdict, judge
from interlock.batch.wire import AttemptResult, Started
from interlock.batch.workspaces import discard
from interlock.errors import JournalFailed
from interlock.outcome import Outcome, Reason, Status

if TYPE_CHECKING:
    from interlock.batch.driver import Driver
    from interlock.batch.lanes import Lane

__all__ = ["Settling"]

LONGEST_PAUSE = 32 * 86_400.0
"""Seconds that a quota may take to be reset, unless somebody says otherwise: no batch waits for ever."""
AFTER_A_RESET = 5.0
"""Seconds over which starts are spread after a quota is reset."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended, judged."""

    verdict: Verdict
    result: AttemptResult | None
    """None: it was lost with all that it knew."""
    reason: str | None
    message: str
    usd: float | None
    tokens: int | None


class Settling:
    """Settles the attempts of one driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._ended: dict[str, Ended] = {}
        """Between the end of an attempt and its settlement."""

    # ---- the end of an attempt ---------------------------------------------------------------------------------------

    def pace(self, live: Live, result: AttemptResult | str) -> None:
        """Judge, and let the pace of its agent know before anything else is started."""
        ended = self._ended[live.key] = _judged(live, result)
        pace, now = live.lane.pace, time.monotonic()
        match ended.verdict.fate:
            case Fate.THROTTLED:
                pace.throttled(now, live.storm)
            case Fate.EXHAUSTED if ended.verdict.until is not None:
                spread = random.uniform(0, AFTER_A_RESET)  # noqa: S311  # no secret
                pace.hold(now + ended.verdict.until - time.time() + spread)
            case Fate.COUNTED if ended.result is not None and ended.result.started:
                pace.went_through()
                live.lane.failures = 0
            case _:
                pass

    def used(self, key: str, live: Live) -> tuple[float | None, int | None]:
        """What an attempt used, as far as it is known."""
        ended = self._ended.pop(key, None)
        return (live.usd, live.tokens) if ended is None else (ended.usd, ended.tokens)

    async def settle(self, live: Live, result: AttemptResult | str) -> None:
        """Do what its end leads to; raises `JournalFailed`."""
        ended = self._ended[live.key]
        if ended.result is not None and ended.result.started:  # news may come too late, or never
            self._note_start(live, ended.result.attempt, ended.result.workspace, ended.result.branch)
        await self._keep_events(live, ended)
        match ended.verdict.fate:
            case Fate.BROKEN:
                raise JournalFailed(str(self._driver.store.folder), f"runs/{live.run}", ended.message)
            case Fate.CANCELLED:
                await self._cancelled(live, ended)
            case Fate.THROTTLED:
                await self._throttled(live, ended)
            case Fate.EXHAUSTED:
                await self._exhausted(live, ended)
            case Fate.TRANSIENT:
                await self._transient(live, ended)
            case Fate.LOST:
                await self._lost(live, ended)
            case Fate.BLOCKED:
                await self._count(live, ended)
                await self._blocked(live.lane, ended)
            case Fate.COUNTED:
                await self._count(live, ended)
        _ = result

    async def _keep_events(self, live: Live, ended: Ended) -> None:
        """Write the events that came with a result, where the attempt had no folder to record in."""
        result = ended.result
        if result is None or result.events is None:
            return
        folder = self._driver.store.attempt_folder(live.run, result.attempt)
        files = {"events.jsonl": result.events, "stderr.txt": result.outcome.stderr_tail}
        try:
            await anyio.to_thread.run_sync(_write_files, folder, {name: text for name, text in files.items() if text})
        except OSError as error:
            raise JournalFailed(str(self._driver.store.folder), str(folder), error.strerror or str(error)) from error

    async def _cancelled(self, live: Live, ended: Ended) -> None:
        driver = self._driver
        if live.cancelled:
            await self._count(live, ended)
        elif driver.ending:
            await driver.commit(self._line("ended", live, ended))
            await self._discard(live, ended)
        else:  # somebody else ended it
            await self._lost(live, ended)

    async def _throttled(self, live: Live, ended: Ended) -> None:
        driver, pace, now = self._driver, live.lane.pace, time.monotonic()
        await driver.commit(self._line("throttled", live, ended))
        await self._discard(live, ended)
        live.lane.again(live.index, now)
        patience = driver.options.retries.patience
        if pace.throttled_since is not None and now - pace.throttled_since > patience:
            self._close(live.lane, f"throttled for {patience:g} s without one run going through", None)

    async def _exhausted(self, live: Live, ended: Ended) -> None:
        driver, until = self._driver, ended.verdict.until
        await driver.commit(self._line("throttled", live, ended))
        await self._discard(live, ended)
        live.lane.again(live.index, time.monotonic())
        longest, words = driver.options.retries.longest_pause, ended.message or "its quota is used up"
        if until is None or until - time.time() > (LONGEST_PAUSE if longest is None else longest):
            self._close(live.lane, words, until)
        elif (paused := driver.history.paused.get(live.lane.agent)) is None or paused.until != until:
            driver.post(Line(kind="paused", agent=live.lane.agent, reason=words, until=until))

    def _close(self, lane: Lane, reason: str, until: float | None) -> None:
        if lane.closed is None:
            lane.closed = reason
            self._driver.post(Line(kind="paused", agent=lane.agent, reason=reason, until=until))

    async def _transient(self, live: Live, ended: Ended) -> None:
        driver, retries = self._driver, self._driver.options.retries
        tries = driver.history.record(live.run).transient
        if driver.ending:
            await driver.commit(self._line("ended", live, ended))
        elif tries >= retries.transient:
            await self._count(live, ended)
            return
        else:
            await driver.commit(self._line("retried", live, ended))
            wait = min(retries.longest_wait, retries.wait * 2.0 ** min(tries, 30))
            live.lane.again(live.index, time.monotonic() + wait * random.uniform(0.5, 1.5))  # noqa: S311  # no secret
        await self._discard(live, ended)

    async def _lost(self, live: Live, ended: Ended) -> None:
        driver = self._driver
        if not live.task.may_run_again:
            await self._count(live, ended, RunStatus.LOST)
        elif driver.history.record(live.run).lost + 1 >= driver.options.retries.lost:
            await self._count(live, ended, RunStatus.POISON)
        else:
            line = self._line("lost", live, ended)
            await driver.commit(line.model_copy(update={"counts": True}))
            await self._discard(live, ended)
            live.lane.again(live.index, time.monotonic())

    async def _blocked(self, lane: Lane, ended: Ended) -> None:
        lane.failures += 1
        if lane.failures >= self._driver.options.retries.breaker:
            self._close(lane, ended.message or str(ended.reason), None)

    # ---- counting ----------------------------------------------------------------------------------------------------

    async def _count(self, live: Live, ended: Ended, status: RunStatus | None = None) -> None:
        """The run is counted, once and for all."""
        result = ended.result
        if result is None:
            outcome = _made_up(live, ended)
            status = status or RunStatus.FAILED
            record, digest = self._driver.store.lost_record(live.run, status, outcome), None
        else:
            outcome = result.outcome
            status = status or RunStatus(str(outcome.status))
            record, digest = self._driver.store.record(live.run, result, status)
        line = self._line("outcome", live, ended).model_copy(
            update={
                "status": str(status),
                "digest": digest,
                "denials": len(outcome.denials),
                "duration": outcome.duration,
                "workspace": result.workspace if result is not None else live.workspace,
                "branch": result.branch if result is not None else live.branch,
            }
        )
        if _keep(self._driver.places.workspace(live.task)) == "none":
            await self._discard(live, ended)
        await self._driver.commit(line, record=record)

    async def dropped(self, index: int) -> None:
        """Count a run that was cancelled before it started."""
        driver = self._driver
        run, task = driver.store.tasks.ids[index], driver.store.tasks.read(index)
        words = "cancelled before it was started"
        outcome = Outcome(
            run_id="",
            agent=task.request.agent,
            status=Status.CANCELLED,
            message=words,
            labels=task.request.labels,
        )
        record = driver.store.lost_record(run, RunStatus.CANCELLED, outcome)
        line = Line(kind="outcome", run=run, status=RunStatus.CANCELLED, message=words)
        await driver.commit(line, record=record)

    def refused(self, live: Live, problem: str) -> AttemptResult:
        """The result of a run that must not start."""
        outcome = Outcome(
            run_id="",
            agent=live.lane.agent,
            status=Status.FAILED,
            reason=Reason.UNSUPPORTED,
            message=problem,
            labels=live.task.request.labels,
        )
        attempt = f"{live.number:02d}-refused"
        return AttemptResult(
            key=live.key, attempt=attempt, started=False, outcome=outcome, problem="ConfigurationError"
        )

    # ---- attempts that were heard of, or left -----------------------------------------------------------------------

    def started(self, live: Live, news: Started) -> None:
        """An attempt was heard of."""
        self._note_start(live, news.attempt, news.workspace, news.branch, host=news.host, pid=news.pid)

    def _note_start(
        self, live: Live, attempt: str, workspace: str | None, branch: str | None, **where: str | int
    ) -> None:
        """An attempt was made under a key; if it is not the first, the executor ran it again by itself."""
        if live.attempt == attempt:
            return
        if live.attempt is not None:
            words = f"{live.attempt} was lost, and the executor made {attempt} in its place"
            self._driver.post(Line(kind="superseded", run=live.run, key=live.key, attempt=live.attempt, message=words))
        live.attempt, live.workspace, live.branch = attempt, workspace, branch
        line = Line(kind="started", run=live.run, key=live.key, attempt=attempt, workspace=workspace, branch=branch)
        self._driver.post(line.model_copy(update=where))

    def abandon(self, live: Live) -> None:
        """An attempt that was cancelled before it could be settled ends with the batch."""
        ended = self._ended.get(live.key)
        usd, tokens = (live.usd, live.tokens) if ended is None else (ended.usd, ended.tokens)
        line = Line(kind="ended", run=live.run, key=live.key, attempt=live.attempt, usd=usd, tokens=tokens)
        if self._driver.journal.failure is None:
            self._driver.post(line)

    async def interrupted(self, submission: Submission) -> None:
        """What an earlier driver left open was lost with it, which is no fault of the run."""
        driver = self._driver
        task = driver.store.tasks.read(driver.store.tasks.index[submission.run])
        folder = driver.store.run_folder(submission.run)
        usd, tokens = await anyio.to_thread.run_sync(_used_before, folder, submission)
        line = Line(
            kind="lost",
            run=submission.run,
            key=submission.key,
            attempt=submission.attempt,
            counts=False,
            message="the driver was killed",
            usd=usd,
            tokens=tokens,
        )
        driver.spending.count(
            usd if usd is not None else submission.usd, tokens if tokens is not None else submission.tokens
        )
        workspace = driver.places.workspace(task)
        if submission.workspace is not None and _keep(workspace) != "all" and driver.places.owns(submission.workspace):
            await discard(workspace, submission.workspace, task.request.cwd)
        if task.may_run_again:
            await driver.commit(line)
            return
        words = "the driver was killed while it ran, and it must not run again"
        outcome = Outcome(
            run_id="",
            agent=task.request.agent,
            status=Status.FAILED,
            reason=Reason.CRASHED,
            message=words,
            labels=task.request.labels,
        )
        record = driver.store.lost_record(submission.run, RunStatus.LOST, outcome)
        counted = Line(
            kind="outcome", run=submission.run, attempt=submission.attempt, status=RunStatus.LOST, message=words
        )
        await driver.commit(line, counted, record=record)

    async def _discard(self, live: Live, ended: Ended) -> None:
        """Remove the workspace of an attempt that does not count, unless all are kept."""
        root = ended.result.workspace if ended.result is not None else live.workspace
        workspace = self._driver.places.workspace(live.task)
        if not self._driver.executor.shares_files:
            return  # it is on another machine
        if root is not None and _keep(workspace) != "all" and self._driver.places.owns(root):
            await discard(workspace, root, live.task.request.cwd)

    def _line(self, kind: str, live: Live, ended: Ended) -> Line:
        return Line(
            kind=kind,
            run=live.run,
            key=live.key,
            attempt=ended.result.attempt if ended.result is not None else live.attempt,
            reason=ended.reason,
            message=ended.message[:1000] or None,
            usd=ended.usd,
            tokens=ended.tokens,
            until=ended.verdict.until,
        )


def _judged(live: Live, result: AttemptResult | str) -> Ended:
    if isinstance(result, str):
        return Ended(Verdict(Fate.LOST), None, None, result, live.usd, live.tokens)
    outcome = result.outcome
    verdict = judge(outcome, result.problem, now=time.time())
    usd, tokens = cost_of(outcome.cost_usd), tokens_of(outcome.usage)
    idle = verdict.fate in {Fate.THROTTLED, Fate.EXHAUSTED} and not outcome.tool_calls
    if not result.started or idle:  # what never ran, or was refused at its first request, has cost nothing
        usd, tokens = usd or 0.0, tokens or 0
    else:
        usd, tokens = usd if usd is not None else live.usd, tokens if tokens is not None else live.tokens
    return Ended(verdict, result, outcome.reason, outcome.describe(), usd, tokens)


def _made_up(live: Live, ended: Ended) -> Outcome:
    return Outcome(
        run_id="",
        agent=live.lane.agent,
        status=Status.FAILED,
        reason=Reason.CRASHED,
        message=ended.message,
        cost_usd=ended.usd,
        labels=live.task.request.labels,
    )


def _keep(workspace: object) -> str:
    return str(getattr(workspace, "keep", "all"))


def _write_files(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8", "surrogateescape")


def _used_before(folder: Path, submission: Submission) -> tuple[float | None, int | None]:
    """What the events of an attempt say that it used: those of the driver that was killed are all there is to go by."""
    found: tuple[float | None, int | None] = None, None
    for path in sorted(folder.glob(f"{submission.number:02d}-*/events.jsonl")):
        try:
            for line in whole_lines(path):
                if b'"type":"usage_updated"' in line and isinstance(event := from_json(line), dict):
                    found = usage_of(cast("dict[str, object]", event))
        except (OSError, ValueError):
            continue
    return found
