"""The directory of one attempt: made before it starts, and removed where it is not to be kept.

A copy follows no link. A worktree is made by git without hooks, a file system monitor or a prompt; in a repository
whose own configuration names programs git is not run at all, unless the request trusts it.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from interlock.batch.tasks import Copy, Given, Workspace, Worktree
from interlock.engine.workspace import programs_named_by
from interlock.request import Request

__all__ = ["Made", "WorkspaceFailed", "discard", "make_workspace", "mkdir"]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false")
GIT_SECONDS = 600.0


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
    source = _real(request.cwd)
    match workspace:
        case Given():
            return Made(source)
        case Copy():
            return await _copied(workspace, Path(source), folder)
        case Worktree():
            return await _worktree(workspace, request, source, folder, branch)


def _real(path: str) -> str:
    return os.path.realpath(path)


async def discard(workspace: Workspace, root: str, source: str) -> None:
    """Remove what was made; what cannot be removed stays."""
    if isinstance(workspace, Worktree):
        await _git(source, "worktree", "remove", "--force", "--force", root, check=False)
    await anyio.to_thread.run_sync(_remove, root)


def _remove(root: str) -> None:
    if Path(root).exists():
        shutil.rmtree(root, ignore_errors=True)


# ---- Copies ---------------------------------------------------------------------------------------------------------


async def _copied(kind: Copy, source: Path, folder: Path) -> Made:
    if folder.is_relative_to(source):
        raise WorkspaceFailed(f"the copy would lie inside of what is copied: {folder}")
    copying = _Copying(kind.ignore, source)
    try:
        try:
            await anyio.to_thread.run_sync(copying.copy, source, folder, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            copying.stop.set()  # the thread removes what it has made, and ends
            raise
    except OSError as error:
        where = error.filename2 or error.filename or str(source)
        problem = f"{source} cannot be copied: {os.fsdecode(where)}: {error.strerror}"
        raise WorkspaceFailed(problem, full=error.errno in FULL) from error
    return Made(str(folder), root=str(folder), warnings=tuple(copying.warnings()))


class _Copying:
    """One copy in progress, in a thread; `stop` ends it."""

    def __init__(self, ignore: tuple[str, ...], source: Path) -> None:
        self.stop = threading.Event()
        self._ignore = ignore
        self._source = os.path.realpath(source)
        self._links_out = 0
        self._special = 0

    def copy(self, source: Path, target: Path) -> None:
        """The tree below `source`; raises OSError."""
        mkdir(target.parent)
        target.mkdir(mode=0o700)
        pending = [(str(source), str(target))]
        folders: list[tuple[str, str]] = []
        while pending and not self.stop.is_set():
            folder = pending.pop()
            folders.append(folder)
            pending.extend(self._copy_entries(*folder))
        if self.stop.is_set():
            shutil.rmtree(target, ignore_errors=True)
            return
        for original, made in reversed(folders):  # modes last: a folder may not be writable
            shutil.copystat(original, made)

    def _copy_entries(self, source: str, target: str) -> Iterator[tuple[str, str]]:
        with os.scandir(source) as entries:
            for entry in entries:
                if any(fnmatch.fnmatchcase(entry.name, glob) for glob in self._ignore):
                    continue
                place = f"{target}/{entry.name}"
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    self._copy_link(entry.path, place)
                elif stat.S_ISDIR(mode):
                    Path(place).mkdir(mode=0o700)
                    yield entry.path, place
                elif stat.S_ISREG(mode):
                    shutil.copy2(entry.path, place, follow_symlinks=False)
                else:
                    self._special += 1
                if self.stop.is_set():
                    return

    def _copy_link(self, source: str, place: str) -> None:
        text = os.readlink(source)  # noqa: PTH115  # as it stands
        os.symlink(text, place)  # noqa: PTH211
        leads_to = os.path.realpath(source)
        inside = leads_to == self._source or leads_to.startswith(self._source + "/")
        self._links_out += text.startswith("/") or not inside

    def warnings(self) -> Iterator[str]:
        if self._links_out:
            yield f"{self._links_out} link(s) in the copy lead out of it: what is written through them is the original"
        if self._special:
            yield f"{self._special} socket(s), fifo(s) or device(s) were not copied"


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
    await _git(source, "worktree", "add", "--quiet", "-b", branch, "--", str(folder), kind.base)
    cwd = folder / prefix if prefix else folder
    if not cwd.is_dir():
        await discard(kind, str(folder), source)
        raise WorkspaceFailed(f"{kind.base} has no folder {prefix}")
    return Made(str(cwd), root=str(folder), branch=branch)


async def _git(cwd: str, *arguments: str, check: bool = True) -> str:
    """Run git; raises `WorkspaceFailed`. Nothing of ours in the environment leads it elsewhere."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        with anyio.fail_after(GIT_SECONDS):
            done = await anyio.run_process([*GIT, *arguments], cwd=cwd, env=env, check=False, stdin=None)
    except TimeoutError:
        raise WorkspaceFailed(f"git {arguments[0]} did not end within {GIT_SECONDS:.0f} s") from None
    except OSError as error:
        raise WorkspaceFailed(f"git cannot be started: {error.strerror}") from error
    if check and done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        problem = said[-1] if said else f"exit {done.returncode}"
        raise WorkspaceFailed(f"git {arguments[0]}: {problem}", full="No space left on device" in problem)
    return done.stdout.decode("utf-8", "surrogateescape")


def mkdir(folder: Path) -> None:
    """Make a folder and those above it, for us alone; raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
