"""What is measured of one contestant, in a process of its own: `python -m benchmarks.tasks CONTESTANT TASK JSON`.

Each task prints one JSON object. What is loaded or started only once is loaded before the clock starts, by a run of
`warm`; what a first run costs is in the rows about imports and memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio

from benchmarks.contestants import CONTESTANTS, Contestant
from benchmarks.processes import alive, memory, peak

Figures = dict[str, Any]

LONGEST_LINE_WITHIN = 20.0
"""Seconds for a run of one long line; who copies all of it with every piece does not get there."""
GIVEN_UP = 6.0
"""Seconds after which what still lives is taken to live for ever."""


def median(values: list[float]) -> float:
    """The middle one; the module `statistics` would weigh on what is measured here."""
    return sorted(values)[len(values) // 2]


async def _count(contestant: Contestant, program: str, folder: str) -> int:
    count = 0
    async with aclosing(contestant.stream(program, folder)) as things:
        async for _ in things:
            count += 1
    return count


async def throughput(contestant: Contestant, warm: str, program: str, folder: str) -> Figures:
    """CPU seconds of one run."""
    await _count(contestant, warm, folder)
    wall, cpu = time.perf_counter(), time.process_time()
    count = await _count(contestant, program, folder)
    return {"things": count, "cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


async def overhead(contestant: Contestant, warm: str, folder: str, times: int) -> Figures:
    """Seconds of a short run, by turns with the bare spawn of the same program."""
    await _count(contestant, warm, folder)
    runs, bare = [], []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([warm, "-p"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)  # noqa: ASYNC221
        between = time.perf_counter()
        await _count(contestant, warm, folder)
        bare.append(between - began)
        runs.append(time.perf_counter() - between)
    over = [run - spawn for run, spawn in zip(runs, bare, strict=True)]
    return {"over": median(over), "bare": median(bare), "least": min(runs) - min(bare)}


async def footprint(contestant: Contestant, program: str, folder: str) -> Figures:
    """Bytes after one run, from a fresh process on."""
    count = await _count(contestant, program, folder)
    return {"things": count, "peak": peak(), "helpers": _helpers()}


async def crowd(contestant: Contestant, warm: str, program: str, folder: str, count: int, gate: str = "") -> Figures:
    """So many runs at once; behind a gate none ends before all have begun."""
    await _count(contestant, warm, folder)
    all_begun = anyio.Event()
    begun = things = helpers = 0

    async def one() -> None:
        nonlocal begun, things
        first = True
        async with aclosing(contestant.stream(program, folder)) as messages:
            async for _ in messages:
                things += 1
                if first:
                    first, begun = False, begun + 1
                    if begun == count:
                        all_begun.set()

    began, opened = time.perf_counter(), None
    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)
        await all_begun.wait()
        helpers = _helpers()
        if gate:
            opened = os.open(gate, os.O_RDWR)
    if opened is not None:
        os.close(opened)
    return {"things": things, "wall": time.perf_counter() - began, "peak": peak(), "helpers": helpers}


async def line(contestant: Contestant, program: str, folder: str) -> Figures:
    """Whether what follows a long line is still read, and the peak of memory."""
    try:
        with anyio.fail_after(LONGEST_LINE_WITHIN):
            count = await _count(contestant, program, folder)
    except Exception as error:  # noqa: BLE001  # that is what is asked
        return {"survived": False, "why": f"{type(error).__name__}: {error}"[:200], "peak": peak()}
    return {"survived": True, "things": count, "peak": peak()}


async def approval(contestant: Contestant, program: str, folder: str) -> Figures:
    """The round trips as the agent saw them, in seconds."""
    approve = contestant.approve
    if approve is None:
        return {}
    await approve(program, folder)
    times = Path(program).with_name("times").read_text(encoding="utf-8").split()
    took = sorted(int(text) / 1e9 for text in times)
    return {"median": median(took), "p95": took[len(took) * 95 // 100], "least": took[0]}


async def cancel(contestant: Contestant, program: str, folder: str) -> Figures:
    """Seconds from the cancellation of a run to the end of all that it started."""
    told = Path(program).with_name("pids")
    run = asyncio.create_task(_count(contestant, program, folder))
    while not told.exists():  # noqa: ASYNC110  # the agent tells by a file
        await anyio.sleep(0.005)
    began = time.perf_counter()
    run.cancel()
    await asyncio.wait([run], timeout=GIVEN_UP)
    returned = time.perf_counter() - began
    left = alive(map(int, told.read_text(encoding="utf-8").split()))
    while left and time.perf_counter() - began < GIVEN_UP:
        time.sleep(0.002)  # noqa: ASYNC251  # nothing else is to run any more
        left = alive(left)
    took = time.perf_counter() - began
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return {"seconds": took, "returned": returned, "left": len(left)}


async def sit(contestant: Contestant, program: str, folder: str) -> Figures:
    """A run that does not end: whoever started this process kills it."""
    await _count(contestant, program, folder)
    return {}


async def chain(_: Contestant, folder: str, participants: int, times: int) -> Figures:
    """The chain of so many interceptors."""
    from benchmarks import decisions  # noqa: PLC0415  # it loads the engine, which would weigh on the others

    return await decisions.chain(folder, participants, times)


async def hook(_: Contestant, folder: str, times: int) -> Figures:
    """A program for each call."""
    from benchmarks import decisions  # noqa: PLC0415  # see above

    return await decisions.hook(folder, times)


async def resident(_: Contestant, folder: str, times: int) -> Figures:
    """A program for all calls."""
    from benchmarks import decisions  # noqa: PLC0415  # see above

    return await decisions.resident(folder, times)


def _helpers() -> int:
    """Bytes of the processes of this Python that the contestant keeps beside it: a guardian, for example."""
    own = {"claude", "sleep", "sh"}
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if not children.exists():
        return 0
    pids = map(int, children.read_text(encoding="utf-8").split())
    named = ((pid, Path(f"/proc/{pid}/comm")) for pid in pids)
    return sum(memory(pid) for pid, comm in named if comm.exists() and comm.read_text().strip() not in own)


TASKS: dict[str, Callable[..., Awaitable[Figures]]] = {
    task.__name__: task
    for task in (throughput, overhead, footprint, crowd, line, approval, cancel, sit, chain, hook, resident)
}


def main() -> None:
    """Run one task."""
    name, task, parameters = sys.argv[1:]
    contestant = next(one for one in CONTESTANTS if one.name == name)

    async def run() -> Figures:
        return await TASKS[task](contestant, **json.loads(parameters))

    print(json.dumps(anyio.run(run)))


if __name__ == "__main__":
    main()
