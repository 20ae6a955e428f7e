"""Private folders go when their run ends and keep nobody waiting; if their host was killed, with the next one."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock.adapter import Launch
from interlock.engine import home as homes
from interlock.engine.home import Home
from interlock.engine.leftovers import OWNER, claim, sweep
from interlock.events import RunFinished

pytestmark = pytest.mark.anyio

watchers: list[Callable[[str], None]] = []


def _tell(event: str, args: tuple[object, ...]) -> None:
    """An audit hook stays for good, so there is one, which tells of removals to whoever watches."""
    if event == "shutil.rmtree":
        for watcher in watchers:
            watcher(str(args[0]))


sys.addaudithook(_tell)


@pytest.fixture
def removals() -> Generator[dict[str, int]]:
    """The folders that are removed, by name, and the thread that removes each."""
    seen: dict[str, int] = {}

    def note(path: str) -> None:
        seen[Path(path).name] = threading.get_ident()

    watchers.append(note)
    yield seen
    watchers.remove(note)


def orphan(folder: Path) -> None:
    """A private folder whose host is gone."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    folder.mkdir(parents=True)
    (folder / OWNER).write_text(f"{gone.pid} 12345", encoding="utf-8")


def test_a_folder_of_a_host_that_is_gone_is_removed_and_others_stay(tmp_path: Path) -> None:
    orphan(tmp_path / "orphan")
    for name in ("mine", "reused", "strange"):
        (tmp_path / name).mkdir()
    claim(tmp_path / "mine")
    (tmp_path / "reused" / OWNER).write_text(f"{os.getpid()} 1", encoding="utf-8")
    sweep(tmp_path)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["mine", "strange"]


async def test_a_run_claims_its_folder(tmp_path: Path) -> None:
    home = await Home.make("run-1", tmp_path, Launch(argv=(), env={}), {})
    assert (home.folder / OWNER).read_text(encoding="utf-8").split()[0] == str(os.getpid())
    await home.remove()
    assert not home.folder.exists()


async def test_folders_are_removed_beside_the_event_loop(tmp_path: Path, removals: dict[str, int]) -> None:
    orphan(tmp_path / "runs" / "orphan")
    home = await Home.make("run-1", tmp_path, Launch(argv=(), env={}), {})
    await home.remove()
    assert removals.keys() == {"orphan", "run-1"}
    assert threading.get_ident() not in removals.values()
    assert list((tmp_path / "runs").iterdir()) == []


async def test_a_disk_that_does_not_answer_holds_no_run_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(homes, "REMOVED_WITHIN", 0.05)
    home = await Home.make("run-1", tmp_path, Launch(argv=(), env={}), {})

    def wait(_path: str) -> None:
        answers.wait(10)

    watchers.append(wait)
    try:
        with anyio.fail_after(5):
            await home.remove()
        assert home.folder.exists()
    finally:
        watchers.remove(wait)
        answers.set()


async def test_a_cancelled_caller_still_has_the_folder_removed(tmp_path: Path) -> None:
    home = await Home.make("run-1", tmp_path, Launch(argv=(), env={}), {})
    with anyio.CancelScope() as scope:
        scope.cancel()
        await home.remove()
    assert not home.folder.exists()


async def test_whoever_reads_that_the_run_is_over_finds_its_folder_gone(bench: Any) -> None:
    with anyio.fail_after(10):
        async with bench.client().stream(bench.request([{"text": "done"}])) as run:
            await bench.until(run, RunFinished)
            assert bench.leftovers() == []
