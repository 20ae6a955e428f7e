"""What the codec remembers of the calls of a run, within bounds, and which thread makes them.

The main agent's thread is `main`; a sub-agent has a thread of its own, whose id is its `agent_id`. A call has the same
id in the hooks, in the items and in the questions about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from interlock.actions import Key
from interlock.events import ToolFinished
from interlock.framing.bounded import Bounded
from interlock.model import JsonValue
from interlock.tools import MAIN_AGENT, ToolCall, ToolKind
from interlock_adapters.codex.app_server.wire import Item
from interlock_adapters.codex.tools import HIDDEN, kind_of, subject_of

__all__ = ["CallState", "Calls", "finished"]


@dataclass(slots=True)
class CallState:
    """One call, from its first mention to its end."""

    key: Key
    name: str
    kind: ToolKind
    announced: bool = False
    consulted: bool = False
    consulted_after: bool = False
    let_through: bool = False
    denied: bool = False
    decided: JsonValue = None
    """The input that was let through, in the shared vocabulary."""
    told: str | None = None
    """The command, or patch, that the agent was told to run."""
    cwd: str | None = None
    outside: int = 0
    """How often it was asked whether this call may leave the sandbox."""
    hook_held: bool = False
    """The agent says that it took the answer of our hook before the call."""
    confirmed: bool = False
    """The agent asked about it, as a gate; it may do so once."""
    changed: tuple[str, ...] = ()
    """The files that the agent says it is about to change."""
    item: Item | None = None
    """The item of the call, once it is over."""
    hooked_after: bool = False
    """The stream says that the hook after the call runs: whatever the stream says of its end came before."""
    reported: JsonValue = None
    """The output as the hook after the call was told of it."""
    shown: JsonValue = None
    """What the model was shown in its place, if that was decided."""
    finished: bool = False


@dataclass(slots=True)
class Calls:
    """All calls of a run."""

    main: str | None = None
    """The thread of the main agent."""
    _calls: Bounded[Key, CallState] = field(default_factory=Bounded[Key, CallState])

    def agent_of(self, thread: str | None) -> str:
        """The agent whose thread this is."""
        return MAIN_AGENT if thread is None or thread == self.main else thread

    def get(self, thread: str | None, call_id: str) -> CallState | None:
        """What is known of a call."""
        return self._calls.get(Key(self.agent_of(thread), call_id))

    def open(self, thread: str | None, call_id: str, name: str) -> CallState:
        """The state of a call, made at its first mention."""
        key = Key(self.agent_of(thread), call_id)
        return self._calls.get(key) or self._calls.remember(key, CallState(key, name, kind_of(name)))

    def of_tool(self, thread: str, name: str) -> Iterator[CallState]:
        """The calls of a tool that one thread makes."""
        agent = self.agent_of(thread)
        yield from [one for key, one in self._calls.items() if key.agent_id == agent and one.name == name]

    def unfinished(self, agent_id: str) -> Iterator[CallState]:
        """The calls of an agent that have not ended."""
        yield from [state for key, state in self._calls.items() if key.agent_id == agent_id and not state.finished]

    def describe(self, state: CallState, native: JsonValue) -> ToolCall:
        """The call in the shared vocabulary."""
        return ToolCall(
            tool_call_id=state.key.call,
            tool_name=state.name,
            input=native,
            tool_kind=state.kind,
            subject=subject_of(state.name, native),
            agent_id=state.key.agent_id,
            cwd=state.cwd,
            hidden=HIDDEN.get(state.name, ()),
        )


def finished(state: CallState) -> ToolFinished:
    """The event of a call's end, from all that is known of it."""
    state.finished = True
    denied = state.denied or (state.item is not None and state.item.status == "declined")
    return ToolFinished(
        agent_id=state.key.agent_id,
        tool_call_id=state.key.call,
        tool_name=state.name,
        tool_kind=state.kind,
        status="denied" if denied else "ok" if _succeeded(state) else "error",
        output=_output(state),
        by="agent" if denied and not state.denied else "",
    )


def _succeeded(state: CallState) -> bool:
    """A command that has no item was stopped by the sandbox; another call that has none, and is hooked, succeeded.

    The item of an image says nothing of how it went, and its hook comes only if it went well (0.171.0).
    """
    item = state.item
    if item is None or item.type == "imageView":
        return state.hooked_after and state.kind is not ToolKind.SHELL
    return item.status == "completed" and item.error is None and item.exit_code in {None, 0}


def _output(state: CallState) -> JsonValue:
    for known in (state.shown, state.reported):
        if known is not None:
            return known
    item = state.item
    if item is None:
        return None
    if item.error is not None:
        return item.error.message
    return item.output if item.type == "commandExecution" else item.result
