"""What the stream tells: messages, tool results, sub-agents, retries and limits as events.

The stream shows the model's original input and may be late (a call's line can follow the question about it), so a call
is announced once, by whoever mentions it first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import cast

from pydantic import ValidationError

from interlock.events import (
    BaseEvent,
    Compacted,
    FileChange,
    FilesChanged,
    PlanEntry,
    PlanUpdated,
    RateLimited,
    Raw,
    Retrying,
    SubagentFinished,
    SubagentStarted,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolFinished,
)
from interlock.framing.reports import requested
from interlock.model import JsonValue
from interlock.outcome import RateLimit
from interlock.tools import ToolKind
from interlock_adapters.claude.calls import Calls, CallState
from interlock_adapters.claude.messages import Messages
from interlock_adapters.claude.outcome import Memory
from interlock_adapters.claude.tools import changed_path
from interlock_adapters.claude.wire import (
    ApiRetry,
    AssistantLine,
    JsonObject,
    PermissionDenied,
    RateLimitLine,
    TaskLine,
    UserLine,
)

__all__ = ["Stream"]

Object = dict[str, JsonValue]

_SILENT = frozenset({"tool_progress", "command_lifecycle", "keep_alive"})
_SILENT_SYSTEM = frozenset({
    "init", "status", "thinking_tokens", "ui_invalidate", "background_tasks_changed", "task_progress", "task_updated",
    "task_notification",
})  # fmt: skip
"""Known lines that say nothing which another line does not."""


class Stream:
    """Reads the lines that tell what happens; the codec keeps those that need an answer."""

    def __init__(self, calls: Calls, memory: Memory, messages: Messages) -> None:
        self._calls = calls
        self._memory = memory
        self._messages = messages
        self._lines: Mapping[str, Callable[[Object], Iterator[BaseEvent]]] = {
            "assistant": self._assistant,
            "user": self._user,
            "stream_event": self._stream_event,
            "rate_limit_event": self._rate_limit,
            "system": self._system,
        }
        self._systems: Mapping[str, Callable[[Object], Iterator[BaseEvent]]] = {
            "api_retry": self._retry,
            "compact_boundary": self._compacted,
            "permission_denied": self._denied,
            "task_started": self._task,
        }

    def events(self, message: Object) -> Iterator[BaseEvent]:
        """The events of one line; an unknown one is `Raw`."""
        kind = message.get("type")
        read = self._lines.get(kind) if isinstance(kind, str) else None
        if read is not None:
            yield from read(message)
        elif kind not in _SILENT:
            yield Raw(data=message)

    # ---- Messages ---------------------------------------------------------------------------------------------------

    def _assistant(self, message: Object) -> Iterator[BaseEvent]:
        line = AssistantLine.model_validate(message)
        if line.error is not None:
            self._memory.api_error = line.error
            yield Raw(data=message)
            return
        self._memory.api_error = self._memory.retry_error = None
        agent = self._calls.agent_of(line.parent_tool_use_id, line.agent_id)
        for block in _blocks(line.message.content):
            yield from self._block(block, agent)

    def _block(self, block: JsonObject, agent: str) -> Iterator[BaseEvent]:
        match block:
            case {"type": "text", "text": str(text)}:
                yield Text(text=text, agent_id=agent)
            case {"type": "thinking", "thinking": str(text)}:
                if text:
                    yield Thinking(text=text, agent_id=agent)
            case {"type": "redacted_thinking"}:
                return
            case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
                yield from self._tool_use(call_id, name, block.get("input"), agent)
            case _:
                yield Raw(data=block, agent_id=agent)

    def _tool_use(self, call_id: str, name: str, native: JsonValue, agent: str) -> Iterator[BaseEvent]:
        state = self._calls.open(call_id, name, agent)
        state.changed_path = changed_path(state.name, native)
        if not state.announced:
            state.announced = True
            yield requested(self._calls.describe(state, native))
            yield from _plan(state, native)

    def _user(self, message: Object) -> Iterator[BaseEvent]:
        line = UserLine.model_validate(message)
        if line.replay:
            self._messages.repeated(line.uuid or "")
            return
        agent = self._calls.agent_of(line.parent_tool_use_id, line.agent_id)
        results = [block for block in _blocks(line.message.content) if block.get("type") == "tool_result"]
        if not results:
            yield Raw(data=message, agent_id=agent)
        for block in results:
            yield from self._tool_result(block, agent, message)

    def _tool_result(self, block: JsonObject, agent: str, message: Object) -> Iterator[BaseEvent]:
        call_id = block.get("tool_use_id")
        if not isinstance(call_id, str):
            yield Raw(data=block, agent_id=agent)
            return
        state = self._calls.get(call_id) or self._calls.open(call_id, "", agent)
        if state.finished:
            return
        state.finished = True
        failed = block.get("is_error") is True
        if state.denied_by is None and _rejected(call_id, message.get("tool_result_meta")):
            state.denied_by = "agent"
        denied = failed and state.denied_by is not None
        yield ToolFinished(
            agent_id=state.key.agent_id,
            tool_call_id=call_id,
            tool_name=state.name,
            tool_kind=state.kind,
            status="denied" if denied else "error" if failed else "ok",
            output=_shown(block.get("content")),
            by=state.denied_by or "" if denied else "",
        )
        if not failed:
            yield from _files(state, message.get("tool_use_result"))
        if state.kind is ToolKind.AGENT and (started := self._calls.started_agent(call_id)) is not None:
            yield SubagentFinished(agent_id=state.key.agent_id, subagent_id=started, tool_call_id=call_id)

    def _stream_event(self, message: Object) -> Iterator[BaseEvent]:
        """Deltas that did not take the short way; what else stands here comes again as a whole."""
        parent = message.get("parent_tool_use_id")
        agent = self._calls.agent_of(parent if isinstance(parent, str) else None)
        match message.get("event"):
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
                yield TextDelta(text=text, agent_id=agent)
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(text)}}:
                yield ThinkingDelta(text=text, agent_id=agent)
            case _:
                return

    # ---- News of the CLI itself -------------------------------------------------------------------------------------

    def _system(self, message: Object) -> Iterator[BaseEvent]:
        subtype = message.get("subtype")
        read = self._systems.get(subtype) if isinstance(subtype, str) else None
        if read is not None:
            yield from read(message)
        elif subtype not in _SILENT_SYSTEM:
            yield Raw(data=message)

    def _retry(self, message: Object) -> Iterator[BaseEvent]:
        retry = ApiRetry.model_validate(message)
        self._memory.retry_error = retry.error
        delay = None if retry.retry_delay_ms is None else retry.retry_delay_ms / 1000
        yield Retrying(
            attempt=retry.attempt,
            max_attempts=retry.max_retries,
            delay=delay,
            error=retry.error or "",
            status=retry.error_status,
        )

    def _rate_limit(self, message: Object) -> Iterator[BaseEvent]:
        told = RateLimitLine.model_validate(message).rate_limit_info
        blocking = told.status == "rejected" and not told.uses_overage
        limit = RateLimit(status=told.status, window=told.window, resets_at=told.resets_at, blocking=blocking)
        self._memory.rate_limit = limit
        yield RateLimited(limit=limit)

    def _compacted(self, message: Object) -> Iterator[BaseEvent]:
        match message.get("compact_metadata"):
            case {"trigger": str(trigger)}:
                yield Compacted(trigger=trigger)
            case _:
                yield Compacted()

    def _denied(self, message: Object) -> Iterator[BaseEvent]:
        denied = PermissionDenied.model_validate(message)
        state = self._calls.get(denied.tool_use_id)
        if state is not None and state.denied_by is None:
            state.denied_by = "agent"
        yield from ()

    def _task(self, message: Object) -> Iterator[BaseEvent]:
        task = TaskLine.model_validate(message)
        if task.task_type != "local_agent" or task.tool_use_id is None:
            return
        self._calls.name_agent(task.tool_use_id, task.task_id)
        parent = self._calls.get(task.tool_use_id)
        yield SubagentStarted(
            agent_id=parent.key.agent_id if parent else "main",
            subagent_id=task.task_id,
            tool_call_id=task.tool_use_id,
            description=task.description or "",
        )


def _blocks(content: str | list[JsonObject]) -> list[JsonObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _shown(content: JsonValue) -> JsonValue:
    """The text of a result that is all text, else its blocks."""
    if not isinstance(content, list):
        return content
    texts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
    if len(texts) != len(content):
        return content
    return "\n".join(text for text in texts if isinstance(text, str))


def _rejected(call_id: str, told: JsonValue) -> bool:
    """Whether the CLI says that its own permissions stopped a call; 2.1.332 does, beside the result."""
    for entry in told if isinstance(told, list) else ():
        match entry:
            case {"id": str(named), "permission_decision": {"decision": "reject"}} if named == call_id:
                return True
            case _:
                continue
    return False


def _files(state: CallState, told: JsonValue) -> Iterator[BaseEvent]:
    if state.changed_path is None:
        return
    added = isinstance(told, dict) and told.get("type") == "create"
    change = FileChange(path=state.changed_path, change="add" if added else "update")
    yield FilesChanged(agent_id=state.key.agent_id, tool_call_id=state.key.call, changes=(change,))


def _plan(state: CallState, native: JsonValue) -> Iterator[BaseEvent]:
    """TodoWrite carries the whole list."""
    todos = native.get("todos") if state.name == "TodoWrite" and isinstance(native, dict) else None
    if not isinstance(todos, list):
        return
    try:
        entries = tuple(
            PlanEntry.model_validate({"text": todo.get("content"), "status": todo.get("status")})
            for todo in cast("list[JsonObject]", todos)
        )
    except (ValidationError, AttributeError):
        return
    yield PlanUpdated(agent_id=state.key.agent_id, entries=entries)
