"""`interlock batch status` and `show`: what a batch's folder tells, also while another process drives it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from interlock.batch.history import AttemptView, RunView
from interlock.batch.results import RunStatus
from interlock.batch.view import BatchView, read_batch
from interlock.errors import InterlockError
from interlock_adapters.cli.batch_words import counts_of, line_of_result, line_of_run, paused_words
from interlock_adapters.cli.closing import Closing
from interlock_adapters.cli.options import UsageProblem
from interlock_adapters.cli.output import print_line, safe_line, safe_text
from interlock_adapters.cli.problems import COMPLETED, code_of, explain

__all__ = ["show_run", "show_status"]

WIDTH = 200


def show_status(folder: str, *, only_failed: bool, as_json: bool) -> int:
    """Print every run in a line, then the sums; returns the exit code."""
    try:
        view = read_batch(folder)
        for run in view.runs():
            if not only_failed or run.status not in {None, RunStatus.COMPLETED}:
                print_line(run.model_dump_json() if as_json else _line(run, driven=view.holder is not None))
        for line in _sums_as_json(view) if as_json else _sums(view):
            print_line(line)
    except InterlockError as error:
        return _complain(error)
    return COMPLETED


def _line(run: RunView, *, driven: bool) -> str:
    line = line_of_run(run) if run.status is not None else f"{run.run} {_open_state(run, driven=driven)}"
    return line + (f" ({len(run.attempts)} attempts)" if len(run.attempts) > 1 else "")


def _open_state(run: RunView, *, driven: bool) -> str:
    """Of a run that is not counted."""
    if not run.attempts:
        return "waiting"
    last = run.attempts[-1].state
    if last == "running":
        return "running" if driven else "waiting (its driver was killed)"
    return f"waiting ({last})"


def _sums(view: BatchView) -> Iterator[str]:
    report = view.report()
    yield counts_of(report)
    yield from (paused_words(paused) for paused in report.paused)
    if view.holder is not None:
        yield f"it is driven now, by {safe_line(view.holder)}"
    elif report.unfinished:
        ended = "the last driver was killed" if report.why == "running" else f"the last driver ended: {report.why}"
        yield f"nobody drives it; {ended}; go on with: interlock batch --out {safe_line(str(view.folder))}"


def _sums_as_json(view: BatchView) -> Iterator[str]:
    report = view.report().model_dump(mode="json", exclude={"elapsed"})
    yield json.dumps({"batch": view.id, "driven_by": view.holder, "report": report})


def show_run(folder: str, run: str, *, as_json: bool) -> int:
    """Print one run; returns the exit code."""
    try:
        view = read_batch(folder)
        try:
            shown = view.run(run)
        except KeyError:
            raise UsageProblem(f"{folder} has no run {run!r}; interlock batch status lists them") from None
        for line in _as_json(view, shown) if as_json else _shown(view, shown):
            print_line(line)
    except (UsageProblem, InterlockError) as error:
        return _complain(error)
    return COMPLETED


def _as_json(view: BatchView, run: RunView) -> Iterator[str]:
    result = view.result(run.run)
    counted = result.model_dump(mode="json", exclude={"task"}) if result is not None else None
    yield json.dumps({"run": run.model_dump(mode="json"), "result": counted, "files": _files(view, run)})


def _shown(view: BatchView, run: RunView) -> Iterator[str]:
    result = view.result(run.run)
    yield line_of_result(result) if result is not None else _line(run, driven=view.holder is not None)
    for attempt in run.attempts:
        yield f"  {_attempt(attempt)}"
    if result is not None:
        yield from (f"warning: {safe_line(warning)}" for warning in result.warnings)
        yield from Closing().lines(result.outcome)
        if result.workspace is not None:
            yield f"worked in {safe_line(result.workspace)}" + (
                f" on {safe_line(result.branch)}" if result.branch else ""
            )
    if (files := _files(view, run)) is not None:
        yield f"files: {safe_line(files)}"
    if result is not None and result.outcome.text:
        yield ""
        yield safe_text(result.outcome.text)


def _attempt(attempt: AttemptView) -> str:
    begun = f"{datetime.fromtimestamp(attempt.submitted).astimezone():%Y-%m-%d %H:%M:%S}"
    took = f", {attempt.ended - attempt.submitted:.1f} s" if attempt.ended is not None else ""
    cost = f", ${attempt.usd:.4f}" if attempt.usd is not None else ""
    tokens = f", {attempt.tokens} tokens" if attempt.tokens is not None else ""
    words = f": {safe_line(attempt.message, WIDTH)}" if attempt.message else ""
    return f"attempt {attempt.number} {attempt.state}, begun {begun}{took}{cost}{tokens}{words}"


def _files(view: BatchView, run: RunView) -> str | None:
    """The folder of the attempt that counts, else of the last that was heard of."""
    heard = [attempt.attempt for attempt in run.attempts if attempt.attempt is not None]
    attempt = run.attempt or (heard[-1] if heard else None)
    return str(view.folder_of(run.run, attempt)) if attempt is not None else None


def _complain(error: UsageProblem | InterlockError) -> int:
    for line in explain(error):
        print_line(line, 2)
    return code_of(error)
