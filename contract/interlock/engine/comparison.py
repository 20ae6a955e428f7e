"""What a run changed in its workspace, for an agent that does not say so: two looks at the files, and the difference.

Looked at are kind, size, times and inode of every file, not its content, in at most `MOST` entries; nothing below a
`.git` folder or behind a link. A workspace that holds more is not compared, and that is said.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from interlock.events import FileChange

__all__ = ["Snapshot", "obeyed", "repository_root"]

MOST = 200_000
"""Entries of a workspace that are looked at."""

Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a workspace at one moment; `whole` False: there were too many."""

    files: dict[str, Stamp]
    whole: bool = True

    @classmethod
    def of(cls, folder: str) -> Snapshot:
        """Look at every file below `folder`; what cannot be read is passed over."""
        files: dict[str, Stamp] = {}
        waiting, seen = [folder], 0
        while waiting:
            for entry in _entries(waiting.pop()):
                seen += 1
                if seen > MOST:
                    return cls({}, whole=False)
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != ".git":
                        waiting.append(entry.path)
                elif (stamp := _stamp(entry)) is not None:
                    files[os.path.relpath(entry.path, folder)] = stamp
        return cls(files)

    def changes(self, later: Snapshot) -> tuple[FileChange, ...]:
        """What differs in a later look, by path."""
        found: list[FileChange] = []
        for path in sorted({*self.files, *later.files}):
            before, after = self.files.get(path), later.files.get(path)
            if before is None:
                found.append(FileChange(path=path, change="add"))
            elif after is None:
                found.append(FileChange(path=path, change="delete"))
            elif before != after:
                found.append(FileChange(path=path, change="update"))
        return tuple(found)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _stamp(entry: os.DirEntry[str]) -> Stamp | None:
    try:
        stat = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return stat.st_mode, stat.st_size, stat.st_mtime_ns, stat.st_ino


def repository_root(cwd: str) -> str | None:
    """The root of the git repository that a directory is in."""
    here = Path(cwd)
    return next((str(place) for place in (here, *here.parents) if os.path.lexists(place / ".git")), None)


def obeyed(cwd: str, names: tuple[str, ...]) -> list[str]:
    """Which of these files lie in the working directory, or at the root of the git repository that it is in."""
    places = dict.fromkeys((cwd, repository_root(cwd) or cwd))
    paths = [Path(place) / name for place in places for name in names]
    return [str(path) for path in paths if os.path.lexists(path)]
