"""The client: what holds for every run (the chain, who answers, the audit), so that no run is unguarded by accident.

`run`, `stream` and `plan` are its methods; the functions of these names, in `shortcuts`, use one without a chain.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from uuid import uuid4

import anyio

from interlock.approval import Answerer, Approver
from interlock.engine.attach import AttachDrive, Person, attached_adapter
from interlock.engine.audit import Audit
from interlock.engine.chain import Chain, assemble
from interlock.engine.drive import Drive
from interlock.engine.home import default_state
from interlock.engine.in_process import InProcess
from interlock.engine.judge import Judge
from interlock.engine.plan import Plan, Prepared, prepare
from interlock.engine.policy_file import PolicySource, govern, governed, hooks_of, unknown_agents
from interlock.engine.registry import find_adapter
from interlock.engine.roots import start_root
from interlock.engine.run import Run
from interlock.engine.setting import Setting
from interlock.hooks import HookSpec, Interceptor
from interlock.outcome import Outcome
from interlock.policy import Effective
from interlock.request import NewSession, Request
from interlock.servers import InProcessServer

__all__ = ["Client"]

Path_ = str | os.PathLike[str]


class Client:
    """Drives agents; everything given here applies to every run that it starts.

    `interceptors` and `hooks` (specs, or the path of a hooks file) make the chain; `approver` and `answerer` answer for
    runs that nobody streams; `mcp` are servers of tools in this process, by name; `audit` is a JSONL file of every
    decision; `policy` (a `Policy`, a file, or several in
    order) stands between the administrator's policy, which always applies, and the request's own permission, and
    `user_policy` takes the user's in before it; `on_unguarded` says what becomes of a run whose promise broke; `state`
    is the durable folder for sessions (default `$XDG_STATE_HOME/interlock`).
    """

    def __init__(
        self,
        *,
        interceptors: Sequence[Interceptor] = (),
        hooks: Path_ | Sequence[HookSpec] | None = None,
        approver: Approver | None = None,
        answerer: Answerer | None = None,
        audit: Path_ | None = None,
        mcp: Mapping[str, InProcessServer] | None = None,
        policy: PolicySource | Sequence[PolicySource] | None = None,
        user_policy: bool = False,
        on_unguarded: Literal["stop", "report"] = "stop",
        state: Path_ | None = None,
    ) -> None:
        self._interceptors = tuple(interceptors)
        self._hooks = hooks
        self._approver = approver
        self._answerer = answerer
        self._audit_path = audit
        self._audit: Audit | None = None
        self._servers = dict(mcp or {})
        self._policy = policy
        self._user_policy = user_policy
        self._on_unguarded: Literal["stop", "report"] = on_unguarded
        self._state = Path(state).absolute() if state is not None else default_state()
        self._drives: set[Drive] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await _leave(*self._drives)
        if self._audit is not None:
            self._audit.close()
            self._audit = None

    def plan(self, request: Request, *, answered: bool = False, attached: bool = False) -> Plan:
        """What `request` would run; starts nothing. `answered` says that somebody will answer approvals.

        `attached`: what `attach` would run.

        Raises `UnknownAgent`, `ConfigurationError`, `Unsupported` with every reason at once, or `NotInstalled`.
        """
        prepared, chain = self._prepare(request, answered=answered, attached=attached)
        self._judge(prepared, chain)
        return prepared.plan

    def stream(
        self, request: Request, *, conversation: bool = False, answered: bool = True
    ) -> AbstractAsyncContextManager[Run]:
        """A run whose events are read and whose approvals are answered inside the block; leaving it early cancels.

        `answered` off says that the events are only watched: approvals are the approver's alone.

        A `conversation` goes on after `TurnFinished`: `Run.send` begins the next turn in the same process, and
        `Run.finish`, or leaving the block between turns, ends it.

        Entering raises what `plan` raises before any process is started, and `StartFailed`.
        """
        return _Streamed(
            partial(self._start, request, streamed=answered, watched=True, conversation=conversation),
        )

    async def run(self, request: Request, *, check: bool = True) -> Outcome:
        """One run to its end; raises `RunFailed` unless it completed or `check` is off."""
        async with _Streamed(partial(self._start, request, streamed=False)) as run:
            return await run.outcome(check=check)

    async def attach(self, request: Request, person: Person) -> Outcome:
        """Give the agent's own screen to a person until it ends; the prompt of the request is not sent.

        Its hooks call us, so that deny rules, the chain and the audit hold there too; what nobody of ours decides is
        asked by the agent on its screen. Cancelled, it ends the agent. Raises what `plan` raises, and `StartFailed`.
        """
        prepared, chain = self._prepare(request, answered=False, attached=True)
        setting = self._setting(prepared, chain, streamed=False, watched=False, conversation=False)
        drive = await self._launch(AttachDrive(setting, person))
        try:
            await drive.finished.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await _leave(drive)
        return drive.result()

    def _prepare(
        self, request: Request, *, answered: bool, conversation: bool = False, attached: bool = False
    ) -> tuple[Prepared, Chain]:
        adapter = find_adapter(request.agent)
        if attached:
            adapter = attached_adapter(adapter)
        effective = govern(request, self._policy, user_policy=self._user_policy)
        request = governed(request, effective)
        chain = assemble(
            interceptors=self._interceptors,
            hooks=self._hooks,
            request=request,
            workspace=str(Path(request.cwd).expanduser().resolve()),
            scratch=str(self._state / "hooks"),
            first=hooks_of(effective, administrators=True),
            more=hooks_of(effective, administrators=False),
            grants_kept_by=effective.grants_kept_by,
        )
        needs = replace(
            chain.needs(answered=answered or self._approver is not None),
            conversation=conversation,
            servers=tuple(self._servers),
        )
        run_id = f"run-{uuid4().hex}"
        prepared = prepare(request, adapter, needs, run_id=run_id, chain=chain.names, state=self._state)
        return replace(prepared, plan=_with_policies(prepared.plan, effective), effective=effective), chain

    def _setting(
        self, prepared: Prepared, chain: Chain, *, streamed: bool, watched: bool, conversation: bool
    ) -> Setting:
        """All that surrounds one run; opens the audit."""
        if self._audit_path is not None and self._audit is None:
            self._audit = Audit(self._audit_path)
        return Setting(
            prepared=prepared,
            judge=self._judge(prepared, chain),
            audit=self._audit,
            streamed=streamed,
            watched=watched,
            conversation=conversation,
            approver=self._approver,
            answerer=self._answerer,
            on_unguarded=self._on_unguarded,
            withhold=prepared.order.needs.replace,
            chain=chain,
            servers=InProcess(self._servers),
        )

    def _judge(self, prepared: Prepared, chain: Chain) -> Judge:
        """Who judges the run's calls; raises `ConfigurationError` for a rule that cannot be understood."""
        order, effective = prepared.order, prepared.effective
        return Judge(
            run_id=order.run_id,
            agent=prepared.plan.agent,
            permission=order.request.permission,
            workspace=order.request.cwd,
            add_dirs=order.request.add_dirs,
            chain=chain,
            describe=prepared.adapter.describe,
            confined=prepared.launch.enforces_posture,
            readers_void=not isinstance(order.request.session, NewSession),
            audit=self._audit,
            planning=order.request.mode == "plan",
            may_allow=None if effective is None else effective.may_allow,
        )

    async def _start(
        self, request: Request, *, streamed: bool, watched: bool = False, conversation: bool = False
    ) -> Drive:
        prepared, chain = self._prepare(request, answered=streamed, conversation=conversation)
        setting = self._setting(prepared, chain, streamed=streamed, watched=watched, conversation=conversation)
        return await self._launch(Drive(setting))

    async def _launch(self, drive: Drive) -> Drive:
        """Have a run begin; raises what keeps it from that."""
        self._drives.add(drive)

        async def main() -> None:
            try:
                await drive.main()
            finally:
                self._drives.discard(drive)

        start_root(main, f"interlock {drive.run_id}")
        try:
            await drive.started.wait()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await _leave(drive)
            raise
        if drive.failure is not None:
            raise drive.failure
        return drive


class _Streamed(AbstractAsyncContextManager[Run]):
    """A run as a block: entered it is started, left it is over, from whichever task."""

    def __init__(self, start: Callable[[], Awaitable[Drive]]) -> None:
        self._start = start
        self._drive: Drive | None = None

    async def __aenter__(self) -> Run:
        self._drive = await self._start()
        return Run(self._drive)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drive is not None:
            with anyio.CancelScope(shield=True):
                await _leave(self._drive)


def _with_policies(planned: Plan, effective: Effective) -> Plan:
    sources = tuple(layer.source for layer in effective.layers)
    warnings = (*planned.warnings, *unknown_agents(effective))
    return planned.model_copy(update={"policies": sources, "warnings": warnings})


async def _leave(*drives: Drive) -> None:
    """End the runs that have not ended, all at once, and wait until nothing of them is left."""
    for drive in drives:
        drive.leave()
    for drive in drives:
        await drive.finished.wait()
