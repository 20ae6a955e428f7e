"""The directory of one attempt: made before it starts, and removed where it is not to be kept.

A copy is made by `copying`. A worktree is made by git without hooks, a file system monitor or a prompt; in a repository
whose own configuration names programs git is not run at all, unless the request trusts it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from interlock.batch.copying import Copying
from interlock.batch.tasks import Copy, Given, Workspace, Worktree
from interlock.engine.workspace import programs_named_by
from interlock.request import Request

__all__ = ["Made", "WorkspaceFailed", "discard", "make_workspace", "mkdir"]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false")
GIT_SECONDS = 600.0
ENDS_WITHIN = 5.0
"""Seconds that git has to end after it was asked to."""
LOOK_AGAIN = 0.02


class WorkspaceFailed(Exception):
    """No workspace could be made. `full`: for want of space, which every other attempt lacks too."""

    def __init__(self, problem: str, *, full: bool = False) -> None:
        self.full = full
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Made:
    """A directory to work in."""

    cwd: str
    root: str | None = None
    """What was made for it; None: nothing."""
    branch: str | None = None
    warnings: tuple[str, ...] = ()


async def make_workspace(workspace: Workspace, request: Request, folder: Path, *, branch: str) -> Made:
    """Make `folder` the directory of one attempt, where its kind wants one; raises `WorkspaceFailed`."""
    source = _real(request.cwd, there=not isinstance(workspace, Given))
    match workspace:
        case Given():
            return Made(source)
        case Copy():
            return await _copied(workspace, Path(source), folder)
        case Worktree():
            return await _worktree(workspace, request, source, folder, branch)


def _real(path: str, *, there: bool) -> str:
    """A directory without links on the way; it must be there, or the agent's start says that it is not."""
    real = Path(path).resolve()
    if there and not real.is_dir():
        raise WorkspaceFailed(f"there is no directory {real}")
    return str(real)


async def discard(workspace: Workspace, root: str, source: str) -> None:
    """Remove what was made; what cannot be removed stays."""
    if isinstance(workspace, Worktree):
        with suppress(WorkspaceFailed):
            async with _alone_in(source):
                await _git(source, "worktree", "remove", "--force", "--force", root, check=False)
    await anyio.to_thread.run_sync(_remove, root)


def _remove(root: str) -> None:
    if Path(root).exists():
        shutil.rmtree(root, ignore_errors=True)


# ---- Copies ---------------------------------------------------------------------------------------------------------


async def _copied(kind: Copy, source: Path, folder: Path) -> Made:
    if folder.is_relative_to(source):
        raise WorkspaceFailed(f"the copy would lie inside of what is copied: {folder}")
    copying = Copying(kind.ignore, source, folder)
    try:
        try:
            mkdir(folder.parent)
            await anyio.to_thread.run_sync(copying.copy, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            copying.stop.set()  # the thread removes what it has made, and ends
            raise
    except OSError as error:
        where = error.filename2 or error.filename or str(source)
        problem = f"{source} cannot be copied: {os.fsdecode(where)}: {error.strerror}"
        raise WorkspaceFailed(problem, full=error.errno in FULL) from error
    return Made(str(folder), root=str(folder), warnings=tuple(copying.warnings()))


# ---- Worktrees ------------------------------------------------------------------------------------------------------


async def _worktree(kind: Worktree, request: Request, source: str, folder: Path, branch: str) -> Made:
    if not request.trust_workspace and (findings := programs_named_by(source)):
        problem = f"the git configuration of {source} names a program: {findings[0]}"
        raise WorkspaceFailed(f"{problem}; trust_workspace=True accepts it, and then filters run too")
    prefix = (await _git(source, "rev-parse", "--show-prefix")).strip()
    try:
        mkdir(folder.parent)
    except OSError as error:
        raise WorkspaceFailed(f"{folder.parent}: {error.strerror}", full=error.errno in FULL) from error
    async with _alone_in(source):
        await _git(source, "worktree", "add", "--quiet", "-b", branch, "--", str(folder), kind.base)
    cwd = folder / prefix if prefix else folder
    if not cwd.is_dir():
        await discard(kind, str(folder), source)
        raise WorkspaceFailed(f"{kind.base} has no folder {prefix}")
    return Made(str(cwd), root=str(folder), branch=branch)


@asynccontextmanager
async def _alone_in(source: str) -> AsyncGenerator[None]:
    """Nobody else of this library makes or removes a worktree of the repository meanwhile; raises `WorkspaceFailed`.

    A git that comes upon a worktree which another one is just making fails (git 2.39: `failed to read commondir`).
    """
    common = (await _git(source, "rev-parse", "--git-common-dir")).removesuffix("\n")
    try:
        fd = os.open(Path(source, common), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise WorkspaceFailed(f"{common}: {error.strerror}") from error
    try:
        with anyio.move_on_after(GIT_SECONDS):  # then git says what is wrong
            while not _locked(fd):  # noqa: ASYNC110  # it may be another process that has it
                await anyio.sleep(LOOK_AGAIN)
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


async def _git(cwd: str, *arguments: str, check: bool = True) -> str:
    """Run git; raises `WorkspaceFailed`. Nothing of ours in the environment leads it elsewhere."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        with anyio.fail_after(GIT_SECONDS):
            code, out, said = await _run([*GIT, *arguments], cwd, env)
    except TimeoutError:
        raise WorkspaceFailed(f"git {arguments[0]} did not end within {GIT_SECONDS:.0f} s") from None
    except OSError as error:
        raise WorkspaceFailed(f"git cannot be started: {error.strerror}") from error
    if check and code != 0:
        lines = said.decode("utf-8", "replace").strip().splitlines()
        problem = lines[-1] if lines else f"exit {code}"
        raise WorkspaceFailed(f"git {arguments[0]}: {problem}", full="No space left on device" in problem)
    return out.decode("utf-8", "surrogateescape")


async def _run(argv: list[str], cwd: str, env: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr. Cancelled it asks git to end, which then removes what it has made by half."""
    said = {"out": b"", "err": b""}

    async def read(name: str, stream: AsyncIterable[bytes] | None) -> None:
        if stream is not None:
            said[name] = b"".join([data async for data in stream])

    process = await anyio.open_process(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(read, "out", process.stdout)
            group.start_soon(read, "err", process.stderr)
        code = await process.wait()
    except anyio.get_cancelled_exc_class():
        with suppress(ProcessLookupError):
            process.terminate()
        with anyio.move_on_after(ENDS_WITHIN, shield=True):
            await process.wait()
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await process.aclose()
    return code, said["out"], said["err"]


def mkdir(folder: Path) -> None:
    """Make a folder and those above it, for us alone; raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
