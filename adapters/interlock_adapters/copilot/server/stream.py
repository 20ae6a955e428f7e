"""What the server tells: text, calls, usage, sub-agents, warnings and retries, as events and as suspicions.

Of a call the start is told before its hook, with the arguments that the model gave, and in a sub-agent after it. A call
that the runtime makes itself, to read what ran in the background, comes past every hook (1.0.102).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from interlock.actions import Action, Emit, Key, Suspicion
from interlock.events import (
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
    UsageUpdated,
)
from interlock.framing.bounded import Bounded
from interlock.framing.reports import requested
from interlock_adapters.copilot.server.calls import Calls, CallState, finished
from interlock_adapters.copilot.server.hook_calls import HookCalls
from interlock_adapters.copilot.server.outcome import Memory
from interlock_adapters.copilot.wire import (
    CallFailure,
    Completed,
    ErrorTold,
    MessageTold,
    SessionEvent,
    Started,
    SubagentTold,
    UsageTold,
)

__all__ = ["Stream"]

_READERS = frozenset({"read_bash", "read_agent"})
"""What the runtime calls by itself."""
_SILENT = (
    *("assistant.idle", "assistant.intent", "assistant.message_start", "assistant.streaming_delta", "assistant.turn_"),
    *("assistant.tool_call_delta", "hook.", "model.", "pending_messages.", "permission.", "sandbox.decision"),
    *("session.background_tasks_changed", "session.compaction_start", "session.context_", "session.indexed_search"),
    *("session.mcp_server_", "session.model_change", "session.resume", "session.shutdown", "session.skills_loaded"),
    *("session.snapshot_rewind", "session.start", "session.title_changed", "session.todos_changed"),
    *(
        "session.tools_updated",
        "session.usage_info",
        "session.usage_record",
        "subagent.configured",
        "subagent.selected",
        "system.",
    ),
    *("tool.execution_partial_result", "user.message", "user_input.completed"),
)
"""What known events begin with that say nothing which another does not."""
_OWN_NEWS = frozenset({"cancellation", "configuration", "file_created", "model_retry"})
"""What `session.info` says that another event says too, or that we asked for."""
_CHANGES: Mapping[str, Literal["add", "update", "delete"]] = {"create": "add", "add": "add", "delete": "delete"}


class Stream:
    """Reads the events; what needs an answer is none of them."""

    def __init__(self, calls: Calls, hooks: HookCalls, memory: Memory) -> None:
        self._calls = calls
        self._hooks = hooks
        self._memory = memory
        self._own: Bounded[Key, None] = Bounded()
        """Calls that the runtime makes itself."""
        self._events: Mapping[str, Callable[[SessionEvent], Iterator[Action]]] = {
            "assistant.message": self._message,
            "assistant.message_delta": self._text,
            "assistant.reasoning": self._thoughts,
            "assistant.reasoning_delta": self._thought,
            "assistant.usage": self._usage,
            "model.call_failure": self._retry,
            "session.compaction_complete": self._compacted,
            "session.error": self._error,
            "session.info": self._info,
            "session.managed_settings_resolved": self._managed,
            "session.mcp_servers_loaded": self._servers,
            "session.truncation": self._compacted,
            "session.warning": self._warning,
            "subagent.completed": self._subagent_over,
            "subagent.failed": self._subagent_over,
            "subagent.started": self._subagent,
            "tool.execution_complete": self._call_over,
            "tool.execution_start": self._call_begins,
            "tool.shell_output": self._output,
        }

    def told(self, event: SessionEvent) -> Iterator[Action]:
        """One event; an unknown one is `Raw`."""
        read = self._events.get(event.type)
        if read is not None:
            yield from read(event)
        elif not event.type.startswith(_SILENT):
            yield Emit([Raw(data={"type": event.type, "data": event.data}, agent_id=self._agent(event))])

    def over(self) -> Iterator[Action]:
        """A turn is over: an abort says nothing of the calls that it cut short."""
        events = [finished(state) for state in self._calls.unfinished() if state.consulted]
        if events:
            yield Emit(events)

    def _agent(self, event: SessionEvent) -> str:
        return self._calls.agent_of(event.agent)

    # ---- Text -------------------------------------------------------------------------------------------------------

    def _text(self, event: SessionEvent) -> Iterator[Action]:
        yield Emit([TextDelta(text=str(event.data["deltaContent"]), agent_id=self._agent(event))])

    def _thought(self, event: SessionEvent) -> Iterator[Action]:
        yield Emit([ThinkingDelta(text=str(event.data["deltaContent"]), agent_id=self._agent(event))])

    def _thoughts(self, event: SessionEvent) -> Iterator[Action]:
        if text := str(event.data["content"]):
            yield Emit([Thinking(text=text, agent_id=self._agent(event))])

    def _message(self, event: SessionEvent) -> Iterator[Action]:
        told = MessageTold.model_validate(event.data)
        if event.agent is None and told.turn is not None:
            self._memory.model = told.model or self._memory.model
            if told.requests:
                self._memory.message = event.id
            else:
                self._memory.text = told.content
        if told.content:
            yield Emit([Text(text=told.content, agent_id=self._agent(event))])

    def _output(self, event: SessionEvent) -> Iterator[Action]:
        said, call = str(event.data["text"]), str(event.data["toolCallId"])
        yield Emit([ToolOutput(text=said, tool_call_id=call, agent_id=self._agent(event))])

    # ---- Calls ------------------------------------------------------------------------------------------------------

    def _call_begins(self, event: SessionEvent) -> Iterator[Action]:
        told, agent = Started.model_validate(event.data), self._agent(event)
        if not self._hooks.alive:
            yield Suspicion("not_confirmed", "the agent works, and our hooks were not called before", None, told.name)
        if told.turn is None and told.name in _READERS:
            self._own.remember(Key(agent, told.id), None)
            yield from self._read_by_itself(Key(agent, told.id), told.name)
            return
        state = self._calls.open(agent, told.id, told.name)
        if not state.announced:
            state.announced = True
            yield Emit([requested(self._calls.describe(state, told.arguments))])

    def _read_by_itself(self, key: Key, name: str) -> Iterator[Action]:
        words = "the agent shows the model what ran in the background, and nobody is asked about it"
        if self._hooks.at_once:
            yield Suspicion("no_decision", words, key, name)
        else:
            yield Emit([Notice(agent_id=key.agent_id, code="background_output", message=words)])

    def _call_over(self, event: SessionEvent) -> Iterator[Action]:
        told, agent = Completed.model_validate(event.data), self._agent(event)
        key = Key(agent, told.id)
        if key in self._own:
            del self._own[key]
            return
        state = self._calls.get(agent, told.id)
        if state is None:
            yield Suspicion("no_decision", "a call ended of which nothing had been said", key)
            return
        self._hooks.ended(state)
        yield from self._suspicions(state, told)
        changes = tuple(FileChange(path=one.path, change=_CHANGES.get(one.kind, "update")) for one in told.edits)
        if changes and told.success:
            yield Emit([FilesChanged(agent_id=agent, tool_call_id=told.id, changes=changes)])
        if not state.finished:
            yield Emit([finished(state, told)])

    def _suspicions(self, state: CallState, told: Completed) -> Iterator[Action]:
        """An output that was replaced must be what the model is shown."""
        if state.asked_after and state.shown and told.text != state.shown and not self._hooks.withheld:
            yield Suspicion("not_confirmed", "an output was not replaced", state.key, state.name)

    # ---- News -------------------------------------------------------------------------------------------------------

    def _subagent(self, event: SessionEvent) -> Iterator[Action]:
        told = SubagentTold.model_validate(event.data)
        state = next((one for one in self._calls.unfinished() if one.key.call == told.call), None)
        if state is None or not state.let_through:
            key = Key(self._agent(event), told.call)
            yield Suspicion("no_decision", "a sub-agent was started, and nobody had decided about it", key)
        started = SubagentStarted(
            subagent_id=event.agent or told.call, tool_call_id=told.call, description=told.description
        )
        yield Emit([started])

    def _subagent_over(self, event: SessionEvent) -> Iterator[Action]:
        told = SubagentTold.model_validate(event.data)
        yield Emit([SubagentFinished(subagent_id=event.agent or told.call, tool_call_id=told.call)])

    def _usage(self, event: SessionEvent) -> Iterator[Action]:
        self._memory.tokens.told(UsageTold.model_validate(event.data))
        yield Emit([UsageUpdated(usage=self._memory.tokens.usage(of_turn=False))])

    def _retry(self, event: SessionEvent) -> Iterator[Action]:
        told = CallFailure.model_validate(event.data)
        yield Emit([Retrying(attempt=told.attempt + 1, error=told.message, status=told.status)])

    def _error(self, event: SessionEvent) -> Iterator[Action]:
        told = ErrorTold.model_validate(event.data)
        if event.agent is None:
            self._memory.error = told
        else:
            yield self._notice(event, "agent_error", told.message, "error")

    def _warning(self, event: SessionEvent) -> Iterator[Action]:
        yield self._notice(event, "agent_warning", str(event.data.get("message")), "warning")

    def _info(self, event: SessionEvent) -> Iterator[Action]:
        if event.data.get("infoType") in _OWN_NEWS:
            return
        yield self._notice(event, f"agent_info_{event.data.get('infoType')}", str(event.data.get("message")), "info")

    def _compacted(self, event: SessionEvent) -> Iterator[Action]:
        yield Emit([Compacted(agent_id=self._agent(event), trigger=event.type.removeprefix("session."))])

    def _managed(self, event: SessionEvent) -> Iterator[Action]:
        if (source := event.data.get("source")) != "none":
            yield self._notice(event, "managed_settings", f"settings of an administrator apply: {source}", "warning")

    def _servers(self, event: SessionEvent) -> Iterator[Action]:
        servers = event.data.get("servers")
        for server in servers if isinstance(servers, list) else ():
            if isinstance(server, dict) and server.get("status") == "failed":
                yield self._notice(
                    event, "mcp_server_failed", f"the MCP server {server.get('name')} does not work", "warning"
                )

    def _notice(self, event: SessionEvent, code: str, message: str, level: Literal["info", "warning", "error"]) -> Emit:
        return Emit([Notice(agent_id=self._agent(event), level=level, code=code, message=message)])
