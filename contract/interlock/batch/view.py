"""Looking at a batch from outside: what its journal says, also while a driver runs. Nothing is locked or written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from interlock.batch.history import AttemptView, History, RunView
from interlock.batch.results import BatchReport, BatchResult
from interlock.batch.store import Store, holder_of

__all__ = ["AttemptView", "BatchView", "RunView", "read_batch"]


def read_batch(folder: str | os.PathLike[str]) -> BatchView:
    """The batch in this folder, as it stands now; raises `JournalDamaged`, or `ConfigurationError` if there is none."""
    store = Store.look(Path(folder).expanduser().absolute())
    return BatchView(store, store.history(detailed=True))


class BatchView:
    """A batch as its journal tells it, at the moment it was read."""

    def __init__(self, store: Store, history: History) -> None:
        self._store = store
        self._history = history
        self.folder: Path = store.folder
        self.id: str = store.id
        self.total: int = store.total
        self.holder: str | None = holder_of(store.folder)
        """What the driver that runs now says of itself; None if none runs."""

    def report(self) -> BatchReport:
        """The counts so far."""
        return self._history.report(self.total)

    def runs(self) -> Iterator[RunView]:
        """Every run, in the order of the tasks, one by one."""
        for index, run in enumerate(self._store.tasks.ids):
            yield self._history.view(run, index)

    def run(self, run: str) -> RunView:
        """One run; raises `KeyError` if there is no such run."""
        return self._history.view(run, self._store.tasks.index[run])

    def result(self, run: str) -> BatchResult | None:
        """How a run was counted; None while it is not. Raises `KeyError` if there is no such run."""
        index, line = self._store.tasks.index[run], self._history.counted(run)
        if line is None:
            return None
        return self._store.result(index, line, self._history.record(run).attempts, earlier=True)

    def folder_of(self, run: str, attempt: str) -> Path:
        """Where `request.json`, `events.jsonl`, `outcome.json` and `stderr.txt` of an attempt are."""
        return self._store.attempt_folder(run, attempt)
