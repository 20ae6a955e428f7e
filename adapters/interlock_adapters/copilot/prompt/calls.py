"""What the codec remembers of the calls of a run, within bounds, and which call a hook is about.

A hook is not told the id of a call. The stream announces every call of one answer of the model, in order, before the
first of them is hooked, and hooks come one by one in that order (1.0.102); so a hook is about the first call of its
agent with that name and input that no hook has asked about. What the stream shows has the values of secrets masked.

Of two calls alike the wrong one may be taken for the one that ended first. Nothing runs for it that was not decided:
the answer goes to the hook that asked, and the ledger holds each id against what the stream says of it.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from interlock.actions import Key
from interlock.events import ToolFinished
from interlock.framing.bounded import Bounded
from interlock.model import JsonValue, same_json
from interlock.tools import MAIN_AGENT, ToolCall, ToolKind
from interlock_adapters.copilot.prompt.hooks import HookBody
from interlock_adapters.copilot.tools import SHELL, Tools
from interlock_adapters.copilot.wire import Completed, Started

__all__ = ["CallState", "Calls", "finished", "same_input"]

MASK = "******"
"""What stands in the stream for the value of a secret."""
CHANGING = frozenset({ToolKind.WRITE, ToolKind.EDIT, ToolKind.PATCH})


@dataclass(slots=True)
class CallState:
    """One call, from its announcement to its end."""

    key: Key
    name: str
    kind: ToolKind
    announced: JsonValue
    """The input as the stream shows it."""
    cwd: str | None = None
    hooked: bool = False
    """A hook before the call has come; it comes once."""
    let_through: bool = False
    denied: str = ""
    """Who denied it, where nobody was asked."""
    decided: JsonValue = None
    """The input that was let through."""
    told: JsonValue = None
    """The input that the agent was told to run."""
    hooked_after: bool = False
    shown: str | None = None
    """What the model is shown in place of the output, if that was decided."""
    finished: bool = False


@dataclass(slots=True)
class Calls:
    """All calls of a run."""

    tools: Tools
    _calls: Bounded[Key, CallState] = field(default_factory=Bounded[Key, CallState])
    """By agent and the id that the stream gives."""
    _repeated: int = 0

    def announce(self, agent: str | None, told: Started) -> CallState:
        """The stream says that the model asks for a call; an id that comes again is another call."""
        native = Key(agent or MAIN_AGENT, told.id)
        key = native
        if self._calls.pop(native, None) is not None:
            self._repeated += 1
            key = Key(native.agent_id, f"{told.id}~{self._repeated}")
        state = CallState(key, told.name, self.tools.kind_of(told.name), told.arguments)
        return self._calls.remember(native, state)

    def get(self, agent: str | None, call_id: str) -> CallState | None:
        """What is known of a call of the stream."""
        return self._calls.get(Key(agent or MAIN_AGENT, call_id))

    def before(self, body: HookBody) -> CallState | None:
        """The call that a hook before it is about; None where the stream has not announced it."""
        for state in self._of(body):
            if not state.hooked and _alike(state.announced, body.args):
                return state
        return None

    def after(self, body: HookBody) -> CallState | None:
        """The call that ended; one of the same tool whose input is another, where none fits."""
        ran = [state for state in self._of(body) if state.let_through and not state.hooked_after]
        fitting = (state for state in ran if same_input(state.told, body.args))
        return next(fitting, ran[0] if ran else None)

    def failed(self, body: HookBody) -> CallState | None:
        """The same of a call that failed; None for one that failed before a hook was asked about it."""
        state = self.after(body)
        unfit = state is None or not same_input(state.told, body.args)
        return None if unfit and self.before(body) is not None else state

    def permitted(self, body: HookBody) -> CallState | None:
        """The call that was let through and that a permission is asked for."""
        return next((state for state in self._let_through(body) if self._fits(state, body)), None)

    def expects_permission(self, body: HookBody) -> bool:
        """Whether the permission could be for a call that was let through, in words that are not recognized."""
        changing = body.name == "edit"
        return any(state.kind in CHANGING if changing else True for state in self._let_through(body))

    def describe(self, state: CallState, native: JsonValue) -> ToolCall:
        """The call in the shared vocabulary."""
        return ToolCall(
            tool_call_id=state.key.call,
            tool_name=state.name,
            input=native,
            tool_kind=state.kind,
            subject=self.tools.subject_of(state.name, native),
            agent_id=state.key.agent_id,
            cwd=state.cwd,
        )

    def _of(self, body: HookBody) -> Iterator[CallState]:
        for key, state in self._calls.items():
            if key.agent_id == body.agent and state.name == body.name and not state.finished:
                yield state

    def _let_through(self, body: HookBody) -> Iterator[CallState]:
        for key, state in self._calls.items():
            if key.agent_id == body.agent and state.let_through and not state.finished:
                yield state

    def _fits(self, state: CallState, body: HookBody) -> bool:
        """Of a command its text is asked for, of a patch each file by itself, of a server's tool its input."""
        asked: Mapping[str, JsonValue] = body.asked if isinstance(body.asked, dict) else {}
        if body.name == SHELL:
            told = state.told if isinstance(state.told, dict) else {}
            return state.name == SHELL and told.get("command") == asked.get("command")
        if body.name == "edit":
            return state.kind in CHANGING and asked.get("file_path") in self._touched(state, body.cwd)
        named = self.tools.mcp(state.name) or state.name
        return named == body.name and same_input(state.told, body.asked)

    def _touched(self, state: CallState, cwd: str) -> list[str]:
        paths = [posixpath.join(cwd, path) for path in self.tools.subject_of(state.name, state.told).paths]
        return paths + [posixpath.normpath(path) for path in paths]


def same_input(left: JsonValue, right: JsonValue) -> bool:
    """Whether two inputs are the same to the agent, to which all numbers are of one type: `1.0` is `1`."""
    return same_json(_as_doubles(left), _as_doubles(right))


def _as_doubles(value: JsonValue) -> JsonValue:
    match value:
        case bool():
            return value
        case int() | float():
            try:
                return float(value)
            except OverflowError:
                return value
        case list():
            return [_as_doubles(one) for one in value]
        case dict():
            return {key: _as_doubles(one) for key, one in value.items()}
        case _:
            return value


def _alike(announced: JsonValue, asked: JsonValue) -> bool:
    """Whether an input as the stream shows it can be the one that a hook asks about."""
    if same_input(announced, asked):
        return True
    shown = json.dumps(_as_doubles(announced), sort_keys=True, ensure_ascii=False)
    if MASK not in shown:
        return False
    first, *middle, last = shown.split(MASK)
    rest = json.dumps(_as_doubles(asked), sort_keys=True, ensure_ascii=False)
    if len(rest) < len(first) + len(last) or not (rest.startswith(first) and rest.endswith(last)):
        return False
    position, end = len(first), len(rest) - len(last)
    for piece in middle:
        found = rest.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def finished(state: CallState, told: Completed) -> ToolFinished:
    """The event of a call's end; `denied` and `rejected` are the agent's words for what it did not run."""
    state.finished = True
    denied = told.error is not None and told.error.code in {"denied", "rejected"}
    return ToolFinished(
        agent_id=state.key.agent_id,
        tool_call_id=state.key.call,
        tool_name=state.name,
        tool_kind=state.kind,
        status="denied" if denied else "ok" if told.success else "error",
        output=told.text if state.shown is None else state.shown,
        by=(state.denied or "agent") if denied else "",
    )
