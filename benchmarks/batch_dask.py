"""`python -m benchmarks batch --engine dask [--quick]`: a batch on a cluster of two workers, and here.

Each run is a scripted agent, a real process that thinks for a fixed time, so that the ideal is known: runs / slots x
that time. What is over it is starting agents, the journal and the way to the workers and back. All of it, scheduler and
workers too, shares this machine's cores.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from interlock import ChainNames, Client, Executor, Request, Task, batch
from interlock_adapters.dask import DaskExecutor
from interlock_fixtures.scripted_agent.launcher import install

SLOTS = 4
THINKS = 2.0
"""Seconds of one run that nobody can shorten."""
PATIENCE = 60.0


def tasks(folder: Path, count: int) -> list[Task]:
    """Runs that think and then answer."""
    binary = str(install(folder, [{"sleep": THINKS}, {"text": "done"}]))
    return [
        Task(id=f"r{n}", request=Request(agent="claude", prompt="go", cwd="/usr", binary=binary)) for n in range(count)
    ]


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A scheduler and two workers of two slots; gives the scheduler's address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str, *words: str) -> None:
        argv = [sys.executable, "-m", f"distributed.cli.dask_{program}", *words, "--no-dashboard"]
        with (folder / f"log-{len(started)}").open("wb") as log:
            started.append(subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log))

    file = folder / "scheduler.json"
    try:
        start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        deadline = time.monotonic() + PATIENCE
        while not (file.exists() and file.read_text("utf-8").endswith("}")) and time.monotonic() < deadline:
            time.sleep(0.05)
        address = str(json.loads(file.read_text("utf-8"))["address"])
        for _ in range(2):
            start("worker", address, "--no-nanny", "--nthreads", "2", "--resources", "agent=2", "--memory-limit", "0")
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait()


async def drive(given: list[Task], folder: Path, executor: Executor | None) -> float:
    """A whole batch; seconds."""
    began = time.perf_counter()
    where = {"client": Client()} if executor is None else {"executor": executor, "chain": ChainNames()}
    async with batch(given, folder, concurrency=SLOTS, stagger=0.0, **where) as runs:
        report = await runs.report()
    if not report.ok:
        raise SystemExit(report.to_json())
    return time.perf_counter() - began


async def on_dask(address: str, folder: Path, given: list[Task], warm: list[Task]) -> float:
    """The same on the cluster, once all of its workers are there and have loaded what they need."""
    async with DaskExecutor(address, timeout=PATIENCE, shares_files=True) as executor:
        with anyio.fail_after(PATIENCE):
            while await executor.capacity() < SLOTS:  # noqa: ASYNC110  # workers come when they come
                await anyio.sleep(0.2)
        await drive(warm, folder / "warm-dask", executor)
        return await drive(given, folder / "dask", executor)


async def here(folder: Path, given: list[Task], warm: list[Task]) -> float:
    """The same in this process."""
    await drive(warm, folder / "warm-local", None)
    return await drive(given, folder / "local", None)


def main(*, quick: bool) -> int:
    """Measure both, and print them over the ideal; 0."""
    count = 8 if quick else 80
    ideal = count / SLOTS * THINKS
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as name:
        folder = Path(name)
        os.environ |= {"XDG_STATE_HOME": str(folder / "state"), "HOME": name}
        given, warm = tasks(folder, count), tasks(folder, SLOTS)
        local = anyio.run(functools.partial(here, folder, given, warm))
        with cluster(folder) as address:
            dask = anyio.run(functools.partial(on_dask, address, folder, given, warm))
    print(f"{count} runs that think for {THINKS:g} s, {SLOTS} at once: ideal {ideal:.1f} s")
    for engine, wall in (("local", local), ("dask", dask)):
        over = wall - ideal
        figures = f"{100 * over / ideal:5.1f} % over, {over / count * SLOTS * 1e3:6.0f} ms a run"
        print(f"{engine:>6} {wall:6.1f} s, {figures}")
    return 0
