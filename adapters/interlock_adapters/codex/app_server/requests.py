"""Requests of the agent over the protocol: to leave the sandbox, to confirm a call, and questions to the user.

A question about a command or a patch means, under a sandbox, that it would run outside of it: under the id of a call
that was decided on as one inside. So it is a consult of its own, under a key of its own, and never answered from what
was decided before.

Under a gate the agent asks about every call. Then it is answered from what was decided, once, and only if the agent
says that it took the answer of our hook, and asks about that very command, those files or those arguments.

Everything else that the agent asks for is refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pydantic import ValidationError

from interlock.actions import (
    Action,
    Ask,
    Consult,
    Defer,
    Emit,
    Key,
    Proceed,
    Send,
    Stage,
    Suspicion,
    Verdict,
    Withdraw,
)
from interlock.approval import Answer
from interlock.events import ToolFinished
from interlock.framing.jsonrpc import Call, Id, Peer, UnknownId
from interlock.framing.patch import touched
from interlock.framing.reports import requested, warning
from interlock.model import JsonValue, same_json
from interlock.tools import ToolCall
from interlock_adapters.codex.app_server.answers import answer_outside, answer_question, items_of
from interlock_adapters.codex.app_server.calls import Calls, CallState
from interlock_adapters.codex.app_server.intent import Intent
from interlock_adapters.codex.app_server.wire import CommandApproval, Elicitation, PatchApproval, UserInput
from interlock_adapters.codex.shell import ran_command
from interlock_adapters.codex.tools import PATCH, SHELL, mcp_name

__all__ = ["Requests"]

METHOD_NOT_FOUND = -32601
_REFUSALS: dict[str, JsonValue] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "mcpServer/elicitation/request": {"action": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "item/tool/call": {"contentItems": [], "success": False},
}
"""What says no to each request that is known."""


_DECISIONS: tuple[JsonValue, JsonValue] = ({"decision": "accept"}, {"decision": "decline"})


@dataclass(frozen=True, slots=True)
class Outside:
    """A call that waits to leave the sandbox."""

    request: Id
    call: ToolCall
    description: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A call that waits to be confirmed, and what says yes and no to it."""

    request: Id
    yes: JsonValue
    no: JsonValue


@dataclass(slots=True)
class Requests:
    """The requests of the agent, open and answered."""

    peer: Peer
    calls: Calls
    intent: Intent
    interrupt: Callable[[], Iterator[Action]]
    gate: bool = False
    """Whether the agent asks about every call."""
    _outside: dict[tuple[Key, Stage], Outside] = field(default_factory=dict[tuple[Key, Stage], Outside])
    _gated: dict[Key, Confirmed] = field(default_factory=dict[Key, Confirmed])
    _questions: dict[Key, tuple[Id, UserInput]] = field(default_factory=dict[Key, tuple[Id, UserInput]])

    # ---- The agent asks ---------------------------------------------------------------------------------------------

    def asked(self, message: Call) -> Iterator[Action]:
        """One request; what cannot be read is refused."""
        try:
            match message.method:
                case "item/commandExecution/requestApproval":
                    yield from self._command(message.id, CommandApproval.model_validate(message.params))
                case "item/fileChange/requestApproval":
                    yield from self._patch(message.id, PatchApproval.model_validate(message.params))
                case "item/tool/requestUserInput":
                    yield from self._question(message.id, UserInput.model_validate(message.params))
                case "mcpServer/elicitation/request" if self.gate:
                    yield from self._tool(message, Elicitation.model_validate(message.params))
                case _:
                    yield from self.refuse(message)
        except ValidationError:
            yield from self.refuse(message)

    def refuse(self, message: Call) -> Iterator[Action]:
        """No, whatever it is."""
        yield warning("request_refused", f"the agent asked for {message.method}: refused")
        if message.method in _REFUSALS:
            yield from self._respond(message.id, _REFUSALS[message.method])
            return
        said = self.peer.fail(message.id, METHOD_NOT_FOUND, f"{message.method} is not served")
        if not isinstance(said, UnknownId):
            yield Send(said + b"\n")

    def resolved(self, request: JsonValue) -> Iterator[Action]:
        """The agent no longer waits for an answer."""
        for place, outside in list(self._outside.items()):
            if outside.request == request:
                del self._outside[place]
                yield Withdraw(*place)
        for key, confirmed in list(self._gated.items()):
            if confirmed.request == request:
                del self._gated[key]
                yield Withdraw(key, "confirm")
        for key, (asked, _) in list(self._questions.items()):
            if asked == request:
                del self._questions[key]
                yield Withdraw(key, None)

    def _command(self, request: Id, told: CommandApproval) -> Iterator[Action]:
        state = self.calls.get(told.thread, told.item)
        if told.kind != "command" or state is None or not self._is_decided(state, told.command):
            yield from self._stranger(request, told.thread, told.item)
        elif self.gate:
            yield from self._confirm(request, state, *_DECISIONS)
        else:
            yield from self._leave(request, state, told.reason or "")

    def _is_decided(self, state: CallState, line: str | None) -> bool:
        if not state.let_through or line is None:
            return False
        return state.name == SHELL and state.told is not None and ran_command(line) == state.told

    def _patch(self, request: Id, told: PatchApproval) -> Iterator[Action]:
        state = self.calls.get(told.thread, told.item)
        if state is None or not state.let_through or state.name != PATCH:
            yield from self._stranger(request, told.thread, told.item)
        elif not self.gate:
            yield from self._leave(request, state, told.reason or "")
        elif _same_files(state):
            yield from self._confirm(request, state, *_DECISIONS)
        else:
            yield from self._stranger(request, told.thread, told.item)

    def _tool(self, message: Call, told: Elicitation) -> Iterator[Action]:
        """It names no call: one of this tool with these arguments, which was let through and not asked about yet."""
        fitting = [
            state
            for state in self.calls.of_tool(told.thread, mcp_name(told.server, told.meta.tool))
            if state.let_through and not state.confirmed and same_json(state.decided, told.meta.params)
        ]
        if told.meta.kind != "mcp_tool_call" or not fitting:
            yield from self.refuse(message)
        else:
            yield from self._confirm(message.id, fitting[0], {"action": "accept", "content": {}}, {"action": "decline"})

    def _confirm(self, request: Id, state: CallState, yes: JsonValue, no: JsonValue) -> Iterator[Action]:
        if state.confirmed or not state.hook_held:
            yield from self._respond(request, no)
            words = "asked about a second time" if state.confirmed else "asked about, and its hook did not hold"
            yield Suspicion("not_confirmed", words, state.key, state.name)
            return
        state.confirmed = True
        self._gated[state.key] = Confirmed(request, yes, no)
        yield Consult(state.key, "confirm", self.calls.describe(state, state.decided))

    def _stranger(self, request: Id, thread: str, call_id: str) -> Iterator[Action]:
        yield from self._respond(request, {"decision": "decline"})
        key = Key(self.calls.agent_of(thread), call_id)
        yield Suspicion("no_decision", "the agent asked about a call that was not let through as it stands", key)

    def _leave(self, request: Id, state: CallState, words: str) -> Iterator[Action]:
        state.outside += 1
        key = Key(state.key.agent_id, f"{state.key.call}/outside-{state.outside}")
        call = self.calls.describe(state, state.decided).model_copy(update={"tool_call_id": key.call})
        self._outside[key, "before"] = Outside(request, call, words)
        yield Emit([requested(call)])
        yield Consult(key, "before", call, description=words, leaves_sandbox=True)

    def _question(self, request: Id, told: UserInput) -> Iterator[Action]:
        key = Key(self.calls.agent_of(told.thread), told.item)
        if key in self._questions or not told.questions:
            yield from self._respond(request, {"answers": {}})
            return
        self._questions[key] = (request, told)
        yield Ask(key, items_of(told))

    # ---- Our answers ------------------------------------------------------------------------------------------------

    def is_open(self, key: Key, stage: Stage | None) -> bool:
        """Whether a request waits under this key."""
        if stage is None:
            return key in self._questions
        return (key, stage) in self._outside or (stage == "confirm" and key in self._gated)

    def answered(self, key: Key, given: Answer) -> Iterator[Action]:
        """The answer to a question."""
        request, asked = self._questions.pop(key)
        yield from self._respond(request, answer_question(asked, given))

    def decided(self, key: Key, stage: Stage, verdict: Verdict) -> Iterator[Action]:
        """Whether a call may leave the sandbox; where the agent's own flow decides, that flow is to ask."""
        confirmed = self._gated.pop(key, None) if stage == "confirm" else None
        if confirmed is not None:
            passed = isinstance(verdict, Proceed) and not verdict.changed
            yield from self._respond(confirmed.request, confirmed.yes if passed else confirmed.no)
            return
        outside = self._outside.pop((key, stage))
        if isinstance(verdict, Defer) and not verdict.changed and stage == "before":
            self._outside[key, "confirm"] = outside
            yield Consult(key, "confirm", outside.call, description=outside.description, leaves_sandbox=True)
            return
        decision = answer_outside(verdict)
        yield from self._respond(outside.request, {"decision": decision})
        yield Emit([_left(outside.call, passed=decision == "accept")])
        if decision == "cancel":
            self.intent.denied = getattr(verdict, "reason", "")
            yield from self.interrupt()

    def _respond(self, request: Id, result: JsonValue) -> Iterator[Action]:
        said = self.peer.respond(request, result)
        if isinstance(said, UnknownId):
            yield Suspicion("unknown_answer", f"the request {request!r} was answered already")
        else:
            yield Send(said + b"\n")


def _same_files(state: CallState) -> bool:
    """Whether the agent is about to change the files that the patch names, as it was let through."""
    text = state.decided.get("command") if isinstance(state.decided, dict) else None
    named = touched(text) if isinstance(text, str) else ()
    place = state.cwd or "/"
    wanted = {posixpath.normpath(posixpath.join(place, one.path)) for one in named}
    found = {posixpath.normpath(posixpath.join(place, path)) for path in state.changed}
    return bool(found) and found <= wanted


def _left(call: ToolCall, *, passed: bool) -> ToolFinished:
    """The end of the question, which is in the ledger as a call of its own."""
    return ToolFinished(
        agent_id=call.agent_id,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        tool_kind=call.tool_kind,
        status="ok" if passed else "denied",
        output="it runs outside the sandbox" if passed else "it does not leave the sandbox",
    )
