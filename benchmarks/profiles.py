"""Where the time of a run goes: the functions that take most of it, by their own time."""

from __future__ import annotations

import cProfile
import os
import pstats
from collections.abc import Sequence

import anyio

from benchmarks import agents
from benchmarks.contestants import CONTESTANTS
from benchmarks.lab import Lab
from benchmarks.tasks import throughput

__all__ = ["show"]

MOST = 25


def show(lab: Lab, names: Sequence[str]) -> None:
    """Print the profiles of the rows about throughput, of all or of those that are named."""
    os.environ.update(lab.env)
    count = lab.size(100_000, 10_000)
    programs = {
        "deltas": lambda: lab.agent("deltas", agents.deltas(count)),
        "mix": lambda: lab.agent("mix", agents.mix(count), calls=True),
    }
    for name, program in programs.items():
        if not names or name in names:
            print(f"# {name}, {count} lines")
            _profiled(lab, program())


def _profiled(lab: Lab, program: str) -> None:
    ours, warm, folder = CONTESTANTS[0], lab.warm, str(lab.workspace)
    anyio.run(throughput, ours, warm, warm, folder)  # what happens once is not to be seen
    profile = cProfile.Profile()
    profile.enable()
    anyio.run(throughput, ours, warm, program, folder)
    profile.disable()
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(MOST)
