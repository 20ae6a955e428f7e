"""A machine that gives out: full disks, folders that may not be written, too little memory, too few files."""

import json
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.batch.conftest import until_gone

from interlock import JournalFailed, LocalExecutor, read_batch
from interlock.batch import machine


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few hundred kilobytes."""
    path = tmp_path / "small"
    path.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=400k,mode=0700", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.behaviour("batch:disk")
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def test_a_disk_that_runs_full_stops_the_batch_and_loses_nothing(batches: Any, small_disk: Path, backend: str) -> None:
    batches.folder = small_disk / "out"
    tasks = batches.tasks(40)
    ballast = small_disk / "ballast"
    with batches.driver(tasks, backend=backend).ending() as driver:
        while driver.process.poll() is None and not (batches.folder / "batch.jsonl").exists():
            pass
        while driver.process.poll() is None and len(batches.lines("outcome")) < 3:
            pass
        _fill(ballast)
        code, _, complained = driver.wait()
    assert code == 3, complained
    assert "JournalFailed" in complained
    assert "No space left on device" in complained
    assert "it can be resumed" in complained
    assert "Traceback" not in complained
    assert until_gone(batches.bench) == []
    before, executions = [line.run for line in batches.lines("outcome")], batches.executions()
    assert 3 <= len(before) < 40
    assert read_batch(batches.folder).report().unfinished == 40 - len(before)
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    with batches.driver(tasks, backend=backend).ending() as driver:
        code, said, complained = driver.wait()
    assert code == 0, complained
    assert json.loads(said)["statuses"] == {"completed": 40}
    assert {run: batches.executions()[run] for run in before} == {run: executions[run] for run in before}


def _fill(path: Path) -> None:
    """Write until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


@pytest.mark.behaviour("batch:disk")
def test_a_file_that_may_grow_no_further_stops_the_batch_and_loses_nothing(batches: Any) -> None:
    tasks = batches.tasks(30)
    with batches.driver(tasks, file_size=8000).ending() as driver:
        code, _, complained = driver.wait()
    assert code == 3, complained
    assert "File too large" in complained
    assert until_gone(batches.bench) == []
    assert (batches.folder / "batch.jsonl").read_bytes().endswith(b"\n")
    counted = [line.run for line in batches.lines("outcome")]
    assert counted
    with batches.driver(tasks).ending() as driver:
        code, said, complained = driver.wait()
    assert code == 0, complained
    assert json.loads(said)["statuses"] == {"completed": 30}
    assert sorted(line.run for line in batches.lines("outcome")) == sorted(f"r{n}" for n in range(1, 31))


@pytest.fixture
def closed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder that may not be written: for root, who may write everywhere, on a file system that is read alone."""
    if os.geteuid() == 0:
        disk = request.getfixturevalue("small_disk")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        yield disk
        return
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


@pytest.mark.anyio
@pytest.mark.behaviour("batch:disk")
async def test_a_folder_that_may_not_be_written_is_a_clear_error_before_anything(batches: Any, closed: Path) -> None:
    for folder in (closed, closed / "out"):
        with pytest.raises(JournalFailed, match=r"Permission denied|Read-only file system") as caught:
            async with batches.open(batches.tasks(1), folder=folder):
                pass
        assert caught.value.folder == str(folder)
    assert not batches.executions()


@pytest.mark.anyio
@pytest.mark.behaviour("batch:disk")
async def test_an_attempt_that_cannot_record_ends_the_batch_and_is_not_counted(batches: Any) -> None:
    tasks = [batches.task(id="r")]
    with anyio.fail_after(30):
        async with batches.open(tasks, total=30) as runs:
            await runs.report()
    (batches.folder / "runs").rename(batches.folder / "away")
    (batches.folder / "runs").write_text("no folder")
    with anyio.fail_after(30):
        async with batches.open(None, only_failed=True) as runs:
            assert (await runs.report()).ok  # nothing is to be run
    other = batches.bench.folder / "other"
    with anyio.fail_after(30):
        async with batches.open(tasks, folder=other) as runs:
            (other / "runs").write_text("no folder")
            with pytest.raises(JournalFailed, match="runs"):
                await runs.report()
            with pytest.raises(JournalFailed):
                [result async for result in runs]
    assert read_batch(other).report().unfinished == 1


# ---- what the machine bears ------------------------------------------------------------------------------------------


def test_there_is_room_for_as_many_as_memory_and_files_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 10 * machine.MEMORY_A_RUN + 5)
    monkeypatch.setattr(machine, "spare_files", lambda: 1000)
    assert machine.room_for(0) == 10
    assert machine.room_for(4) == 14
    assert machine.room_for(0, memory=machine.MEMORY_A_RUN * 4) == 2
    monkeypatch.setattr(machine, "spare_files", lambda: 3 * machine.FILES_A_RUN)
    assert machine.room_for(0) == 3
    monkeypatch.setattr(machine, "spare_files", lambda: 0)
    assert machine.room_for(0) == 1
    monkeypatch.setattr(machine, "available_memory", lambda: None)
    assert machine.room_for(2) == 2


def test_the_figures_are_those_of_this_machine() -> None:
    free = machine.available_memory()
    assert free is not None
    assert 0 < free < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") + 1
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 <= machine.spare_files() < soft


@pytest.mark.anyio
async def test_no_more_run_at_once_than_the_machine_bears(batches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 0)
    with anyio.fail_after(60):
        async with batches.open(batches.tasks(3), executor=LocalExecutor(batches.bench.client())) as runs:
            most = max([len(runs.progress().running) async for _ in runs])
            assert (await runs.report()).ok
    assert most <= 2  # one that runs, and one that is being counted
