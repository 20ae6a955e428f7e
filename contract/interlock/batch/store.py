"""The folder of a batch: opened by one driver, looked at by anybody."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import uuid4

from pydantic import ValidationError

from interlock.batch.history import Counted, History
from interlock.batch.journal import JournalWriter, Line, Record, Tail, read_file, read_lines
from interlock.batch.lock import BatchLock, holder_of
from interlock.batch.result_lines import ResultLines, digest_of, result_line
from interlock.batch.results import BatchResult, RunStatus
from interlock.batch.task_file import Head, TaskFile, write_tasks
from interlock.batch.tasks import Task
from interlock.batch.wire import AttemptResult
from interlock.errors import ConfigurationError, JournalDamaged, JournalFailed
from interlock.outcome import Outcome, Reason, Status
from interlock.request import Request

__all__ = ["Store", "holder_of"]

OURS = frozenset({"tasks.jsonl", "batch.lock", "batch.json.new"})
"""What lies in the folder of a batch that was killed before it began."""


class Store:
    """A batch's folder and what is in it. Only a driver has `journal`, and with it the lock."""

    def __init__(self, folder: Path, tasks: TaskFile, lock: BatchLock | None = None) -> None:
        self.folder = folder
        self.tasks = tasks
        self.id = tasks.head.id
        self.total = tasks.head.total
        self._lock = lock
        self._journal: JournalWriter | None = None
        self._tail = Tail()
        self._results = ResultLines(folder)

    @classmethod
    def open(cls, folder: Path, tasks: Iterable[Task | Request] | None) -> Store:
        """Make a batch, or take up the one that is there; raises what `batch` does."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise JournalFailed(str(folder), ".", error.strerror or str(error)) from error
        lock = BatchLock(folder)
        try:
            return cls(folder, _found_or_made(folder, tasks), lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def look(cls, folder: Path) -> Store:
        """Look at a batch; raises `ConfigurationError` if there is none, and `JournalDamaged`."""
        head = _head(folder)
        if head is None:
            raise ConfigurationError(str(folder), "there is no batch")
        return cls(folder, TaskFile(folder, head))

    def history(self, *, detailed: bool = False) -> History:
        """What the journal adds up to; raises `JournalDamaged`."""
        history, self._tail = History(detailed=detailed), Tail()
        for number, line in enumerate(read_lines(self.folder, tail=self._tail), 1):
            if (problem := self._unknown(line)) is not None:
                raise JournalDamaged(str(self.folder), "batch.jsonl", number, problem)
            history.take(line)
        return history

    def _unknown(self, line: Line) -> str | None:
        """What a line names that there is not."""
        if line.run is not None and line.run not in self.tasks.index:
            return f"there is no task {line.run!r}"
        if line.kind == "outcome" and line.status not in set(RunStatus):
            return f"{line.status!r} is no status"
        return None

    def journal(self) -> JournalWriter:
        """The journal for writing, from where `history` has read to; raises `JournalFailed`."""
        if self._journal is None:
            self._journal = JournalWriter(self.folder, self._tail)
        return self._journal

    def close(self) -> None:
        """Close everything and give back the lock; idempotent."""
        if self._journal is not None:
            self._journal.close()
        if self._lock is not None:
            self._lock.release()

    # ---- names -------------------------------------------------------------------------------------------------------

    def run_folder(self, run: str) -> Path:
        """Where the attempts of a run are recorded."""
        return self.folder / "runs" / run

    def attempt_folder(self, run: str, attempt: str) -> Path:
        """Where one attempt is recorded."""
        return self.run_folder(run) / attempt

    # ---- results -----------------------------------------------------------------------------------------------------

    def record(self, run: str, result: AttemptResult, status: RunStatus) -> tuple[Record, str]:
        """An outcome as it is written, and its digest, which the journal names."""
        content = result.outcome.model_dump_json().encode()
        path = self.attempt_folder(run, result.attempt) / "outcome.json"
        return Record(path, content + b"\n", result_line(run, result.attempt, status, content)), digest_of(content)

    def lost_record(self, run: str, status: RunStatus, outcome: Outcome) -> Record:
        """An outcome that no attempt left; the journal has all that is known of it."""
        return Record(None, b"", result_line(run, None, status, outcome.model_dump_json().encode()))

    def result(self, index: int, line: Counted, attempts: int, *, earlier: bool) -> BatchResult:
        """A counted run as its caller sees it.

        What does not have the digest that the journal names is not believed: the outcome is then what the journal says.
        """
        run, task = self.tasks.ids[index], self.tasks.read(index)
        outcome = self._outcome(run, line)
        warnings: tuple[str, ...] = ()
        if outcome is None:
            outcome = _as_journaled(task, line)
            if line.digest is not None:
                warnings = (
                    "its outcome.json is missing or is not the one that was written; this is what the journal says",
                )
        workspace = line.workspace if line.workspace and Path(line.workspace).is_dir() else None
        return BatchResult(
            run=run,
            index=index,
            task=task,
            status=RunStatus(line.status),
            attempt=line.attempt,
            attempts=attempts,
            outcome=outcome,
            workspace=workspace,
            branch=line.branch,
            warnings=warnings,
            earlier=earlier,
        )

    def _outcome(self, run: str, line: Counted) -> Outcome | None:
        """The outcome that the journal names, from its own file or, where a power failure took that, the results."""
        if line.attempt is None or line.digest is None:
            return None
        content = read_file(self.attempt_folder(run, line.attempt) / "outcome.json").removesuffix(b"\n")
        if digest_of(content) != line.digest:
            content = self._results.outcome(run, line.attempt, line.status, line.digest) or b""
        try:
            return Outcome.parse_json(content)
        except ValidationError:
            return None

    def mend_results(self, history: History) -> None:
        """Make `results.jsonl` fit the journal, from the outcomes, if it does not; raises `JournalFailed`."""
        try:
            if self._results.fit(history.order):
                return
            self.journal().rewrite_results(self._result_lines(history))
        except OSError as error:
            raise JournalFailed(str(self.folder), "results.jsonl", error.strerror or str(error)) from error
        self._results.forget()

    def _result_lines(self, history: History) -> Iterator[bytes]:
        for run in history.order:
            line, index = history.counted(run), self.tasks.index.get(run)
            if line is not None and index is not None:
                outcome = self._outcome(run, line) or _as_journaled(self.tasks.read(index), line)
                status = RunStatus(line.status)
                yield result_line(run, line.attempt, status, outcome.model_dump_json().encode())


def _as_journaled(task: Task, line: Counted) -> Outcome:
    status = line.status if line.status in set(Status) else Status.FAILED
    reason = line.reason if line.reason in set(Reason) else None
    return Outcome.model_validate(
        {
            "run_id": "",
            "agent": task.request.agent,
            "status": status,
            "reason": reason,
            "message": line.message or "",
            "cost_usd": line.usd,
            "duration": line.duration,
            "labels": dict(task.request.labels),
        }
    )


def _head(folder: Path) -> Head | None:
    try:
        content = (folder / "batch.json").read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalFailed(str(folder), "batch.json", error.strerror or str(error)) from error
    try:
        head = Head.parse_json(content)
    except ValidationError as error:
        raise JournalDamaged(str(folder), "batch.json", 0, "it cannot be understood") from error
    if head.batch != 1:
        raise JournalDamaged(str(folder), "batch.json", 0, f"it is of version {head.batch}; this is 1")
    return head


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # slow to import

    try:
        return version("interlock")
    except PackageNotFoundError:
        return ""


def _found_or_made(folder: Path, tasks: Iterable[Task | Request] | None) -> TaskFile:
    head = _head(folder)
    if head is None:
        return _made(folder, tasks)
    found = TaskFile(folder, head)
    if tasks is not None:
        found.compare(tasks)
    return found


def _made(folder: Path, tasks: Iterable[Task | Request] | None) -> TaskFile:
    if tasks is None:
        raise ConfigurationError(str(folder), "there is no batch to resume")
    if strange := sorted({path.name for path in folder.iterdir()} - OURS):
        raise ConfigurationError(str(folder), f"it is no batch, and not empty: {strange[0]}")
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:6]}"
    head = Head(id=name, total=0, digest="", created=time.time(), interlock=_version())
    return TaskFile(folder, write_tasks(folder, head, tasks))
