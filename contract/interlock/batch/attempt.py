"""One attempt at a run, anywhere: bytes of a spec in, bytes of a result out.

`execute_attempt` is what a worker calls; it needs nothing but the bytes. `execute_attempt_async` is the same inside
of a running loop. The attempt's id is made here, so that whoever calls this twice makes two attempts.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import assert_never
from uuid import uuid4

import anyio
from pydantic import ValidationError

from interlock.batch.guards import chain_digest, client_of
from interlock.batch.inbox import Inbox
from interlock.batch.recorder import FileRecorder, MemoryRecorder, Recorder, RecordFailed
from interlock.batch.verdict import RECORD_FAILED
from interlock.batch.wire import (
    AnswerQuestion,
    Asked,
    AttemptResult,
    AttemptSpec,
    Cancel,
    Resolved,
    Respond,
    Started,
    message_adapter,
)
from interlock.batch.workspaces import Made, WorkspaceFailed, make_workspace
from interlock.engine.client import Client
from interlock.engine.registry import find_adapter
from interlock.engine.run import Run
from interlock.errors import ConfigurationError, InterlockError, NotOpen, RunEnded
from interlock.events import (
    ApprovalRequested,
    ApprovalResolved,
    BaseEvent,
    QuestionAsked,
    RateLimited,
    Retrying,
    RunStarted,
    ToolFinished,
    ToolRequested,
    Unguarded,
    UsageUpdated,
)
from interlock.outcome import Outcome, Reason, Status, Usage
from interlock.request import Request

__all__ = ["Tell", "execute_attempt", "execute_attempt_async", "tokens_of"]

Tell = Callable[[bytes], None]
"""Takes the bytes of `News`; called on the attempt's loop, and must neither wait nor raise."""

CUT = "it had more events than are recorded of one attempt; the later ones are missing"
TOLD = (RunStarted, ToolRequested, ToolFinished, UsageUpdated, RateLimited, Retrying, Unguarded)
"""The events that are told without `live`."""


def execute_attempt(spec: bytes, tell: Tell | None = None) -> bytes:
    """Make the attempt of these bytes, in this thread, to its end; gives the bytes of its `AttemptResult`.

    Meanwhile `inbox.deliver(key, message)` reaches it from any thread. Raises `pydantic.ValidationError` for a spec of
    another version; whatever else goes wrong is in the result.
    """
    return anyio.run(execute_attempt_async, spec, tell)


async def execute_attempt_async(spec: bytes, tell: Tell | None = None, client: Client | None = None) -> bytes:
    """`execute_attempt` inside of a loop; `client` is the one whose chain guards a spec that names none."""
    attempt = _Attempt(AttemptSpec.parse_json(spec), spec, tell or _unheard, client)
    try:
        return (await attempt.make()).to_json().encode()
    finally:
        attempt.close()


def tokens_of(usage: Usage) -> int | None:
    """All tokens of a run that cost something; None where nothing is known."""
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _bounds_itself(request: Request) -> bool:
    """Whether a bound in USD changes nothing but that; raises `UnknownAgent`."""
    transports = find_adapter(request.agent).transports
    asked = [one for one in transports if request.transport in {"auto", one.name}]
    return bool(asked) and all(one.capabilities.budget_usd for one in asked)


def _unheard(_news: bytes) -> None:
    """Nobody listens."""


class _Attempt:
    """An attempt in progress."""

    def __init__(self, spec: AttemptSpec, raw: bytes, tell: Tell, client: Client | None) -> None:
        self.id = f"{spec.number:02d}-{uuid4().hex[:12]}"
        self._spec = spec
        self._raw = raw
        self._tell = tell
        self._client = client
        self._inbox = Inbox(spec.key)
        self._made = Made("")
        self._recorder: Recorder = MemoryRecorder(deltas=False)
        self._run: Run | None = None
        self._failure: RecordFailed | None = None
        self._over: str | None = None
        """Which bound of ours it ran into."""
        self._cancelled = False

    def close(self) -> None:
        self._inbox.close()
        self._recorder.close()

    async def make(self) -> AttemptResult:
        """Make it; never raises but its own cancellation."""
        spec = self._spec
        try:
            record = spec.place.record
            if record is not None:
                self._recorder = FileRecorder(Path(record) / self.id, self._raw, deltas=spec.deltas)
            else:
                self._recorder = MemoryRecorder(deltas=spec.deltas)
            client = self._guarded_client()
            self._made = await self._workspace()
            if self._cancelled:
                return self._result(self._early(Status.CANCELLED, None, "cancelled before it was started"))
            self._say_started()
            outcome = await self._attempt(client)
            events = self._recorder.end(outcome.stderr_tail)
            return self._result(outcome, events=events)
        except RecordFailed as error:
            return self._unstarted(RECORD_FAILED, str(error))
        except WorkspaceFailed as error:
            return self._unstarted(RECORD_FAILED if error.full else type(error).__name__, str(error))
        except InterlockError as error:
            return self._unstarted(type(error).__name__, str(error))

    def _guarded_client(self) -> Client:
        """Who guards the run; raises `ConfigurationError` if that cannot be what the driver has in mind."""
        chain = self._spec.chain
        if chain is None:
            if self._client is None:
                raise ConfigurationError("chain", "the spec names no chain, and this process has no client for it")
            return self._client
        if chain_digest(chain) != self._spec.chain_digest:
            raise ConfigurationError("chain", "what its names stand for here is not what it is for the driver")
        return client_of(chain)

    async def _workspace(self) -> Made:
        """The directory to work in, unless it is cancelled before there is one; raises `WorkspaceFailed`."""
        spec, made = self._spec, Made("")
        branch = f"interlock/{spec.batch}/{spec.run}/{self.id}"
        failure: WorkspaceFailed | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._give_up, group.cancel_scope)
            try:
                folder = Path(spec.place.work) / self.id
                made = await make_workspace(spec.place.workspace, spec.request, folder, branch=branch)
            except WorkspaceFailed as error:  # a task group would wrap it
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return made

    async def _give_up(self, scope: anyio.CancelScope) -> None:
        """Cancel what is being prepared when a message says so; others make no sense yet."""
        while not self._cancelled:
            raw = await self._inbox.take()
            try:
                self._cancelled = isinstance(message_adapter().validate_json(raw), Cancel)
            except ValidationError:
                continue
        scope.cancel()

    def _say_started(self) -> None:
        spec, made = self._spec, self._made
        news = Started(
            key=spec.key,
            attempt=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            workspace=made.root,
            branch=made.branch,
            time=time.time(),
        )
        self._tell(news.model_dump_json().encode())

    # ---- the run -----------------------------------------------------------------------------------------------------

    async def _attempt(self, client: Client) -> Outcome:
        """The run, from its start to its end; raises what kept it from starting, and `RecordFailed`."""
        request = self._request()
        if self._spec.chain is None:
            return await self._drive(client, request)
        async with client:
            return await self._drive(client, request)

    def _request(self) -> Request:
        """The request in its workspace, and with what it reserved as a bound, if its agent can hold itself to one."""
        request, most = self._spec.request, self._spec.most_usd
        if request.cwd != self._made.cwd:
            request = request.model_copy(update={"cwd": self._made.cwd})
        if most is None or request.limits.budget_usd is not None or not _bounds_itself(request):
            return request
        return request.model_copy(update={"limits": request.limits.model_copy(update={"budget_usd": most})})

    async def _drive(self, client: Client, request: Request) -> Outcome:
        async with client.stream(request, answered=self._spec.asking) as run, anyio.create_task_group() as group:
            self._run = run
            group.start_soon(self._obey, run)
            if self._spec.wall is not None:
                group.start_soon(self._time, run, self._spec.wall)
            async for event in run:
                await self._heard(run, event)
            await run.outcome()
            group.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        return self._judged(await run.outcome())

    async def _heard(self, run: Run, event: BaseEvent) -> None:
        if self._failure is not None:
            return
        try:
            line = self._recorder.take(event)
        except RecordFailed as error:
            self._failure = error
            await run.cancel()
            return
        if line is not None and (self._spec.live or isinstance(event, TOLD)):
            self._tell(self._happened(line))
        match event:
            case ApprovalRequested(approval=approval) if self._spec.asking:
                self._say(Asked(key=self._spec.key, attempt=self.id, approval=approval))
            case QuestionAsked(question=question) if self._spec.asking:
                self._say(Asked(key=self._spec.key, attempt=self.id, question=question))
            case ApprovalResolved(id=asked_id) if self._spec.asking:
                self._say(Resolved(key=self._spec.key, attempt=self.id, id=asked_id))
            case UsageUpdated(usage=usage, cost_usd=cost):
                await self._hold_to_budget(run, usage, cost)
            case _:
                pass

    def _say(self, news: Asked | Resolved) -> None:
        self._tell(news.model_dump_json().encode())

    def _happened(self, event: bytes) -> bytes:
        """`Happened`, round an event whose JSON is at hand."""
        spec = self._spec
        return b'{"news":"event","key":"%s","attempt":"%s","event":%s}' % (spec.key.encode(), self.id.encode(), event)

    async def _hold_to_budget(self, run: Run, usage: Usage, cost: float | None) -> None:
        spec, tokens = self._spec, tokens_of(usage)
        over_usd = spec.most_usd is not None and cost is not None and cost > spec.most_usd
        over_tokens = spec.most_tokens is not None and tokens is not None and tokens > spec.most_tokens
        if over_usd or over_tokens:
            self._over = self._over or "budget"
            await run.cancel()

    async def _time(self, run: Run, seconds: float) -> None:
        await anyio.sleep(seconds)
        self._over = self._over or "deadline"
        await run.cancel()

    async def _obey(self, run: Run) -> None:
        """Do what comes by message; an answer that came too late, and what is no message, is passed over."""
        while True:
            raw = await self._inbox.take()
            try:
                match message := message_adapter().validate_json(raw):
                    case Cancel():
                        self._cancelled = True
                        await run.cancel()
                    case Respond(id=asked_id, decision=decision):
                        run.respond(asked_id, decision)
                    case AnswerQuestion(id=asked_id, answer=answer):
                        run.answer(asked_id, answer)
                    case _:
                        assert_never(message)
            except (NotOpen, RunEnded, ValidationError):
                continue

    def _judged(self, outcome: Outcome) -> Outcome:
        """The outcome with what its files lack, and of a mere cancellation the bound of ours that it ran into."""
        lacking = (*self._made.warnings, *((CUT,) if self._recorder.cut else ()))
        if lacking:
            outcome = outcome.model_copy(update={"warnings": (*lacking, *outcome.warnings)})
        if outcome.status is not Status.CANCELLED or outcome.reason is not None or self._cancelled:
            return outcome
        match self._over:
            case "budget":
                update = {"status": Status.FAILED, "reason": Reason.BUDGET, "message": "it used more than it reserved"}
            case "deadline":
                update = {"status": Status.TIMED_OUT, "reason": Reason.DEADLINE, "message": "attempt_total was over"}
            case _:
                return outcome
        return outcome.model_copy(update=update)

    # ---- results -----------------------------------------------------------------------------------------------------

    def _result(self, outcome: Outcome, *, problem: str | None = None, events: str | None = None) -> AttemptResult:
        made = self._made
        return AttemptResult(
            key=self._spec.key,
            attempt=self.id,
            started=self._run is not None,
            outcome=outcome,
            problem=problem,
            workspace=made.root,
            branch=made.branch,
            events=events,
        )

    def _unstarted(self, problem: str, message: str) -> AttemptResult:
        reason = Reason.INTERNAL if problem in {RECORD_FAILED, "StartFailed", "SessionBusy"} else Reason.UNSUPPORTED
        return self._result(self._early(Status.FAILED, reason, message), problem=problem)

    def _early(self, status: Status, reason: Reason | None, message: str) -> Outcome:
        """The outcome of an attempt that has none of an agent."""
        return Outcome(
            run_id=self._run.id if self._run is not None else "",
            agent=self._spec.request.agent,
            status=status,
            reason=reason,
            message=message,
            labels=self._spec.request.labels,
        )
