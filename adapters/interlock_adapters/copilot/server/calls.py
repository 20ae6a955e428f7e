"""What the codec remembers of the calls of a run, within bounds, and which agent makes them.

A sub-agent has an id of its own, which is its `agent_id`. A call has an id in events and in permission requests; hooks
before and after a call do not name it (1.0.102), which is `hook_calls`' affair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from interlock.actions import Key
from interlock.events import ToolFinished
from interlock.framing.bounded import Bounded
from interlock.model import JsonValue
from interlock.tools import MAIN_AGENT, ToolCall, ToolKind
from interlock_adapters.copilot.tools import Tools
from interlock_adapters.copilot.wire import Completed

__all__ = ["CallState", "Calls", "finished"]


@dataclass(slots=True)
class CallState:
    """One call, from its first mention to its end."""

    key: Key
    name: str
    kind: ToolKind
    announced: bool = False
    consulted: bool = False
    let_through: bool = False
    denied: bool = False
    decided: JsonValue = None
    """The input that was let through, in the shared vocabulary."""
    told: JsonValue = None
    """The input that the agent was told to run, with our own wrapping."""
    cwd: str | None = None
    asked_after: bool = False
    """The hook after the call was asked."""
    reported: str | None = None
    """The output as the hook after the call was told of it."""
    shown: str | None = None
    """What the model was shown in place of the output, or of the call."""
    finished: bool = False

    @property
    def may_run(self) -> bool:
        """Whether the call may be running, or begin to."""
        return not (self.denied or self.asked_after or self.finished)


@dataclass(slots=True)
class Calls:
    """All calls of a run."""

    tools: Tools
    session: str | None = None
    _calls: Bounded[Key, CallState] = field(default_factory=Bounded[Key, CallState])

    def agent_of(self, agent: str | None) -> str:
        """The agent by the id that the wire has for it."""
        return MAIN_AGENT if agent is None or agent == self.session else agent

    def get(self, agent_id: str, call_id: str) -> CallState | None:
        """What is known of a call."""
        return self._calls.get(Key(agent_id, call_id))

    def open(self, agent_id: str, call_id: str, name: str) -> CallState:
        """The state of a call, made at its first mention."""
        key = Key(agent_id, call_id)
        return self._calls.get(key) or self._calls.remember(key, CallState(key, name, self.tools.kind_of(name)))

    def of_tool(self, agent_id: str, name: str) -> Iterator[CallState]:
        """The calls of a tool that one agent makes and that have not ended."""
        for key, state in list(self._calls.items()):
            if key.agent_id == agent_id and state.name == name and not state.finished:
                yield state

    def unfinished(self, agent_id: str | None = None) -> Iterator[CallState]:
        """The calls, of one agent or of all, that have not ended."""
        for key, state in list(self._calls.items()):
            if agent_id in {None, key.agent_id} and not state.finished:
                yield state

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


def finished(state: CallState, told: Completed | None = None) -> ToolFinished:
    """The event of a call's end; None: the agent says nothing of it, as of those that an abort cut short."""
    state.finished = True
    refused = told is not None and told.error is not None and told.error.code in {"denied", "rejected"}
    denied = state.denied or (refused and not state.let_through)
    known = (state.shown, state.reported, None if told is None else told.text)
    return ToolFinished(
        agent_id=state.key.agent_id,
        tool_call_id=state.key.call,
        tool_name=state.name,
        tool_kind=state.kind,
        status="denied" if denied else "ok" if told is not None and told.succeeded else "error",
        output=next((text for text in known if text is not None), None),
        by="agent" if denied and not state.denied else "",
    )
