"""The chain: every participant is asked about a call, in order, and one verdict comes of it.

`_round` and `_Asking` own all of its rules, for both events and both bindings: the first deny wins and nobody after it
is asked; rewrites compose, and after one the whole chain sees the final input once more; an answer that is late, wrong
or outside its participant's powers is broken, and broken means deny. The runner itself never raises.

One cancel scope serves a whole round, and its deadline is set only when a participant really waits: most answer at
once, and a timer each would cost more than they do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from types import coroutine
from typing import Any, Literal, TypeVar, cast

import anyio
import anyio.lowlevel

from interlock.capabilities import Needs
from interlock.engine.gate import ChainSays
from interlock.engine.participants import AskOne, BrokenAnswer, Participant
from interlock.engine.plain_json import copied
from interlock.hooks import Allow, AuditRecord, DenyCall, HookCall, Modify, Power, Replace
from interlock.model import JsonValue, Model, digest, same_json

__all__ = ["Chain", "ChainVerdict"]

Rewrite = Callable[[HookCall, JsonValue], HookCall]
"""The call with another input, described anew."""
Forbids = Callable[[HookCall], "str | None"]
"""The deny rule that a rewritten call runs into."""
LONGEST_REASON = 8192
M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """What the chain decided, and who was asked: nobody objecting is not nobody being asked."""

    denied: bool
    reason: str
    """Of a denial, for the model; it names who denied."""
    rule: str | None
    """The deny rule that a rewritten input ran into."""
    asked: tuple[str, ...]
    granted: bool
    """One that may grant answered about the final input, and nobody objected."""
    call: HookCall
    """With the final input, or the final output."""
    changed: bool
    attribution: str
    """Who changed something and why, for the audit."""
    records: tuple[AuditRecord, ...]

    @property
    def says(self) -> ChainSays:
        """The chain's part in the decision."""
        if self.denied:
            return "denied"
        if self.granted:
            return "granted"
        return "no_objection" if self.asked else "nobody_asked"


class Chain:
    """The participants of a run, in the order in which they are asked. `limit`: seconds for all of them together."""

    def __init__(
        self, participants: Sequence[Participant], *, limit: float = 60.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._participants = tuple(participants)
        self._limit = limit
        self._clock = clock

    @property
    def names(self) -> tuple[str, ...]:
        """Who takes part, in order: `interceptor 'a'`, `hook 'b'`."""
        return tuple(participant.title for participant in self._participants)

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
        asking = _Asking(call, self._limit, self._clock, rewrite)
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
        asking = _Asking(call, self._limit, self._clock, lambda same, _: same)
        await self._round(asking)
        return asking.verdict()

    async def _round(self, asking: _Asking) -> None:
        """Ask everybody whom the call concerns, once, until one denies."""
        queue = iter(self._participants)
        while await self._stretch(queue, asking):
            pass

    async def _stretch(self, queue: Iterator[Participant], asking: _Asking) -> bool:
        """Ask on until the round is over (False), or one ran out of time and the chain goes on without it (True)."""
        try:
            with anyio.CancelScope() as scope:
                for participant in queue:
                    ask = participant.asked_about(asking.call)
                    if ask is not None and asking.begin(participant):
                        await _ask(ask, participant, asking, scope)
                    if asking.denial is not None:
                        return False
        except BaseException as error:
            if _is_cancellation(error):
                raise
            asking.broke(_raised(error))
            return asking.denial is None
        if not scope.cancelled_caught:
            return False
        asking.ran_out()
        return asking.denial is None


async def _ask(ask: AskOne, participant: Participant, asking: _Asking, scope: anyio.CancelScope) -> None:
    """Ask one participant and take its answer; leaves by cancellation if its time is up."""
    shown = asking.private_call()

    def waits() -> None:
        scope.deadline = anyio.current_time() + asking.remaining(participant)

    try:
        answer = await _stepped(_coroutine(ask(shown)), waits)
        if scope.cancel_called:
            await anyio.lowlevel.checkpoint()
        if asking.remaining(participant) < 0:
            asking.ran_out()
            return
        asking.take(answer, shown)
    except BaseException as error:
        if _is_cancellation(error):
            raise
        asking.broke(error if isinstance(error, BrokenAnswer) else _raised(error))


def _coroutine(work: Awaitable[object]) -> Coroutine[Any, Any, object]:
    async def awaited() -> object:
        return await work

    return cast("Coroutine[Any, Any, object]", work) if isinstance(work, Coroutine) else awaited()


@coroutine
def _stepped(work: Coroutine[Any, Any, object], waits: Callable[[], None]) -> Generator[Any, Any, object]:
    """Await `work`, calling `waits` when it waits for the first time."""
    try:
        signal = work.send(None)
        waits()
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


def _raised(error: BaseException) -> BrokenAnswer:
    return BrokenAnswer(f"it raised {type(error).__name__}", _cut(str(error), 512))


def _cut(text: str, limit: int = LONGEST_REASON) -> str:
    return text if len(text) <= limit else text[:limit] + "..."


def _built(model: type[M], values: dict[str, object]) -> M:
    """A model of values that were all checked before: ten participants would else pay twenty validations."""
    built = model.__new__(model)
    object.__setattr__(built, "__dict__", values)
    object.__setattr__(built, "__pydantic_fields_set__", set(values))
    object.__setattr__(built, "__pydantic_extra__", None)
    object.__setattr__(built, "__pydantic_private__", None)
    return built


@dataclass(slots=True)
class _Asking:
    """One call on its way through the chain."""

    call: HookCall
    limit: float
    clock: Callable[[], float]
    rewrite: Rewrite
    denial: str | None = None
    rule: str | None = None
    asked: list[str] = field(default_factory=list[str])
    granters: list[str] = field(default_factory=list[str])
    changes: list[str] = field(default_factory=list[str])
    records: list[AuditRecord] = field(default_factory=list[AuditRecord])
    current: Participant | None = None
    began: float = field(default_factory=time.perf_counter)
    _at: float = 0.0
    _digest: str = ""

    def begin(self, participant: Participant) -> bool:
        """A participant is about to be asked; False if the chain's time is up, which denies."""
        self.current = participant
        self._at = time.perf_counter()
        if self._at - self.began > self.limit:
            self.ran_out()
            return False
        self.asked.append(participant.title)
        return True

    def remaining(self, participant: Participant) -> float:
        """Seconds that the participant still has."""
        now = time.perf_counter()
        return min(participant.deadline - (now - self._at), self.limit - (now - self.began))

    def private_call(self) -> HookCall:
        """The call as it stands, in a copy that is this participant's alone."""
        values = dict(vars(self.call))
        values["input"] = copied(self.call.input)
        if self.call.event == "post_tool_use":
            values["output"] = copied(self.call.output)
        return _built(HookCall, values)

    def look_again(self) -> None:
        """The second look: nobody has answered about the final input yet."""
        self.call = self.call.model_copy(update={"round": 2})
        self.granters.clear()
        self._digest = ""

    def take(self, answer: object, shown: HookCall) -> None:
        """An answer came in time: it counts, or it is broken."""
        match answer:
            case Allow():
                self._allow(answer, shown)
            case DenyCall():
                self._must("deny")
                self._deny(_cut(answer.reason))
            case Modify():
                self._must("modify", "pre_tool_use")
                self._modify(answer)
            case Replace():
                self._must("replace", "post_tool_use")
                self._replace(answer)
            case _:
                raise BrokenAnswer(f"it answered a {type(answer).__name__}, which is no outcome")

    def _must(self, power: Power, event: str | None = None) -> None:
        if event is not None and self.call.event != event:
            raise BrokenAnswer(f"it answered {power} {'after' if power == 'modify' else 'before'} the call")
        if self.current is None or power not in self.current.may:
            raise BrokenAnswer(f"it answered {power}, which is not among its powers", denies=power == "deny")

    def _allow(self, answer: Allow, shown: HookCall) -> None:
        if shown.input != self.call.input or shown.output != self.call.output:
            raise BrokenAnswer("it changed the call in place instead of answering with what it wants")
        self._accepted("allow", answer.reason)

    def _accepted(self, decision: str, reason: str, result: JsonValue = None, *, with_result: bool = False) -> None:
        if self.current is not None and self.call.event == "pre_tool_use" and "grant" in self.current.may:
            self.granters.append(self.current.title)
            decision = "grant" if decision == "allow" else decision
        self._record(decision, _cut(reason), result=digest(result) if with_result else None)

    def _deny(self, reason: str, *, broken: bool = False, detail: str = "") -> None:
        title = self.current.title if self.current is not None else "the chain"
        if broken:
            self.denial = f"{title} could not answer and denies on failure: {reason}"
        else:
            self.denial = f"denied by {title}" + (f": {reason}" if reason else "")
        self._record("deny", reason + (f" ({detail})" if detail else ""), broken=broken)

    def _modify(self, answer: Modify) -> None:
        new = _json(answer.input)
        if isinstance(self.call.input, dict) and not isinstance(new, dict):
            raise BrokenAnswer("it answered an input that is no object, where the call's input is one")
        if same_json(new, self.call.input):
            self._accepted("allow", answer.reason)
        elif self.call.round == 2:
            self._deny("it changed the input again when it saw the final one, so it is not idempotent")
        else:
            call = self._rewritten(new)
            self._accepted("modify", answer.reason, new, with_result=True)
            self._changed(answer.reason)
            self.call = call

    def _rewritten(self, new: JsonValue) -> HookCall:
        try:
            return self.rewrite(self.call, new)
        except Exception as error:
            raise BrokenAnswer("its changed input cannot be read", f"{type(error).__name__}: {error}") from error

    def _replace(self, answer: Replace) -> None:
        output = _json(answer.output)
        verdict = self.call.is_error if answer.is_error is None else answer.is_error
        if verdict is not None and type(verdict) is not bool:
            raise BrokenAnswer("it answered an `is_error` that is neither true nor false")
        self._accepted("replace", answer.reason, output, with_result=True)
        self._changed(answer.reason)
        self.call = self.call.model_copy(update={"output": output, "is_error": verdict})

    def _changed(self, reason: str) -> None:
        title = self.current.title if self.current is not None else ""
        self.changes.append(title + (f": {_cut(reason)}" if reason else ""))
        self._digest = ""

    def broke(self, why: BrokenAnswer) -> None:
        """The current participant gave no answer that counts: that denies, unless it is configured to let pass."""
        if self.current is not None and self.current.on_failure == "allow" and not why.denies:
            self._record("allow", why.why + (f" ({why.detail})" if why.detail else ""), broken=True)
        else:
            self._deny(_cut(why.why), broken=True, detail=why.detail)

    def ran_out(self) -> None:
        """Time is up: the chain's own, which nobody may let pass, or the current participant's."""
        late = time.perf_counter() - self.began
        if late >= self.limit:
            self.broke(BrokenAnswer(f"the whole chain gave no answer within {self.limit:g} s", denies=True))
        elif self.current is not None:
            self.broke(BrokenAnswer(f"it gave no answer within {self.current.deadline:g} s"))

    def _record(self, decision: str, reason: str, *, broken: bool = False, result: str | None = None) -> None:
        call, current = self.call, self.current
        if not self._digest:
            self._digest = digest(call.input)
        values: dict[str, object] = {
            "run_id": call.run_id,
            "agent": call.agent,
            "agent_id": call.agent_id,
            "tool_call_id": call.tool_call_id,
            "tool_name": call.tool_name,
            "event": call.event,
            "round": call.round,
            "participant": current.name if current is not None else "chain",
            "binding": current.binding if current is not None else "policy",
            "decision": decision,
            "reason": reason,
            "broken": broken,
            "input_digest": self._digest,
            "result_digest": result,
            "duration": time.perf_counter() - self._at,
            "time": self.clock(),
        }
        self.records.append(_built(AuditRecord, values))

    def verdict(self) -> ChainVerdict:
        """What became of it."""
        return ChainVerdict(
            denied=self.denial is not None,
            reason=self.denial or "",
            rule=self.rule,
            asked=tuple(dict.fromkeys(self.asked)),
            granted=self.denial is None and bool(self.granters),
            call=self.call,
            changed=bool(self.changes),
            attribution="; ".join(self.changes),
            records=tuple(self.records),
        )


def _json(value: object) -> JsonValue:
    try:
        return copied(value)
    except (ValueError, RecursionError) as error:
        raise BrokenAnswer(f"it answered what is no JSON: {error}") from error
