"""The driver of a batch: admits runs, has attempts made, and decides what their ends mean. All policy is here.

One task admits; each attempt has a task; one thread writes the journal. Nothing is started before it is in the journal,
and nothing is counted before it is: whoever kills the driver at any moment finds each run either counted or to be run.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from typing import Literal
from uuid import uuid4

import anyio
from pydantic import ValidationError

from interlock.batch.asked import AskedPeople
from interlock.batch.executor import Executor, Reachable, Telling
from interlock.batch.feed import Feed
from interlock.batch.guards import chain_digest
from interlock.batch.journal import Line, Record
from interlock.batch.lanes import Lane
from interlock.batch.local import LocalExecutor
from interlock.batch.options import ChainNames, Options
from interlock.batch.pace import Pace
from interlock.batch.reading import Results
from interlock.batch.results import BatchReport, BatchResult, Progress, RunStatus
from interlock.batch.running import Live, Places
from interlock.batch.settling import Settling
from interlock.batch.spending import Spending, reserve_of
from interlock.batch.store import Store
from interlock.batch.tasks import Task
from interlock.batch.wire import Asked, AttemptResult, Cancel, Happened, News, Resolved, Started, news_adapter
from interlock.errors import BatchError
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
        self.counted: list[int] = [store.tasks.index[run] for run in self.history.order]
        """The indices of counted runs, in the order of counting."""
        self.before = frozenset(self.counted)
        """Those that an earlier driver counted."""
        self.warnings: tuple[str, ...] = ()
        self.spending = Spending(options.budget, usd=self.history.usd, tokens=self.history.tokens)
        self.lanes: dict[str, Lane] = {}
        self.chain = chain if chain is not None or isinstance(executor, LocalExecutor) else ChainNames()
        self.driver_id = uuid4().hex[:8]
        self._chain_digest = chain_digest(self.chain) if self.chain is not None else None
        self._live: dict[str, Live] = {}
        self._executing = 0
        self._busy: dict[str, int] = {}
        """Given directories in use: by how many runs, or -1 for one that has it for itself."""
        self._parked: dict[str, deque[tuple[Lane, int]]] = {}
        self._unaffordable = 0
        self._dropped: set[int] = set()
        """Runs that were cancelled while they waited."""
        self._ending: str | None = None
        self._changed = anyio.Event()
        self.count_changed = anyio.Event()
        self._began = time.monotonic()
        self._statuses = Counter(str(line.status) for line in self._counted_lines())
        self._denials = sum(line.denials or 0 for line in self._counted_lines())
        self._settling = Settling(self)
        self._check_budget()

    def _counted_lines(self) -> Iterator[Line]:
        for run in self.history.order:
            line = self.history.counted(run)
            if line is not None:
                yield line

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
                except BatchError as error:
                    self.fail(error)
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
            self.count_changed.set()

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
            finally:
                await self._wind_down()
                group.cancel_scope.cancel()

    async def _take_up(self) -> None:
        """Say that we are here, and what became of what an earlier driver left open."""
        await self.commit(Line(kind="opened", driver=self.driver_id))
        if self.options.only_failed:
            failed = [line.run for line in self._counted_lines() if line.status != RunStatus.COMPLETED]
            await self.commit(*(Line(kind="reopened", run=run) for run in failed))
            self.counted = [self.store.tasks.index[run] for run in self.history.order]
            self._statuses = Counter(str(line.status) for line in self._counted_lines())
            self._denials = sum(line.denials or 0 for line in self._counted_lines())
            self.before = frozenset(self.counted)
            self.store.mend_results(self.history)
        left_open = tuple(self.history.open.values())
        for submission in left_open:
            await self._settling.interrupted(submission)
        for index, agent in enumerate(self.store.tasks.agents):
            if self.history.counted(self.store.tasks.ids[index]) is None:
                self._lane(agent).add(index)
        self.ready.set()
        if left_open:
            with anyio.move_on_after(AFTER_A_KILL):
                await self._until_ending()

    async def _until_ending(self) -> None:
        while self._ending is None:
            self._changed = anyio.Event()
            await self._changed.wait()

    def _lane(self, agent: str) -> Lane:
        lane = self.lanes.get(agent)
        if lane is None:
            options, retries = self.options, self.options.retries
            pace = Pace(
                most=min(options.agents.get(agent, options.concurrency), options.concurrency),
                adaptive=options.adaptive,
                stagger=options.stagger,
                wait=retries.wait,
                longest_wait=retries.longest_wait,
                chance=random.random,
            )
            lane = self.lanes[agent] = Lane(agent, pace)
        return lane

    # ---- admission -------------------------------------------------------------------------------------------------

    async def _admit(self) -> None:
        """Admit runs until there is nothing more to do, or an end is wanted."""
        while self._ending is None:
            self._changed = anyio.Event()
            delay = await self._fill()
            if not self._live and not self._waiting():
                self._ending = self._why_over()
                return
            with anyio.move_on_after(min(delay, LOOK_AGAIN)):
                await self._changed.wait()

    def _waiting(self) -> bool:
        """Whether a run waits that will have its turn in this driver's time."""
        return any(len(lane) and lane.closed is None for lane in self.lanes.values()) or any(self._parked.values())

    def _why_over(self) -> str:
        if len(self.counted) == self.store.total:
            return "done"
        return "budget" if self._unaffordable and not any(map(self._is_stuck, self.lanes.values())) else "paused"

    def _is_stuck(self, lane: Lane) -> bool:
        return lane.closed is not None and len(lane) > 0

    async def _fill(self) -> float:
        """Admit what can be admitted now; gives the seconds after which more can be."""
        room = min(await self.executor.capacity(), self.options.concurrency)
        delay, admitted, looked = inf, True, 0
        while admitted and self._ending is None:
            admitted = False
            for lane in tuple(self.lanes.values()):
                if self._executing >= room:
                    return inf if self._executing else LOOK_AGAIN
                wait = self._admit_one(lane)
                admitted = admitted or wait is None
                delay = min(delay, wait if wait is not None else inf)
                looked += 1
                if not looked % 64:
                    await anyio.lowlevel.checkpoint()
        return delay

    def _admit_one(self, lane: Lane) -> float | None:
        """Take the first run of a lane out of it, to start it or to set it aside; None if that was done, else how many
        seconds to wait for it."""
        now = time.monotonic()
        ready = lane.ready_at(now)
        if lane.closed is not None or ready is None:
            return inf
        if (wait := max(lane.pace.delay(now), ready - now)) > 0:
            return wait
        index = lane.first(now)
        if index is None:
            return inf
        if index in self._dropped:
            lane.take(now)
            return None
        task = self.store.tasks.read(index)
        if self._is_parked(lane, index, task):
            lane.take(now)
            return None
        reserve = reserve_of(task.request, self.options.budget)
        if not self.spending.affords(reserve):
            if self._live:
                return inf
            lane.take(now)
            self._unaffordable += 1
            return None
        lane.take(now)
        run = self.store.tasks.ids[index]
        number = self.history.record(run).numbered + 1
        key = f"{run}-{number}-{self.driver_id}"
        live = Live(index, run, key, number, task, lane, reserve, lane.pace.started(now), time.time())
        self.spending.reserve(key, reserve)
        self._occupy(task)
        self._live[key] = live
        self._executing += 1
        self._group.start_soon(self._attempt, live)
        return None

    def _is_parked(self, lane: Lane, index: int, task: Task) -> bool:
        """Whether the run's directory is in use, and it waits for that now."""
        exclusive, cwd = self.places.exclusive(task), task.request.cwd
        used = self._busy.get(cwd, 0)
        if exclusive is None or used == 0 or (used > 0 and not exclusive):
            return False
        self._parked.setdefault(cwd, deque()).append((lane, index))
        return True

    def _occupy(self, task: Task) -> None:
        exclusive, cwd = self.places.exclusive(task), task.request.cwd
        if exclusive is not None:
            self._busy[cwd] = -1 if exclusive else self._busy.get(cwd, 0) + 1

    def _vacate(self, task: Task) -> None:
        exclusive, cwd = self.places.exclusive(task), task.request.cwd
        if exclusive is None:
            return
        self._busy[cwd] = 0 if exclusive else self._busy[cwd] - 1
        if not self._busy[cwd]:
            del self._busy[cwd]
            if waiting := self._parked.get(cwd):
                lane, index = waiting.popleft()
                lane.again(index, 0.0)
                if not waiting:
                    del self._parked[cwd]

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
        except BatchError as error:
            self.fail(error)
        finally:
            self._over(live)

    async def _executed(self, live: Live) -> AttemptResult | str:
        """The attempt's result, or why it was lost; whatever an executor raises is a loss."""
        if (problem := self.places.problem(live.task)) is not None:
            return self._settling.refused(live, problem)
        spec = self.places.spec(live, self.store.id, self.chain, self._chain_digest, shared=self.executor.shares_files)
        try:
            raw = await self.executor.execute(spec.to_json().encode(), key=live.key)
            return AttemptResult.parse_json(raw)
        except ValidationError as error:
            return f"what came back is no result: {error.errors(include_url=False)[0]['msg']}"
        except Exception as error:  # noqa: BLE001  # `AttemptLost`, or a fault of the executor: nobody knows how far it came
            return str(error) or type(error).__name__

    def _release(self, live: Live) -> None:
        """It runs no more: another may."""
        if live.executing:
            live.executing = False
            self._executing -= 1
            live.lane.pace.ended()
            self._vacate(live.task)
            self.people.withdraw(live.key)
            self._changed.set()

    def _over(self, live: Live) -> None:
        """It is settled; or, if it was cancelled before that, it ends with the batch."""
        self._release(live)
        if live.key in self.history.open:
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
                self.counted.append(self.store.tasks.index[line.run or ""])
                self._statuses[str(line.status)] += 1
                self._denials += line.denials or 0
                changed, self.count_changed = self.count_changed, anyio.Event()
                changed.set()

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
            self._dropped.add(index)
            await self._settling.dropped(index)
            self._changed.set()
            return
        live.cancelled = True
        await self._tell_to_end(live)
        while live.key in self._live:
            await self.count_changed.wait()

    # ---- news --------------------------------------------------------------------------------------------------------

    async def _hear(self, executor: Telling) -> None:
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
        return self.store.result(index, line, self.history.record(run).attempts, earlier=index in self.before)

    def report(self) -> BatchReport:
        """How it ended; raises `BatchError` where it could not go on."""
        if self.failure is not None:
            raise self.failure
        update = {"elapsed": time.monotonic() - self._began}
        return self.history.report(self.store.total).model_copy(update=update)

    def progress(self) -> Progress:
        """How far it is."""
        counted, here = len(self.counted), len(self.counted) - len(self.before)
        elapsed = time.monotonic() - self._began
        completed = self._statuses[RunStatus.COMPLETED]
        left = self.store.total - counted
        return Progress(
            total=self.store.total,
            counted=counted,
            completed=completed,
            failed=counted - completed,
            running=tuple(live.shown(self.people.waiting(live.key)) for live in self._live.values()),
            waiting=sum(lane.again_count for lane in self.lanes.values()),
            denials=self._denials,
            throttled=self.history.throttled,
            spent=self.history.spent,
            reserved_usd=self.spending.reserved_usd,
            paused=tuple(self.history.paused.values()),
            limits=FrozenMap({lane.agent: lane.pace.limit for lane in self.lanes.values()}),
            elapsed=elapsed,
            time_left=elapsed / here * left if here else None,
        )
