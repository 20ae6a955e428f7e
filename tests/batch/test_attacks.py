"""What somebody may put in the way of a batch: files that are not what they seem, absurd figures and times."""

import fcntl
import json
import math
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import ValidationError
from tests.batch.test_workspaces import git

from interlock import Budget, Copy, JournalDamaged, JournalFailed, Retries, Worktree, read_batch
from interlock.batch import recorder
from interlock.batch.copying import Copying
from interlock.batch.options import Options
from interlock.batch.verdict import Fate, judge
from interlock.batch.wire import AttemptResult, AttemptSpec
from interlock.outcome import Outcome, RateLimit, Reason, Status
from interlock.request import Limits

pytestmark = pytest.mark.anyio
ONCE = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""For what is read from files alone, which no event loop changes."""


def outcome_file(batches: Any, run: str) -> Path:
    view = read_batch(batches.folder)
    return view.folder_of(run, view.run(run).attempt) / "outcome.json"


# ---- the folder ------------------------------------------------------------------------------------------------------


@ONCE
@pytest.mark.behaviour("batch:journal")
async def test_an_outcome_that_a_power_failure_emptied_is_read_from_the_results(batches: Any) -> None:
    await batches.results(batches.tasks(3))
    for run in ("r1", "r2", "r3"):
        outcome_file(batches, run).write_bytes(b"")
    view = read_batch(batches.folder)
    assert {run: view.result(run).outcome.text for run in ("r1", "r2", "r3")} == {
        f"r{n}": f"answer {n}" for n in (1, 2, 3)
    }
    assert all(view.result(run).warnings == () for run in ("r1", "r2", "r3"))
    found = await batches.results(None)
    assert found["r2"].outcome.text == "answer 2"
    results = batches.folder / "results.jsonl"
    results.write_bytes(results.read_bytes().replace(b'"answer 2"', b'"forged 2"'))
    assert view.result("r2").outcome.text is None
    assert view.result("r1").outcome.text == "answer 1"


@ONCE
@pytest.mark.behaviour("batch:forged")
async def test_nothing_waits_for_what_was_put_in_place_of_an_outcome(batches: Any, tmp_path: Path) -> None:
    await batches.results(batches.tasks(1))
    path, elsewhere = outcome_file(batches, "r1"), tmp_path / "elsewhere"
    elsewhere.write_bytes(path.read_bytes().replace(b"answer", b"forged"))
    for put in (
        lambda: os.mkfifo(path),
        lambda: path.symlink_to(elsewhere),
        lambda: (path.touch(), os.truncate(path, 1 << 40)),
        path.mkdir,
    ):
        path.unlink()
        put()
        assert read_batch(batches.folder).result("r1").outcome.text == "answer 1"


@ONCE
@pytest.mark.behaviour("batch:forged")
@pytest.mark.parametrize("name", ["batch.jsonl", "results.jsonl"])
async def test_a_fifo_in_place_of_the_journal_is_an_error_and_no_wait(batches: Any, name: str) -> None:
    await batches.results(batches.tasks(1))
    (batches.folder / name).unlink()
    os.mkfifo(batches.folder / name)
    with pytest.raises(JournalFailed, match=name):
        async with batches.open(None):
            pass


STRANGE: list[dict[str, object]] = [
    {"kind": "outcome", "run": "../../x", "status": "completed"},
    {"kind": "lost", "run": "nobody", "key": "k"},
    {"kind": "outcome", "run": "r1", "status": "glorious"},
    {"kind": "outcome", "run": "r1", "status": "completed", "usd": -100.0},
    {"kind": "outcome", "run": "r1", "status": "completed", "usd": math.nan},
    {"kind": "outcome", "run": "r1", "status": "completed", "tokens": -1},
]


@ONCE
@pytest.mark.behaviour("batch:journal")
async def test_a_line_that_no_driver_writes_is_damage_that_is_named(batches: Any) -> None:
    await batches.results(batches.tasks(1))
    journal = batches.folder / "batch.jsonl"
    content = journal.read_bytes()
    count = content.count(b"\n")
    for line in STRANGE:
        written = json.dumps({"v": 1, "seq": count, "ts": 0.0, **line})
        journal.write_bytes(content + written.encode() + b"\n")
        with pytest.raises(JournalDamaged) as caught:
            read_batch(batches.folder)
        assert caught.value.line == count + 1
        with pytest.raises(JournalDamaged):
            async with batches.open(None):
                pass


@pytest.mark.behaviour("batch:disk")
@pytest.mark.parametrize("gone", ["removed", "moved"])
async def test_a_folder_that_goes_away_ends_the_batch_with_an_error(batches: Any, gone: str) -> None:
    with anyio.fail_after(30), batches.listen() as heard:
        async with batches.open([batches.task(batches.bench.sleeper(), id="first")]) as runs:
            await heard.pid()
            if gone == "moved":
                batches.folder.rename(batches.folder.with_name("elsewhere"))
            else:
                shutil.rmtree(batches.folder)
            await runs.cancel("first")
            with pytest.raises(JournalFailed, match=r"batch\.jsonl"):
                await runs.report()


@ONCE
async def test_a_run_whose_directory_lies_in_the_folder_of_the_batch_is_refused(batches: Any) -> None:
    (batches.folder / "runs").mkdir(parents=True)
    place = batches.folder / "runs" / "x"
    task = batches.task(batches.ran("r"), id="r", cwd=str(place))
    shutil.rmtree(batches.folder)
    found = await batches.results([task])
    assert "batch's own folder" in found["r"].outcome.message
    assert not batches.executions()


# ---- figures and times -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0, -1])
@pytest.mark.parametrize("name", ["usd", "run_usd"])
def test_a_budget_is_an_amount_of_money(name: str, value: float) -> None:
    with pytest.raises(ValidationError):
        Budget.model_validate({name: value})
    with pytest.raises(ValidationError):
        Limits(budget_usd=value)


@pytest.mark.parametrize("value", [0, -1])
def test_at_least_one_runs_at_once(value: int) -> None:
    for options in ({"concurrency": value}, {"agents": {"claude": value}}):
        with pytest.raises(ValidationError):
            Options.model_validate(options)


class Telling:
    """An executor whose agents tell of a cost; none runs."""

    shares_files = False

    def __init__(self, cost: float) -> None:
        self.cost = cost

    async def capacity(self) -> int:
        return 1

    async def execute(self, spec: bytes, *, key: str) -> bytes:
        agent = AttemptSpec.parse_json(spec).request.agent
        outcome = Outcome(run_id="x", agent=agent, status=Status.COMPLETED, cost_usd=self.cost)
        return AttemptResult(key=key, attempt="01-x", started=True, outcome=outcome).to_json().encode()


@pytest.mark.behaviour("batch:budget")
@ONCE
@pytest.mark.parametrize("told", [-1000.0, math.inf, math.nan])
async def test_a_cost_that_cannot_be_is_no_cost_and_what_was_reserved_counts(batches: Any, told: float) -> None:
    budget = Budget(usd=2, run_usd=1)
    with anyio.fail_after(60):
        async with batches.open(batches.tasks(3), budget=budget, concurrency=1, executor=Telling(told)) as runs:
            report = await runs.report()
    assert report.why == "budget"
    assert (report.spent.usd, report.unfinished) == (2.0, 1)


def limited(resets_at: float) -> Outcome:
    limit = RateLimit(status="rejected", resets_at=resets_at)
    return Outcome(run_id="", agent="claude", status=Status.FAILED, reason=Reason.RATE_LIMIT, rate_limit=limit)


def test_a_reset_that_cannot_be_is_none() -> None:
    now = 1_800_000_000.0
    assert judge(limited(now + 60), None, now=now) == (Fate.EXHAUSTED, now + 60)
    assert judge(limited(now - 60), None, now=now) == (Fate.THROTTLED, None)
    assert judge(limited(math.nan), None, now=now) == (Fate.THROTTLED, None)
    for absurd in (math.inf, now * 1000, 253_402_300_799.0):
        assert judge(limited(absurd), None, now=now) == (Fate.EXHAUSTED, None)


@pytest.mark.behaviour("batch:exhausted")
async def test_a_reset_in_a_year_is_not_waited_for(batches: Any) -> None:
    reset = int(time.time()) + 366 * 86_400
    over = [
        {"rate_limit_event": {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": reset}},
        {"error_result": {"api_error_status": 429, "subtype": "success", "result": "limit reached"}},
    ]
    with anyio.fail_after(30):
        async with batches.open([batches.task(*over)], retries=Retries()) as runs:
            report = await runs.report()
    assert (report.why, report.unfinished) == ("paused", 1)
    assert [one.until for one in report.paused] == [reset]


# ---- copies ----------------------------------------------------------------------------------------------------------


swaps: dict[str, Callable[[], None]] = {}
"""What is done, once, in the moment in which a file or folder of that name is about to be opened."""


def _swap(event: str, args: tuple[object, ...]) -> None:
    """An audit hook stays for good, so there is one."""
    if swaps and event in {"open", "os.scandir"} and (swap := swaps.pop(str(args[0]).rpartition("/")[2], None)):
        swap()


sys.addaudithook(_swap)


@pytest.mark.parametrize("kind", ["file", "fifo", "folder"])
def test_what_is_put_in_place_of_a_name_while_it_is_copied_is_never_followed(tmp_path: Path, kind: str) -> None:
    outside, source, target = tmp_path / "outside", tmp_path / "source", tmp_path / "copy"
    for folder in (outside, source, source / "folder"):
        folder.mkdir()
    (outside / "secret").write_text("secret")
    (source / "file").write_text("harmless")
    swapped = source / ("folder" if kind == "folder" else "file")

    def swap() -> None:
        swapped.rename(tmp_path / "was")
        if kind == "fifo":
            os.mkfifo(swapped)
        else:
            swapped.symlink_to(outside if kind == "folder" else outside / "secret")

    swaps[swapped.name] = swap
    with pytest.raises(OSError, match=swapped.name):
        Copying((), source, target).copy()
    assert not swaps
    assert not target.exists()


def test_a_directory_of_all_kinds_of_files_is_copied_without_waiting(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    os.mkfifo(source / "fifo")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(source / "socket"))
    (source / "etc").symlink_to("/etc")
    with (source / "sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(10 << 30)
        file.write(b"end")
        file.truncate((10 << 30) + 4096)
    copying = Copying((), source, tmp_path / "copy")
    copying.copy()
    copied = tmp_path / "copy" / "sparse"
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["etc", "sparse"]
    assert (copied.stat().st_size, copied.stat().st_blocks < 1000) == ((10 << 30) + 4096, True)
    with copied.open("rb") as file:
        assert file.read(8) == b"begin\0\0\0"
        file.seek(10 << 30)
        assert file.read(4) == b"end\0"
    assert len(list(copying.warnings())) == 2


def test_a_copy_is_stopped_inside_of_a_file_and_leaves_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    (source / "big").write_bytes(b"x" * (8 << 20))
    copying = Copying((), source, target)
    copying.stop.set()
    copying._copy_content(
        os.open(source / "big", os.O_RDONLY), os.open(tmp_path / "made", os.O_RDWR | os.O_CREAT), 8 << 20
    )
    assert (tmp_path / "made").stat().st_size == 0
    copying.copy()
    assert not target.exists()


# ---- git -------------------------------------------------------------------------------------------------------------


@pytest.mark.behaviour("batch:workspaces")
async def test_no_worktree_is_made_while_another_is_half_made(batches: Any) -> None:
    """Another process of this library is making one: git would fail on what it finds of that."""
    repository = batches.workspace()
    git(repository, "init", "-q")
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    half = repository / ".git" / "worktrees" / "half"
    half.mkdir(parents=True)
    (half / "gitdir").write_text(f"{batches.bench.folder}/half/.git\n")
    (half / "HEAD").write_text("ref: refs/heads/half\n")
    other = os.open(repository / ".git", os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with anyio.fail_after(30):
        async with batches.open([batches.task(id="r", cwd=str(repository))], workspace=Worktree()) as runs:
            with anyio.move_on_after(1.0) as waited:
                await runs.report()
            assert waited.cancelled_caught
            shutil.rmtree(half)
            os.close(other)
            assert (await runs.report()).ok


async def test_many_worktrees_of_one_repository_are_made_at_once(batches: Any) -> None:
    repository = batches.workspace()
    git(repository, "init", "-q")
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    tasks = [batches.task(id=f"r{n}", cwd=str(repository)) for n in range(8)]
    found = await batches.results(tasks, workspace=Worktree(keep="none"), concurrency=8)
    assert all(result.ok for result in found.values()), found


async def test_a_directory_that_is_gone_is_the_failure_of_that_run_alone(batches: Any) -> None:
    tasks = [batches.task(id=kind) for kind in ("given", "copy", "worktree")]
    kinds = (None, Copy(), Worktree())
    tasks = [task.model_copy(update={"workspace": kind}) for task, kind in zip(tasks, kinds, strict=True)]
    for task in tasks:
        os.rmdir(task.request.cwd)  # noqa: PTH106  # as it is named
    found = await batches.results([*tasks, *batches.tasks(1)])
    assert {run: result.ok for run, result in found.items()} == {
        "given": False,
        "copy": False,
        "worktree": False,
        "r1": True,
    }
    assert all(result.outcome.message for run, result in found.items() if run != "r1")


@pytest.mark.behaviour("batch:disk")
async def test_an_agent_that_prints_without_end_does_not_fill_the_disk(
    batches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MOST_ON_DISK", 50_000)
    tasks = [batches.task(*[{"unknown_event": {"type": "chatter", "text": "x" * 9000}}] * 50, {"text": "ok"}, id="r")]
    found = await batches.results(tasks)
    assert found["r"].outcome.text == "ok"
    assert any("more events than are recorded" in words for words in found["r"].outcome.warnings)
    events = outcome_file(batches, "r").with_name("events.jsonl").read_bytes()
    assert 20_000 < len(events) < 70_000
    kinds = [json.loads(line)["type"] for line in events.splitlines()]
    assert kinds[-1] == "run_finished"
    assert kinds.count("usage_updated") > 0
