"""The chain: every participant is asked about a call, in order, and one verdict comes of it.

Here is who is asked, and when to stop waiting; `asking` holds what an answer does. The runner itself never raises. One
cancel scope serves a whole round, and its deadline is set only when a participant really waits: most answer at once,
and a timer each would cost more than they do.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import CoroutineType, coroutine
from typing import Any, Literal, Self, cast

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from interlock.capabilities import Needs
from interlock.engine.asking import Asking, ChainVerdict, Rewrite, raised
from interlock.engine.home import default_state
from interlock.engine.hooks_file import ADMINISTRATORS_FILE, FoundSpec, read_hooks_file, users_file, workspace_file
from interlock.engine.participants import AskOne, BrokenAnswer, Participant, from_interceptor, from_program
from interlock.engine.programs import Program, resolve_program
from interlock.engine.resident_hook import ResidentHook
from interlock.engine.scratch import Scratch
from interlock.engine.subprocess_hook import SubprocessHook
from interlock.errors import ConfigurationError
from interlock.hooks import HookCall, HookSpec, Interceptor, Power
from interlock.request import Request

__all__ = ["Chain", "ChainVerdict", "assemble", "chain_of", "program_of"]

Forbids = Callable[[HookCall], "str | None"]
"""The deny rule that a rewritten call runs into."""


class Chain:
    """The participants of a run, in the order in which they are asked. `limit`: seconds for all of them together.

    Resident hooks live from `start` to `close`; before and after they deny. In between they need `attend`.
    """

    def __init__(
        self,
        participants: Sequence[Participant],
        *,
        limit: float = 60.0,
        clock: Callable[[], float] = time.time,
        residents: Sequence[tuple[str, ResidentHook]] = (),
    ) -> None:
        self._participants = tuple(participants)
        self._limit = limit
        self._clock = clock
        self._asked = {
            event: tuple((one, one.asks[event]) for one in self._participants if event in one.asks)
            for event in ("pre_tool_use", "post_tool_use")
        }
        self._residents = tuple(residents)
        """With where they were configured."""

    async def start(self) -> None:
        """Start the resident hooks; raises `ConfigurationError` and then leaves none."""
        try:
            for source, resident in self._residents:
                await _started(resident, source)
        except BaseException:
            await self.close()
            raise

    def attend(self, group: TaskGroup) -> None:
        """Have the resident hooks read and written to, and replaced if they fail, by tasks that never fail."""
        for _, resident in self._residents:
            group.start_soon(resident.attend)

    async def close(self) -> None:
        """End the resident hooks with all that they started; not cancelled by anything, and may be called again."""
        for _, resident in self._residents:
            await resident.close()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """`start`, `attend` and `close` round a block, for who has no run."""
        try:
            await self.start()
            async with anyio.create_task_group() as group:
                self.attend(group)
                yield self
                group.cancel_scope.cancel()
        finally:
            await self.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Who takes part, in order: `interceptor 'a'`, `hook 'b'`."""
        return tuple(participant.title for participant in self._participants)

    def concerned(self, call: HookCall) -> tuple[Participant, ...]:
        """Who would be asked about the call, in order, if nobody before them denies."""
        return tuple(one for one in self._participants if one.asked_about(call) is not None)

    def needs(self, *, answered: bool) -> Needs:
        """What this chain needs of a transport; `answered` says that somebody answers approvals."""

        def some(event: Literal["pre_tool_use", "post_tool_use"], power: Power | None = None) -> bool:
            return any(event in one.asks and (power is None or power in one.may) for one in self._participants)

        return Needs(
            chain_before=some("pre_tool_use"),
            chain_after=some("post_tool_use"),
            modify=some("pre_tool_use", "modify"),
            replace=some("post_tool_use", "replace") or some("post_tool_use", "deny"),
            grants=some("pre_tool_use", "grant"),
            answered=answered,
        )

    async def before(self, call: HookCall, *, rewrite: Rewrite, forbids: Forbids) -> ChainVerdict:
        """Ask about a call that is to run; in a round of 2 nothing may be changed any more."""
        asking = Asking(call, self._limit, self._clock, rewrite)
        await self._round(asking)
        if asking.denial is None and asking.changes and asking.call.round == 1:
            asking.rule = forbids(asking.call)
            if asking.rule is not None:
                asking.denial = f"denied by rule {asking.rule!r}"
            else:
                asking.look_again()
                await self._round(asking)
        return asking.verdict()

    async def after(self, call: HookCall) -> ChainVerdict:
        """Ask about a call that ran; a denial withholds its output."""
        asking = Asking(call, self._limit, self._clock, lambda same, _: same)
        await self._round(asking)
        return asking.verdict()

    async def _round(self, asking: Asking) -> None:
        """Ask everybody whom the call concerns, once, until one denies."""
        queue = iter(self._asked[asking.call.event])
        while await self._stretch(queue, asking):
            pass

    async def _stretch(self, queue: Iterator[tuple[Participant, AskOne]], asking: Asking) -> bool:
        """Ask on until the round is over (False), or one ran out of time and the chain goes on without it (True)."""
        try:
            with anyio.CancelScope() as scope:
                for participant, ask in queue:
                    if participant.concerns is not None and not participant.concerns(asking.call):
                        continue
                    if asking.begin(participant):
                        waiting = _at_once(ask, asking)
                        if waiting is not None:
                            await _in_time(waiting, asking, scope)
                    if asking.denial is not None:
                        return False
        except BaseException as error:
            if _is_cancellation(error):
                raise
            asking.broke(raised(error))
            return asking.denial is None
        if not scope.cancelled_caught:
            return False
        asking.ran_out()
        return asking.denial is None


async def _started(resident: ResidentHook, source: str) -> None:
    try:
        await resident.start()
    except BrokenAnswer as error:
        raise ConfigurationError(source, f"{error.why}: {error.detail}") from error


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A participant that did not answer at once."""

    work: Coroutine[Any, Any, object]
    signal: Any
    """What it waits for, in the words of the event loop."""
    shown: HookCall


def _at_once(ask: AskOne, asking: Asking) -> _Waiting | None:
    """Ask the current participant, and take its answer if it has one at once; else it must be waited for."""
    try:
        shown = asking.private_call()
        work = _coroutine(ask(shown))
        try:
            return _Waiting(work, work.send(None), shown)
        except StopIteration as end:
            asking.answered(end.value, shown)
    except BaseException as error:
        if _is_cancellation(error):
            raise
        asking.broke(error if isinstance(error, BrokenAnswer) else raised(error))
    return None


async def _in_time(waiting: _Waiting, asking: Asking, scope: anyio.CancelScope) -> None:
    """Wait for a participant and take its answer; leaves by cancellation if its time is up."""
    scope.deadline = anyio.current_time() + asking.remaining()
    try:
        answer = await _resumed(waiting)
        if scope.cancel_called:
            await anyio.lowlevel.checkpoint()
        asking.answered(answer, waiting.shown)
    except BaseException as error:
        if _is_cancellation(error):
            raise
        asking.broke(error if isinstance(error, BrokenAnswer) else raised(error))


def _coroutine(work: Awaitable[object]) -> Coroutine[Any, Any, object]:
    if type(work) is CoroutineType or isinstance(work, Coroutine):
        return work  # pyright: ignore[reportUnknownVariableType]  # whatever it is a coroutine of

    async def awaited() -> object:
        return await work

    return awaited()


@coroutine
def _resumed(waiting: _Waiting) -> Generator[Any, Any, object]:
    """Await what has begun already."""
    work, signal = waiting.work, waiting.signal
    try:
        while True:
            try:
                sent = yield signal
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001  # handed on to where it belongs
                signal = work.throw(error)
            else:
                signal = work.send(sent)
    except StopIteration as end:
        return end.value


def _is_cancellation(error: BaseException) -> bool:
    """Whether somebody outside ends this task; a participant that awaits a cancelled task of its own merely failed."""
    if isinstance(error, GeneratorExit):
        return True
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).split(cancelled)[0] is not None
    if not isinstance(error, cancelled):
        return False
    task = asyncio.current_task() if cancelled is asyncio.CancelledError else None
    return task is None or task.cancelling() > 0


def assemble(
    *,
    interceptors: Sequence[Interceptor],
    hooks: str | os.PathLike[str] | Sequence[HookSpec] | None,
    request: Request,
    workspace: str,
    scratch: str | None = None,
    first: Sequence[FoundSpec] = (),
    more: Sequence[FoundSpec] = (),
    grants_kept_by: str | None = None,
    _administrators: tuple[str, int] = (ADMINISTRATORS_FILE, 0),
) -> Chain:
    """The chain of one run; raises `ConfigurationError` for whatever would make a participant fail or guard nothing.

    In order: the administrator's file and policy (`first`), interceptors, the client's hooks, those of other policies
    (`more`), the request's, the user's file, and, where the request asks for it, the workspace's, which may only deny.
    A file that is reached twice is read once. `scratch` is where the hooks' private folders are made; by default in the
    library's own durable folder. `grants_kept_by` names the policy that lets nobody but the administrator's grant.
    """
    folders = Scratch(scratch if scratch is not None else str(default_state() / "hooks"))
    outside = (workspace, *request.add_dirs, *request.permission.writable)
    seen: set[str] = set()

    def read(path: str, *, must_exist: bool = False, owner: int | None = None) -> tuple[FoundSpec, ...]:
        real = os.path.realpath(path)
        if real in seen:
            return ()
        seen.add(real)
        return read_hooks_file(path, must_exist=must_exist, owner=owner)

    residents: list[tuple[str, ResidentHook]] = []

    def take(found: Sequence[FoundSpec]) -> list[Participant]:
        return [_hook(one, program_of(one, outside, workspace), folders, residents) for one in found]

    file, owner = _administrators
    participants = [*take(read(file, owner=owner)), *take(first)]
    trusted = len(participants)
    participants += [from_interceptor(one, request.limits.hook) for one in interceptors]
    if isinstance(hooks, str | os.PathLike):
        participants += take(read(str(Path(os.fspath(hooks)).absolute()), must_exist=True))
    else:
        participants += take(_given(hooks or (), "the client's hooks"))
    participants += take(more)
    participants += take(_given(request.hooks, "the request's hooks"))
    participants += take(read(users_file(os.environ, str(Path.home()))))
    if request.workspace_hooks:
        participants += take([_only_denies(one) for one in read(workspace_file(workspace))])
    if grants_kept_by is not None:
        _check_grants(participants[trusted:], grants_kept_by)
    for one in participants:
        if one.deadline > request.limits.chain and one.own_deadline:
            problem = (
                f"its deadline of {one.deadline:g} s is beyond that of the whole chain, {request.limits.chain:g} s"
            )
            raise ConfigurationError(one.title, f"{problem}; set limits.chain higher")
    return Chain(participants, limit=request.limits.chain, residents=residents)


def _check_grants(participants: Sequence[Participant], kept_by: str) -> None:
    for one in participants:
        if "grant" in one.may:
            raise ConfigurationError(one.title, f"it may grant, which {kept_by} keeps to the administrator's hooks")


def _given(specs: Sequence[HookSpec], source: str) -> list[FoundSpec]:
    return [FoundSpec(spec, f"{source}: hook {spec.name!r}", None) for spec in specs]


def _only_denies(found: FoundSpec) -> FoundSpec:
    return FoundSpec(found.spec.model_copy(update={"may": ("deny",)}), found.source, found.folder)


def chain_of(found: Sequence[FoundSpec], *, workspace: str, scratch: str, every_call: bool = False) -> Chain:
    """A chain of these programs alone, for who tries them; `every_call`: whatever their `tools` say.

    Raises `ConfigurationError`.
    """
    folders, residents = Scratch(scratch), list[tuple[str, ResidentHook]]()
    participants = [_hook(one, program_of(one, (workspace,), workspace), folders, residents) for one in found]
    if every_call:
        participants = [replace(one, concerns=None) for one in participants]
    return Chain(participants, residents=residents)


def program_of(found: FoundSpec, outside: Sequence[str], workspace: str) -> Program:
    """The program of a spec, resolved; raises `ConfigurationError`."""
    return resolve_program(
        found.spec.command,
        source=found.source,
        folder=found.folder,
        outside=[os.path.join(workspace, root) for root in outside],  # noqa: PTH118  # links are followed later
        in_workspace=found.spec.in_workspace,
    )


def _hook(
    found: FoundSpec, program: Program, scratch: Scratch, residents: list[tuple[str, ResidentHook]]
) -> Participant:
    spec = found.spec
    if not spec.resident:
        return from_program(spec, SubprocessHook(program, scratch, dict(spec.env)).ask)
    resident = ResidentHook(program, scratch, env=spec.env, patience=spec.timeout)
    residents.append((found.source, resident))
    return from_program(spec, resident.ask)
