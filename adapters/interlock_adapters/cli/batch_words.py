"""A batch in words: a line a run, and the last lines; everything here is safe for a terminal."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from interlock.batch.history import RunView
from interlock.batch.results import BatchReport, BatchResult, Paused, RunStatus, Spent
from interlock.batch.view import BatchView
from interlock.outcome import Reason
from interlock_adapters.cli.output import safe_line
from interlock_adapters.cli.problems import BOUND, BOUNDS, COMPLETED, FAILED, UNGUARDED, USAGE

__all__ = [
    "Code",
    "clock",
    "code_of_runs",
    "count_of",
    "counts_of",
    "last_lines",
    "line_of_result",
    "line_of_run",
    "paused_words",
    "spent_words",
]

WIDTH = 300
"""Characters of a failure that a line shows."""
LISTED = 20
"""Failed runs that the last lines name."""
_SEVERITY = (COMPLETED, BOUND, USAGE, FAILED, UNGUARDED)
_WHY = {
    "deadline": "the time of --timeout is over",
    "budget": "the budget does not pay for another run; a larger --budget-usd or --budget-tokens does",
    "paused": "agents are paused",
    "cancelled": "it was interrupted",
}

Code = int


def line_of_result(result: BatchResult) -> str:
    """A counted run in a line."""
    outcome = result.outcome
    parts = [f"completed in {outcome.duration:.1f} s" if result.ok else _failure(result)]
    if result.attempts > 1:
        parts.append(f"{result.attempts} tries")
    if outcome.denials:
        parts.append(f"{len(outcome.denials)} denied")
    if outcome.cost_usd is not None:
        parts.append(f"${outcome.cost_usd:.4f}")
    return f"{result.run} {', '.join(parts)}"


def _failure(result: BatchResult) -> str:
    reason = f" ({result.outcome.reason})" if result.outcome.reason else ""
    words = f": {safe_line(result.outcome.message, WIDTH)}" if result.outcome.message else ""
    return f"{result.status}{reason}{words}"


def counts_of(report: BatchReport) -> str:
    """All counts in a line."""
    counted = report.total - report.unfinished
    parts = [f"{count} {status}" for status in RunStatus if (count := report.statuses.get(status, 0))]
    head = f"{counted} of {report.total} runs counted" + (f": {', '.join(parts)}" if parts else "")
    more = [(report.denials, "denied call"), (report.lost, "lost attempt"), (report.throttled, "throttled attempt")]
    tail = [count_of(count, what) for count, what in more if count]
    return "; ".join([head, *tail, spent_words(report.spent)])


def spent_words(spent: Spent) -> str:
    """What it cost."""
    tokens = f", {spent.tokens} tokens" if spent.tokens else ""
    unknown = f", {count_of(spent.unknown, 'attempt')} of unknown cost" if spent.unknown else ""
    return f"${spent.usd:.4f}{tokens}{unknown}"


def paused_words(paused: Paused) -> str:
    """An agent that is paused."""
    until = "until the batch is resumed"
    if paused.until is not None:
        until = f"until {datetime.fromtimestamp(paused.until).astimezone():%Y-%m-%d %H:%M:%S %Z}"
    return f"{safe_line(paused.agent)} is paused {until}: {safe_line(paused.reason, WIDTH)}"


def count_of(number: int, what: str) -> str:
    """As `1 run` or `2 runs`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def clock(seconds: float) -> str:
    """Seconds as `0:05` or `2:03:04`."""
    minutes, second = divmod(int(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


def last_lines(
    report: BatchReport, view: BatchView, warned: Counter[str], denied: Counter[str], *, out: str
) -> Iterator[str]:
    """What the person should know when it is over; `denied` are lines about calls that did not run."""
    yield from _failed(view.runs())
    for line, times in (*warned.most_common(LISTED), *denied.most_common(LISTED)):
        yield line + (f" ({times} times)" if times > 1 else "")
    if denied:
        yield "  (what allows a call belongs to the tasks, which never change: begin another batch with it)"
    yield counts_of(report)
    yield from (paused_words(paused) for paused in report.paused)
    command = safe_line(f"interlock batch --out {shlex.quote(out)}")
    if report.unfinished:
        left = count_of(report.unfinished, "run")
        yield f"{left} without a result yet ({_WHY.get(report.why, report.why)}); go on: {command}"
    elif not report.ok:
        yield f"run again what failed: {command} --only-failed"


def line_of_run(run: RunView) -> str:
    """A counted run in a line, as the journal tells of it."""
    if run.status is RunStatus.COMPLETED:
        return f"{run.run} {run.status}"
    words = run.message or run.reason
    return f"{run.run} {run.status}" + (f": {safe_line(words, WIDTH)}" if words else "")


def _failed(runs: Iterable[RunView]) -> Iterator[str]:
    failed = [run for run in runs if run.status not in {None, RunStatus.COMPLETED}]
    yield from map(line_of_run, failed[:LISTED])
    if len(failed) > LISTED:
        yield f"... and {len(failed) - LISTED} more: interlock batch status --only-failed"


def code_of_runs(runs: Iterable[RunView], report: BatchReport) -> Code:
    """The exit code that says the worst that happened."""
    codes = {_code(run) for run in runs if run.status is not None}
    if report.unfinished:
        codes.add(BOUND if report.why in {"deadline", "budget"} else FAILED)
    return max(codes, key=_SEVERITY.index, default=COMPLETED)


def _code(run: RunView) -> Code:
    if run.status is RunStatus.COMPLETED:
        return COMPLETED
    if run.reason == Reason.UNGUARDED:
        return UNGUARDED
    if run.reason == Reason.UNSUPPORTED:
        return USAGE
    return BOUND if run.status is RunStatus.TIMED_OUT or run.reason in BOUNDS else FAILED
