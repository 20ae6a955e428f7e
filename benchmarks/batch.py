"""`python -m benchmarks batch [--quick]`: what a batch costs beside its runs.

Attempts here are no agents: each answers at once with an outcome, so that all that is measured is the driver's own: the
journal, its syncs, admission, and the files of each run. Beside it stand a bare anyio loop that has the same attempts
made by as many tasks and keeps nothing, and inspect-ai, if it is installed: a runner of batches which logs each
sample and may be gone on with; its solver answers at once as well. Each size runs in a process of its own, so that
memory is that of one. CPU is the figure to compare; the wall has the disk's syncs in it, of which one serves all that
wait.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import anyio

from interlock import Given, Request, Task, batch
from interlock.batch.journal import JournalWriter, Line, Tail, read_lines
from interlock.batch.wire import AttemptResult, AttemptSpec, Place
from interlock.outcome import Outcome, Status

AT_ONCE = 64
KIB = 1024 if sys.platform != "darwin" else 1024 * 1024


class AtOnce:
    """An executor whose attempts take no time."""

    shares_files = True

    async def capacity(self) -> int:
        """More than are wanted."""
        return AT_ONCE

    async def execute(self, spec: bytes, *, key: str) -> bytes:
        """An outcome of a usual size."""
        run = AttemptSpec.parse_json(spec).run
        outcome = Outcome(run_id=run, agent="claude", status=Status.COMPLETED, text="done " * 40, cost_usd=0.01)
        return AttemptResult(key=key, attempt="01-at-once", started=True, outcome=outcome).to_json().encode()


def task(number: int) -> Task:
    """A task of a usual size."""
    return Task(id=f"r{number}", request=Request(agent="claude", prompt="do this " * 20, cwd="/usr"))


def measured(main: Callable[[], object], runs: int) -> dict[str, float]:
    """Milliseconds a run, and the memory at the end in MiB."""
    wall, cpu = time.perf_counter(), time.process_time()
    main()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB
    return {"wall": wall / runs * 1e3, "cpu": cpu / runs * 1e3, "memory": memory}


def own(folder: Path, runs: int) -> dict[str, float]:
    """A whole batch, from its first task to its report; then a second driver that finds nothing to do."""

    async def drive(tasks: int, name: str = "out") -> None:
        given = (task(number) for number in range(tasks)) if tasks else None
        options = {"executor": AtOnce(), "concurrency": AT_ONCE, "stagger": 0.0, "workspace": Given(exclusive=False)}
        async with batch(given, folder / name, **options) as opened:
            report = await opened.report()
        if not report.ok:
            raise SystemExit(report.to_json())

    anyio.run(drive, 1, "warm")  # everything is loaded then
    found = measured(lambda: anyio.run(drive, runs), runs)
    began = time.perf_counter()
    anyio.run(drive, 0)
    return {**found, "resume": time.perf_counter() - began}


def bare(_folder: Path, runs: int) -> dict[str, float]:
    """The same attempts by as many tasks of a bare loop, which keeps nothing."""
    executor, place = AtOnce(), Place(workspace=Given(), work="/w", record=None)

    async def work(numbers: list[int]) -> None:
        while numbers:
            number = numbers.pop()
            spec = AttemptSpec(
                batch="b", run=f"r{number}", number=1, key="k", request=task(number).request, place=place
            )
            AttemptResult.parse_json(await executor.execute(spec.to_json().encode(), key="k"))

    async def main() -> None:
        numbers = list(range(runs))
        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(work, numbers)

    return measured(lambda: anyio.run(main), runs)


def peer(folder: Path, samples: int) -> dict[str, float]:
    """As many samples of inspect-ai, with a log of each."""
    from inspect_ai import Task as Evaluation  # noqa: PLC0415  # a peer may be missing
    from inspect_ai import eval as evaluate  # noqa: PLC0415  # same
    from inspect_ai.dataset import Sample  # noqa: PLC0415  # same
    from inspect_ai.model import ModelOutput  # noqa: PLC0415  # same
    from inspect_ai.solver import solver  # noqa: PLC0415  # same

    @solver
    def at_once():
        async def solve(state, generate):
            del generate
            state.output = ModelOutput.from_content("none", "done " * 40)
            return state

        return solve

    def run(count: int) -> None:
        dataset = [Sample(id=f"r{number}", input="do this " * 20) for number in range(count)]
        (log,) = evaluate(
            Evaluation(dataset=dataset, solver=at_once()),
            model="mockllm/model",
            log_dir=str(folder / f"logs-{count}"),
            max_samples=AT_ONCE,
            display="none",
        )
        if log.status != "success":
            raise SystemExit(str(log.error))

    run(1)  # everything is loaded then
    return measured(lambda: run(samples), samples)


def journal(folder: Path, lines: int) -> dict[str, float]:
    """Lines that are written, a hundred in each group, and lines that are read back; a second."""
    writer = JournalWriter(folder, Tail())
    group = [Line(kind="started", run="r1", key="r1-1-x", attempt="01-x", host="h", pid=1)] * 100
    began = time.perf_counter()
    for _ in range(lines // 100):
        writer.write_now(*group)
    written = time.perf_counter() - began
    writer.close()
    began = time.perf_counter()
    count = sum(1 for _ in read_lines(folder))
    return {"written": count / written, "read": count / (time.perf_counter() - began)}


ROWS = {"own": own, "bare": bare, "peer": peer, "journal": journal}


def in_process(row: str, size: int) -> dict[str, float]:
    """One row in a fresh process."""
    argv = [sys.executable, "-m", "benchmarks", "batch", "--row", row, "--size", str(size)]
    return json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


def table(sizes: list[int]) -> None:
    """Measure, and print; the peer where it is installed."""
    there = find_spec("inspect_ai") is not None
    print(f"{'queued':>8} {'':>10} {'CPU ms/run':>11} {'wall ms/run':>12} {'MiB':>6} {'resume s':>9}")
    for size in sizes:
        for name, row in (("interlock", "own"), ("bare", "bare"), *((("inspect-ai", "peer"),) if there else ())):
            found = in_process(row, size)
            resume = f"{found['resume']:.2f}" if "resume" in found else ""
            print(
                f"{size:>8} {name:>10} {found['cpu']:>11.2f} {found['wall']:>12.2f} {found['memory']:>6.0f} {resume:>9}"
            )
    found = in_process("journal", max(sizes))
    print(f"journal: {found['written']:,.0f} lines a second written and synced by hundreds, {found['read']:,.0f} read")


def main(argv: list[str]) -> int:
    """The command line; 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks batch", description="A batch's own cost.")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it works")
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--engine", choices=("local", "dask"), default="local", help="dask: two workers, beside local")
    given = parser.parse_args(argv)
    if given.engine == "dask":
        from benchmarks import batch_dask  # noqa: PLC0415  # it needs the extra

        return batch_dask.main(quick=given.quick)
    if given.row is None:
        table([10, 100] if given.quick else [10, 100, 1_000, 10_000])
        return 0
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        print(json.dumps(ROWS[given.row](Path(folder), given.size)))
    return 0
