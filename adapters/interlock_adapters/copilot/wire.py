"""The session events that both transports tell, as Copilot CLI 1.0.102 speaks them.

An event is `{type, data, agentId?, ephemeral?}`; `agentId` is that of a sub-agent. Unknown fields are kept and ignored,
since every version adds some. Only what is read is declared. Deltas have no model: they are the most frequent by far.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from interlock.model import JsonValue

__all__ = [
    "CallFailure",
    "Completed",
    "ErrorTold",
    "MessageTold",
    "Part",
    "SessionEvent",
    "Started",
    "SubagentTold",
    "ToolRequest",
    "UsageTold",
]

JsonObject = dict[str, JsonValue]


class Part(BaseModel):
    """A part of the wire."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)


class SessionEvent(Part):
    """One event; `agent` is None for the main agent."""

    type: str
    id: str = ""
    data: JsonObject = Field(default_factory=JsonObject)
    agent: str | None = Field(default=None, alias="agentId")


class ToolRequest(Part):
    """A call that a message of the model asks for."""

    id: str = Field(alias="toolCallId")
    name: str


class MessageTold(Part):
    """`assistant.message`: the final answer is the last one of the main agent that asks for no call."""

    content: str = ""
    model: str | None = None
    requests: list[ToolRequest] = Field(default_factory=list[ToolRequest], alias="toolRequests")
    turn: str | None = Field(default=None, alias="turnId")
    """None for a message that the runtime made up itself."""
    parent: str | None = Field(default=None, alias="parentToolCallId")


class Started(Part):
    """`tool.execution_start`: a call is announced, with the arguments that the model gave; hooks come later."""

    id: str = Field(alias="toolCallId")
    name: str = Field(alias="toolName")
    arguments: JsonValue = None
    turn: str | None = Field(default=None, alias="turnId")
    """None for a call that the runtime makes itself, past every hook."""
    server: str | None = Field(default=None, alias="mcpServerName")
    server_tool: str | None = Field(default=None, alias="mcpToolName")


class ToolResult(Part):
    """What the model is shown of a call that succeeded."""

    content: str = ""


class ToolFailure(Part):
    """Why a call did not succeed; `code` is `denied`, `rejected` or `failure`."""

    message: str = ""
    code: str = ""


class FileEdit(Part):
    """A file that a call changed."""

    path: str
    kind: str = ""


class ShellEnd(Part):
    """How a command ended, which is no failure of its call."""

    exit_code: int | None = Field(default=None, alias="exitCode")


class Completed(Part):
    """`tool.execution_complete`."""

    id: str = Field(alias="toolCallId")
    success: bool
    turn: str | None = Field(default=None, alias="turnId")
    result: ToolResult | None = None
    error: ToolFailure | None = None
    edits: list[FileEdit] = Field(default_factory=list[FileEdit], alias="fileEdits")
    shell: ShellEnd | None = Field(default=None, alias="shellExecution")

    @property
    def succeeded(self) -> bool:
        """Whether the call did, and the command with it."""
        return self.success and (self.shell is None or self.shell.exit_code in {None, 0})

    @property
    def text(self) -> str | None:
        """What the model is shown."""
        if self.error is not None:
            return self.error.message
        return None if self.result is None else self.result.content


class SubagentTold(Part):
    """`subagent.started`, `subagent.completed` and `subagent.failed`."""

    call: str = Field(alias="toolCallId")
    name: str = Field(default="", alias="agentName")
    description: str = Field(default="", alias="agentDescription")


class UsageTold(Part):
    """`assistant.usage`: of one request to the model; the cached tokens are a part of the input."""

    model: str | None = None
    input: int | None = Field(default=None, ge=0, alias="inputTokens")
    output: int | None = Field(default=None, ge=0, alias="outputTokens")
    cache_read: int | None = Field(default=None, ge=0, alias="cacheReadTokens")
    cache_write: int | None = Field(default=None, ge=0, alias="cacheWriteTokens")
    reasoning: int | None = Field(default=None, ge=0, alias="reasoningTokens")


class CallFailure(Part):
    """`model.call_failure`: a request to the model failed, and may be tried again."""

    status: int | None = Field(default=None, alias="statusCode")
    attempt: int = Field(default=0, alias="retryAttempt")
    message: str = Field(default="", alias="errorMessage")


class ErrorTold(Part):
    """`session.error`: the prompt ends with it."""

    kind: str = Field(default="", alias="errorType")
    message: str = ""
    status: int | None = Field(default=None, alias="statusCode")
