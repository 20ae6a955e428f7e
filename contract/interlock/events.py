"""The closed union of what happens during a run, the same for every agent, plus `Raw` for what is unknown.

Exactly one `RunStarted` comes first and one `RunFinished` last. Deltas are for display; the answer is `Outcome.text`.
A codec makes events; the engine alone stamps them (`stamp`) before anybody sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Discriminator, Field, TypeAdapter

from interlock.approval import Approval, Question
from interlock.hooks import AuditRecord
from interlock.model import JsonValue, Model
from interlock.outcome import Outcome, RateLimit, Reason, Status, Usage
from interlock.tools import MAIN_AGENT, Subject, ToolKind

__all__ = [
    "ApprovalRequested",
    "ApprovalResolved",
    "BaseEvent",
    "Compacted",
    "Event",
    "FileChange",
    "FilesChanged",
    "Notice",
    "PlanEntry",
    "PlanUpdated",
    "QuestionAsked",
    "RateLimited",
    "Raw",
    "Retrying",
    "RunFinished",
    "RunStarted",
    "SubagentFinished",
    "SubagentStarted",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "ToolDecided",
    "ToolFinished",
    "ToolOutput",
    "ToolRequested",
    "TurnFinished",
    "Unguarded",
    "UsageUpdated",
    "event_adapter",
    "stamp",
]


class BaseEvent(Model):
    """What every event has; the engine fills in all but `agent_id`."""

    run_id: str = ""
    agent: str = ""
    agent_id: str = MAIN_AGENT
    seq: int = -1
    """0 for the first event of a run, then one more for each."""
    time: float = 0.0
    """Seconds since the epoch."""
    turn: int = 0
    """1 for the first prompt of the run."""


class RunStarted(BaseEvent):
    """The agent's process runs; what is in force is named."""

    type: Literal["run_started"] = "run_started"
    transport: str
    binary: str
    version: str | None = None
    """What the agent says of itself, once it has."""
    backstop: str
    confined: bool
    """False: the agent runs as our user and can reach everything we can; the chain is then no boundary."""
    cwd: str
    chain: tuple[str, ...] = ()
    """The participants, in order."""


class TextDelta(BaseEvent):
    """A piece of the answer, for display."""

    type: Literal["text_delta"] = "text_delta"
    text: str


class Text(BaseEvent):
    """A finished block of text."""

    type: Literal["text"] = "text"
    text: str


class ThinkingDelta(BaseEvent):
    """A piece of the model's thinking, for display."""

    type: Literal["thinking_delta"] = "thinking_delta"
    text: str


class Thinking(BaseEvent):
    """A finished block of thinking."""

    type: Literal["thinking"] = "thinking"
    text: str


class ToolRequested(BaseEvent):
    """The model asks for a call; `input` is what it asked for."""

    type: Literal["tool_requested"] = "tool_requested"
    tool_call_id: str
    tool_name: str
    tool_kind: ToolKind
    input: JsonValue
    subject: Subject = Field(default_factory=Subject)


class ToolDecided(BaseEvent):
    """What was decided about a call, before (`pre_tool_use`) or after (`post_tool_use`) it ran."""

    type: Literal["tool_decided"] = "tool_decided"
    tool_call_id: str
    tool_name: str
    event: Literal["pre_tool_use", "post_tool_use"]
    decision: Literal["allow", "deny", "agent", "keep", "replace"]
    """`agent`: left to the agent's own flow."""
    by: str
    """hook, rule, policy, posture, user, expired, cancelled, internal or grant."""
    reason: str = ""
    input: JsonValue = None
    """The input that was decided on, where it differs from the request's; else None."""
    records: tuple[AuditRecord, ...] = ()


class ToolOutput(BaseEvent):
    """A piece of a running call's output, for display; withheld where the chain may replace outputs."""

    type: Literal["tool_output"] = "tool_output"
    tool_call_id: str
    text: str


class ToolFinished(BaseEvent):
    """A call ended; `output` is what the model was shown."""

    type: Literal["tool_finished"] = "tool_finished"
    tool_call_id: str
    tool_name: str
    tool_kind: ToolKind
    status: Literal["ok", "error", "denied"]
    output: JsonValue = None
    by: str = ""
    """Who denied it."""


class ApprovalRequested(BaseEvent):
    """A call waits for `Run.respond`."""

    type: Literal["approval_requested"] = "approval_requested"
    approval: Approval


class ApprovalResolved(BaseEvent):
    """An approval, or a question, is no longer open."""

    type: Literal["approval_resolved"] = "approval_resolved"
    id: str
    decision: Literal["approve", "deny", "answered", "declined", "withdrawn"]
    by: str
    """user, approver, expired, cancelled or agent."""
    reason: str = ""


class QuestionAsked(BaseEvent):
    """A question waits for `Run.answer`."""

    type: Literal["question_asked"] = "question_asked"
    question: Question


class PlanEntry(Model):
    """One line of the agent's own plan or todo list."""

    text: str
    status: Literal["pending", "in_progress", "completed"]


class PlanUpdated(BaseEvent):
    """The agent's plan or todo list, whole."""

    type: Literal["plan_updated"] = "plan_updated"
    entries: tuple[PlanEntry, ...]


class FileChange(Model):
    """One file that a call changed."""

    path: str
    change: Literal["add", "update", "delete"]


class FilesChanged(BaseEvent):
    """Files that a call changed, as the agent reports it."""

    type: Literal["files_changed"] = "files_changed"
    tool_call_id: str | None = None
    changes: tuple[FileChange, ...]


class UsageUpdated(BaseEvent):
    """The usage of this run so far."""

    type: Literal["usage_updated"] = "usage_updated"
    usage: Usage
    cost_usd: float | None = None


class RateLimited(BaseEvent):
    """News of a limit of the model's service; most of them block nothing."""

    type: Literal["rate_limited"] = "rate_limited"
    limit: RateLimit


class Retrying(BaseEvent):
    """The agent retries a request of its own; no progress."""

    type: Literal["retrying"] = "retrying"
    attempt: int
    max_attempts: int | None = None
    delay: float | None = None
    """Seconds until the next attempt."""
    error: str = ""
    status: int | None = None


class Compacted(BaseEvent):
    """The agent shortened its history."""

    type: Literal["compacted"] = "compacted"
    trigger: str = ""


class SubagentStarted(BaseEvent):
    """A sub-agent began; `subagent_id` is the `agent_id` of its events."""

    type: Literal["subagent_started"] = "subagent_started"
    subagent_id: str
    tool_call_id: str | None = None
    description: str = ""


class SubagentFinished(BaseEvent):
    """A sub-agent ended."""

    type: Literal["subagent_finished"] = "subagent_finished"
    subagent_id: str
    tool_call_id: str | None = None


class Notice(BaseEvent):
    """Something worth knowing that ends nothing. `code` is stable, `message` is for people."""

    type: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"] = "info"
    code: str
    message: str


class Unguarded(BaseEvent):
    """The promise broke: something ran that nobody decided, or in another way than decided."""

    type: Literal["unguarded"] = "unguarded"
    kind: str
    """no_decision, ran_after_deny, other_input, second_consult, unknown_answer or not_confirmed."""
    tool_call_id: str | None = None
    tool_name: str | None = None
    message: str


class Raw(BaseEvent):
    """A message of the agent that has no kind here, with the original kept."""

    type: Literal["raw"] = "raw"
    channel: str = "stdout"
    data: JsonValue


class TurnFinished(BaseEvent):
    """A turn is over and the run goes on: a conversation waits for the next text, or the agent has begun a turn for a
    message that came too late for this one. The last turn of other runs has only `RunFinished`."""

    type: Literal["turn_finished"] = "turn_finished"
    status: Status
    reason: Reason | None = None
    message: str = ""
    text: str | None = None
    structured: JsonValue = None
    usage: Usage = Field(default_factory=Usage)
    """Of this turn alone."""


class RunFinished(BaseEvent):
    """The run is over; always the last event."""

    type: Literal["run_finished"] = "run_finished"
    outcome: Outcome


Event = Annotated[
    RunStarted
    | TextDelta
    | Text
    | ThinkingDelta
    | Thinking
    | ToolRequested
    | ToolDecided
    | ToolOutput
    | ToolFinished
    | ApprovalRequested
    | ApprovalResolved
    | QuestionAsked
    | PlanUpdated
    | FilesChanged
    | UsageUpdated
    | RateLimited
    | Retrying
    | Compacted
    | SubagentStarted
    | SubagentFinished
    | Notice
    | Unguarded
    | Raw
    | TurnFinished
    | RunFinished,
    Discriminator("type"),
]
"""Every event there is; as JSON, `type` tells which."""


def event_adapter() -> TypeAdapter[Event]:
    """A validator of events that came as JSON."""
    return TypeAdapter(Event)


def stamp(events: Iterable[BaseEvent], *, run_id: str, agent: str, seq: int, time: float, turn: int) -> None:
    """Write the engine's fields into fresh events, once, before anybody sees them; `seq` is that of the first.

    In place, since a copy of each event would double what it costs; an event that was published is never written to.
    """
    for number, event in enumerate(events, seq):
        fields: dict[str, object] = vars(event)
        fields["run_id"] = run_id
        fields["agent"] = agent
        fields["seq"] = number
        fields["time"] = time
        fields["turn"] = turn
