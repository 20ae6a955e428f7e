"""The tasks of a batch in its folder: written once, whole, before anything runs, and never changed.

`tasks.jsonl` holds a task a line; `batch.json`, which is written after it, how many there are and their digest. In
memory is only where each line begins: a task is read when its turn comes.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from interlock.batch.journal import replace_file, sync_folder
from interlock.batch.tasks import Task
from interlock.errors import ConfigurationError, JournalDamaged, JournalFailed, TasksChanged
from interlock.model import Model
from interlock.request import Request

__all__ = ["Head", "TaskFile"]

FLUSH = 1 << 20


class Head(Model):
    """`batch.json`."""

    model_config = ConfigDict(extra="ignore")

    batch: int = 1
    id: str
    total: int
    digest: str
    """Of `tasks.jsonl`: `sha256:` and hex."""
    created: float
    interlock: str = ""


class TaskFile:
    """The tasks that lie in a folder."""

    def __init__(self, folder: Path, head: Head) -> None:
        """Read where each task begins; raises `JournalDamaged` if they are not those that `batch.json` tells of."""
        self.head = head
        self._folder = folder
        self._starts = array("Q")
        self.ids: list[str] = []
        self.agents: list[str] = []
        """By index, as is the next."""
        self.index: dict[str, int] = {}
        self._path = folder / "tasks.jsonl"
        try:
            self._survey()
        except OSError as error:
            raise self._damaged(0, f"it cannot be read: {error.strerror}") from error

    def _survey(self) -> None:
        digest, offset = hashlib.sha256(), 0
        names: dict[str, str] = {}
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                digest.update(line)
                self._starts.append(offset)
                offset += len(line)
                run, agent = self._names(number, line)
                self.index[run] = len(self.ids)
                self.ids.append(run)
                self.agents.append(names.setdefault(agent, agent))
        self._starts.append(offset)
        if len(self.ids) != self.head.total or f"sha256:{digest.hexdigest()}" != self.head.digest:
            raise self._damaged(0, "these are not the tasks that batch.json tells of")

    def _names(self, number: int, line: bytes) -> tuple[str, str]:
        try:
            names = _Names.model_validate_json(line)
        except ValidationError as error:
            raise self._damaged(number, "it is no task") from error
        return names.id, names.request.agent

    def _damaged(self, line: int, problem: str) -> JournalDamaged:
        return JournalDamaged(str(self._folder), "tasks.jsonl", line, problem)

    def read(self, index: int) -> Task:
        """One task; raises `JournalDamaged`."""
        try:
            return Task.parse_json(self._line(index))
        except (OSError, ValidationError) as error:
            raise self._damaged(index + 1, f"the task cannot be read: {error}") from error

    def compare(self, tasks: Iterable[Task | Request]) -> None:
        """Raise `TasksChanged` unless these are the tasks that lie here."""
        number = 0
        for number, (run, line) in enumerate(encoded(tasks), 1):
            if number > self.head.total:
                break
            if self._line(number - 1) != line:
                raise TasksChanged(str(self._folder), f"task {number} ({run}) is not the one it was begun with")
        if number != self.head.total:
            found = f"more than {self.head.total}" if number > self.head.total else str(number)
            raise TasksChanged(str(self._folder), f"it was begun with {self.head.total} tasks, and {found} are given")

    def _line(self, index: int) -> bytes:
        begin, end = self._starts[index], self._starts[index + 1]
        with self._path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), end - begin, begin)


class _Agent(Model):
    model_config = ConfigDict(extra="ignore")

    agent: str


class _Names(Model):
    """As much of a task as is kept in memory."""

    model_config = ConfigDict(extra="ignore")

    id: str
    request: _Agent


def encoded(tasks: Iterable[Task | Request]) -> Iterator[tuple[str, bytes]]:
    """The id and the line of each task; raises `ConfigurationError` for an id that is there twice.

    Ids differ in more than case, since there are file systems that do not tell such names apart.
    """
    seen: set[str] = set()
    for number, given in enumerate(tasks, 1):
        task = (given if isinstance(given, Task) else Task(request=given)).rooted()
        if not task.id:
            task = task.model_copy(update={"id": str(number)})
        if task.id.casefold() in seen:
            raise ConfigurationError(f"task {number}", f"the id {task.id!r} is there twice")
        seen.add(task.id.casefold())
        yield task.id, task.model_dump_json().encode() + b"\n"


def write_tasks(folder: Path, head: Head, tasks: Iterable[Task | Request]) -> Head:
    """Write the tasks, then `batch.json`; gives it. Raises `JournalFailed`, and `ConfigurationError` for no task."""
    digest, total = hashlib.sha256(), 0
    path = folder / "tasks.jsonl"
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb", FLUSH) as file:
            for total, (_, line) in zip(itertools.count(1), encoded(tasks), strict=False):  # noqa: B007
                digest.update(line)
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if not total:
            raise ConfigurationError("batch", "there is no task")
        head = head.model_copy(update={"total": total, "digest": f"sha256:{digest.hexdigest()}"})
        replace_file(folder / "batch.json", head.model_dump_json(indent=1).encode() + b"\n", sync=True)
        sync_folder(folder)
    except OSError as error:
        name = Path(str(error.filename)).name if error.filename else "tasks.jsonl"
        raise JournalFailed(str(folder), name, error.strerror or str(error)) from error
    return head
