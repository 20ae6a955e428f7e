"""The audit file: one decision a line, appended, for nobody else to read.

A file that cannot be written at the start is an error. One that fails later is remembered: `failure` says why, and no
call is let run from then on, since nothing of what follows could be accounted for.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from interlock.errors import ConfigurationError
from interlock.hooks import AuditRecord

__all__ = ["Audit"]


class Audit:
    """Appends records to a file, each in one write; raises `ConfigurationError` if it cannot be opened for that."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = str(Path(path).absolute())
        self._file: int | None = None
        self.failure: str | None = None
        """Why a record could not be written; no call may run any more."""
        try:
            self._file = _opened(self._path)
        except OSError as error:
            raise ConfigurationError(self._path, f"the audit cannot be written: {error.strerror}") from error

    def write(self, record: AuditRecord) -> None:
        """Append one record; raises nothing."""
        if self._file is None or self.failure is not None:
            self.failure = self.failure or "it is closed"
            return
        try:
            line = record.model_dump_json().encode() + b"\n"
            written = os.write(self._file, line)
        except (OSError, ValueError) as error:
            self.failure = getattr(error, "strerror", None) or str(error)
            return
        if written != len(line):
            self.failure = "only a part of a record could be written"

    def fileno(self) -> int:
        """The descriptor of the file; raises ValueError once it is closed."""
        if self._file is None:
            raise ValueError("the audit is closed")
        return self._file

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _opened(path: str) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    file = os.open(path, flags, 0o600)
    try:
        _ready(file, path)
    except BaseException:
        os.close(file)
        raise
    return file


def _ready(file: int, path: str) -> None:
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(22, "it is no regular file", path)
    if facts.st_size and os.pread(file, 1, facts.st_size - 1) != b"\n":
        os.write(file, b"\n")  # a writer was killed in the middle of a line; ours begins on the next
