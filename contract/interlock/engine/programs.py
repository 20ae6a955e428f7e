"""The programs of hooks: which files a command names, resolved once at the start and held to that.

A hook that the agent can replace is no guard. So a program is looked up in the system's folders alone, never on a PATH
of somebody's choosing; every file that the command names is digested; one inside the workspace is refused unless the
hook says that it is meant to lie there; and before each start the files must still be the ones that were digested.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from posixpath import isabs, join, normpath

from interlock.engine.places import inside
from interlock.errors import ConfigurationError

__all__ = ["SYSTEM_PATH", "Program", "ProgramFile", "resolve_program"]

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_INTERPRETER = re.compile(r"(?:python|pypy|node|deno|bun|ruby|perl|php|lua|bash|sh|dash|zsh|ksh)[0-9.]*")
_SHEBANG = re.compile(rb"\A#![ \t]*([^\s]+)")
_CHUNK = 1 << 20


@dataclass(slots=True)
class ProgramFile:
    """One file that a hook's command names. `path` is as written, absolute; `real` is what it led to at the start."""

    path: str
    real: str
    digest: str
    stamp: tuple[int, ...]

    @classmethod
    def of(cls, path: str) -> ProgramFile:
        """Read the file; raises OSError."""
        real = os.path.realpath(path)
        stamp = _stamp(real)
        return cls(path, real, _digest(real), stamp)

    def change(self) -> str | None:
        """Why this is no longer the file that was digested; None if it is."""
        try:
            if os.path.realpath(self.path) != self.real:
                return f"{self.path} leads to another file than at the start"
            stamp = _stamp(self.real)
            if stamp == self.stamp:
                return None
            if _digest(self.real) != self.digest:
                return f"{self.path} has changed since the start"
        except OSError as error:
            return f"{self.path} cannot be read any more: {error.strerror}"
        self.stamp = stamp
        return None


@dataclass(frozen=True, slots=True)
class Program:
    """A command ready to be started: absolute, with the files it names."""

    argv: tuple[str, ...]
    files: tuple[ProgramFile, ...]

    @property
    def digest(self) -> str:
        """Of the command and of every file in it."""
        parts = "\0".join((*self.argv, *(file.digest for file in self.files)))
        return "sha256:" + hashlib.sha256(parts.encode("utf-8", "surrogateescape")).hexdigest()

    def change(self) -> str | None:
        """Why this is no longer what was resolved; None if it is."""
        return next((change for file in self.files if (change := file.change()) is not None), None)


def resolve_program(
    command: Sequence[str], *, source: str, folder: str | None, outside: Sequence[str], in_workspace: bool
) -> Program:
    """Resolve a hook's command; raises `ConfigurationError` naming `source` for one that cannot be trusted or started.

    `folder` is the hooks file's; None where there is none, and then relative paths are refused. `outside` lists the
    directories in which no file of it may lie, unless `in_workspace`. An argument that names a file in `folder`
    becomes absolute, since a hook runs in a folder of its own.
    """
    if any("\0" in word for word in command):
        raise ConfigurationError(source, "a command cannot hold a NUL character")
    argv = [_program_path(command[0], source, folder)]
    argv.extend(_argument(word, folder) for word in command[1:])
    paths = [argv[0], *_shebang(argv[0], source), *(word for word in argv[1:] if isabs(word) and Path(word).is_file())]
    _check_script(argv, source)
    if not in_workspace:
        _check_place(paths, outside, source)
    try:
        files = tuple(ProgramFile.of(path) for path in dict.fromkeys(paths))
    except OSError as error:
        raise ConfigurationError(source, f"{error.filename} cannot be read: {error.strerror}") from error
    return Program(tuple(argv), files)


def _program_path(word: str, source: str, folder: str | None) -> str:
    if isabs(word):
        candidates = [word]
    elif "/" in word:
        if folder is None:
            raise ConfigurationError(source, f"{word!r} is relative, and there is no hooks file that it could be to")
        candidates = [join(folder, word)]
    else:
        candidates = [join(system, word) for system in SYSTEM_PATH.split(":")]
    for path in candidates:
        if Path(path).is_file() and os.access(path, os.X_OK):
            return normpath(path) if folder is not None and not isabs(word) else path
    looked = ", ".join(candidates)
    raise ConfigurationError(source, f"no program that can be started is at {looked}")


def _argument(word: str, folder: str | None) -> str:
    if folder is None or isabs(word) or word.startswith("-") or not word:
        return word
    path = join(folder, word)
    return path if Path(path).is_file() else word


def _shebang(path: str, source: str) -> list[str]:
    """The interpreter that a script names in its first line."""
    try:
        with Path(path).open("rb") as stream:
            found = _SHEBANG.match(stream.read(512))
    except OSError as error:
        raise ConfigurationError(source, f"{path} cannot be read: {error.strerror}") from error
    if found is None:
        return []
    interpreter = os.fsdecode(found[1])
    if not (isabs(interpreter) and Path(interpreter).is_file() and os.access(interpreter, os.X_OK)):
        raise ConfigurationError(source, f"{path} asks for the interpreter {interpreter!r}, which cannot be started")
    return [interpreter]


def _check_script(argv: Sequence[str], source: str) -> None:
    """A script that is missing would make an interpreter fail on every single call."""
    name = argv[0].rpartition("/")[2]
    script = argv[1] if len(argv) > 1 else "-"
    if _INTERPRETER.fullmatch(name) and not script.startswith("-") and not (isabs(script) and Path(script).is_file()):
        raise ConfigurationError(
            source, f"the script {script!r} is no file; give it absolute, or beside the hooks file"
        )


def _check_place(paths: Sequence[str], outside: Sequence[str], source: str) -> None:
    roots = {normpath(root) for root in outside} | {os.path.realpath(root) for root in outside}
    for path in paths:
        for spelled in (normpath(path), os.path.realpath(path)):
            if any(inside(spelled, root) for root in roots):
                raise ConfigurationError(
                    source,
                    f"{path} lies inside the workspace, where the agent could change it; say `in_workspace` if it must",
                )


def _stamp(path: str) -> tuple[int, ...]:
    found = Path(path).stat()
    if not stat.S_ISREG(found.st_mode):
        raise FileNotFoundError(2, "no regular file", path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
