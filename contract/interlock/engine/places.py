"""Where paths lie: how a path that an agent names is spelled, and the globs that path rules are made of.

A path counts in every way in which a tool might read it: relative to the call's directory, with and without `~`
expanded, with `..` taken away before or after links are followed. What may run must be fine in all of them; what is
forbidden is forbidden in any of them. Following links is the one thing here that looks at the file system.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from posixpath import join, normpath

__all__ = ["Place", "Spellings", "folded", "glob", "inside", "literal_start"]

LONGEST = 4096
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_MAGIC = re.compile(r"[*?]")
_ANY_FOLDERS = "(?:/[^/]+)*"


@dataclass(frozen=True, slots=True)
class Spellings:
    """All the ways to read one path, absolute: as it was written, and with links followed."""

    written: frozenset[str]
    resolved: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """Both."""
        return self.written | self.resolved


@dataclass(frozen=True, slots=True)
class Place:
    """The directories that a run counts as inside, with their links followed once, at the start."""

    workspace: str
    home: str
    roots: tuple[str, ...]
    """The workspace first, then the added directories; links followed."""
    written_roots: tuple[str, ...]
    resolve: Callable[[str], str]

    @classmethod
    def of(
        cls,
        workspace: str,
        add_dirs: Iterable[str] = (),
        home: str | None = None,
        resolve: Callable[[str], str] = os.path.realpath,
    ) -> Place:
        """The place of a run; relative directories are relative to the workspace."""
        top = normpath(Path(workspace).absolute())
        written = (top, *(normpath(join(top, folder)) for folder in add_dirs))
        own = normpath(home if home is not None else Path.home())
        return cls(top, own, tuple(map(resolve, written)), written, resolve)

    def spellings(self, path: str, cwd: str | None = None) -> Spellings | None:
        """Every reading of `path`; None if it cannot be read: empty, too long, a URL, or with a NUL in it."""
        if not path or "\0" in path or len(path) > LONGEST or _SCHEME.match(path):
            return None
        base = join(self.workspace, cwd or "")
        readings = [join(base, path)]
        if path.startswith("~"):
            if path != "~" and not path.startswith("~/"):
                return None
            readings.append(self.home + path[1:])
        written = frozenset(map(normpath, readings))
        try:
            resolved = frozenset(map(self.resolve, (*readings, *written)))
        except (OSError, ValueError):
            return None
        return Spellings(written, resolved)

    def real(self, path: str, cwd: str | None = None) -> str:
        """The path absolute, `~` expanded and links followed; what cannot be read stays as it is."""
        if self.spellings(path, cwd) is None:
            return path
        start = self.home + path[1:] if path.startswith("~") else path
        return self.resolve(join(self.workspace, cwd or "", start))

    def is_inside(self, spellings: Spellings) -> bool:
        """Whether the path lies in the workspace or an added directory, whichever way it is read."""
        return all(any(inside(path, root) for root in self.roots) for path in spellings.resolved)


def inside(path: str, root: str) -> bool:
    """Whether an absolute path is `root` or lies below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def folded(path: str) -> str:
    """A path as a file system that ignores case and normal forms would compare it."""
    return unicodedata.normalize("NFC", path).casefold()


def literal_start(pattern: str) -> tuple[str, str]:
    """The folders of an absolute pattern in front of its first wildcard, and the rest."""
    parts = pattern.split("/")
    fixed = next((index for index, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    return "/".join(parts[:fixed]) or "/", "/".join(parts[fixed:])


def glob(pattern: str, *, below: bool = False, anywhere: bool = False, fold: bool = False) -> re.Pattern[str]:
    """An absolute glob as a regular expression over absolute paths.

    `**` is any number of folders, `*` and `?` stay within a name, everything else is itself. `below` matches what lies
    below a match too; `anywhere` lets the pattern begin in any folder; `fold` compares as `folded` does.
    """
    text = folded(pattern) if fold else pattern
    parts = [part for part in text.split("/") if part]
    pieces = [_ANY_FOLDERS] if anywhere else []
    for part in parts:
        piece = _ANY_FOLDERS if part == "**" else "/" + _name(part)
        if piece != _ANY_FOLDERS or pieces[-1:] != [_ANY_FOLDERS]:
            pieces.append(piece)
    if below and pieces[-1:] != [_ANY_FOLDERS]:
        pieces.append(_ANY_FOLDERS)
    return re.compile("".join(pieces) + r"\Z" if pieces else r"/\Z", re.DOTALL)


def _name(part: str) -> str:
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(char) or re.escape(char) for char in re.sub(r"\*+", "*", part))
