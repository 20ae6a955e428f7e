"""The journal: one JSON object a line, appended by one driver, readable at every moment.

Strategy: a line is written whole; what a killed writer left of its last one is cut off by the next, and passed over by
whoever reads meanwhile. Lines count from 0 without a gap, so that a line lost from the middle is noticed. Kinds and
members that are unknown say nothing to this version and are passed over.

A line survives the death of its writer as soon as it is written, and a power failure once it is synced. Writing and
syncing are done in one thread for all that waits (`Writer.run`), so that a slow disk delays runs and not each other.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Annotated, Literal

import anyio
import anyio.to_thread
from pydantic import ConfigDict, Field, ValidationError

from interlock.errors import JournalDamaged, JournalFailed
from interlock.model import Model

__all__ = [
    "JournalWriter",
    "Line",
    "Record",
    "Tail",
    "read_file",
    "read_lines",
    "replace_file",
    "sync_folder",
    "whole_lines",
]

CHUNK = 1 << 20
LONGEST = 256 << 20

Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Line(Model):
    """One line of the journal; which members it has depends on its kind. `usd` and `tokens` None: not known."""

    model_config = ConfigDict(extra="ignore")

    v: Literal[1] = 1
    seq: int = -1
    ts: float = 0.0
    """Seconds since the epoch."""
    kind: str
    """opened, submitted, started, throttled, retried, lost, superseded, ended, outcome, reopened, paused or end."""
    run: str | None = None
    key: str | None = None
    number: int | None = None
    attempt: str | None = None
    agent: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    usd: Usd | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    """Of an attempt that ended, what it used; of one that was submitted, what it reserves."""
    denials: int | None = None
    duration: float | None = None
    digest: str | None = None
    """Of `outcome.json`."""
    counts: bool | None = None
    """Of a loss: whether it counts against the run."""
    workspace: str | None = None
    branch: str | None = None
    until: float | None = None
    driver: str | None = None
    host: str | None = None
    pid: int | None = None

    def encoded(self, seq: int, ts: float) -> bytes:
        """The line as it is written."""
        stamped = self.model_copy(update={"seq": seq, "ts": ts})
        return stamped.model_dump_json(exclude_none=True).encode() + b"\n"


@dataclass(slots=True)
class Tail:
    """How far a file could be read."""

    good: int = 0
    """Bytes of whole lines."""
    lines: int = 0


def read_lines(folder: Path, name: str = "batch.jsonl", tail: Tail | None = None) -> Iterator[Line]:
    """The lines of a journal, oldest first; a torn last one is left out.

    Raises `JournalDamaged` for a line in the middle that cannot be read, or is out of turn, and `JournalFailed`.
    """
    try:
        yield from _numbered_lines(folder, name, tail or Tail())
    except OSError as error:
        raise JournalFailed(str(folder), name, error.strerror or str(error)) from error


def _numbered_lines(folder: Path, name: str, tail: Tail) -> Iterator[Line]:
    for number, raw in enumerate(whole_lines(folder / name), 1):
        try:
            line = Line.model_validate_json(raw)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]["msg"]
            raise JournalDamaged(str(folder), name, number, problem) from error
        if line.seq != number - 1:
            raise JournalDamaged(str(folder), name, number, f"line {line.seq} stands where {number - 1} should")
        tail.good += len(raw) + 1
        tail.lines = number
        yield line


def whole_lines(path: Path, begin: int = 0) -> Iterator[bytes]:
    """The lines of a file that end, without their ends, from a byte on; nothing of a file that does not exist."""
    with suppress(FileNotFoundError), BufferedReader(_regular(path), CHUNK) as file:
        file.seek(begin)
        for raw in file:
            if not raw.endswith(b"\n"):
                return
            yield raw[:-1]


def read_file(path: Path) -> bytes:
    """What is in a file; nothing where it cannot be read, or is longer than any that is written here."""
    with suppress(OSError), _regular(path) as file:
        content = file.read(LONGEST + 1)
        return content if len(content) <= LONGEST else b""
    return b""


def _regular(path: Path) -> FileIO:
    """A file for reading that is no link, and nothing whose reader would wait; raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return FileIO(fd, "rb")


@dataclass(slots=True)
class Record:
    """An outcome on its way to disk: the file of its attempt, and its line in `results.jsonl`."""

    path: Path | None
    """None: of an attempt that left nothing, there is no file."""
    content: bytes
    line: bytes


@dataclass(slots=True)
class Entry:
    """What is written together: first the record, then the lines; `done` is set once it is safe, or has failed."""

    lines: Sequence[Line] = ()
    record: Record | None = None
    sync: bool = False
    done: anyio.Event = field(default_factory=anyio.Event)


class JournalWriter:
    """The one writer of a batch's journal and results."""

    def __init__(self, folder: Path, tail: Tail) -> None:
        """Open them, cutting off what a killed writer left of a line; raises `JournalFailed`."""
        self._folder = folder
        self.failure: JournalFailed | None = None
        """Why nothing can be written any more."""
        self._pending: list[Entry] = []
        self._wanted = anyio.Event()
        self._closing = False
        self._seq = tail.lines
        self._journal = _Appended(folder, "batch.jsonl", tail.good)
        try:
            self._results = _Appended(folder, "results.jsonl", None)
            sync_folder(folder)  # what is synced in files must not be lost with their names
        except OSError as error:
            self._journal.close()
            raise JournalFailed(str(folder), ".", error.strerror or str(error)) from error
        except BaseException:
            self._journal.close()
            raise

    def post(self, *lines: Line) -> None:
        """Have lines written soon; a kill may come before that."""
        self._enter(Entry(lines))

    async def commit(self, *lines: Line, record: Record | None = None) -> None:
        """Write, and wait until it is safe even from a power failure; raises `JournalFailed`."""
        entry = Entry(lines, record, sync=True)
        self._enter(entry)
        await entry.done.wait()
        if self.failure is not None:
            raise self.failure

    def _enter(self, entry: Entry) -> None:
        self._pending.append(entry)
        self._wanted.set()

    async def run(self) -> None:
        """Write what comes, until `close` and all of it is written. Cancellation is of no effect."""
        with anyio.CancelScope(shield=True):
            while self._pending or not self._closing:
                await self._wanted.wait()
                self._wanted = anyio.Event()
                group, self._pending = self._pending, []
                if group and self.failure is None:
                    await anyio.to_thread.run_sync(self._write, group)
                for entry in group:
                    entry.done.set()

    def finish(self) -> None:
        """`run` ends once everything is written."""
        self._closing = True
        self._wanted.set()

    def write_now(self, *lines: Line) -> None:
        """Write and sync at once, where no loop runs yet; raises `JournalFailed`."""
        self._write([Entry(lines, sync=True)])
        if self.failure is not None:
            raise self.failure

    def _write(self, group: Sequence[Entry]) -> None:
        """One group; the first error is the last thing that happens."""
        try:
            self._write_records([entry.record for entry in group if entry.record is not None])
            self._journal.append(b"".join(self._encoded(group)))
            if any(entry.sync for entry in group):
                self._journal.sync()
                self._journal.check()
        except OSError as error:
            self._journal.restore()
            name = Path(os.fsdecode(error.filename)).name if error.filename else "batch.jsonl"
            self.failure = JournalFailed(str(self._folder), name, error.strerror or str(error))

    def _write_records(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.path is not None:
                replace_file(record.path, record.content)
        if records:
            self._results.append(b"".join(record.line for record in records))
            self._results.sync()

    def _encoded(self, group: Sequence[Entry]) -> Iterator[bytes]:
        now = time.time()
        for entry in group:
            for line in entry.lines:
                yield line.encoded(self._seq, now)
                self._seq += 1

    def rewrite_results(self, lines: Iterator[bytes]) -> None:
        """Make `results.jsonl` anew; raises OSError."""
        self._results.close()
        path = self._folder / "results.jsonl.new"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        path.replace(self._folder / "results.jsonl")
        sync_folder(self._folder)
        self._results = _Appended(self._folder, "results.jsonl", None)

    def close(self) -> None:
        """Close the files; idempotent."""
        self._journal.close()
        self._results.close()


class _Appended:
    """A file that is only appended to, whole lines at a time."""

    def __init__(self, folder: Path, name: str, size: int | None) -> None:
        """`size`: how much of it is good; None: up to its last line's end."""
        self._name = str(folder / name)
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self._name, flags, 0o600)
        except OSError as error:
            raise JournalFailed(str(folder), name, error.strerror or str(error)) from error
        try:
            self._good = self._end_of_lines() if size is None else size
            if self._good != os.fstat(self._fd).st_size:
                os.ftruncate(self._fd, self._good)
        except OSError as error:
            self.close()
            raise JournalFailed(str(folder), name, error.strerror or str(error)) from error

    def _end_of_lines(self) -> int:
        end = os.fstat(self._fd).st_size
        while end:
            begin = max(0, end - CHUNK)
            found = os.pread(self._fd, end - begin, begin).rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            end = begin
        return 0

    def append(self, data: bytes) -> None:
        """Write all of it; raises OSError, and what was written of it is then cut off by `restore`."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except OSError as error:
                self.restore()
                raise OSError(error.errno, error.strerror, self._name) from error
        self._good += len(data)

    def sync(self) -> None:
        """Wait until it is on the disk; raises OSError."""
        try:
            fdatasync(self._fd)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._name) from error

    def check(self) -> None:
        """See to it that it can be found by its name; raises OSError."""
        there = os.stat(self._name, follow_symlinks=False)  # noqa: PTH116  # many times a second
        if not os.path.samestat(there, os.fstat(self._fd)):
            raise OSError(errno.ENOENT, "it is not the file that was opened", self._name)

    def restore(self) -> None:
        """Cut off what stands behind the last whole write."""
        with suppress(OSError):
            os.ftruncate(self._fd, self._good)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


fdatasync = getattr(os, "fdatasync", os.fsync)
"""macOS has only `fsync`."""


def _created(path: Path, new: str) -> FileIO:
    """A new file, in a folder that is made if there is none."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        fd = os.open(new, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(new, flags, 0o600)
    return FileIO(fd, "wb")


def replace_file(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Write a file as a whole: there is the old one, or the new one, as long as the machine runs; raises OSError.

    `sync`: even if the power fails.
    """
    new = f"{path}.new"
    try:
        with _created(path, new) as file:
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) or 0 :]
            if sync:
                os.fsync(file.fileno())
        os.replace(new, path)  # noqa: PTH105  # many times a second
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder are on the disk; raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
