"""The sans-IO translator of one `codex exec`: the prompt goes in at once, lines come out.

Nothing here asks or decides: what may run is said by the sandbox. A line that cannot be understood is `Raw`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

from pydantic import ValidationError

from interlock.actions import Action, CloseInput, Emit, Ending, Ready, Send
from interlock.adapter import Order
from interlock.events import (
    BaseEvent,
    FileChange,
    FilesChanged,
    Notice,
    Raw,
    Retrying,
    SubagentStarted,
    Text,
    Thinking,
    ToolFinished,
)
from interlock.framing.bounded import Bounded
from interlock.framing.json_objects import parse_text
from interlock.framing.line_adapter import LineCodec
from interlock.framing.reports import how_ended, requested
from interlock.model import JsonValue
from interlock.outcome import Reason, Status
from interlock.request import NewSession
from interlock.tools import ToolCall
from interlock_adapters.codex.exec.outcome import api_status, reason_of, usage_of
from interlock_adapters.codex.exec.wire import ErrorLine, Item, ItemLine, ThreadLine, TurnLine
from interlock_adapters.codex.shell import ran_command
from interlock_adapters.codex.tools import PATCH, SHELL, describe, mcp_name

__all__ = ["ExecCodec"]

_REFUSALS = frozenset({"user cancelled MCP tool call", "user rejected MCP tool call"})
"""What it says of a call that it wanted to ask about, where nobody can be asked: no person said so."""
_CHANGES: Mapping[str, Literal["add", "update", "delete"]] = {"add": "add", "delete": "delete"}

Object = Mapping[str, JsonValue]


class ExecCodec(LineCodec):
    """Reads one process, which is one turn."""

    def __init__(self, order: Order) -> None:
        super().__init__()
        self._order = order
        self._fresh = isinstance(order.request.session, NewSession)
        self._session: str | None = None
        self._text: str | None = None
        self._begun: Bounded[str, None] = Bounded()
        self._retries = 0

    # ---- What we say ------------------------------------------------------------------------------------------------

    def start(self) -> Sequence[Action]:
        """There is nothing to say before the prompt."""
        return ()

    def prompt(self, prompt: str) -> Sequence[Action]:
        """The whole of its input; it waits for the end of that."""
        return (Send(prompt.encode()), CloseInput())

    def interrupt(self) -> Sequence[Action]:
        """It has no word for that: the run ends, and the process by a signal."""
        return self._end(Ending(Status.CANCELLED))

    # ---- What it says -----------------------------------------------------------------------------------------------

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        """Without the end of a turn the process crashed, or never began one."""
        del files
        how = how_ended(code, signal)
        reason, message = Reason.CRASHED, f"the agent ended without a result ({how})"
        if self._session is None and code == 1 and not self._fresh:
            reason, message = Reason.SESSION_NOT_FOUND, f"the agent ended before it went on with the session ({how})"
        elif self._session is None and code in {1, 2}:
            reason, message = Reason.BAD_REQUEST, f"the agent ended before it began ({how})"
        return self._end(Ending(Status.FAILED, reason, message))

    def message(self, message: Object, /) -> Sequence[Action]:
        """One line."""
        try:
            return list(self._told(message))
        except ValidationError as error:
            notice = Notice(level="error", code="unreadable_line", message=str(error))
            unread = Emit([Raw(data=dict(message)), notice])
            if not str(message.get("type")).startswith("turn."):
                return (unread,)
            ending = Ending(Status.FAILED, Reason.PROTOCOL, "the end of the turn cannot be read")
            return (unread, *self._end(ending))

    def _told(self, message: Object) -> Iterator[Action]:
        match message.get("type"):
            case "thread.started":
                self._session = ThreadLine.model_validate(message).thread_id
                yield Ready(session_id=self._session, model=self._order.request.model)
            case "turn.started" | "item.updated":
                return
            case "item.started":
                yield from _emitted(self._begins(ItemLine.model_validate(message).item))
            case "item.completed":
                yield from _emitted(self._ends(ItemLine.model_validate(message).item, message))
            case "error":
                told = ErrorLine.model_validate(message)
                self._retries += 1
                status = api_status(told.message)
                yield Emit([Retrying(attempt=self._retries, error=told.message, status=status)])
            case "turn.completed" | "turn.failed":
                yield from self._turn_over(TurnLine.model_validate(message))
            case _:
                yield Emit([Raw(data=dict(message))])

    # ---- Items ------------------------------------------------------------------------------------------------------

    def _begins(self, item: Item) -> Iterator[BaseEvent]:
        call = _call(item)
        if call is None or call.tool_call_id in self._begun:
            return
        self._begun.remember(call.tool_call_id, None)
        yield requested(call)

    def _ends(self, item: Item, message: Object) -> Iterator[BaseEvent]:
        call = _call(item)
        if call is not None:
            yield from self._begins(item)
            yield from _finished(item, call)
            return
        match item.type:
            case "agent_message":
                self._text, self._retries = item.text, 0
                yield Text(text=item.text)
            case "reasoning":
                yield Thinking(text=item.text)
            case "error":
                yield Notice(level="warning", code="agent_warning", message=item.message)
            case _:
                yield Raw(data=dict(message))

    def _turn_over(self, told: TurnLine) -> Sequence[Action]:
        wants = self._order.request.output_schema is not None
        usage = usage_of(told.usage, fresh=self._fresh)
        if told.error is not None:
            message = told.error.message
            ending = Ending(Status.FAILED, reason_of(message), message, api_status=api_status(message))
        elif not (self._text or "").strip():
            ending = Ending(Status.FAILED, Reason.NO_OUTPUT, "the final answer is empty", usage=usage)
        else:
            structured = parse_text(self._text) if wants else None
            ending = Ending(Status.COMPLETED, text=self._text, structured=structured, usage=usage)
        return self._end(replace(ending, model=self._order.request.model))

    def _end(self, ending: Ending) -> Sequence[Action]:
        return self.finish(replace(ending, session_id=self._session, final=True))


def _call(item: Item) -> ToolCall | None:
    """The call that an item is about, under the item's own id; None for an item that is none."""
    match item.type:
        case "command_execution":
            name, native = SHELL, cast("JsonValue", {"command": ran_command(item.command or "")})
        case "file_change":
            changed: JsonValue = [{"path": one.path, "kind": one.kind} for one in item.changes]
            name, native = PATCH, cast("JsonValue", {"changes": changed})
        case "mcp_tool_call":
            name, native = mcp_name(item.server, item.tool), item.arguments
        case "web_search":
            name, native = "web_search", cast("JsonValue", {"query": item.query})
        case "collab_tool_call":
            name, native = item.tool, cast("JsonValue", {"message": item.prompt})
        case _:
            return None
    return describe(ToolCall(tool_call_id=item.id, tool_name=name, input=native))


def _finished(item: Item, call: ToolCall) -> Iterator[BaseEvent]:
    refused = item.error is not None and item.error.message in _REFUSALS
    failed = item.status == "failed" or item.error is not None or item.exit_code not in {None, 0}
    output = item.error.message if item.error else item.output if item.output is not None else item.result
    yield ToolFinished(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        tool_kind=call.tool_kind,
        status="denied" if refused else "error" if failed else "ok",
        output=output,
        by="agent" if refused else "",
    )
    if item.changes and not failed:
        changes = tuple(FileChange(path=one.path, change=_CHANGES.get(one.kind, "update")) for one in item.changes)
        yield FilesChanged(tool_call_id=call.tool_call_id, changes=changes)
    for thread in item.receivers:
        yield SubagentStarted(subagent_id=thread, tool_call_id=call.tool_call_id, description=item.prompt or "")


def _emitted(events: Iterator[BaseEvent]) -> Iterator[Action]:
    if found := list(events):
        yield Emit(found)
