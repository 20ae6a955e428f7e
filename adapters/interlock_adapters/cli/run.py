"""`interlock run`: one run, shown while it happens, with the person at the terminal to answer.

Ctrl-C cancels the run and waits for its bounded end; a second one leaves at once, and what the agent left behind is
then ended by the engine's guardian. A reader of stdout who goes away cancels the run as well.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.abc import TaskGroup

from interlock.approval import Answer
from interlock.engine.client import Client
from interlock.engine.run import Run
from interlock.errors import InterlockError, NotOpen
from interlock.events import ApprovalRequested, ApprovalResolved, BaseEvent, QuestionAsked
from interlock.outcome import Outcome
from interlock.request import Request
from interlock_adapters.cli.options import Options, UsageProblem, at_terminal, read_prompt, request_of
from interlock_adapters.cli.plan import client_of, complain, is_answered, settled
from interlock_adapters.cli.problems import FAILED, INTERRUPTED, exit_code
from interlock_adapters.cli.show import JsonView, PeopleView, Screen, View
from interlock_adapters.cli.terminal import Terminal

__all__ = ["Follower", "follow", "run"]

PATIENCE = 1.0
"""Seconds without progress after which a reader counts as gone, once the run is cancelled."""
LAST_WORDS = 10.0
"""Seconds that the events of a cancelled run have to reach a reader who is slow."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(options: Options) -> int:
    """Run the agent and return the exit code."""
    request: Request | None = None
    try:
        request, _ = settled(options, request_of(options, read_prompt(options)))
        client = client_of(options, request)
        client.plan(request, answered=is_answered(options))
        return anyio.run(partial(follow, options, client, request))
    except (UsageProblem, InterlockError) as error:
        return complain(error, options, request)
    except KeyboardInterrupt:
        return INTERRUPTED


async def follow(options: Options, client: Client, request: Request) -> int:
    """Run the request, show it, and return the exit code; raises what `Client.stream` raises."""
    screen = Screen()
    view = JsonView(screen) if options.json else PeopleView(screen)
    terminal = Terminal(screen) if at_terminal() else None
    async with client, client.stream(request) as running:
        follower = Follower(running, screen, view, terminal, asks=options.approve_with is None)
        return await follower.follow()


@dataclass(slots=True)
class Follower:
    """Shows a run, has its approvals and questions answered, and ends it on signals."""

    run: Run
    screen: Screen
    view: View
    terminal: Terminal | None = None
    asks: bool = True
    """Whether approvals are asked at the terminal; else another answers them."""
    interrupted: bool = False

    async def follow(self) -> int:
        """Follow the run to its end and return the exit code."""
        for warning in self.run.plan.warnings:
            await self.view.warn(warning)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_signals, tasks)
            if self.terminal is not None:
                tasks.start_soon(self.terminal.serve, self.run)
            async for event in self.run:
                self._route(event)
                await self.view.show(event)
                if self.screen.out.broken and not self.interrupted:
                    self.interrupted = True
                    tasks.start_soon(self._end, tasks.cancel_scope)
            tasks.cancel_scope.cancel()
        if self.screen.out.trouble:
            await self.screen.note(f"interlock: stdout cannot be written: {self.screen.out.trouble}")
        return self._code(await self.run.outcome())

    def _code(self, outcome: Outcome) -> int:
        if self.screen.out.trouble:
            return FAILED
        quit_by_person = self.terminal is not None and self.terminal.quit
        if quit_by_person or (self.interrupted and not outcome.ok):
            return INTERRUPTED
        return exit_code(outcome)

    def _route(self, event: BaseEvent) -> None:
        match event:
            case ApprovalRequested(approval=approval) if self.terminal is not None and self.asks:
                self.terminal.submit(approval)
            case QuestionAsked(question=question):
                if self.terminal is not None:
                    self.terminal.submit(question)
                else:
                    self._decline(question.id)
            case ApprovalResolved() if self.terminal is not None:
                self.terminal.resolved(event)
            case _:
                pass

    def _decline(self, question_id: str) -> None:
        try:
            self.run.answer(question_id, Answer(declined=True, reason="nobody is there to answer questions"))
        except NotOpen:
            return

    async def _watch_signals(self, tasks: TaskGroup) -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            async for _ in signals:
                if self.interrupted:
                    os._exit(INTERRUPTED)
                self.interrupted = True
                tasks.start_soon(self._end, tasks.cancel_scope)
                tasks.start_soon(self.screen.ask, "\ninterrupted: the run is being ended (again: leave at once)")

    async def _end(self, following: anyio.CancelScope) -> None:
        """Cancel the run; its last events are shown, unless nobody reads what we write."""
        self.screen.hurry(PATIENCE)
        await self.run.cancel()
        await anyio.sleep(LAST_WORDS)
        following.cancel()
