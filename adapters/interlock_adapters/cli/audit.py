"""`interlock audit FILE`: who decided what about which call, how long it took, what it changed; then the sums.

To a terminal tables, to anything else lines whose columns are separated by tabs. All that comes from the file is made
safe to show: agents choose much of it.
"""

from __future__ import annotations

import json
import os
import re
import select
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from interlock.engine.audit_log import BadLine, Entry, Filter, Summary, Tally, read_audit
from interlock.errors import ConfigurationError
from interlock.hooks import AuditRecord
from interlock.tools import MAIN_AGENT
from interlock_adapters.cli.options import UsageProblem
from interlock_adapters.cli.output import print_line, safe_line
from interlock_adapters.cli.problems import COMPLETED, FAILED, code_of, explain

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Wanted", "audit", "moment"]

ROWS = 200
"""Rows of one table: a file may be long, and a table is drawn when its last row is known."""
DECISIONS = ("allow", "deny", "modify", "replace", "grant", "ask", "agent", "broken")
COLUMNS = ("time (UTC)", "run", "agent", "tool", "call", "event", "participant", "binding", "decision", "ms", "changed")
LAST = "reason"
SUMS = ("participant", "binding", "asked", "allowed", "denied", "modified", "replaced", "passed on", "broken")
TIMES = ("median ms", "p95 ms")
_STYLES = {"deny": "yellow", "modify": "cyan", "replace": "cyan"}
_EVENTS = {"pre_tool_use": "before", "post_tool_use": "after"}
_SPAN = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True)
class Wanted:
    """What was typed."""

    file: str
    run: str | None = None
    tool: str | None = None
    decision: str | None = None
    participant: str | None = None
    since: str | None = None
    json: bool = False


def audit(wanted: Wanted) -> int:
    """Show the file; 0, or 1 if lines in it cannot be read, or 2 if the file or an option cannot be used."""
    try:
        chosen = _filter(wanted)
        view: View = JsonLines() if wanted.json else Tables() if os.isatty(1) else TabLines()
        return _shown(wanted.file, chosen, view)
    except BrokenPipeError:
        return COMPLETED
    except (UsageProblem, ConfigurationError) as error:
        for line in explain(error):
            print_line(line, descriptor=2)
        return code_of(error)


def _shown(file: str, chosen: Filter, view: View) -> int:
    summary, bad = Summary(), 0
    for found in read_audit(file):
        if isinstance(found, BadLine):
            bad += not found.torn
            _complain(found)
        elif chosen.wants(found.record):
            summary.add(found.record)
            view.show(found)
    view.close(summary)
    return FAILED if bad else COMPLETED


def _complain(bad: BadLine) -> None:
    what = "is not finished: a writer was stopped in it, or still writes" if bad.torn else "is no record"
    print_line(f"interlock: line {bad.line} {what}: {safe_line(bad.problem, 200)}", descriptor=2)


def _filter(wanted: Wanted) -> Filter:
    if wanted.decision is not None and wanted.decision not in DECISIONS:
        raise UsageProblem(f"--decision {wanted.decision!r}: there are {', '.join(DECISIONS)}")
    since = None if wanted.since is None else moment(wanted.since, time.time())
    return Filter(wanted.run, wanted.tool, wanted.decision, wanted.participant, since)


def moment(text: str, now: float) -> float:
    """Seconds since the epoch of `90m`, `2026-11-30`, `2026-11-30T10:00` or a number; raises `UsageProblem`."""
    if span := _SPAN.fullmatch(text):
        return now - float(span["number"]) * _UNITS[span["unit"]]
    try:
        return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise UsageProblem(
            f"--since {text!r}: write how long ago, as in 90m or 2d, or when, as in 2026-11-30T10:00 (local time)"
        ) from None


# ---- Rows -----------------------------------------------------------------------------------------------------------


def _row(record: AuditRecord) -> tuple[str, ...]:
    """The columns of a record, safe to show."""
    agent = record.agent if record.agent_id == MAIN_AGENT else f"{record.agent}/{record.agent_id}"
    cells = (
        _when(record.time),
        record.run_id,
        agent,
        record.tool_name,
        record.tool_call_id,
        _EVENTS[record.event] + ("" if record.round == 1 else f" ({record.round})"),
        record.participant,
        record.binding,
        record.decision + (" (broken)" if record.broken else ""),
        _milliseconds(record.duration) if record.duration else "-",
        _changed(record),
        record.reason,
    )
    return tuple(safe_line(cell) for cell in cells)


def _when(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def _changed(record: AuditRecord) -> str:
    """The digests' beginnings: of the input, and of what came of it."""
    before, after = record.input_digest, record.result_digest
    return _short(before) + (f" -> {_short(after)}" if after is not None else "")


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:8]


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f}"


def _sums(summary: Summary) -> Iterator[tuple[str, ...]]:
    for (participant, binding), one in summary.tallies.items():
        counts = (one.asked, one.allowed, one.denied, one.modified, one.replaced, one.passed_on, one.broken)
        times = (_milliseconds(one.quantile(0.5)), _milliseconds(one.quantile(0.95)))
        yield (safe_line(participant), safe_line(binding), *map(str, counts), *times)


# ---- Views ----------------------------------------------------------------------------------------------------------


class View(Protocol):
    """What shows the records."""

    def show(self, entry: Entry) -> None:
        """Show one."""
        ...

    def close(self, summary: Summary) -> None:
        """Show the sums."""
        ...


class TabLines:
    """A line a record, the columns separated by tabs; a blank line, then the sums in the same way."""

    def __init__(self) -> None:
        self._headed = False

    def show(self, entry: Entry) -> None:
        """Write one line."""
        if not self._headed:
            self._headed = True
            _write("\t".join((*COLUMNS, LAST)))
        _write("\t".join(_row(entry.record)))

    def close(self, summary: Summary) -> None:
        """Write the sums."""
        if not summary.records:
            _write("no records")
            return
        _write("")
        _write("\t".join((*SUMS, *TIMES)))
        for row in _sums(summary):
            _write("\t".join(row))


class JsonLines:
    """One object a line: each record with its line number, then the sums."""

    def show(self, entry: Entry) -> None:
        """Write one line."""
        _write(json.dumps({"type": "record", "line": entry.line, **entry.record.model_dump(mode="json")}))

    def close(self, summary: Summary) -> None:
        """Write the sums; durations are in seconds."""
        participants = [
            {"participant": name, "binding": binding, **_counts(one)}
            for (name, binding), one in summary.tallies.items()
        ]
        _write(json.dumps({"type": "summary", "records": summary.records, "participants": participants}))


def _counts(one: Tally) -> dict[str, float | None]:
    counts = {name: value for name, value in asdict(one).items() if isinstance(value, int)}
    return {**counts, "median": one.quantile(0.5), "p95": one.quantile(0.95), "longest": one.longest}


@dataclass(slots=True)
class Tables:
    """Tables for a terminal, some rows at a time."""

    _rows: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def show(self, entry: Entry) -> None:
        """Keep a row, and draw when there are enough."""
        when, run, agent, tool, call, *rest = _row(entry.record)
        self._rows.append((when[5:], run[-8:], agent, tool, call[-8:], *rest))
        if len(self._rows) == ROWS:
            self._draw()

    def close(self, summary: Summary) -> None:
        """Draw the rest and the sums."""
        self._draw()
        if not summary.records:
            _write("no records")
            return
        _draw((*SUMS, *TIMES), list(_sums(summary)), numbers=2)

    def _draw(self) -> None:
        if self._rows:
            _draw((*COLUMNS, LAST), self._rows, numbers=len(COLUMNS))
            self._rows.clear()


def _draw(columns: tuple[str, ...], rows: list[tuple[str, ...]], *, numbers: int) -> None:
    """One table; columns from `numbers` on, but the last words, are right-aligned."""
    from rich.table import Table  # noqa: PLC0415 -- only a terminal needs it
    from rich.text import Text  # noqa: PLC0415 -- same

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number >= numbers and name != LAST else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell.partition(" ")[0], "")) for cell in row))
    console = _console()
    console.print(table)
    console.print()


def _console() -> Console:
    from rich.console import Console  # noqa: PLC0415 -- only a terminal needs it

    return Console()


def _write(line: str) -> None:
    """A line on stdout; raises BrokenPipeError once nobody reads."""
    rest = memoryview(f"{line}\n".encode(errors="backslashreplace"))
    while rest:
        try:
            rest = rest[os.write(1, rest) :]
        except BlockingIOError:
            select.select([], [1], [])
