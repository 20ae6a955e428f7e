"""Where the attempts of `interlock batch run` are made, and who answers what they ask.

In this process a client guards and answers. On a Dask cluster the chain goes there by name, so that only programs of a
hooks file can guard, and everybody who answers does so here. What does not hold there is refused, never left out.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from interlock.approval import Approval
from interlock.batch.opening import Batch
from interlock.batch.options import ChainNames
from interlock.capabilities import Unmet
from interlock.engine.client import Client
from interlock.engine.hooks_file import read_hooks_file, users_file
from interlock.engine.policy_file import users_policy
from interlock.errors import NotOpen, Unsupported
from interlock_adapters.cli.approve_with import ProgramApprover
from interlock_adapters.cli.batch_command import Command
from interlock_adapters.cli.options import UsageProblem
from interlock_adapters.cli.output import print_line, safe_line

__all__ = ["DaskEngine", "Engine", "LocalEngine", "engine_of"]

LOOK_AGAIN = 0.1


class Engine(ABC):
    """How the attempts are made; the base of the two that there are."""

    @abstractmethod
    def opened(self) -> Any:
        """A block in which there is what `interlock.batch` takes for it, as keyword arguments."""

    def serve(self, runs: Batch, tasks: TaskGroup) -> None:  # noqa: B027 -- not every engine has any
        """Have approvals answered while the batch runs."""


@dataclass(frozen=True, slots=True)
class LocalEngine(Engine):
    """In this process."""

    client: Client
    queued: bool

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[dict[str, Any]]:
        """With the client."""
        async with self.client:
            yield {"client": self.client, "asking": self.queued}

    def serve(self, runs: Batch, tasks: TaskGroup) -> None:
        """Through the queue, if that is wanted; a program is the client's."""
        if self.queued:
            tasks.start_soon(runs.queue_approvals)


@dataclass(frozen=True, slots=True)
class DaskEngine(Engine):
    """On the workers of a cluster."""

    command: Command
    chain: ChainNames
    approver: ProgramApprover | None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[dict[str, Any]]:
        """With a connection to the scheduler."""
        from interlock_adapters.dask import Artifacts, DaskExecutor  # noqa: PLC0415  # there without the extra, too

        command = self.command
        artifacts = None
        if command.artifacts:
            artifacts = Artifacts(files=command.artifacts, to=command.artifacts_to or "")
        executor = DaskExecutor(command.scheduler or "", shares_files=command.shared_files, artifacts=artifacts)
        async with executor:
            slots = await executor.capacity()
            print_line(safe_line(f"scheduler {command.scheduler}: {slots} slots on its workers now"), 2)
            for refusal in executor.refusals:
                print_line(safe_line(f"warning: nothing is given to {refusal}"), 2)
            asking = command.approvals or self.approver is not None
            yield {"executor": executor, "chain": self.chain, "asking": asking}

    def serve(self, runs: Batch, tasks: TaskGroup) -> None:
        """By a program that runs here, or through the queue."""
        if self.approver is not None:
            tasks.start_soon(_answer_all, runs, self.approver, tasks)
        elif self.command.approvals:
            tasks.start_soon(runs.queue_approvals)


def engine_of(command: Command, places: Sequence[str]) -> Engine:
    """The engine of a batch; `places` are the directories in which agents work. Raises `UsageProblem`."""
    if command.approvals and command.approve_with is not None:
        raise UsageProblem("--approvals: the program of --approve-with answers already; give one of the two")
    if command.artifacts and command.artifacts_to is None:
        raise UsageProblem("--artifacts: say where they go with --artifacts-to DIR or URL")
    if command.engine == "local":
        _refuse_without_dask(command)
        return LocalEngine(command.client(places), command.approvals)
    _refuse_with_dask(command)
    approver = None
    if command.approve_with is not None:
        approver = ProgramApprover.of(command.approve_with, places)
    hooks = [found.spec for found in read_hooks_file(command.hooks, must_exist=True)] if command.hooks else []
    return DaskEngine(command, ChainNames(hooks=tuple(hooks)), approver)


def _refuse_without_dask(command: Command) -> None:
    given = {"--scheduler": command.scheduler, "--shared-files": command.shared_files, "--artifacts": command.artifacts}
    for option, value in given.items():
        if value:
            raise UsageProblem(f"{option}: it goes with --engine dask")


def _refuse_with_dask(command: Command) -> None:
    """What a worker would not know of must not be dropped; raises `UsageProblem` and `Unsupported`."""
    if command.scheduler is None:
        raise UsageProblem("--engine dask: it needs --scheduler ADDRESS, as tcp://10.0.0.1:8786")
    unmet: list[Unmet] = []
    home = str(Path.home())
    own = [path for path in (users_policy(os.environ, home), users_file(os.environ, home)) if Path(path).exists()]
    for path in (*command.policy, *own):
        reason = "it does not hold on the workers; programs in --hooks do, and what is in /etc/interlock there"
        unmet.append(Unmet(field="--policy", value=path, reason=reason, alternatives=("--engine local",)))
    if command.audit is not None:
        reason = "decisions are made on the workers; each run's events.jsonl tells of them"
        unmet.append(Unmet(field="--audit", value=command.audit, reason=reason, alternatives=("--engine local",)))
    if unmet:
        raise Unsupported("a Dask cluster", unmet)
    if find_spec("distributed") is None:
        raise UsageProblem("--engine dask: Dask is not installed; pip install 'interlock[dask]'")


async def _answer_all(runs: Batch, approver: ProgramApprover, tasks: TaskGroup) -> None:
    """Ask the program about each approval, several at a time."""
    handled = set[str]()
    while True:
        for approval in runs.open_approvals:
            if approval.id not in handled:
                handled.add(approval.id)
                tasks.start_soon(_answer, runs, approver, approval)
        await anyio.sleep(LOOK_AGAIN)


async def _answer(runs: Batch, approver: ProgramApprover, approval: Approval) -> None:
    decision = await approver(approval)
    try:
        await runs.respond(approval.id, decision)
    except NotOpen:
        return  # it was withdrawn meanwhile
