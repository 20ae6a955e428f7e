"""Where attempts work: a copy, a worktree, and what never happens to the original."""

import os
import subprocess
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from interlock import Copy, Retries, Worktree

pytestmark = pytest.mark.anyio
QUICK = Retries(wait=0.01, longest_wait=0.05)


def git(cwd: Path, *words: str) -> str:
    env = {**os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    env |= {"GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": "/dev/null"}
    return subprocess.run(["git", *words], cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def shell(command: str) -> dict[str, Any]:
    return {"tool": "Bash", "input": {"command": command}}


@pytest.fixture
def repository(batches: Any) -> Path:
    """A repository with a file in a folder, and a hook and a filter that would tell if they ran."""
    path = batches.workspace()
    git(path, "init", "-q", "-b", "main")
    (path / "sub").mkdir()
    (path / "sub" / "a.txt").write_text("one\n")
    git(path, "add", ".")
    git(path, "commit", "-qm", "first")
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (path / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\necho {hook} >> {batches.bench.folder}/hooked\n")
        (path / ".git" / "hooks" / hook).chmod(0o755)
    return path


@pytest.mark.behaviour("batch:workspaces")
async def test_each_attempt_works_in_a_fresh_copy_and_the_original_stays(batches: Any) -> None:
    source = batches.workspace()
    (source / "deep").mkdir(mode=0o750)
    (source / "deep" / "file").write_text("original")
    (source / "deep" / "run.sh").write_text("#!/bin/sh\n")
    (source / "deep" / "run.sh").chmod(0o755)
    (source / "node_modules").mkdir()
    (source / "inside").symlink_to("deep/file")
    (source / "dangling").symlink_to("nowhere")
    os.mkfifo(source / "fifo")
    (source / "deep").chmod(0o550)
    try:
        binary = batches.first(
            [shell("test ! -e mark && echo 1 > mark"), {"exit": 1}],
            then=[shell("test ! -e mark && echo changed > inside && echo fresh > proof"), {"text": "ok"}],
        )
        task = batches.task(id="r", cwd=str(source), binary=binary)
        found = await batches.results([task], workspace=Copy(ignore=("node_modules",)), retries=QUICK)
    finally:
        (source / "deep").chmod(0o750)
    copy = Path(found["r"].workspace)
    assert (copy / "proof").read_text() == "fresh\n"
    assert (copy / "deep" / "file").read_text() == "changed\n"
    assert (source / "deep" / "file").read_text() == "original"
    assert os.access(copy / "deep" / "run.sh", os.X_OK)
    assert (copy / "deep").stat().st_mode & 0o777 == 0o550
    assert (copy / "dangling").readlink() == Path("nowhere")
    assert names(copy) == ["dangling", "deep", "inside", "proof"]
    assert any(text.startswith("1 socket(s)") for text in found["r"].outcome.warnings)
    assert names(copy.parent) == [copy.name]  # that of the attempt that crashed is gone


async def test_links_out_of_a_copy_stay_links_and_are_told_of(batches: Any) -> None:
    source, outside = batches.workspace(), batches.workspace()
    (outside / "secret").write_text("s")
    (source / "up").symlink_to(f"../{outside.name}")
    (source / "absolute").symlink_to(outside)
    found = await batches.results([batches.task(id="r", cwd=str(source))], workspace=Copy())
    copy = Path(found["r"].workspace)
    assert copy.joinpath("absolute").is_symlink()
    assert (copy / "up").readlink() == Path(f"../{outside.name}")
    assert any(text.startswith("2 link(s)") for text in found["r"].outcome.warnings)


async def test_what_is_kept_is_as_said(batches: Any) -> None:
    crash_first = lambda: batches.first([{"exit": 1}], then=[{"text": "ok"}])  # noqa: E731
    tasks = [
        batches.task(id=keep, binary=crash_first(), workspace=Copy(keep=keep)) for keep in ("counted", "all", "none")
    ]
    found = await batches.results(tasks, retries=QUICK)
    work = batches.folder.with_name("out.work")
    left = {keep: len(list((work / keep).iterdir())) for keep in ("counted", "all", "none")}
    assert left == {"counted": 1, "all": 2, "none": 0}
    assert found["none"].workspace is None


@pytest.mark.behaviour("batch:workspaces")
async def test_each_attempt_has_a_worktree_on_a_branch_of_its_own_and_no_hook_runs(
    batches: Any, repository: Path
) -> None:
    for hook in ("reference-transaction", "post-index-change"):
        (repository / ".git" / "hooks" / hook).unlink()  # those that git runs unasked make a repository untrusted
    steps = shell("cat a.txt && echo two > b.txt"), {"text": "ok"}
    tasks = [batches.task(*steps, id=f"r{n}", cwd=f"{repository}/sub") for n in (1, 2)]
    found = await batches.results(tasks, workspace=Worktree())
    assert all(result.ok for result in found.values()), found
    first, second = (Path(found[f"r{n}"].workspace) for n in (1, 2))
    assert first != second
    assert (first / "sub" / "b.txt").exists()
    assert not (repository / "sub" / "b.txt").exists()
    assert git(first, "branch", "--show-current").strip() == found["r1"].branch
    assert found["r1"].branch.startswith("interlock/")
    assert not (batches.bench.folder / "hooked").exists()


@pytest.mark.behaviour("batch:workspaces")
async def test_git_is_not_run_in_a_repository_that_names_programs(batches: Any, repository: Path) -> None:
    git(repository, "config", "filter.evil.smudge", f"touch {batches.bench.folder}/smudged")
    (repository / ".gitattributes").write_text("* filter=evil\n")
    found = await batches.results([batches.task(batches.ran("r"), id="r", cwd=str(repository))], workspace=Worktree())
    assert not found["r"].ok
    assert "names a program" in found["r"].outcome.message
    assert not batches.executions()
    assert not (batches.bench.folder / "smudged").exists()
    assert not (batches.bench.folder / "hooked").exists()


async def test_what_is_no_repository_or_no_base_is_a_clear_failure_of_that_run_alone(
    batches: Any, repository: Path
) -> None:
    for hook in ("reference-transaction", "post-index-change"):
        (repository / ".git" / "hooks" / hook).unlink()
    tasks = [
        batches.task(id="none"),
        batches.task(id="base", cwd=str(repository), workspace=Worktree(base="nowhere")),
        batches.task(id="fine", cwd=str(repository)),
    ]
    found = await batches.results(tasks, workspace=Worktree())
    assert "not a git repository" in found["none"].outcome.message
    assert "nowhere" in found["base"].outcome.message
    assert found["fine"].ok
    assert git(repository, "worktree", "list").count("\n") == 2


async def test_a_worktree_that_is_not_kept_is_gone_from_git_too(batches: Any, repository: Path) -> None:
    for hook in ("reference-transaction", "post-index-change"):
        (repository / ".git" / "hooks" / hook).unlink()
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m done"
    task = batches.task(shell(commit), {"text": "ok"}, id="r", cwd=str(repository))
    found = await batches.results([task], workspace=Worktree(keep="none"))
    assert found["r"].workspace is None
    assert git(repository, "worktree", "list").count("\n") == 1
    assert git(repository, "log", "--format=%s", found["r"].branch).splitlines()[0] == "done"


@pytest.mark.behaviour("batch:cancel")
async def test_a_batch_that_is_cancelled_while_it_copies_stops_copying_and_leaves_nothing(batches: Any) -> None:
    source = batches.workspace()
    for number in range(300):
        (source / f"d{number}").mkdir()
        (source / f"d{number}" / "file").write_bytes(b"x" * 4096)
    work = batches.folder.with_name("out.work")
    with anyio.fail_after(30):
        async with batches.open([batches.task(batches.ran("r"), cwd=str(source))], workspace=Copy()) as runs:
            while not list(work.glob("1/*/d*")):
                await anyio.lowlevel.checkpoint()
            await runs.cancel()
            assert (await runs.report()).unfinished == 1
        while list(work.glob("1/*")):
            await anyio.lowlevel.checkpoint()
    assert not batches.executions()
