"""The lines of stdout: what they tell becomes events, and what they say of the end is kept (Copilot CLI 1.0.102).

A line whose type is not known is `Raw`. Calls that the runtime makes by itself, to read what ended in the background,
have no turn and no hook: they are said as notices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from interlock.actions import Action, Emit, Key, Stop, Suspicion
from interlock.adapter import Order
from interlock.events import (
    BaseEvent,
    Compacted,
    FileChange,
    FilesChanged,
    Notice,
    Raw,
    Retrying,
    SubagentFinished,
    SubagentStarted,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolOutput,
)
from interlock.framing.bounded import Bounded
from interlock.framing.reports import requested
from interlock.model import JsonValue
from interlock.outcome import Reason
from interlock.tools import MAIN_AGENT
from interlock_adapters.copilot.prompt.calls import Calls, CallState, finished
from interlock_adapters.copilot.prompt.hook_calls import HookCalls
from interlock_adapters.copilot.prompt.outcome import Told
from interlock_adapters.copilot.prompt.wire import ResultLine
from interlock_adapters.copilot.wire import (
    CallFailure,
    Completed,
    ErrorTold,
    FileEdit,
    MessageTold,
    SessionEvent,
    Started,
    SubagentTold,
)

__all__ = ["Stream"]

SYNTHETIC = frozenset({"read_bash", "read_agent"})
_QUIET = (
    *("assistant.idle", "assistant.intent", "assistant.message_start", "assistant.streaming_delta"),
    *("assistant.tool_call_delta", "assistant.turn_end", "assistant.turn_retry", "assistant.usage"),
    *("model.call_final_result", "model.call_finished", "model.call_start", "session.background_tasks_changed"),
    *("session.mcp_servers_loaded", "session.skills_loaded", "session.title_changed", "session.tools_updated"),
    *("session.custom_agents_updated", "session.mcp_server_status_changed", "session.usage_info"),
    *("session.compaction_start", "subagent.configured", "subagent.selected", "subagent.deselected"),
    *("tool.execution_partial_result", "tool.execution_progress", "agent.interrupted"),
)
"""Lines that tell nothing beyond the others."""
_CHANGES: Mapping[str, Literal["add", "update", "delete"]] = {"create": "add", "delete": "delete"}

Object = Mapping[str, JsonValue]


@dataclass(slots=True)
class Stream:
    """Reads the lines of one process."""

    order: Order
    calls: Calls
    hooks: HookCalls
    told: Told = field(default_factory=Told)
    _synthetic: Bounded[str, None] = field(default_factory=Bounded[str, None])

    def line(self, message: Object) -> Iterator[Action]:
        """One line; raises ValidationError for a known type that cannot be read."""
        self.told.spoken = True
        kind = message.get("type")
        if kind == "result":
            self._result(ResultLine.model_validate(message))
            return
        event = SessionEvent.model_validate(message)
        read = self._readers().get(event.type)
        if read is not None:
            yield from read(event)
        elif event.type not in _QUIET:
            yield Emit([Raw(data=cast("JsonValue", dict(message)))])

    def _readers(self) -> Mapping[str, Callable[[SessionEvent], Iterator[Action]]]:
        return {
            "abort": self._abort,
            "assistant.message": self._message,
            "assistant.message_delta": self._delta,
            "assistant.reasoning": self._reasoning,
            "assistant.reasoning_delta": self._delta,
            "assistant.turn_start": self._turn,
            "model.call_failure": self._failure,
            "session.compaction_complete": self._compacted,
            "session.error": self._error,
            "session.info": self._notice,
            "session.warning": self._notice,
            "subagent.completed": self._subagent_over,
            "subagent.failed": self._subagent_over,
            "subagent.started": self._subagent,
            "system.notification": self._notice,
            "tool.execution_complete": self._completed,
            "tool.execution_start": self._started,
            "tool.shell_output": self._output,
            "user.message": self._prompted,
        }

    # ---- The prompt, and the end ------------------------------------------------------------------------------------

    def _prompted(self, event: SessionEvent) -> Iterator[Action]:
        """The prompt stands in the conversation, and the model is asked next."""
        if event.agent is None and not self.hooks.released:
            message = (
                "the agent goes to the model without having called its hooks: what carries the chain does not work"
            )
            yield Suspicion("not_confirmed", message)
            yield Stop(Reason.UNGUARDED, message)

    def _turn(self, event: SessionEvent) -> Iterator[Action]:
        if event.agent is not None:
            return
        most = self.order.request.limits.max_turns
        if most is not None and self.told.turns >= most:
            yield Stop(Reason.MAX_TURNS, f"the agent wanted more than {most} turns")
            return
        self.told.turns += 1

    def _result(self, line: ResultLine) -> None:
        self.told.code = line.code
        self.told.session = line.session or self.told.session

    def _abort(self, event: SessionEvent) -> Iterator[Action]:
        if event.agent is None:
            self.told.aborted = True
        yield from ()

    def _error(self, event: SessionEvent) -> Iterator[Action]:
        told = ErrorTold.model_validate(event.data)
        if event.agent is None:
            self.told.error = told
        yield from ()

    # ---- What the model says ----------------------------------------------------------------------------------------

    def _delta(self, event: SessionEvent) -> Iterator[Action]:
        text = event.data.get("deltaContent")
        if not isinstance(text, str) or not text:
            return
        agent = event.agent or MAIN_AGENT
        thinks = event.type == "assistant.reasoning_delta"
        yield Emit([ThinkingDelta(agent_id=agent, text=text) if thinks else TextDelta(agent_id=agent, text=text)])

    def _reasoning(self, event: SessionEvent) -> Iterator[Action]:
        text = event.data.get("content")
        if isinstance(text, str) and text:
            yield Emit([Thinking(agent_id=event.agent or MAIN_AGENT, text=text)])

    def _message(self, event: SessionEvent) -> Iterator[Action]:
        message = MessageTold.model_validate(event.data)
        if event.agent is None:
            self.told.model = message.model or self.told.model
            self.told.text = None if message.requests else message.content
        if message.content:
            yield Emit([Text(agent_id=event.agent or MAIN_AGENT, text=message.content)])

    def _failure(self, event: SessionEvent) -> Iterator[Action]:
        told = CallFailure.model_validate(event.data)
        agent = event.agent or MAIN_AGENT
        yield Emit([Retrying(agent_id=agent, attempt=told.attempt + 1, error=told.message, status=told.status)])

    def _compacted(self, event: SessionEvent) -> Iterator[Action]:
        yield Emit([Compacted(agent_id=event.agent or MAIN_AGENT)])

    def _notice(self, event: SessionEvent) -> Iterator[Action]:
        code = event.data.get("warningType") or event.data.get("infoType") or event.type
        text = event.data.get("message") or event.data.get("content") or ""
        level: Literal["info", "warning"] = "warning" if event.type == "session.warning" else "info"
        yield Emit([Notice(agent_id=event.agent or MAIN_AGENT, level=level, code=f"agent_{code}", message=str(text))])

    # ---- Calls ------------------------------------------------------------------------------------------------------

    def _started(self, event: SessionEvent) -> Iterator[Action]:
        told = Started.model_validate(event.data)
        if told.turn is None and told.name in SYNTHETIC:
            self._synthetic.remember(told.id, None)
            message = f"the agent itself reads what has ended in the background ({told.name})"
            agent = event.agent or MAIN_AGENT
            yield Emit([Notice(agent_id=agent, code="agent_reads", message=message)])
            return
        state = self.calls.announce(event.agent, told)
        yield Emit([requested(self.calls.describe(state, told.arguments))])
        yield from self.hooks.announced()

    def _output(self, event: SessionEvent) -> Iterator[Action]:
        state = self.calls.get(event.agent, str(event.data.get("toolCallId")))
        text = event.data.get("text")
        if state is not None and isinstance(text, str) and text:
            yield Emit([ToolOutput(agent_id=state.key.agent_id, tool_call_id=state.key.call, text=text)])

    def _completed(self, event: SessionEvent) -> Iterator[Action]:
        told = Completed.model_validate(event.data)
        if told.id in self._synthetic:
            del self._synthetic[told.id]
            return
        state = self.calls.get(event.agent, told.id)
        if state is None:
            state = self.calls.announce(event.agent, Started(toolCallId=told.id, toolName="?"))
        unheard = told.success and not state.hooked_after
        yield Emit(list(_ended(state, told)))
        if unheard and state.let_through:
            yield _unconfirmed(state)

    # ---- Sub-agents -------------------------------------------------------------------------------------------------

    def _subagent(self, event: SessionEvent) -> Iterator[Action]:
        told = SubagentTold.model_validate(event.data)
        if event.agent is not None:
            yield Emit([SubagentStarted(subagent_id=event.agent, tool_call_id=told.call, description=told.description)])

    def _subagent_over(self, event: SessionEvent) -> Iterator[Action]:
        told = SubagentTold.model_validate(event.data)
        if event.agent is not None:
            yield Emit([SubagentFinished(subagent_id=event.agent, tool_call_id=told.call)])


def _ended(state: CallState, told: Completed) -> Iterator[BaseEvent]:
    yield finished(state, told)
    if told.edits and told.success:
        yield FilesChanged(
            agent_id=state.key.agent_id,
            tool_call_id=state.key.call,
            changes=tuple(map(_change, told.edits)),
        )


def _change(edit: FileEdit) -> FileChange:
    return FileChange(path=edit.path, change=_CHANGES.get(edit.kind, "update"))


def _unconfirmed(state: CallState) -> Suspicion:
    message = "succeeded, and the hook after it was not called: what carries the chain does not work"
    return Suspicion("not_confirmed", message, Key(state.key.agent_id, state.key.call), state.name)
