"""Measuring: all contestants by turns in one process, the model in another, and the figures as one table.

Of each round a contestant makes a run without calls and one with `CALLS` calls of a tool that does nothing. What is
shown are medians over the rounds, of the differences within a round: whatever else the machine does, it does to both.
CPU seconds are those of the host alone, without the agent, the model and Interlock's guardian.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from benchmarks.real.contestants import Agent, Contestant, Stage
from interlock_fixtures.clis import cli_version, require_cli

__all__ = ["Column", "as_json", "described", "measure"]

CALLS = 20
RUN_WITHIN = 120.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one contestant, in seconds."""

    run: float
    run_cpu: float
    call: float
    """Of one call: the run with calls less the one without, by their number."""
    call_cpu: float


@dataclass(slots=True)
class Column:
    """What was found of one contestant."""

    contestant: Contestant
    samples: list[Sample] = field(default_factory=list[Sample])
    failure: str = ""

    def values(self, name: str) -> list[float]:
        """One figure of every round, in milliseconds."""
        return [getattr(sample, name) * 1e3 for sample in self.samples]


def measure(agent: Agent, *, rounds: int, calls: int = CALLS) -> list[Column]:
    """All contestants of an agent, after a run of each that loads what is loaded once."""
    columns = [Column(one, failure="" if one.version is not None else "not installed") for one in agent.contestants]
    with _stage(agent) as stage:
        anyio.run(_rounds, stage, columns, rounds, calls)
    return columns


@contextmanager
def _stage(agent: Agent) -> Any:
    cli = require_cli(agent.name, "newest")
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as made:
        folder = Path(made).resolve()
        (folder / "workspace").mkdir()
        argv = [sys.executable, "-m", "benchmarks.real.model", agent.name]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as model:
            try:
                assert model.stdout is not None
                stage = Stage(cli, model.stdout.readline().strip(), folder)
                os.environ.clear()
                os.environ.update(stage.environ())
                yield stage
            finally:
                os.environ.clear()
                os.environ.update(before)
                model.terminate()


async def _rounds(stage: Stage, columns: Sequence[Column], rounds: int, calls: int) -> None:
    for number in range(rounds + 1):
        first = number % len(columns)  # nobody always comes after the same other
        for column in (*columns[first:], *columns[:first]):
            if column.failure:
                continue
            try:
                sample = await _sample(stage, column.contestant, calls)
            except Exception as error:  # noqa: BLE001  # one that fails keeps nobody else from being measured
                column.failure = "failed"
                print(f"{column.contestant.name}: {error!r}", file=sys.stderr)
                continue
            if number:
                column.samples.append(sample)


async def _sample(stage: Stage, contestant: Contestant, calls: int) -> Sample:
    plain, plain_cpu = await _timed(stage, contestant, 0)
    busy, busy_cpu = await _timed(stage, contestant, calls)
    return Sample(plain, plain_cpu, (busy - plain) / calls, (busy_cpu - plain_cpu) / calls)


async def _timed(stage: Stage, contestant: Contestant, calls: int) -> tuple[float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    with anyio.fail_after(RUN_WITHIN):
        await contestant.run(stage, calls)
    return time.perf_counter() - began, time.process_time() - cpu


# ---- the table ------------------------------------------------------------------------------------------------------


HEAD = ("run, ms", "over bare", "x bare", "host CPU", "call, ms", "over bare", "x bare", "host CPU")


def text(columns: Sequence[Column]) -> str:
    """The table as Markdown, a contestant a row: medians, and in brackets what the least of all rounds say."""
    rows = [["", *HEAD], *(_row(column, columns) for column in columns)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    drawn = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([drawn[0], rule, *drawn[1:]])


def _row(column: Column, columns: Sequence[Column]) -> list[str]:
    figures = as_figures(column, columns)
    if not figures:
        return [column.contestant.name, column.failure, *[""] * (len(HEAD) - 1)]
    cells: list[str] = []
    for name in ("run", "call"):
        cells += [f"{_figure(figures[name])} ({_figure(figures[f'{name}_least'])})"]
        over, ratio = figures[f"{name}_over"], figures[f"{name}_ratio"]
        cells += [f"{_figure(over)} ({_figure(figures[f'{name}_over_least'])})" if over is not None else ""]
        cells += [f"{ratio:.2f}" if ratio is not None else "", _figure(figures[f"{name}_cpu"])]
    return [column.contestant.name, *cells]


def as_figures(column: Column, columns: Sequence[Column]) -> dict[str, Any]:
    """The figures of a contestant in milliseconds, and beside its bare one the differences and ratios.

    `over` and `ratio` are medians over pairs of one round; `over_least` is the least of one less that of the other.
    """
    if not column.samples:
        return {}
    bare = next((one for one in columns if one.contestant.name == column.contestant.bare and one.samples), None)
    found: dict[str, Any] = {}
    for name in ("run", "call"):
        own, theirs = column.values(name), bare.values(name) if bare else []
        pairs = list(zip(own, theirs, strict=False))
        found |= {name: _median(own), f"{name}_least": min(own), f"{name}_cpu": _median(column.values(f"{name}_cpu"))}
        found |= {
            f"{name}_over": _median([one - other for one, other in pairs]) if pairs else None,
            f"{name}_ratio": _median([one / other for one, other in pairs]) if pairs else None,
            f"{name}_over_least": min(own) - min(theirs) if pairs else None,
        }
    return found


def as_json(agent: Agent, columns: Sequence[Column]) -> dict[str, Any]:
    """Everything that was measured."""
    return {
        "agent": agent.name,
        "cli": cli_version(agent.name, "newest"),
        "contestants": {
            column.contestant.name: {
                "version": column.contestant.version,
                "failure": column.failure,
                "figures": as_figures(column, columns),
                "samples": {name: column.values(name) for name in ("run", "run_cpu", "call", "call_cpu")},
            }
            for column in columns
        },
    }


def described(agent: Agent, columns: Sequence[Column], circumstances: Mapping[str, Any]) -> str:
    """The table with what it was measured with."""
    peers = [f"{one.contestant.package} {one.contestant.version}" for one in columns if one.contestant.package]
    said = ", ".join(f"{key}: {value}" for key, value in circumstances.items() if key != "versions")
    return f"{text(columns)}\n\n- {agent.name} {cli_version(agent.name, 'newest')}, {', '.join(peers)}; {said}"


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
