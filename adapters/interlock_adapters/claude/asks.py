"""The control channel: hooks and questions of the CLI become consults, and verdicts its answers.

Native hooks fail open on nearly every malformed answer, so the refusal of each request is made when the request comes
in, before anybody is asked, and goes out if anything goes wrong later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pydantic import ValidationError

from interlock.actions import Action, Ask, Consult, Emit, Key, Send, Stage, Suspicion, Verdict, Wake, Withdraw
from interlock.approval import Answer
from interlock.framing.bounded import Bounded
from interlock.framing.reports import requested, warning
from interlock.model import JsonValue, same_json
from interlock.tools import ToolCall, ToolKind
from interlock_adapters.claude import wire
from interlock_adapters.claude.answers import FAULT, Pending, Reply, answer, deny, fallback, items_of
from interlock_adapters.claude.calls import Calls, CallState
from interlock_adapters.claude.outcome import Intent
from interlock_adapters.claude.planning import Planning
from interlock_adapters.claude.replace import is_replaceable, output_of
from interlock_adapters.claude.served import Served
from interlock_adapters.claude.wire import CanUseTool, ControlRequest, HookCallback, HookInput

__all__ = ["WITHHOLDING", "Asks"]

WITHHOLDING = "withholding"
"""The key of the `Wake` that ends a run whose interrupt the CLI does not follow."""
WITHHOLDING_LIMIT = 5.0
"""Seconds."""


@dataclass(slots=True)
class Asks:
    """All requests of the CLI, open and answered; `interrupt` makes the bytes of an interrupt."""

    calls: Calls
    intent: Intent
    hooks: bool
    interrupt: Callable[[], Send]
    served: Served
    planning: Planning
    _open: dict[tuple[Key, Stage | None], Pending] = field(default_factory=dict[tuple[Key, Stage | None], Pending])
    _seen: Bounded[str, None] = field(default_factory=Bounded[str, None])
    _repeated: Bounded[str, None] = field(default_factory=Bounded[str, None])

    # ---- Requests of the CLI ----------------------------------------------------------------------------------------

    def asked(self, message: ControlRequest) -> Iterator[Action]:
        """A `control_request`."""
        if message.request_id in self._seen:
            yield Suspicion("unknown_answer", f"the request id {message.request_id!r} came twice")
            return
        self._seen.remember(message.request_id, None)
        match message.request.get("subtype"):
            case "hook_callback":
                yield from self._hook(message)
            case "can_use_tool":
                yield from self._question(message)
            case "mcp_message":
                yield from self.served.asked(message)
            case subtype:
                yield Send(wire.failure(message.request_id, f"{subtype} is not served"))
                yield warning("unknown_request", f"the agent asked for {subtype!r}, which was refused")

    def repeated(self, request_id: str) -> bool:
        """The CLI repeats an answer that it was given; False if it cannot be ours, or came a second time."""
        still_open = any(pending.request_id == request_id for pending in self._open.values())
        if request_id not in self._seen or request_id in self._repeated or still_open:
            return False
        self._repeated.remember(request_id, None)
        return True

    def cancelled(self, request_id: str) -> Iterator[Action]:
        """The CLI no longer waits for an answer."""
        self.served.cancelled(request_id)
        for place, pending in list(self._open.items()):
            if pending.request_id == request_id:
                del self._open[place]
                yield Withdraw(pending.key, pending.stage)

    def _hook(self, message: ControlRequest) -> Iterator[Action]:
        refusal = wire.success(message.request_id, wire.hook_deny(FAULT))
        try:
            told = HookCallback.model_validate(message.request).input
        except ValidationError as error:
            yield Send(refusal)
            yield warning("unreadable_hook", str(error))
            return
        match told.hook_event_name:
            case "PreToolUse":
                yield from self._before(message.request_id, told, refusal)
            case "PostToolUse" | "PostToolUseFailure":
                yield from self._after(message.request_id, told)
            case other:
                yield Send(refusal)
                yield warning("unknown_hook", f"a hook came for {other!r}, which was refused")

    def _before(self, request_id: str, told: HookInput, refusal: bytes) -> Iterator[Action]:
        state, call = self._call(told, told.tool_input, told.cwd)
        self.planning.noted(told, state)
        call = self.calls.describe(state, told.tool_input, told.cwd)
        yield from self._announced(state, call)
        if state.consulted:
            yield Send(refusal)
            yield Suspicion("second_consult", "a second hook came before one call", state.key, state.name)
            return
        state.consulted = True
        words = self.planning.words(state)
        yield from self._consult(Pending(request_id, state.key, "before", call, refusal), words=words)

    def _after(self, request_id: str, told: HookInput) -> Iterator[Action]:
        state, call = self._call(told, told.tool_input, told.cwd)
        if state.answered is not None and same_json(told.tool_input, state.answered):
            call = self.calls.describe(state, state.asked, told.cwd)
        if self.planning.is_submitted(told, state):
            call = self.calls.describe(state, state.asked, told.cwd)
        failed = told.hook_event_name == "PostToolUseFailure"
        output = (told.error or "") if failed else output_of(state.name, told.tool_response)
        can_replace = not failed and is_replaceable(state.name, told.tool_response)
        pending = Pending(request_id, state.key, "after", call, b"", told.tool_response, can_replace)
        yield from self._consult(pending, output=output, failed=failed)

    def _question(self, message: ControlRequest) -> Iterator[Action]:
        refusal = wire.success(message.request_id, deny(FAULT))
        try:
            told = CanUseTool.model_validate(message.request)
        except ValidationError as error:
            yield Send(refusal)
            yield warning("unreadable_question", str(error))
            return
        native: JsonValue = told.input
        state, call = self._call(told, native, None)
        yield from self._announced(state, call)
        if state.kind is ToolKind.QUESTION and (state.let_through or not self.hooks):
            yield from self._to_user(Pending(message.request_id, state.key, None, call, refusal), state)
            return
        words = told.description or told.decision_reason or ""
        yield from self._consult(Pending(message.request_id, state.key, "confirm", call, refusal), words=words)

    def _to_user(self, pending: Pending, state: CallState) -> Iterator[Action]:
        try:
            items = items_of(pending.call.input)
        except ValidationError as error:
            state.denied_by = ""
            yield Send(pending.refusal)
            yield warning("unreadable_question", str(error))
            return
        self._open[pending.key, None] = pending
        yield Ask(pending.key, items)

    def _consult(
        self,
        pending: Pending,
        *,
        words: str = "",
        output: JsonValue = None,
        failed: bool = False,
    ) -> Iterator[Action]:
        stage = pending.stage or "confirm"
        if (pending.key, stage) in self._open:
            if pending.refusal:
                yield Send(pending.refusal)
            yield Suspicion("second_consult", "a call was asked about twice", pending.key, pending.call.tool_name)
            return
        self._open[pending.key, stage] = pending
        yield Consult(pending.key, stage, pending.call, output, failed, pending.replaceable, words)

    def _call(self, told: HookInput | CanUseTool, native: JsonValue, cwd: str | None) -> tuple[CallState, ToolCall]:
        agent_id = self.calls.agent_of(None, told.agent_id)
        state = self.calls.open(told.tool_use_id, told.tool_name, agent_id)
        return state, self.calls.describe(state, native, cwd)

    def _announced(self, state: CallState, call: ToolCall) -> Iterator[Action]:
        if not state.announced:
            state.announced = True
            yield Emit([requested(call)])

    # ---- Our answers ------------------------------------------------------------------------------------------------

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Iterator[Action]:
        """The answer to a consult or a question; nothing for one that is no longer open."""
        pending = self._open.pop((key, stage), None)
        if pending is None:
            return
        try:
            reply = answer(pending, verdict)
        except Exception as error:  # noqa: BLE001 -- whatever went wrong here, the call must not run for it
            reply = fallback(pending)
            yield warning("unanswerable", f"{pending.call.tool_name}: {error}")
        self._note(pending, reply)
        yield from self._written(pending, reply)

    def _note(self, pending: Pending, reply: Reply) -> None:
        state = self.calls.get(pending.key.call)
        if state is None or pending.stage == "after":
            return
        if not reply.passed:
            state.denied_by = ""
        elif pending.stage == "before":
            state.let_through = True
        elif pending.stage is None:
            state.asked, state.answered = pending.call.input, reply.native

    def _written(self, pending: Pending, reply: Reply) -> Iterator[Action]:
        if reply.data is None:
            self._repeated.remember(pending.request_id, None)  # whatever answer it is given is not ours
        else:
            yield Send(reply.data)
        match reply.ends:
            case "no":
                return
            case "by_answer":
                self.intent.denied = reply.reason
            case "by_interrupt":
                self.intent.denied = reply.reason
                yield self.interrupt()
            case "withheld":
                self.intent.unreplaceable = pending.call.tool_name
                yield self.interrupt()
                yield Wake(WITHHOLDING, WITHHOLDING_LIMIT)
