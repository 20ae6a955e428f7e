"""The driver of a batch: admits runs, has attempts made, and decides what their ends mean. All policy is here.

One task admits; each attempt has a task; one thread writes the journal. Nothing is started before it is in the journal,
and nothing is counted before it is: whoever kills the driver at any moment finds each run either counted or to be run.
"""

from __future__ import annotations

import time
from contextlib import suppress
from math import inf
from typing import Literal
from uuid import uuid4

import anyio
from pydantic import ValidationError

from interlock.batch.admission import Admission, Turn
from interlock.batch.asked import AskedPeople
from interlock.batch.executor import Executor, ExecutorGone, Reachable, Telling
from interlock.batch.feed import Feed
from interlock.batch.guards import chain_digest
from interlock.batch.journal import Line, Record
from interlock.batch.local import LocalExecutor
from interlock.batch.options import ChainNames, Options
from interlock.batch.reading import Results
from interlock.batch.results import BatchReport, BatchResult, Paused, Progress, RunStatus
from interlock.batch.running import Live, Places
from interlock.batch.settling import Settling
from interlock.batch.spending import Spending, reserve_of
from interlock.batch.store import Store
from interlock.batch.tally import Tally, not_completed
from interlock.batch.wire import Asked, AttemptResult, Cancel, Happened, News, Resolved, Started, news_adapter
from interlock.errors import BatchError, ExecutorFailed
from interlock.model import FrozenMap

__all__ = ["Driver"]

LOOK_AGAIN = 1.0
"""Seconds after which admission looks again in any case: an executor's capacity changes without a word."""
END_WITHIN = 20.0
"""Seconds that attempts have to end after they were told to; then they are cancelled."""
AFTER_A_KILL = 1.0
"""Seconds in which the agents of a driver that was killed are gone, before their runs may run again."""


class Driver:
    """The root task of a batch and what it knows."""

    def __init__(self, store: Store, executor: Executor, chain: ChainNames | None, options: Options) -> None:
        """Take up the batch; raises `BatchError` and `ConfigurationError`."""
        self.store = store
        self.options = options
        self.executor = executor
        self.ready = anyio.Event()
        """What an earlier driver left is taken up, or cannot be."""
        self.finished = anyio.Event()
        self.failure: BatchError | None = None
        self.feed = Feed()
        self.people = AskedPeople(executor)
        self.places = Places.of(store.folder, options)
        self.history = store.history()
        self.journal = store.journal()
        store.mend_results(self.history)
        self.tally = Tally(self.history, store.tasks.index)
        self.warnings: tuple[str, ...] = ()
        self.spending = Spending(options.budget, usd=self.history.usd, tokens=self.history.tokens)
        self.admission = Admission(options, self.places, store.tasks, self.spending)
        self.chain = chain if chain is not None or isinstance(executor, LocalExecutor) else ChainNames()
        self.driver_id = uuid4().hex[:8]
        self._chain_digest = chain_digest(self.chain) if self.chain is not None else None
        self._live: dict[str, Live] = {}
        self._executing = 0
        self._ending: str | None = None
        self._changed = anyio.Event()
        self._began = time.monotonic()
        self._settling = Settling(self)
        self._check_budget()

    def _check_budget(self) -> None:
        """Every run must be bounded where the total is; raises `ConfigurationError`."""
        budget = self.options.budget
        if (budget.usd is None or budget.run_usd is not None) and (
            budget.tokens is None or budget.run_tokens is not None
        ):
            return
        for index in range(self.store.total):
            reserve_of(self.store.tasks.read(index).request, budget)

    # ---- the root task ---------------------------------------------------------------------------------------------

    async def main(self) -> None:
        """Drive the batch to its end; raises nothing but the cancellation of its own task."""
        try:
            async with anyio.create_task_group() as writing:
                writing.start_soon(self.journal.run)
                try:
                    await self._drive()
                finally:
                    self._say_end()
                    self.journal.finish()
        except Exception as error:  # noqa: BLE001  # a fault of ours ends the batch, not the application
            self.fail(BatchError(str(self.store.folder), f"internal error: {error!r}"))
        finally:
            self.store.close()
            self.feed.close()
            self.ready.set()
            self.finished.set()
            self.tally.wake()

    async def taken_up(self) -> None:
        """Wait until what an earlier driver left is taken up; raises `BatchError` if it cannot be."""
        await self.ready.wait()
        if self.failure is not None:
            raise self.failure

    async def _drive(self) -> None:
        async with anyio.create_task_group() as group:
            self._group = group
            if isinstance(self.executor, Telling):
                group.start_soon(self._hear, self.executor)
            if self.options.total is not None:
                group.start_soon(self._run_out, self.options.total)
            try:
                await self._take_up()
                await self._admit()
            except BatchError as error:
                self.fail(error)
            except ExecutorGone as error:
                self.fail(ExecutorFailed(str(self.store.folder), error.reason))
            except Exception as error:  # noqa: BLE001  # of the executor, which is somebody else's
                self.fail(BatchError(str(self.store.folder), f"the executor cannot be used: {error!r}"))
            finally:
                await self._wind_down()
                group.cancel_scope.cancel()

    async def _take_up(self) -> None:
        """Say that we are here, and what became of what an earlier driver left open."""
        await self.commit(Line(kind="opened", driver=self.driver_id))
        if self.options.only_failed:
            await self.commit(*(Line(kind="reopened", run=line.run) for line in not_completed(self.history)))
            self.tally.recount(self.history)
            self.store.mend_results(self.history)
        left_open = tuple(self.history.open.values())
        for submission in left_open:
            await self._settling.interrupted(submission)
        for index in range(self.store.total):
            if not self.is_counted(index):
                self.admission.add(index)
        self.ready.set()
        if left_open:
            with anyio.move_on_after(AFTER_A_KILL):
                await self._until_ending()

    async def _until_ending(self) -> None:
        while self._ending is None:
            self._changed = anyio.Event()
            await self._changed.wait()

    # ---- admission -------------------------------------------------------------------------------------------------

    async def _admit(self) -> None:
        """Admit runs until there is nothing more to do, or an end is wanted."""
        while self._ending is None:
            self._changed = anyio.Event()
            delay = await self._fill()
            if not self._live and not self.admission.waiting:
                self._ending = self._why_over()
                return
            with anyio.move_on_after(min(delay, LOOK_AGAIN)):
                await self._changed.wait()

    def _why_over(self) -> str:
        if len(self.tally.order) == self.store.total:
            return "done"
        return "budget" if self.admission.unaffordable and not self.admission.stuck else "paused"

    async def _fill(self) -> float:
        """Start what can be started now; gives the seconds after which more can be."""
        room = min(await self.executor.capacity(), self.options.concurrency)
        delay, went_on, looked = inf, True, 0
        while went_on and self._ending is None:
            went_on = False
            for lane in tuple(self.admission.lanes.values()):
                if self._executing >= room:
                    return inf if self._executing else LOOK_AGAIN
                match self.admission.next(lane, time.monotonic(), idle=not self._live):
                    case Turn() as turn:
                        self._start(turn)
                        went_on = True
                    case None:
                        went_on = True
                    case wait:
                        delay = min(delay, wait)
                looked += 1
                if not looked % 64:
                    await anyio.lowlevel.checkpoint()
        return delay

    def _start(self, turn: Turn) -> None:
        run = self.store.tasks.ids[turn.index]
        number = self.history.record(run).numbered + 1
        key = f"{run}-{number}-{self.driver_id}"
        storm = turn.lane.pace.started(time.monotonic())
        live = Live(turn.index, run, key, number, turn.task, turn.lane, turn.reserve, storm, time.time())
        self.spending.reserve(key, turn.reserve)
        self._live[key] = live
        self._executing += 1
        self._group.start_soon(self._attempt, live)

    # ---- attempts ----------------------------------------------------------------------------------------------------

    async def _attempt(self, live: Live) -> None:
        """One attempt, from its line in the journal to its settlement."""
        try:
            with live.scope:
                await self.commit(
                    Line(
                        kind="submitted",
                        run=live.run,
                        key=live.key,
                        number=live.number,
                        usd=live.reserve.usd,
                        tokens=live.reserve.tokens,
                    )
                )
                result = await self._executed(live)
                self._settling.pace(live, result)
                self._release(live)
                with anyio.CancelScope(shield=True):
                    await self._settling.settle(live, result)
            if live.cancelled and not self.is_counted(live.index):  # it could not be told to end, and was cut off
                await self._settling.dropped(live.index)
        except BatchError as error:
            self.fail(error)
        finally:
            self._over(live)

    async def _executed(self, live: Live) -> AttemptResult | str:
        """The attempt's result, or why it was lost; raises `ExecutorFailed`, and whatever else is raised is a loss."""
        if (problem := self.places.problem(live.task)) is not None:
            return self._settling.refused(live, problem)
        spec = self.places.spec(live, self.store.id, self.chain, self._chain_digest, shared=self.executor.shares_files)
        try:
            raw = await self.executor.execute(spec.to_json().encode(), key=live.key)
            result = AttemptResult.parse_json(raw)
        except ExecutorGone as error:
            raise ExecutorFailed(str(self.store.folder), error.reason) from error
        except ValidationError as error:
            return f"what came back is no result: {error.errors(include_url=False)[0]['msg']}"
        except Exception as error:  # noqa: BLE001  # `AttemptLost`, or a fault of the executor: nobody knows how far it came
            return str(error) or type(error).__name__
        return result if result.key == live.key else f"what came back is of another attempt, {result.key}"

    def _release(self, live: Live) -> None:
        """It runs no more: another may."""
        if live.executing:
            live.executing = False
            self._executing -= 1
            live.lane.pace.ended()
            self.admission.vacate(live.task)
            self.people.withdraw(live.key)
            self._changed.set()

    def _over(self, live: Live) -> None:
        """It is settled; or, if it was cancelled before that, it ends with the batch.

        Without its executor nobody knows whether it has ended: it stays open, as if the driver had been killed.
        """
        self._release(live)
        if live.key in self.history.open and not isinstance(self.failure, ExecutorFailed):
            self._settling.abandon(live)
        if self._live.pop(live.key, None) is not None:
            self.spending.settle(live.key, *self._settling.used(live.key, live))
        self._changed.set()

    # ---- what the rest of the driver calls ---------------------------------------------------------------------------

    async def commit(self, *lines: Line, record: Record | None = None) -> None:
        """Have lines written and synced, and take them for true then; raises `JournalFailed`."""
        await self.journal.commit(*lines, record=record)
        self._take(*lines)

    def post(self, *lines: Line) -> None:
        """Have lines written soon."""
        self.journal.post(*lines)
        self._take(*lines)

    def _take(self, *lines: Line) -> None:
        now = time.time()
        for line in lines:
            self.history.take(line.model_copy(update={"ts": now}))
            if line.kind == "outcome":
                self.tally.add(line)

    def fail(self, error: BatchError) -> None:
        """The batch cannot go on; the first reason counts."""
        self.failure = self.failure or error
        self.end("failed")

    def end(self, why: Literal["cancelled", "deadline", "failed"]) -> None:
        """Start no more, and end what runs."""
        if self._ending is None:
            self._ending = why
        self._changed.set()

    @property
    def ending(self) -> bool:
        """Whether the batch ends, and attempts with it."""
        return self._ending is not None

    # ---- the end -----------------------------------------------------------------------------------------------------

    async def _run_out(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        self.end("deadline")

    async def _wind_down(self) -> None:
        """End what runs: in good order first, so that what it has used is known, then by cancellation."""
        with anyio.CancelScope(shield=True):
            for live in tuple(self._live.values()):
                await self._tell_to_end(live)
            with anyio.move_on_after(END_WITHIN):
                await self._until_none_runs()
            for live in tuple(self._live.values()):
                live.scope.cancel()
            await self._until_none_runs()

    async def _until_none_runs(self) -> None:
        while self._live:
            self._changed = anyio.Event()
            await self._changed.wait()

    async def _tell_to_end(self, live: Live) -> None:
        told = False
        if isinstance(self.executor, Reachable):
            with suppress(Exception), anyio.move_on_after(END_WITHIN):
                told = await self.executor.send(live.key, Cancel().to_json().encode())
        if not told:
            live.scope.cancel()

    def _say_end(self) -> None:
        if self.failure is None:
            self.post(Line(kind="end", reason=self._ending or "cancelled"))

    async def cancel_run(self, run: str) -> None:
        """End one run, or keep it from starting; raises `KeyError`."""
        index = self.store.tasks.index[run]
        live = next((live for live in self._live.values() if live.run == run), None)
        if self.history.counted(run) is not None or self.finished.is_set():
            return
        if live is None:
            self.admission.dropped.add(index)
            await self._settling.dropped(index)
            self._changed.set()
            return
        live.cancelled = True
        await self._tell_to_end(live)
        while not self.is_counted(index) and not self.finished.is_set():
            await self.tally.changed.wait()

    # ---- news --------------------------------------------------------------------------------------------------------

    async def _hear(self, executor: Telling) -> None:
        """Take news as they come; a batch goes on without them."""
        with suppress(Exception):
            async for raw in executor.events():
                with suppress(ValidationError):
                    self._heard(news_adapter().validate_json(raw))

    def _heard(self, news: News) -> None:
        live = self._live.get(news.key)
        if live is None or not live.executing:
            return
        match news:
            case Started():
                self._settling.started(live, news)
            case Happened():
                live.heard(news)
            case Asked():
                self.people.asked(news)
            case Resolved(id=asked_id):
                self.people.resolved(asked_id)
        self.feed.publish(news)

    # ---- looking -----------------------------------------------------------------------------------------------------

    def results(self, *, order: Literal["completed", "submitted"], earlier: bool) -> Results:
        """An iterator over counted runs."""
        return Results(self, in_order=order == "submitted", earlier=earlier)

    def is_counted(self, index: int) -> bool:
        """Whether a run is counted."""
        return self.history.counted(self.store.tasks.ids[index]) is not None

    def result(self, index: int) -> BatchResult | None:
        """One run as it was counted."""
        run = self.store.tasks.ids[index]
        line = self.history.counted(run)
        if line is None:
            return None
        return self.store.result(index, line, self.history.record(run).attempts, earlier=index in self.tally.before)

    def report(self) -> BatchReport:
        """How it ended; raises `BatchError` where it could not go on."""
        if self.failure is not None:
            raise self.failure
        update = {"elapsed": time.monotonic() - self._began, "paused": self._paused()}
        return self.history.report(self.store.total).model_copy(update=update)

    def _paused(self) -> tuple[Paused, ...]:
        """The agents that are paused still."""
        now = time.time()
        return tuple(one for one in self.history.paused.values() if one.until is None or one.until > now)

    def progress(self) -> Progress:
        """How far it is."""
        counted, here = len(self.tally.order), len(self.tally.order) - len(self.tally.before)
        elapsed = time.monotonic() - self._began
        completed = self.tally.statuses[RunStatus.COMPLETED]
        left = self.store.total - counted
        return Progress(
            total=self.store.total,
            counted=counted,
            completed=completed,
            failed=counted - completed,
            running=tuple(live.shown(self.people.waiting(live.key)) for live in self._live.values()),
            waiting=sum(lane.again_count for lane in self.admission.lanes.values()),
            denials=self.tally.denials,
            throttled=self.history.throttled,
            spent=self.history.spent,
            reserved_usd=self.spending.reserved_usd,
            paused=self._paused(),
            limits=FrozenMap({lane.agent: lane.pace.limit for lane in self.admission.lanes.values()}),
            elapsed=elapsed,
            time_left=elapsed / here * left if here else None,
        )
