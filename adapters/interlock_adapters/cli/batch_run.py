"""`interlock batch run`: the batch is opened, shown while it runs, and ended on signals.

Ctrl-C ends everything in good order and says how to go on; a second one leaves at once, and what agents left behind is
then ended by the engine's guardian. A reader of stdout who goes away ends the batch as well.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from interlock import batch
from interlock.batch.opening import Batch
from interlock.batch.results import BatchReport, BatchResult
from interlock.batch.view import read_batch
from interlock.batch.wire import News, Started
from interlock.errors import BatchError, ConfigurationError, InterlockError, TasksChanged
from interlock_adapters.cli.batch_command import Command, command_of
from interlock_adapters.cli.batch_engine import Engine, LocalEngine, engine_of
from interlock_adapters.cli.batch_options import BatchOptions
from interlock_adapters.cli.batch_progress import Shown, shown_on
from interlock_adapters.cli.batch_tasks import Survey, TaskSource, survey
from interlock_adapters.cli.batch_words import code_of_runs, count_of, last_lines, line_of_result
from interlock_adapters.cli.closing import Closing
from interlock_adapters.cli.options import UsageProblem
from interlock_adapters.cli.output import print_line, safe_line
from interlock_adapters.cli.problems import FAILED, INTERRUPTED, USAGE, code_of, explain
from interlock_adapters.cli.show import Screen

__all__ = ["run"]

PATIENCE = 1.0
"""Seconds without progress after which a reader counts as gone, once the batch is ended."""
Order = Literal["completed", "submitted"]
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(options: BatchOptions) -> int:
    """Run or go on with a batch, and return the exit code."""
    try:
        order = _order(options)
        folder = Path(options.out).expanduser().absolute()
        source = TaskSource.of(options, folder)
        command = command_of(options, folder, goes_on=source.goes_on)
        found = survey(source.tasks())
        engine = engine_of(command, (*found.places, str(folder), command.work or f"{folder}.work"))
        if isinstance(engine, LocalEngine):  # elsewhere, it is what is there that counts
            _rehearse(engine, found, new=not (folder / "batch.json").exists())
        return anyio.run(partial(_drive, options, order, source, command, engine))
    except (UsageProblem, InterlockError) as error:
        return _complain(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _order(options: BatchOptions) -> Order:
    match options.order:
        case "completed" | "submitted":
            return options.order
        case other:
            raise UsageProblem(f"--order {other!r}: it should be completed or submitted")


def _complain(error: UsageProblem | InterlockError) -> int:
    for line in explain(error):
        print_line(line, 2)
    for note in getattr(error, "__notes__", ()):
        print_line(safe_line(f"  {note}"), 2)
    return USAGE if isinstance(error, TasksChanged) else code_of(error)


def _rehearse(engine: LocalEngine, found: Survey, *, new: bool) -> None:
    """Plan the first task of each agent: what is wrong with it is wrong with all that follow, most likely.

    Of a batch that was begun before, only a configuration that cannot be used stops it here (as a hooks file that
    cannot be read); what else is wrong with a run is counted as its own.
    """
    for agent, task in found.first.items():
        try:
            engine.client.plan(task.rooted().request, answered=engine.queued)
        except InterlockError as error:
            if new or isinstance(error, ConfigurationError):
                error.add_note(
                    f"So it is with the first task of {agent}{f', {task.id}' if task.id else ''}; nothing ran."
                )
                raise


async def _drive(options: BatchOptions, order: Order, source: TaskSource, command: Command, engine: Engine) -> int:
    async with (
        engine.opened() as made,
        batch(source.given(), options.out, only_failed=options.only_failed, **made, **command.arguments()) as runs,
    ):
        command.keep_in(runs.folder)
        screen = Screen()
        following = _Following(options, order, runs, screen, shown_on(screen, runs.progress), engine)
        return await following.follow()


@dataclass(slots=True)
class _Following:
    """Shows a batch to its end, and ends it on signals."""

    options: BatchOptions
    order: Order
    runs: Batch
    screen: Screen
    shown: Shown
    engine: Engine
    interrupted: bool = False
    failure: BatchError | None = None
    denied: Counter[str] = field(default_factory=Counter[str])
    warned: Counter[str] = field(default_factory=Counter[str])

    async def follow(self) -> int:
        """Follow it to its end and return the exit code."""
        news = self.runs.events()
        await self._greet()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_signals, tasks)
            tasks.start_soon(self._hear, news)
            tasks.start_soon(self._tick)
            self.engine.serve(self.runs, tasks)
            await self._read(tasks)
            tasks.cancel_scope.cancel()
        await self.shown.end()
        if self.failure is not None:
            raise self.failure
        return await self._close(await self.runs.report())

    async def _greet(self) -> None:
        progress = self.runs.progress()
        before = f", {progress.counted} of them counted before" if progress.counted else ""
        await self.shown.note(f"batch {self.runs.id} in {safe_line(self.options.out)}: {progress.total} runs{before}")
        for warning in self.runs.warnings:
            await self.shown.note(f"warning: {safe_line(warning)}", "yellow")

    async def _read(self, tasks: TaskGroup) -> None:
        try:
            async for result in self.runs.results(order=self.order, earlier=False):
                await self._count(result)
                if self.screen.out.broken and not self.interrupted:
                    self._interrupt(tasks)
        except BatchError as error:
            self.failure = error

    async def _count(self, result: BatchResult) -> None:
        self.warned.update(f"warning: {safe_line(warning)}" for warning in set(result.outcome.warnings))
        self.denied.update(Closing().lines(result.outcome.model_copy(update={"warnings": ()})))
        line = _as_json(result) if self.options.json else line_of_result(result)
        await self.shown.result(f"{line}\n".encode(errors="backslashreplace"))
        for warning in result.warnings:
            await self.shown.note(f"warning: {result.run}: {safe_line(warning)}", "yellow")

    async def _hear(self, news: AsyncIterator[News]) -> None:
        async for one in news:
            if isinstance(one, Started):
                running = self.runs.progress().running
                for run in [live.run for live in running if live.attempt == one.attempt]:
                    await self.shown.started(one, run)

    async def _tick(self) -> None:
        while True:
            await self.shown.tick()
            await anyio.sleep(self.shown.every)

    async def _watch_signals(self, tasks: TaskGroup) -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            async for _ in signals:
                if self.interrupted:
                    os._exit(INTERRUPTED)
                self._interrupt(tasks)

    def _interrupt(self, tasks: TaskGroup) -> None:
        """End everything; what is counted meanwhile is shown, unless nobody reads what we write."""
        self.interrupted = True
        self.screen.hurry(PATIENCE)
        tasks.start_soon(self.runs.cancel)
        running = count_of(len(self.runs.progress().running), "running run")
        tasks.start_soon(self.shown.note, f"interrupted: ending {running} (again: leave at once)", "bold")

    async def _close(self, report: BatchReport) -> int:
        view = read_batch(self.runs.folder)
        for line in last_lines(report, view, self.warned, self.denied, out=self.options.out):
            await self.shown.note(line)
        if self.screen.out.trouble:
            await self.shown.note(f"interlock: stdout cannot be written: {self.screen.out.trouble}")
            return FAILED
        if self.interrupted and report.unfinished:
            return INTERRUPTED
        return code_of_runs(view.runs(), report)


def _as_json(result: BatchResult) -> str:
    """Without the task, which may hold what is secret."""
    return result.model_dump_json(exclude={"task"})
