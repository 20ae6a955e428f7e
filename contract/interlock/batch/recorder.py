"""What an attempt leaves behind: its spec, its events as they happen, the end of its stderr."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path

from interlock.batch.journal import replace_file
from interlock.events import (
    ApprovalRequested,
    ApprovalResolved,
    BaseEvent,
    RunFinished,
    TextDelta,
    ThinkingDelta,
    ToolOutput,
    Unguarded,
    UsageUpdated,
)

__all__ = ["FileRecorder", "MemoryRecorder", "RecordFailed", "Recorder"]

MOST_IN_MEMORY = 4 * 1024 * 1024
MOST_ON_DISK = 256 * 1024 * 1024
"""Bytes of events of one attempt, so that an agent which prints for ever does not fill the disk of all others."""
ALWAYS = (ApprovalRequested, ApprovalResolved, RunFinished, Unguarded, UsageUpdated)
"""What is recorded even past that."""
DELTAS = (TextDelta, ThinkingDelta, ToolOutput)


class RecordFailed(Exception):
    """A file of the attempt cannot be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path}: {error.strerror}")


class Recorder(ABC):
    """Takes events in order; the base of the two that there are."""

    def __init__(self, *, deltas: bool, most: int) -> None:
        """`most`: bytes of events, past which only those of `ALWAYS` are recorded."""
        self._deltas = deltas
        self._most = most
        self._written = 0
        self.cut = False
        """Whether something was left out for its size."""

    def take(self, event: BaseEvent) -> bytes | None:
        """Record one event; gives its JSON, or None where it is not recorded. Raises `RecordFailed`."""
        if not self._deltas and isinstance(event, DELTAS):
            return None
        line = event.model_dump_json().encode()
        if self._written + len(line) < self._most or isinstance(event, ALWAYS):
            self._write(line + b"\n")
            self._written += len(line) + 1
        else:
            self._written, self.cut = self._most, True
        return line

    @abstractmethod
    def _write(self, line: bytes) -> None:
        """Add a whole line. Raises `RecordFailed`."""

    @abstractmethod
    def end(self, stderr: str) -> str | None:
        """Record the last; gives what must travel with the result. Raises `RecordFailed`."""

    def close(self) -> None:  # noqa: B027 -- there may be nothing to let go of
        """Let go of everything."""


class FileRecorder(Recorder):
    """Records into a folder, which it makes; raises `RecordFailed`."""

    def __init__(self, folder: Path, spec: bytes, *, deltas: bool) -> None:
        super().__init__(deltas=deltas, most=MOST_ON_DISK)
        self._folder = folder
        self._path = folder / "events.jsonl"
        self._fd = -1
        try:
            folder.mkdir(mode=0o700, parents=True)
            replace_file(folder / "request.json", spec)
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise RecordFailed(folder, error) from error

    def _write(self, line: bytes) -> None:
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            raise RecordFailed(self._path, error) from error

    def end(self, stderr: str) -> str | None:
        if stderr:
            try:
                replace_file(self._folder / "stderr.txt", stderr.encode("utf-8", "surrogateescape"))
            except OSError as error:
                raise RecordFailed(self._folder / "stderr.txt", error) from error
        return None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class MemoryRecorder(Recorder):
    """Keeps the beginning of what happens, for the result."""

    def __init__(self, *, deltas: bool) -> None:
        super().__init__(deltas=deltas, most=MOST_IN_MEMORY)
        self._lines = bytearray()

    def _write(self, line: bytes) -> None:
        self._lines += line

    def end(self, stderr: str) -> str | None:  # noqa: ARG002  # the outcome has it
        return self._lines.decode()
