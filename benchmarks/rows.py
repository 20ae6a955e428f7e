"""The rows of the table: what is measured, for whom, in which unit, and the figure to reach."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks import agents
from benchmarks.contestants import CONTESTANTS, NAMES
from benchmarks.lab import Lab, TaskFailed
from benchmarks.processes import alive

__all__ = ["ROWS", "Row", "Sample"]

MIB = 1024 * 1024
OURS = ("interlock",)
HOST_GIVEN_UP = 4.0
"""Seconds after which what outlives a killed host is taken to live for ever."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement. A `note` says what the figure alone does not."""

    value: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `rounds` and how few of them there are in a quick run."""

    name: str
    title: str
    unit: str
    better: Literal["more", "less"]
    target: float | None
    measure: Callable[[Lab, str], Sample]
    contestants: tuple[str, ...] = NAMES
    rounds: int = 5

    def reached(self, value: float) -> bool:
        """Whether a figure is as good as the target; without one, every figure is."""
        if self.target is None:
            return True
        return value >= self.target if self.better == "more" else value <= self.target


# ---- throughput -----------------------------------------------------------------------------------------------------


def _deltas(lab: Lab, contestant: str) -> Sample:
    count = lab.size(200_000, 20_000)
    return _throughput(lab, contestant, lab.agent("deltas", agents.deltas(count)), count)


def _mix(lab: Lab, contestant: str) -> Sample:
    count = lab.size(60_000, 6_000)
    return _throughput(lab, contestant, lab.agent("mix", agents.mix(count), calls=True), count)


def _throughput(lab: Lab, contestant: str, program: str, count: int) -> Sample:
    found = lab.task(contestant, "throughput", warm=lab.warm, program=program)
    wall = f"{count / found['wall']:,.0f} a second of wall clock"
    return Sample(count / found["cpu"], f"{wall}; {found['things']} events or messages")


# ---- runs -----------------------------------------------------------------------------------------------------------


def _overhead(lab: Lab, contestant: str) -> Sample:
    found = lab.task(contestant, "overhead", warm=lab.warm, times=lab.size(40, 5))
    least = f"least of one to least of the other {found['least'] * 1e3:.2f}; the spawn alone {found['bare'] * 1e3:.1f}"
    return Sample(found["over"] * 1e3, least)


def _fifty(lab: Lab, contestant: str) -> Sample:
    program = lab.agent("two-hundred", agents.deltas(200))
    found = lab.task(contestant, "crowd", warm=lab.warm, program=program, count=lab.size(50, 5))
    return Sample(found["wall"])


def _one(lab: Lab, contestant: str) -> Sample:
    found = lab.task(contestant, "footprint", program=lab.agent("two-hundred", agents.deltas(200)))
    return Sample(found["peak"] / MIB, _helpers(found))


def _many(lab: Lab, contestant: str) -> Sample:
    folder = lab.fresh("crowd")
    gate = agents.gate(folder.parent)
    program = agents.install(folder, agents.deltas(200), gate=gate)
    found = lab.task(contestant, "crowd", warm=lab.warm, program=program, count=lab.size(200, 10), gate=str(gate))
    return Sample(found["peak"] / MIB, _helpers(found))


def _helpers(found: dict[str, int]) -> str:
    return f"and {found['helpers'] / MIB:.0f} MiB of its helper process" if found["helpers"] else ""


def _longest(lab: Lab, contestant: str) -> Sample:
    best, peak, why = 0.0, 0, ""
    for size in (60_000, MIB // 2, 2 * MIB, 16 * MIB, 64 * MIB - 1024, 80 * MIB)[: lab.size(6, 3)]:
        try:
            found = lab.task(contestant, "line", program=lab.agent(f"line-{size}", agents.long_line(size)))
        except TaskFailed as error:
            found = {"survived": False, "why": str(error)}
        if not found["survived"]:
            why = f", then {found['why'].partition(':')[0]}"
            break
        best, peak = size / MIB, max(peak, found["peak"])
    return Sample(best, f"peak {peak / MIB:.0f} MiB{why}")


# ---- decisions ------------------------------------------------------------------------------------------------------


def _chain(lab: Lab, contestant: str) -> Sample:
    found = lab.task(contestant, "chain", participants=10, times=lab.size(2000, 100))
    return Sample(found["median"] * 1e6, f"p95 {found['p95'] * 1e6:.0f}")


def _approval(lab: Lab, contestant: str) -> Sample:
    folder = lab.fresh("asks")
    program = agents.install(folder, agents.deltas(1), asks=lab.size(400, 20), times=folder / "times")
    found = lab.task(contestant, "approval", program=program)
    return Sample(found["median"] * 1e3, f"p95 {found['p95'] * 1e3:.2f}")


def _hook(lab: Lab, contestant: str) -> Sample:
    found = lab.task(contestant, "hook", times=lab.size(100, 10))
    return Sample((found["ask"] - found["spawn"]) * 1e3, f"the spawn alone {found['spawn'] * 1e3:.2f}")


def _resident(lab: Lab, contestant: str) -> Sample:
    found = lab.task(contestant, "resident", times=lab.size(500, 20))
    return Sample(found["median"] * 1e3, f"p95 {found['p95'] * 1e3:.2f}")


# ---- ends -----------------------------------------------------------------------------------------------------------


def _cancel(lab: Lab, contestant: str) -> Sample:
    return _cancelled(lab, contestant)


def _deaf(lab: Lab, contestant: str) -> Sample:
    return _cancelled(lab, contestant, deaf=True)


def _cancelled(lab: Lab, contestant: str, **how: object) -> Sample:
    folder = lab.fresh("sleeps")
    program = agents.install(folder, agents.deltas(1), sleeps=folder / "pids", **how)
    found = lab.task(contestant, "cancel", program=program)
    return Sample(found["seconds"], f"{found['left']} of 2 left alive" if found["left"] else "")


def _killed(lab: Lab, contestant: str) -> Sample:
    folder = lab.fresh("sleeps")
    pids = folder / "pids"
    program = agents.install(folder, agents.deltas(1), sleeps=pids)
    argv = lab.command(contestant, "sit", program=program)
    host = subprocess.Popen(argv, env=lab.env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(pids.exists, 20)
    finally:
        began = time.perf_counter()
        host.kill()
        host.wait()
    left = alive(map(int, pids.read_text(encoding="utf-8").split()))
    while left and time.perf_counter() - began < HOST_GIVEN_UP:
        time.sleep(0.002)
        left = alive(left)
    took = time.perf_counter() - began
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return Sample(took, f"{len(left)} of 2 left alive" if left else "")


def _wait(done: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise TaskFailed("the agent did not start")
        time.sleep(0.005)


# ---- imports --------------------------------------------------------------------------------------------------------


def _import(lab: Lab, contestant: str) -> Sample:
    return _imported(lab, next(one.imports for one in CONTESTANTS if one.name == contestant))


def _import_alone(lab: Lab, contestant: str) -> Sample:
    return _imported(lab, f"import {contestant}")


def _imported(lab: Lab, statement: str) -> Sample:
    """Over the bare start of Python; the least of three each, since what disturbs only ever adds."""
    bare, imported = [], []
    for _ in range(3):
        bare.append(_seconds(lab, "pass"))
        imported.append(_seconds(lab, statement))
    return Sample((min(imported) - min(bare)) * 1e3, statement)


def _seconds(lab: Lab, statement: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], env=lab.env, cwd=Path("/"), check=True)
    return time.perf_counter() - began


ROWS = (
    Row("deltas", "deltas a CPU second, whole pipeline", "1/s", "more", 250_000, _deltas),
    Row("mix", "lines of a mixed session a CPU second", "1/s", "more", None, _mix),
    Row("overhead", "a run over the bare spawn", "ms", "less", 2, _overhead),
    Row("fifty", "50 runs at once, 200 deltas each", "s", "less", None, _fifty),
    Row("memory", "peak memory of the host, one run", "MiB", "less", 30, _one),
    Row("memory-200", "peak memory of the host, 200 runs at once", "MiB", "less", 120, _many, rounds=3),
    Row("line", "longest line survived", "MiB", "more", 63.9, _longest, rounds=1),
    Row("chain", "chain of 10 interceptors", "us", "less", 50, _chain, OURS),
    Row("approval", "approval, as the agent sees it", "ms", "less", 0.2, _approval, NAMES[:3]),
    Row("hook", "subprocess hook over its own spawn", "ms", "less", 1, _hook, OURS),
    Row("resident", "resident hook", "ms", "less", 0.3, _resident, OURS),
    Row("cancel", "cancel until nothing is left", "s", "less", 0.25, _cancel, rounds=3),
    Row("cancel-deaf", "the same, of an agent that hears nothing", "s", "less", None, _deaf, rounds=1),
    Row("host-killed", "after SIGKILL of the host", "s", "less", 1, _killed, rounds=3),
    Row("import", "import, over bare Python", "ms", "less", 150, _import),
    Row("import-alone", "`import interlock` alone", "ms", "less", 15, _import_alone, OURS),
)
