"""The rules of the chain: what each answer about one call does to it, for both events and both bindings.

The first deny wins and nobody after it is asked; rewrites compose, and after one the whole chain sees the final input
once more, when nobody may change it again; an answer that is late, wrong or outside its participant's powers is broken,
and broken means deny. Nothing here waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from interlock.engine.gate import ChainSays
from interlock.engine.participants import BrokenAnswer, Participant
from interlock.engine.plain_json import Copies, copied
from interlock.hooks import Allow, AuditRecord, DenyCall, HookCall, Modify, Power, Replace
from interlock.model import JsonValue, Model, digest, same_json

__all__ = ["Asking", "ChainVerdict", "Rewrite", "raised"]

Rewrite = Callable[[HookCall, JsonValue], HookCall]
"""The call with another input, described anew."""
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


def raised(error: BaseException) -> BrokenAnswer:
    """A participant raised: the model is told what, the audit also the words."""
    return BrokenAnswer(f"it raised {type(error).__name__}", _cut(str(error), 512))


def _cut(text: str, limit: int = LONGEST_REASON) -> str:
    return text if len(text) <= limit else text[:limit] + "..."


_put_values, _put_fields, _put_extra, _put_private = (
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
_new: Any = object.__new__


def _built(model: type[M], values: dict[str, object], fields: set[str]) -> M:
    """A model of values that were all checked before: ten participants would else pay twenty validations."""
    built: M = _new(model)
    _put_values(built, values)
    _put_fields(built, fields)
    _put_extra(built, None)
    _put_private(built, None)
    return built


CALL_FIELDS, RECORD_FIELDS = set(HookCall.model_fields), set(AuditRecord.model_fields)


@dataclass(slots=True)
class Asking:
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
    _until: float = 0.0
    """When the current participant's time is up; its time and the chain's began earlier."""
    _of_call: dict[str, object] | None = None
    _input: Copies | None = None
    _output: Copies | None = None

    def begin(self, participant: Participant) -> bool:
        """A participant is about to be asked; False if the chain's time is up, which denies."""
        self.current = participant
        self._at = now = time.perf_counter()
        end = self.began + self.limit
        if now > end:
            self.ran_out()
            return False
        self._until = min(now + participant.deadline, end)
        self.asked.append(participant.title)
        return True

    def remaining(self) -> float:
        """Seconds that the current participant still has."""
        return self._until - time.perf_counter()

    def private_call(self) -> HookCall:
        """The call as it stands, in a copy that is this participant's alone."""
        call = self.call
        values = vars(call).copy()
        if self._input is None:
            self._input = Copies(call.input)
        values["input"] = self._input.one()
        if call.event == "post_tool_use":
            if self._output is None:
                self._output = Copies(call.output)
            values["output"] = self._output.one()
        return _built(HookCall, values, CALL_FIELDS)

    def answered(self, answer: object, shown: HookCall) -> None:
        """An answer is there: it is late, or it is taken."""
        if time.perf_counter() > self._until:
            self.ran_out()
        elif type(answer) is Allow:
            self._allow(answer, shown)
        else:
            self._take(answer, shown)

    def _changed_to(self, call: HookCall) -> None:
        """The call stands differently from here on."""
        self.call = call
        self._of_call = self._input = self._output = None

    def look_again(self) -> None:
        """The second look: nobody has answered about the final input yet."""
        self._changed_to(self.call.model_copy(update={"round": 2}))
        self.granters.clear()

    def _take(self, answer: object, shown: HookCall) -> None:
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
            self._changed(answer.reason, call)

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
        self._changed(answer.reason, self.call.model_copy(update={"output": output, "is_error": verdict}))

    def _changed(self, reason: str, call: HookCall) -> None:
        title = self.current.title if self.current is not None else ""
        self.changes.append(title + (f": {_cut(reason)}" if reason else ""))
        self._changed_to(call)

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
        current = self.current
        values = (self._of_call or self._describe_call()).copy()
        if current is not None:
            values["participant"], values["binding"] = current.name, current.binding
        values["decision"] = decision
        if reason:
            values["reason"] = reason
        if broken:
            values["broken"] = True
        if result is not None:
            values["result_digest"] = result
        values["duration"] = time.perf_counter() - self._at
        values["time"] = self.clock()
        self.records.append(_built(AuditRecord, values, RECORD_FIELDS))

    def _describe_call(self) -> dict[str, object]:
        """What all records about the call as it stands have in common, and a place for what each says itself."""
        call = self.call
        self._of_call = {
            "run_id": call.run_id,
            "agent": call.agent,
            "agent_id": call.agent_id,
            "tool_call_id": call.tool_call_id,
            "tool_name": call.tool_name,
            "event": call.event,
            "round": call.round,
            "participant": "chain",
            "binding": "policy",
            "decision": "",
            "reason": "",
            "broken": False,
            "input_digest": digest(call.input),
            "result_digest": None,
            "duration": 0.0,
            "time": 0.0,
        }
        return self._of_call

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
