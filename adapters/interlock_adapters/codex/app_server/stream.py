"""What the server tells: items, deltas, hooks, usage, warnings and retries, as events and as suspicions.

Calls are told twice, by hooks and by items, and a call that was denied only by its hook. An item that runs without a
yes, after a no, or with another command than was told, means that the promise broke: that is seen when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from interlock.actions import Action, Emit, Key, Suspicion
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
    SubagentStarted,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolOutput,
    UsageUpdated,
)
from interlock.framing.bounded import Bounded
from interlock.framing.json_objects import parse_object
from interlock.framing.reports import requested, warning
from interlock.model import JsonValue
from interlock.outcome import RateLimit
from interlock.tools import MAIN_AGENT
from interlock_adapters.codex.app_server.calls import Calls, CallState, finished
from interlock_adapters.codex.app_server.hook_calls import HookCalls, shown
from interlock_adapters.codex.app_server.outcome import Memory, status_of
from interlock_adapters.codex.app_server.wire import ErrorTold, HookTold, Item, ItemTold, PlanTold, TokensTold
from interlock_adapters.codex.hooks import SOURCE
from interlock_adapters.codex.shell import ran_command
from interlock_adapters.codex.tools import PATCH, SHELL, mcp_name

__all__ = ["Stream", "raw"]

Object = Mapping[str, JsonValue]

_SILENT = (
    *("account/updated", "account/login/", "app/", "fs/", "hook/", "item/autoApprovalReview/"),
    *("item/commandExecution/terminalInteraction", "item/fileChange/", "item/mcpToolCall/progress", "item/plan/"),
    *("item/reasoning/summaryPartAdded", "item/reasoning/textDelta", "mcpServer/", "model/", "modelProvider/"),
    *("project/", "remoteControl/", "skills/", "thread/", "turn/", "windows"),
)
"""What known messages begin with that say nothing which another does not."""
_OWN_ITEMS = frozenset({
    "enteredReviewMode", "exitedReviewMode", "functionCallOutput", "hookPrompt", "plan", "sleep", "userMessage",
})  # fmt: skip
_CHANGES: Mapping[str, Literal["add", "update", "delete"]] = {"add": "add", "delete": "delete"}
_STEPS: Mapping[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "inProgress": "in_progress",
    "completed": "completed",
}


class _Window(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    used: int = Field(default=0, alias="usedPercent")
    resets_at: float | None = Field(default=None, alias="resetsAt")
    minutes: int | None = Field(default=None, alias="windowDurationMins")


class Stream:
    """Reads the notifications; what needs an answer is none of them."""

    def __init__(self, calls: Calls, hooks: HookCalls, memory: Memory) -> None:
        self._calls = calls
        self._hooks = hooks
        self._memory = memory
        self._subagents: Bounded[str, None] = Bounded()
        self._retries = 0
        self._line = b""
        """The line that is being read."""
        self._methods: Mapping[str, Callable[[Object], Iterator[Action]]] = {
            "account/rateLimits/updated": self._limits,
            "configWarning": self._config_warning,
            "error": self._error,
            "hook/completed": self._hook_over,
            "hook/started": self._hook_begins,
            "item/agentMessage/delta": self._text,
            "item/commandExecution/outputDelta": self._output,
            "item/completed": self._item_over,
            "item/reasoning/summaryTextDelta": self._thought,
            "item/started": self._item_begins,
            "thread/compacted": self._compacted,
            "thread/tokenUsage/updated": self._tokens,
            "turn/plan/updated": self._plan,
            "warning": self._warning,
        }

    def told(self, method: str, params: JsonValue, line: bytes) -> Iterator[Action]:
        """One notification, and the line in which it stood; an unknown one is `Raw`."""
        self._line = line
        read = self._methods.get(method)
        if read is not None and isinstance(params, dict):
            yield from read(params)
        elif not method.startswith(_SILENT):
            yield Emit([raw(line)])

    def over(self, agent_id: str) -> Iterator[Action]:
        """A turn of this agent is over: its calls are."""
        events = [finished(state) for state in self._calls.unfinished(agent_id) if state.item or state.let_through]
        if events:
            yield Emit(events)

    # ---- Deltas -----------------------------------------------------------------------------------------------------

    def _text(self, told: Object) -> Iterator[Action]:
        yield Emit([TextDelta(text=str(told["delta"]), agent_id=self._agent(told))])

    def _thought(self, told: Object) -> Iterator[Action]:
        yield Emit([ThinkingDelta(text=str(told["delta"]), agent_id=self._agent(told))])

    def _output(self, told: Object) -> Iterator[Action]:
        yield Emit(
            [
                ToolOutput(text=str(told["delta"]), tool_call_id=str(told["itemId"]), agent_id=self._agent(told)),
            ]
        )

    def _agent(self, told: Object) -> str:
        thread = told.get("threadId")
        return self._calls.agent_of(thread if isinstance(thread, str) else None)

    # ---- Items ------------------------------------------------------------------------------------------------------

    def _item_begins(self, message: Object) -> Iterator[Action]:
        told = ItemTold.model_validate(message)
        if told.item.type not in _OWN_ITEMS and not self._hooks.alive:
            yield Suspicion("not_confirmed", "the agent works, and none of our hooks was called before")
        name = _tool_of(told.item)
        if name is not None:
            state, events = self._state(told, name)
            state.changed = tuple(one.path for one in told.item.changes)
            if events:
                yield Emit(events)
            yield from _suspicions(state, told.item)

    def _item_over(self, message: Object) -> Iterator[Action]:
        told = ItemTold.model_validate(message)
        item, agent = told.item, self._calls.agent_of(told.thread)
        match item.type:
            case "agentMessage":
                if agent == MAIN_AGENT:
                    self._memory.text = item.text
                self._retries = 0
                yield Emit([Text(text=item.text, agent_id=agent)])
            case "reasoning":
                if text := "\n\n".join(item.summary):
                    yield Emit([Thinking(text=text, agent_id=agent)])
            case "contextCompaction":
                yield Emit([Compacted(agent_id=agent)])
            case "subAgentActivity" | "collabAgentToolCall":
                yield from self._subagents_told(told)
            case _ if (name := _tool_of(item)) is not None:
                yield from self._call_over(told, name)
            case other if other not in _OWN_ITEMS:
                yield Emit([raw(self._line, agent)])
            case _:
                return

    def _state(self, told: ItemTold, name: str) -> tuple[CallState, list[BaseEvent]]:
        state = self._calls.open(told.thread, told.item.id, name)
        if state.announced:
            return state, []
        state.announced = True
        return state, [requested(self._calls.describe(state, _input(told.item)))]

    def _call_over(self, told: ItemTold, name: str) -> Iterator[Action]:
        """The end of a call is told once the hook after it has had its say; where there is none, at once."""
        state, events = self._state(told, name)
        state.item = told.item
        changes = tuple(
            FileChange(path=one.path, change=_CHANGES.get(one.kind.type, "update")) for one in told.item.changes
        )
        if changes and told.item.status == "completed":
            events.append(FilesChanged(agent_id=state.key.agent_id, tool_call_id=state.key.call, changes=changes))
        unhooked = state.let_through and told.item.status != "declined" and _is_unhooked(told.item)
        if not state.finished and not unhooked and (not state.let_through or told.item.status == "declined"):
            events.append(finished(state))
        if events:
            yield Emit(events)
        if unhooked and not state.finished:
            yield from self._hooks.failed(state, _said(told.item))

    def _subagents_told(self, told: ItemTold) -> Iterator[Action]:
        """A sub-agent was started, or talked to: of the call that did so only hooks tell in full."""
        item = told.item
        state = self._calls.get(told.thread, item.id)
        if state is not None:
            state.item = item.model_copy(update={"status": item.status or "completed"})
        started = [item.agent] if item.agent and item.kind == "started" else item.receivers
        events = [event for thread in started for event in self._subagent(thread, item.id, item.prompt or "")]
        if events and (state is None or not state.let_through):
            key = Key(self._calls.agent_of(told.thread), item.id)
            yield Suspicion("no_decision", "a sub-agent was started, and nobody had decided about it", key)
        if events:
            yield Emit(events)

    # ---- Hooks ------------------------------------------------------------------------------------------------------

    def _hook_begins(self, message: Object) -> Iterator[Action]:
        told = HookTold.model_validate(message)
        if told.run.event == "preModelRequest":
            yield from self._hooks.asks_model(self._calls.agent_of(told.thread))
            return
        state = self._calls.get(told.thread, _call_id(told))
        if told.run.event == "postToolUse" and state is not None:
            yield from self._hooks.runs_after(state)

    def _hook_over(self, message: Object) -> Iterator[Action]:
        told = HookTold.model_validate(message)
        state = self._calls.get(told.thread, _call_id(told))
        words = "; ".join(entry.text for entry in told.run.entries)
        if told.run.status not in {"completed", "blocked"}:
            key, name = (state.key, state.name) if state else (None, None)
            yield Suspicion("not_confirmed", f"a hook of ours ended as {told.run.status}: {words}", key, name)
        elif state is not None and told.run.event == "preToolUse":
            state.hook_held = told.run.status == "completed"
            if state.denied and told.run.status != "blocked":
                yield Suspicion("not_confirmed", "a denial was not taken as one", state.key, state.name)
        elif state is not None and told.run.event == "postToolUse":
            if state.shown is not None and told.run.status != "blocked":
                yield Suspicion("not_confirmed", "an output was not replaced", state.key, state.name)
            if not state.finished:
                yield Emit([finished(state)])

    # ---- News -------------------------------------------------------------------------------------------------------

    def _subagent(self, thread: str, call: str, prompt: str) -> Iterator[BaseEvent]:
        if thread not in self._subagents:
            self._subagents.remember(thread, None)
            yield SubagentStarted(subagent_id=thread, tool_call_id=call, description=prompt)

    def _tokens(self, message: Object) -> Iterator[Action]:
        told = TokensTold.model_validate(message)
        earlier = told.thread == self._calls.main and told.turn not in self._memory.turns
        self._memory.tokens.told(told.thread, told.usage, earlier=earlier)
        yield Emit([UsageUpdated(usage=self._memory.tokens.usage(of_turn=False))])

    def _plan(self, message: Object) -> Iterator[Action]:
        told = PlanTold.model_validate(message)
        entries = tuple(PlanEntry(text=step.step, status=_STEPS[step.status]) for step in told.plan)
        yield Emit([PlanUpdated(agent_id=self._calls.agent_of(told.thread), entries=entries)])

    def _limits(self, message: Object) -> Iterator[Action]:
        told = message.get("rateLimits")
        if not isinstance(told, dict):
            return
        for name in ("primary", "secondary"):
            if told.get(name) is not None:
                window = _Window.model_validate(told[name])
                over = window.used >= 100
                status = f"{window.used}% used"
                limit = RateLimit(status=status, window=name, resets_at=window.resets_at, blocking=over)
                if over or self._memory.rate_limit is None:
                    self._memory.rate_limit = limit
                yield Emit([RateLimited(limit=limit)])

    def _error(self, message: Object) -> Iterator[Action]:
        told = ErrorTold.model_validate(message)
        if told.will_retry:
            self._retries += 1
            status = status_of(told.error)
            yield Emit([Retrying(attempt=self._retries, error=told.error.message, status=status)])

    def _compacted(self, message: Object) -> Iterator[Action]:
        yield Emit([Compacted(agent_id=self._agent(message))])

    def _warning(self, message: Object) -> Iterator[Action]:
        yield warning("agent_warning", str(message.get("message")))

    def _config_warning(self, message: Object) -> Iterator[Action]:
        words = [str(message[key]) for key in ("summary", "details") if message.get(key)]
        yield warning("config_warning", ": ".join(words))


def raw(line: bytes, agent_id: str = MAIN_AGENT) -> Raw:
    """A whole line that was a message, as it came."""
    return Raw(data=cast("JsonValue", parse_object(line)), agent_id=agent_id)


def _call_id(told: HookTold) -> str:
    """A run of a hook of ours is named `EVENT:NUMBER:SOURCE:CALL`; the id of a call may hold anything."""
    return told.run.id.partition(f":{SOURCE}:")[2]


def _tool_of(item: Item) -> str | None:
    """What hooks call the tool of an item; None for an item that is no call."""
    match item.type:
        case "commandExecution":
            return SHELL
        case "fileChange":
            return PATCH
        case "mcpToolCall":
            return mcp_name(item.server, item.tool)
        case "imageView":
            return "view_image"
        case "webSearch":
            return "web_search"
        case "dynamicToolCall" | "imageGeneration":
            return item.tool or item.type
        case _:
            return None


def _is_unhooked(item: Item) -> bool:
    """Whether no hook follows the end of this call: a patch or an MCP tool that failed has none."""
    return item.type in {"fileChange", "mcpToolCall"} and (item.status == "failed" or item.error is not None)


def _said(item: Item) -> JsonValue:
    """What the model would be shown of a call that failed."""
    return item.error.message if item.error is not None else shown(item.result)


def _input(item: Item) -> JsonValue:
    match item.type:
        case "commandExecution":
            return {"command": ran_command(item.command or "")}
        case "mcpToolCall":
            return item.arguments
        case _:
            return cast("JsonValue", item.model_dump(mode="json", by_alias=True))


def _suspicions(state: CallState, item: Item) -> Iterator[Action]:
    """What an item that begins shows to be wrong."""
    if state.denied:
        yield Suspicion("ran_after_deny", "runs although it was denied", state.key, state.name)
    elif not state.let_through:
        yield Suspicion("no_decision", "runs, and nobody had decided about it", state.key, state.name)
    elif state.name == SHELL and (item.type != "commandExecution" or ran_command(item.command or "") != state.told):
        yield Suspicion("other_input", "runs with another command than was told", state.key, state.name)
    elif item.type == "mcpToolCall" and item.arguments != state.decided:
        yield Suspicion("other_input", "runs with another input than was decided", state.key, state.name)
