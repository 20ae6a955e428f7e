"""Empty private folders for hooks to run in, out of the agent's way.

Removing a folder can cost more than the hook that ran in it. So one that is still empty afterwards is kept for the next
call, which takes it only if it is still the very same folder, still empty and still nobody else's; all others are
removed at once, and the kept ones with this object.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Scratch"]

MOST_KEPT = 4
Kept = list[tuple[str, tuple[int, int]]]


class Scratch:
    """Makes folders below `root`, which nothing else may write."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        self._kept: Kept = []
        weakref.finalize(self, _remove_all, self._kept)

    @contextmanager
    def folder(self, *, once: bool = False) -> Generator[str]:
        """An empty folder, gone or empty again after the block, `once`: gone. Raises OSError if none can be made."""
        path, identity = self._take()
        keep = False
        try:
            yield path
            keep = not once and len(self._kept) < MOST_KEPT and _identity(path) == identity
        finally:
            if keep:
                self._kept.append((path, identity))
            else:
                shutil.rmtree(path, ignore_errors=True)

    def _take(self) -> tuple[str, tuple[int, int]]:
        while self._kept:
            kept = self._kept.pop()
            if _identity(kept[0]) == kept[1]:
                return kept
            shutil.rmtree(kept[0], ignore_errors=True)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = str(self._root / f"hook-{secrets.token_hex(8)}")
        Path(path).mkdir(mode=0o700)
        identity = _identity(path)
        if identity is None:
            raise PermissionError(1, "the folder is not private", path)
        return path, identity


def _identity(path: str) -> tuple[int, int] | None:
    """Which folder this is; None if it is not an empty folder of ours alone."""
    try:
        found = Path(path).lstat()
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077 == 0
        if not private or found.st_uid != os.geteuid() or os.listdir(path):  # noqa: PTH208  # no Path per entry
            return None
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _remove_all(kept: Kept) -> None:
    for path, _ in kept:
        shutil.rmtree(path, ignore_errors=True)
