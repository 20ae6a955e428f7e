"""A bench for batches: scripted agents whose prompt is their script, and a ledger of what truly ran."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engine.conftest import FULL, Bench, Listener, bench

from interlock import Batch, BatchResult, Request, Task, batch
from interlock.batch.journal import Line, read_lines
from interlock.engine.leftovers import sweep

__all__ = ["bench"]


@dataclass
class BatchBench:
    """Where batches of one test lie, and what is known of them."""

    bench: Bench
    program: str = ""
    made: int = 0
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.bench.folder / "out"
        self.program = self.bench.binary([])

    @property
    def ledger(self) -> Path:
        """Where steps of `ran` write."""
        return self.bench.folder / "ledger"

    def ran(self, run: str) -> dict[str, Any]:
        """A step that writes into the ledger that a run runs."""
        return {"tool": "Bash", "input": {"command": f"echo {run} >> {self.ledger}"}}

    def executions(self) -> Counter[str]:
        """How often each run ran, by the ledger."""
        return Counter(self.ledger.read_text("utf-8").split()) if self.ledger.exists() else Counter()

    def request(self, *steps: object, **more: Any) -> Request:
        """A request whose agent plays these steps."""
        fields: dict[str, Any] = {"prompt": json.dumps(list(steps) or [{"text": "done"}]), "binary": self.program}
        return self.bench.request(**{**fields, "cwd": str(self.workspace()), "permission": FULL, **more})

    def workspace(self) -> Path:
        """A fresh directory."""
        self.made += 1
        path = self.bench.folder / f"w{self.made}"
        path.mkdir()
        return path

    def task(self, *steps: object, id: str = "", **more: Any) -> Task:  # noqa: A002  # as the member is named
        """A task whose agent plays these steps; `more` is of the task if it has such a member, else of the request."""
        own = {name: more.pop(name) for name in ("workspace", "retry_lost") if name in more}
        return Task(id=id, request=self.request(*steps, **more), **own)

    def tasks(self, count: int, *steps: object) -> list[Task]:
        """So many tasks with ids `r1`, `r2`, ..., which write into the ledger first."""
        return [
            self.task(self.ran(f"r{n}"), *(steps or ({"text": f"answer {n}"},)), id=f"r{n}")
            for n in range(1, count + 1)
        ]

    def first(self, *before: object, then: object = ()) -> str:
        """A program that plays `before`, one script each time that it is started, and after them `then`."""
        count = self.bench.folder / f"started-{self.made}"
        self.made += 1
        programs = [self.bench.binary(steps) for steps in (*before, then)]
        cases = "\n".join(f'  {n}) exec {path} "$@" ;;' for n, path in enumerate(programs[:-1], 1))
        return self.bench.program(
            'n=0\ncase "$*" in *--version*|*auth*) ;; '
            f"*) n=1; while ! mkdir {count}-$n 2>/dev/null; do n=$((n+1)); done ;; esac\n"
            f'case "$n" in\n{cases}\n  *) exec {programs[-1]} "$@" ;;\nesac',
        )

    def listen(self) -> "Heard":
        """Hear the process ids that several commands tell."""
        return Heard(self.bench.fifo)

    def open(self, tasks: Any, **options: Any) -> Any:
        """A batch of the bench."""
        defaults: dict[str, Any] = {"client": self.bench.client(), "stagger": 0.0, "concurrency": 4}
        if "executor" in options:
            del defaults["client"]
        return batch(tasks, options.pop("folder", self.folder), **{**defaults, **options})

    async def results(self, tasks: Any, **options: Any) -> dict[str, BatchResult]:
        """All results of a batch, by run."""
        with anyio.fail_after(60):
            async with self.open(tasks, **options) as runs:
                return {result.run: result async for result in runs}

    def lines(self, *kinds: str) -> list[Line]:
        """The journal's lines of these kinds; of all, if none is named."""
        return [line for line in read_lines(self.folder) if not kinds or line.kind in kinds]

    def driver(self, tasks: list[Task] | None, *, backend: str = "asyncio", **options: Any) -> "Driver":
        """A driver in a process of its own."""
        path = self.bench.folder / "tasks.json"
        path.write_text(json.dumps([task.model_dump(mode="json") for task in tasks or ()]), "utf-8")
        given = {"concurrency": 4, "stagger": 0.0, **options}
        argv = [sys.executable, "-c", DRIVER, path, self.folder, self.bench.state, backend, json.dumps(given)]
        return Driver([str(word) for word in argv])


class Heard(Listener):
    """A listener that writes too, so that one teller who leaves is not the end of the fifo for the next."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._told = b""


DRIVER = """
import json, sys
import anyio
from interlock import Client, Task, batch
from interlock.errors import BatchError

tasks = [Task.model_validate(task) for task in json.load(open(sys.argv[1]))] or None
prelude = json.loads(sys.argv[5])
if "file_size" in prelude:
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = prelude.pop("file_size")

async def main():
    try:
        async with batch(tasks, sys.argv[2], client=Client(state=sys.argv[3]), **prelude) as runs:
            if "resource" in globals():
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            async for result in runs:
                pass
            report = await runs.report()
            print(report.to_json())
    except BatchError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(3)

anyio.run(main, backend=sys.argv[4])
"""


class Driver:
    """A driver in a process of its own."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kill(self) -> None:
        """As hard as can be."""
        self.process.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self, seconds: float = 100) -> tuple[int, str, str]:
        """Its exit code, stdout and stderr."""
        said, complained = self.process.communicate(timeout=seconds)
        return self.process.returncode, said, complained

    @contextmanager
    def ending(self) -> Iterator["Driver"]:
        """It does not outlive the block."""
        try:
            yield self
        finally:
            if self.process.poll() is None:
                self.kill()


def until_gone(bench: Bench, seconds: float = 2.0) -> list[str]:
    """The processes of the bench that still live after so long."""
    end = time.monotonic() + seconds
    while (living := bench.survivors()) and time.monotonic() < end:
        time.sleep(0.01)
    return living


def until_swept(bench: Bench) -> list[str]:
    """The private folders of killed hosts that are left once the next host has come."""
    sweep(bench.state / "runs")
    return bench.leftovers()


@pytest.fixture
def batches(bench: Bench) -> BatchBench:
    """A bench for batches."""
    return BatchBench(bench)


async def one(runs: Batch) -> BatchResult:
    """The next result."""
    return await anext(aiter(runs))
