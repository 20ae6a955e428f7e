"""`interlock approvals DIR`: what a running batch asks, answered from another terminal, or by a program.

Everything goes through the batch's folder, so that whoever answers needs nothing but to be the same user on a machine
that sees it. At a terminal the approvals are asked one after the other until the batch is over; elsewhere they are
listed. What is shown is the exact input, and what is answered is that input alone.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from interlock.approval import Answer, Approval, Approve, Deny
from interlock.batch.approval_queue import OpenApproval, Queue
from interlock.batch.store import Store
from interlock.errors import BatchError, InterlockError, NotOpen
from interlock.events import ApprovalResolved
from interlock_adapters.cli.approve_with import ProgramApprover
from interlock_adapters.cli.options import UsageProblem, at_terminal
from interlock_adapters.cli.output import print_line, safe_line
from interlock_adapters.cli.problems import COMPLETED, FAILED, INTERRUPTED, USAGE
from interlock_adapters.cli.show import Screen
from interlock_adapters.cli.terminal import Terminal

__all__ = ["Wanted", "approvals"]

LOOK_AGAIN = 0.2
"""Seconds between two looks at what waits."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Wanted:
    """What the command line says."""

    folder: str
    list: bool = False
    json: bool = False
    approve: Sequence[str] = ()
    deny: Sequence[str] = ()
    reason: str | None = None
    approve_with: str | None = None


def approvals(wanted: Wanted) -> int:
    """List, or answer; returns the exit code."""
    try:
        folder = Path(wanted.folder).expanduser().absolute()
        store, queue = Store.look(folder), Queue(folder)
        if wanted.approve or wanted.deny:
            return anyio.run(_answer, queue, wanted)
        if wanted.approve_with is not None:
            places = (str(folder), *_places(store))
            return anyio.run(_drain_with, queue, ProgramApprover.of(wanted.approve_with, places))
        if wanted.list or wanted.json or not at_terminal():
            return _list(queue, as_json=wanted.json)
        return anyio.run(_drain_at_terminal, queue)
    except (UsageProblem, InterlockError) as error:
        for line in str(error).split("\n"):
            print_line(safe_line(f"interlock: {line}"), 2)
        return FAILED if isinstance(error, BatchError) else USAGE
    except KeyboardInterrupt:
        return INTERRUPTED


def _places(store: Store) -> Iterable[str]:
    """The directories in which the batch's agents work."""
    for index in range(store.total):
        request = store.tasks.read(index).request
        yield from (request.cwd, *request.add_dirs)
    yield str(store.folder.with_name(store.folder.name + ".work"))


# ---- listing ---------------------------------------------------------------------------------------------------------


def _list(queue: Queue, *, as_json: bool) -> int:
    waiting = queue.open()
    for one in waiting:
        print_line(one.to_json() if as_json else _shown(one))
    if not waiting and not as_json:
        print_line("nothing waits" if queue.holder else "the batch does not run, so nothing waits", 2)
    return COMPLETED


def _shown(waiting: OpenApproval) -> str:
    approval = waiting.approval
    return f"{waiting.id} of {safe_line(waiting.run)}: {safe_line(approval.agent)} asks to run:\n{approval.display()}"


# ---- answering by name -----------------------------------------------------------------------------------------------


async def _answer(queue: Queue, wanted: Wanted) -> int:
    """Answer those that are named, by their ids or the ends of them."""
    no = Deny() if wanted.reason is None else Deny(reason=wanted.reason)
    answers: list[tuple[str, Approve | Deny]] = [
        *((name, Approve()) for name in wanted.approve),
        *((name, no) for name in wanted.deny),
    ]
    code = COMPLETED
    for name, decision in answers:
        try:
            waiting = _named(queue, name)
            queue.answer(waiting, decision)
        except NotOpen as error:
            print_line(safe_line(f"interlock: {error}"), 2)
            code = FAILED
            continue
        receipt = await queue.taken(waiting.id)
        what = "approved" if isinstance(decision, Approve) else "denied"
        print_line(f"{waiting.id}: {what}" if receipt.taken else f"{waiting.id}: not taken: {safe_line(receipt.why)}")
        code = code if receipt.taken else FAILED
    return code


def _named(queue: Queue, name: str) -> OpenApproval:
    """What waits and has this id, or the end of one; raises `NotOpen`."""
    found = [one for one in queue.open() if one.id == name or (len(name) >= 4 and one.id.endswith(name))]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotOpen(name, f"{len(found)} ids end so; give more of it")
    if queue.holder is None:
        raise NotOpen(name, "the batch does not run; resumed, it asks anew")
    receipt = queue.receipt(name) if name.startswith("approval-") else None
    if receipt is None:
        raise NotOpen(name, "nothing of this id waits in this batch, or it was answered")
    raise NotOpen(name, "it was answered before" if receipt.taken else receipt.why)


# ---- draining --------------------------------------------------------------------------------------------------------


async def _drain_with(queue: Queue, approver: ProgramApprover) -> int:
    """Ask the program about each, several at a time, until the batch is over."""
    handled = set[str]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_on_signal, tasks.cancel_scope)
        while queue.holder is not None:
            for one in queue.open():
                if one.id not in handled:
                    handled.add(one.id)
                    tasks.start_soon(_ask, queue, approver, one)
            await anyio.sleep(LOOK_AGAIN)
        tasks.cancel_scope.cancel()
        return COMPLETED
    return INTERRUPTED


async def _ask(queue: Queue, approver: ProgramApprover, one: OpenApproval) -> None:
    decision = await approver(one.approval)
    try:
        queue.answer(one, decision)
    except NotOpen as error:
        print_line(safe_line(f"{one.id} of {one.run}: {error.why}"), 2)
        return
    what = "approved" if isinstance(decision, Approve) else f"denied: {decision.reason}"
    print_line(safe_line(f"{one.id} of {one.run}: {what}"))


async def _drain_at_terminal(queue: Queue) -> int:
    """Ask the person about each, one at a time, until the batch is over or they have had enough."""
    screen = Screen()
    answering = _Answering(queue, Terminal(screen))
    if queue.holder is None:
        await screen.note("the batch does not run, so nothing waits")
        return COMPLETED
    await screen.note("waiting for what the batch asks (Ctrl-C leaves, and lets it wait)")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_on_signal, tasks.cancel_scope)
        tasks.start_soon(answering.terminal.serve, answering)
        await answering.follow(tasks)
        return COMPLETED
    return INTERRUPTED


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(*_SIGNALS) as signals:
        async for _ in signals:
            scope.cancel()
            return


@dataclass(slots=True)
class _Answering:
    """The queue as a run that takes answers."""

    queue: Queue
    terminal: Terminal
    shown: dict[str, OpenApproval] = field(default_factory=dict[str, OpenApproval])

    async def follow(self, tasks: TaskGroup) -> None:
        """Submit what is new and take away what waits no more, until the batch is over."""
        while self.queue.holder is not None and not self.terminal.quit:
            waiting = {one.id: one for one in self.queue.open()}
            for one in waiting.values():
                if one.id not in self.shown:
                    self.shown[one.id] = one
                    self.terminal.submit(_of_run(one))
            for gone in self.shown.keys() - waiting.keys():
                approval = self.shown.pop(gone).approval
                event = ApprovalResolved(run_id=approval.run_id, id=gone, decision="withdrawn", by="the batch")
                self.terminal.resolved(event)
            await anyio.sleep(LOOK_AGAIN)
        tasks.cancel_scope.cancel()

    def respond(self, approval_id: str, decision: Approve | Deny, /) -> None:
        """Answer; raises `NotOpen`."""
        self.queue.answer(self.shown[approval_id], decision)

    def answer(self, question_id: str, answer: Answer, /) -> None:
        """No questions come this way."""
        raise NotOpen(question_id, f"it is no approval ({answer.reason})")


def _of_run(one: OpenApproval) -> Approval:
    """The approval with the run that it is of beside its agent, for the display."""
    return one.approval.model_copy(update={"agent": f"{one.run}: {one.approval.agent}"})
