"""What the codec remembers of the calls of a run, within bounds, and which sub-agent makes them.

The stream names a sub-agent by the call that started it (`parent_tool_use_id`), hooks by an id of its own; both become
the latter.
"""

from __future__ import annotations

from dataclasses import dataclass

from interlock.actions import Key
from interlock.framing.bounded import Bounded
from interlock.model import JsonValue
from interlock.tools import MAIN_AGENT, ToolCall, ToolKind
from interlock_adapters.claude.tools import canonical_name, kind_of, subject_of

__all__ = ["CallState", "Calls"]


@dataclass(slots=True)
class CallState:
    """One call, from its first mention to its result."""

    key: Key
    name: str
    kind: ToolKind
    announced: bool = False
    consulted: bool = False
    let_through: bool = False
    """A verdict before the call was other than a refusal."""
    denied_by: str | None = None
    """`""` where we denied it, `agent` where the CLI did."""
    asked: JsonValue = None
    answered: JsonValue = None
    """A question's input, and the same with the person's answers in it, which is what then runs; a plan's as asked."""
    changed_path: str | None = None
    cwd: str | None = None
    """Where the call runs, as a hook said; the CLI's own question does not."""
    finished: bool = False
    is_plan_file: bool = False
    """It writes down the agent's plan, in the private config home."""


class Calls:
    """All calls of a run."""

    def __init__(self) -> None:
        self._calls: Bounded[str, CallState] = Bounded()
        self._agents: Bounded[str, str] = Bounded()

    def agent_of(self, parent: str | None, agent_id: str | None = None) -> str:
        """The id of the sub-agent that a line is about."""
        if agent_id is not None:
            if parent is not None:
                self.name_agent(parent, agent_id)
            return agent_id
        return MAIN_AGENT if parent is None else self._agents.get(parent, parent)

    def name_agent(self, parent: str, agent_id: str) -> None:
        """The sub-agent that the call `parent` started has this id."""
        self._agents.remember(parent, agent_id)

    def started_agent(self, call_id: str) -> str | None:
        """The sub-agent that a call started."""
        return self._agents.get(call_id)

    def get(self, call_id: str) -> CallState | None:
        """What is known of a call."""
        return self._calls.get(call_id)

    def open(self, call_id: str, name: str, agent_id: str) -> CallState:
        """The state of a call, made at its first mention."""
        known = self._calls.get(call_id)
        if known is not None:
            return known
        state = CallState(Key(agent_id, call_id), canonical_name(name), kind_of(name))
        return self._calls.remember(call_id, state)

    def describe(self, state: CallState, native: JsonValue, cwd: str | None = None) -> ToolCall:
        """The call in the shared vocabulary."""
        state.cwd = cwd or state.cwd
        return ToolCall(
            tool_call_id=state.key.call,
            tool_name=state.name,
            input=native,
            tool_kind=ToolKind.INTERNAL if state.is_plan_file else state.kind,
            subject=subject_of(state.name, native),
            agent_id=state.key.agent_id,
            cwd=state.cwd,
        )
