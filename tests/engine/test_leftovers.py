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
from interlock.engine.leftovers import claimed, sweep
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


def orphan(runs: Path) -> None:
    """A private folder whose host is gone."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (runs / claimed("orphan").replace(f".{os.getpid()}-", f".{gone.pid}-")).mkdir(parents=True)


def test_a_folder_of_a_host_that_is_gone_is_removed_and_others_stay(tmp_path: Path) -> None:
    orphan(tmp_path)
    host, start, place = claimed("").rpartition(".")[2].split("-")
    others = (claimed("mine"), "strange", f"far.{host}-1-{'0' * 8}")
    for name in (*others, f"reused.{host}-{int(start) + 1}-{place}"):
        (tmp_path / name).mkdir()
    sweep(tmp_path)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == sorted(others)


HOST = """
import os, signal, sys
from pathlib import Path

import anyio

from interlock.adapter import Launch, LaunchFile
from interlock.engine.home import Home
from interlock.engine.leftovers import sweep

state = Path(sys.argv[1])
launch = Launch(argv=(), env={}, files=(LaunchFile(path="a/b", content="c"), LaunchFile(path="d", content="e")))


async def life() -> None:
    home = await Home.make("run", state, launch, {})
    await home.remove()


def stop_at(step: int) -> None:
    met = 0

    def count(event: str, args: tuple[object, ...]) -> None:
        nonlocal met
        if event in {"os.mkdir", "open", "os.remove", "os.rmdir", "os.scandir"}:
            met += 1
            if met == step:
                os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(count)


def left() -> list[str]:
    return sorted(str(path) for path in state.glob("runs/**/*"))


step, halves = 0, 0
while True:
    step += 1
    host = os.fork()
    if not host:
        stop_at(step)
        anyio.run(life)
        os._exit(0)
    if not os.WIFSTOPPED(os.waitpid(host, os.WUNTRACED)[1]):
        break
    before = left()
    sweep(state / "runs")
    assert left() == before, f"step {step}: swept while its host lives"
    os.kill(host, signal.SIGKILL)
    os.waitpid(host, 0)
    sweep(state / "runs")
    assert left() == [], f"step {step}: {left()}"
    halves += bool(before)
print(step, halves)
"""


def test_wherever_a_host_is_killed_its_folder_is_removed_and_not_before(tmp_path: Path) -> None:
    """It is stopped at each of its steps: what it has made by then stays while it lives, and goes once it is dead."""
    argv = [sys.executable, "-c", HOST, str(tmp_path)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    steps, halves = map(int, done.stdout.split())
    assert halves >= 9  # four steps that make, and five that remove
    assert steps > halves


async def test_a_run_claims_its_folder(tmp_path: Path) -> None:
    home = await Home.make("run-1", tmp_path, Launch(argv=(), env={}), {})
    assert home.folder.name == claimed("run-1")
    await home.remove()
    assert not home.folder.exists()


async def test_folders_are_removed_beside_the_event_loop(tmp_path: Path, removals: dict[str, int]) -> None:
    orphan(tmp_path / "runs")
    home = await Home.make("run-1", tmp_path, Launch(argv=(), env={}), {})
    await home.remove()
    assert {name.partition(".")[0] for name in removals} == {"orphan", "run-1"}
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
