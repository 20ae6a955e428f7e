"""The messages of `copilot --headless --stdio` that are read here beside the events, as version 1.0.102 speaks them."""

from __future__ import annotations

from pydantic import Field

from interlock.model import JsonValue
from interlock_adapters.copilot.wire import Part, SessionEvent

__all__ = [
    "AnnouncedCall",
    "Connected",
    "HookBegan",
    "HookInput",
    "HookInvoked",
    "PermissionOver",
    "PermissionTold",
    "Question",
    "QuestionTold",
    "Requested",
    "SessionAnswer",
    "SessionTold",
    "Task",
    "Tasks",
    "ToolOutput",
]


class Connected(Part):
    """The answer to `connect`."""

    ok: bool = False
    protocol: int = Field(default=0, alias="protocolVersion")
    version: str = ""


class ModelState(Part):
    """Which model a session has."""

    model: str | None = Field(default=None, alias="modelId")


class SessionAnswer(Part):
    """The answer to `session.create` and `session.resume`."""

    session: str = Field(alias="sessionId")
    mode: str | None = None
    state: ModelState = Field(default_factory=ModelState, alias="modelState")


class SessionTold(Part):
    """`session.event`."""

    session: str = Field(default="", alias="sessionId")
    event: SessionEvent


class ToolOutput(Part):
    """What a tool gave, as the hook after it is told."""

    type: str = Field(default="success", alias="resultType")
    text: str = Field(default="", alias="textResultForLlm")
    binary: list[JsonValue] | None = Field(default=None, alias="binaryResultsForLlm")
    contents: list[dict[str, JsonValue]] | None = None


class HookInput(Part):
    """What a hook is told; `agent` is None for the main agent."""

    agent: str | None = Field(default=None, alias="agentId")
    cwd: str | None = None
    name: str = Field(default="", alias="toolName")
    arguments: JsonValue = Field(default=None, alias="toolArgs")
    result: ToolOutput | None = Field(default=None, alias="toolResult")
    error: JsonValue = None
    source: str = ""
    """Of `sessionStart`: `new` or `resume`."""
    call: str = Field(default="", alias="toolCallId")
    """Of `preMcpToolCall` alone."""
    served: JsonValue = Field(default=None, alias="arguments")
    """Of `preMcpToolCall`: what the server is about to be given."""


class HookInvoked(Part):
    """`hooks.invoke`."""

    type: str = Field(alias="hookType")
    input: HookInput


class AnnouncedCall(Part):
    """A call about which the hook before it is asked next, or soon."""

    id: str
    name: str
    arguments: JsonValue = Field(default=None, alias="args")


class HookBegan(Part):
    """`hook.start` and `hook.end`; only the one of `preToolUse` names calls."""

    id: str = Field(default="", alias="hookInvocationId")
    type: str = Field(default="", alias="hookType")
    input: JsonValue = None


class Requested(Part):
    """What leave is asked for; which fields it has follows from its kind."""

    kind: str
    call: str = Field(default="", alias="toolCallId")
    command: str | None = Field(default=None, alias="fullCommandText")
    path: str | None = None
    file: str | None = Field(default=None, alias="fileName")
    edits: list[dict[str, JsonValue]] = Field(default_factory=list[dict[str, JsonValue]], alias="fileEdits")
    server: str | None = Field(default=None, alias="serverName")
    tool: str | None = Field(default=None, alias="toolName")
    arguments: JsonValue = Field(default=None, alias="args")
    url: str | None = None
    words: str = Field(default="", alias="intention")


class PermissionTold(Part):
    """`permission.requested`."""

    id: str = Field(alias="requestId")
    request: Requested = Field(alias="permissionRequest")
    by_hook: bool = Field(default=False, alias="resolvedByHook")


class PermissionResult(Part):
    """How a request ended."""

    kind: str = ""


class PermissionOver(Part):
    """`permission.completed`."""

    id: str = Field(alias="requestId")
    result: PermissionResult


class QuestionTold(Part):
    """`user_input.requested`: which call asks the question that is asked next."""

    question: str
    call: str = Field(default="", alias="toolCallId")


class Question(Part):
    """`userInput.request`."""

    question: str
    choices: list[str] = Field(default_factory=list[str])


class Task(Part):
    """A command or a sub-agent; its mode is `background` once the turn goes on without it."""

    id: str
    status: str = ""
    mode: str = Field(default="", alias="executionMode")


class Tasks(Part):
    """The answer to `session.tasks.list`."""

    tasks: list[Task] = Field(default_factory=list[Task])
