"""Opening a batch, and the batch as its caller holds it: results to read, approvals to answer, and ways to end it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import anyio

from interlock.approval import Answer, Approval, Approve, Deny, Question
from interlock.batch.approval_queue import serve_queue
from interlock.batch.driver import Driver
from interlock.batch.executor import Executor, Reachable, Telling
from interlock.batch.local import LocalExecutor
from interlock.batch.options import Budget, ChainNames, Options, Retries
from interlock.batch.results import BatchReport, BatchResult, Progress
from interlock.batch.store import Store
from interlock.batch.tasks import Task, Workspace
from interlock.batch.wire import News
from interlock.capabilities import Unmet
from interlock.engine.client import Client
from interlock.engine.roots import start_root
from interlock.errors import ConfigurationError, Unsupported
from interlock.request import Request

__all__ = ["Batch", "batch"]

Tasks = Iterable[Task | Request]


def batch(
    tasks: Tasks | None,
    folder: str | os.PathLike[str],
    *,
    client: Client | None = None,
    executor: Executor | None = None,
    chain: ChainNames | None = None,
    workspace: Workspace | None = None,
    work: str | os.PathLike[str] | None = None,
    concurrency: int = 8,
    agents: Mapping[str, int] | None = None,
    adaptive: bool = True,
    stagger: float = 0.05,
    budget: Budget | None = None,
    retries: Retries | None = None,
    total: float | None = None,
    run_total: float | None = None,
    attempt_total: float | None = None,
    asking: bool = False,
    live: bool = False,
    deltas: bool = False,
    only_failed: bool = False,
) -> AbstractAsyncContextManager[Batch]:
    """Many runs, each counted once; the results are read inside the block, and leaving it ends everything.

    `folder` is made, or holds a batch that is resumed: runs that were counted do not run again. `tasks` are then the
    same as before, or None for those it holds. The runs are those of `client`, in this process, unless an `executor`
    makes them elsewhere: no objects of a client can go there, and `chain` names who guards them. The other options are
    explained in `Options`.

    Raises `Unsupported` for what the executor cannot do, and `ConfigurationError`.
    Entering raises `BatchBusy`, `TasksChanged`, `JournalDamaged`, `JournalFailed`, or `ConfigurationError`; nothing was
    started then. Reading results and `report` raise `JournalFailed` once the folder cannot be written any more.
    """
    given: dict[str, Any] = {
        "workspace": workspace,
        "work": None if work is None else Path(work).expanduser().absolute(),
        "agents": agents,
        "budget": budget,
        "retries": retries,
    }
    options = Options(
        concurrency=concurrency,
        adaptive=adaptive,
        stagger=stagger,
        total=total,
        run_total=run_total,
        attempt_total=attempt_total,
        asking=asking,
        live=live,
        deltas=deltas,
        only_failed=only_failed,
        **{name: value for name, value in given.items() if value is not None},
    )
    _refuse_contradictions(client, executor, chain, options)
    return _Opened(tasks, Path(folder).expanduser().absolute(), executor or LocalExecutor(client), chain, options)


def _refuse_contradictions(
    client: Client | None, executor: Executor | None, chain: ChainNames | None, options: Options
) -> None:
    if executor is not None and client is not None:
        raise ConfigurationError(
            "batch", "a client works in this process alone; an executor takes `chain` in its place"
        )
    if client is not None and chain is not None:
        raise ConfigurationError("batch", "`client` has a chain of its own; give one of the two")
    if executor is not None and (unmet := _unmet(executor, options)):
        raise Unsupported(type(executor).__name__, unmet)


def _unmet(executor: Executor, options: Options) -> list[Unmet]:
    """What is wanted of an executor that it has no way for."""
    unmet: list[Unmet] = []
    if options.asking and not (isinstance(executor, Telling) and isinstance(executor, Reachable)):
        reason = "it carries no approvals here, or no answers there, so that every call which asks would wait in vain"
        unmet.append(Unmet(field="asking", value="True", reason=reason, alternatives=("asking=False",)))
    if options.live and not isinstance(executor, Telling):
        reason = "it carries no events while a run goes on"
        unmet.append(Unmet(field="live", value="True", reason=reason, alternatives=("live=False",)))
    return unmet


class Batch:
    """A batch in progress, or one that is over."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.folder: Path = driver.store.folder
        self.id: str = driver.store.id
        self.warnings: tuple[str, ...] = driver.warnings

    def __aiter__(self) -> AsyncIterator[BatchResult]:
        return self.results()

    def results(
        self, *, order: Literal["completed", "submitted"] = "completed", earlier: bool = True
    ) -> AsyncIterator[BatchResult]:
        """The counted runs, as they are counted or in the order of the tasks; ends when there is nothing more to do.

        In the order of the tasks, runs without a status are left out at the end. `earlier`: also those that an earlier
        driver counted, first. Each iterator reads all of them, from files: nothing is kept in memory for it.
        """
        return self._driver.results(order=order, earlier=earlier)

    def events(self) -> AsyncIterator[News]:
        """What is heard of running attempts from now on, for display: who does not keep up loses the oldest."""
        return self._driver.feed.listen()

    def progress(self) -> Progress:
        """How far it is now."""
        return self._driver.progress()

    @property
    def open_approvals(self) -> tuple[Approval, ...]:
        """The approvals that wait, oldest first."""
        return self._driver.people.approvals

    @property
    def open_questions(self) -> tuple[Question, ...]:
        """The questions that wait, oldest first."""
        return self._driver.people.questions

    async def respond(self, approval_id: str, decision: Approve | Deny) -> None:
        """Answer an approval; raises `NotOpen` for one that does not wait, or whose attempt is gone."""
        await self._driver.people.respond(approval_id, decision)

    async def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question; raises `NotOpen` for one that does not wait, or whose attempt is gone."""
        await self._driver.people.answer(question_id, answer)

    async def queue_approvals(self) -> None:
        """Let other processes of this user answer approvals through the batch's folder, until it is over.

        That is what `interlock approvals` does, or a `Queue`. The batch must be open with `asking`. Raises
        `JournalFailed` where the folder cannot be written, or may be written by others.
        """
        await serve_queue(self._driver)

    async def cancel(self, run: str | None = None) -> None:
        """End everything, and wait until nothing is left; or one run alone, which is then counted as cancelled.

        Raises `KeyError` for a run that does not exist; one that is counted stays as it is.
        """
        if run is None:
            self._driver.end("cancelled")
            await self._driver.finished.wait()
        else:
            await self._driver.cancel_run(run)

    async def report(self) -> BatchReport:
        """How it ended, once there is nothing more to do."""
        await self._driver.finished.wait()
        return self._driver.report()


class _Opened(AbstractAsyncContextManager[Batch]):
    """A batch as a block: entered it is driven, left it is over."""

    def __init__(
        self,
        tasks: Tasks | None,
        folder: Path,
        executor: Executor,
        chain: ChainNames | None,
        options: Options,
    ) -> None:
        self._tasks = tasks
        self._folder = folder
        self._executor = executor
        self._chain = chain
        self._options = options
        self._driver: Driver | None = None

    async def __aenter__(self) -> Batch:
        store = Store.open(self._folder, self._tasks)
        try:
            driver = Driver(store, self._executor, self._chain, self._options)
        except BaseException:
            store.close()
            raise
        self._driver = driver
        start_root(driver.main, f"interlock batch {store.id}")
        try:
            await driver.taken_up()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return Batch(driver)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._driver is not None:
            self._driver.end("cancelled")
            with anyio.CancelScope(shield=True):
                await self._driver.finished.wait()
