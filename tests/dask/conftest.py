"""Clusters on loopback: a scheduler that has nothing of ours, and workers, each a process that a test may kill."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import distributed
import pytest
from tests.batch.conftest import BatchBench, Driver, batches
from tests.engine.conftest import Bench, bench

from interlock_adapters.dask import DaskExecutor

__all__ = ["batches", "bench"]

SITE = Path(distributed.__file__).parents[1]
PATIENCE = 90.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process runs all of them, so that they share a cluster."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.xdist_group("dask"))


@dataclass
class Cluster:
    """A scheduler and its workers."""

    folder: Path
    scheduler: subprocess.Popen[bytes] = field(init=False)
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        env = {**self.env, "PYTHONPATH": str(SITE)}  # without site, no .pth file leads to this checkout
        found = subprocess.run(
            [sys.executable, "-S", "-c", "import interlock"], env=env, capture_output=True, check=False
        )
        assert b"No module named 'interlock'" in found.stderr
        words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(self.file)]
        self.scheduler = self._started([sys.executable, "-S", "-m", "distributed.cli.dask_scheduler", *words], env)
        until(lambda: self.file.exists() and self.file.read_text("utf-8").endswith("}"))
        self.address: str = json.loads(self.file.read_text("utf-8"))["address"]

    @property
    def file(self) -> Path:
        """Where the scheduler says its address."""
        return self.folder / "scheduler.json"

    @property
    def state(self) -> Path:
        """Where the runs of its workers have their private folders."""
        return self.folder / "state" / "interlock"

    @property
    def env(self) -> dict[str, str]:
        """Of all its processes; `allowed-failures` stays what it is by default."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        return {**kept, "HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder / "state")}

    def _started(self, argv: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        self.made += 1
        with (self.folder / f"log-{self.made}").open("wb") as log:
            return subprocess.Popen(argv, env=env, cwd=self.folder, stdout=log, stderr=log)

    def add(self, *, slots: int = 2) -> subprocess.Popen[bytes]:
        """One more worker; it is there once the scheduler knows it."""
        name = f"w{self.made}"
        words = ["--name", name, "--nthreads", str(slots), "--resources", f"agent={slots}", "--memory-limit", "0"]
        argv = [
            sys.executable,
            "-m",
            "distributed.cli.dask_worker",
            self.address,
            "--no-nanny",
            "--no-dashboard",
            *words,
        ]
        worker = self._started(argv, self.env)
        self.workers[name] = worker
        return worker

    def until_there(self) -> None:
        """Wait until the scheduler knows the workers that live."""
        living = sum(worker.poll() is None for worker in self.workers.values())
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(living, timeout=PATIENCE)

    def two(self) -> None:
        """Have two workers that live."""
        self.workers = {name: worker for name, worker in self.workers.items() if worker.poll() is None}
        while len(self.workers) < 2:
            self.add()
        for name in list(self.workers)[2:]:
            end(self.workers.pop(name))
        self.until_there()

    def executor(self, **more: Any) -> DaskExecutor:
        """An executor on it."""
        return DaskExecutor(self.address, timeout=PATIENCE, **more)

    def close(self) -> None:
        """End all of it, by their process ids."""
        for process in (*self.workers.values(), self.scheduler):
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End one process."""
    if process.poll() is None:
        process.kill()
    process.wait(PATIENCE)


def until(true: Callable[[], object]) -> None:
    """Wait until something of another process is true."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for all tests that leave its scheduler alive."""
    cluster = Cluster(tmp_path_factory.mktemp("dask"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(shared_cluster: Cluster, batches: BatchBench) -> Cluster:
    """That cluster with two workers of two slots each, whose runs are the bench's."""
    shared_cluster.two()
    batches.bench.state = shared_cluster.state
    return shared_cluster


@pytest.fixture
def own_cluster(tmp_path: Path, batches: BatchBench) -> Iterator[Cluster]:
    """A cluster of one test, with one worker, whose scheduler may be killed."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    batches.bench.state = cluster.state
    try:
        cluster.add()
        cluster.until_there()
        yield cluster
    finally:
        cluster.close()


DRIVER = """
import json, sys
import anyio
from interlock import ChainNames, Copy, Task, batch
from interlock.errors import BatchError
from interlock_adapters.dask import DaskExecutor

tasks = [Task.model_validate(task) for task in json.load(open(sys.argv[2]))]

async def main():
    try:
        async with DaskExecutor(sys.argv[1], shares_files=True) as executor:
            async with batch(tasks, sys.argv[3], executor=executor, chain=ChainNames(), stagger=0.0) as runs:
                print((await runs.report()).to_json())
    except BatchError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(3)

anyio.run(main, backend=sys.argv[4])
"""


def driver(cluster: Cluster, batches: BatchBench, tasks: list[Any], backend: str = "asyncio") -> Driver:
    """A driver on the cluster, in a process of its own."""
    path = batches.bench.folder / "tasks.json"
    path.write_text(json.dumps([task.model_dump(mode="json") for task in tasks]), "utf-8")
    return Driver([sys.executable, "-c", DRIVER, cluster.address, str(path), str(batches.folder), backend])


def kill(process: subprocess.Popen[bytes]) -> None:
    """As hard as can be."""
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)


def remove_private_folders(bench: Bench) -> None:
    """A worker that was killed cannot remove the private folders of its runs; the next run would."""
    for name in bench.leftovers():
        shutil.rmtree(bench.state / "runs" / name)
