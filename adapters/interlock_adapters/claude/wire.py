"""The lines of Claude Code's `stream-json` protocol, both ways, as 2.1.197 and 2.1.332 speak it.

Unknown fields are kept and ignored, since every version adds some. Only what is read here is declared. Deltas are the
hot path and have no model: see `delta`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter
from pydantic_core import from_json, to_json
from typing_extensions import TypedDict  # pydantic cannot read that of `typing` before Python 3.12

from interlock.events import TextDelta, ThinkingDelta

__all__ = [
    "ApiRetry",
    "AssistantLine",
    "CanUseTool",
    "ControlRequest",
    "ControlResponse",
    "HookCallback",
    "HookInput",
    "InitLine",
    "ModelUsage",
    "PermissionDenied",
    "RateLimitLine",
    "ResultLine",
    "TaskLine",
    "UserLine",
]

JsonObject = dict[str, JsonValue]


class Line(BaseModel):
    """A part of the wire."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)


# ---- The stream -----------------------------------------------------------------------------------------------------


class Message(Line):
    """A message of the model's API."""

    content: str | list[JsonObject] = ""
    model: str | None = None


class AssistantLine(Line):
    """One finished content block; `error` marks a synthetic message about a failed request."""

    message: Message
    parent_tool_use_id: str | None = None
    agent_id: str | None = None
    error: str | None = None


class UserLine(Line):
    """Tool results, text that the CLI put into the conversation, or a message of ours repeated (`replay`)."""

    message: Message
    parent_tool_use_id: str | None = None
    agent_id: str | None = None
    uuid: str | None = None
    replay: bool = Field(default=False, alias="isReplay")


class McpServerState(Line):
    """One MCP server that the CLI knows."""

    name: str = ""
    status: str | None = None


class InitLine(Line):
    """`system/init`: what is in force; comes after the first prompt, and again each turn."""

    session_id: str
    model: str | None = None
    permission_mode: str | None = Field(default=None, alias="permissionMode")
    claude_code_version: str | None = None
    tools: list[str] = []
    mcp_servers: list[McpServerState] = []


class ApiRetry(Line):
    """`system/api_retry`: the CLI repeats a request of its own."""

    attempt: int = 0
    max_retries: int | None = None
    retry_delay_ms: float | None = None
    error_status: int | None = None
    error: str | None = None


class TaskLine(Line):
    """`system/task_started`: a sub-agent or a background command began."""

    task_id: str
    tool_use_id: str | None = None
    task_type: str | None = None
    description: str | None = None


class PermissionDenied(Line):
    """`system/permission_denied`: a call was denied by the CLI's own rules, mode or classifier."""

    tool_use_id: str
    message: str | None = None


class RateLimitInfo(Line):
    """What the service says of a limit."""

    status: str = "unknown"
    resets_at: float | None = Field(default=None, alias="resetsAt")
    window: str | None = Field(default=None, alias="rateLimitType")
    uses_overage: bool = Field(default=False, alias="isUsingOverage")
    """What is beyond the limit is paid for, so nothing is blocked."""


class RateLimitLine(Line):
    """`rate_limit_event`; status `allowed` blocks nothing."""

    rate_limit_info: RateLimitInfo


class WireUsage(Line):
    """Tokens of one turn."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class ModelUsage(Line):
    """Tokens and cost of one model, sub-agents included."""

    input_tokens: int = Field(default=0, alias="inputTokens")
    output_tokens: int = Field(default=0, alias="outputTokens")
    cache_read_tokens: int = Field(default=0, alias="cacheReadInputTokens")
    cache_write_tokens: int = Field(default=0, alias="cacheCreationInputTokens")
    cost_usd: float = Field(default=0.0, alias="costUSD")


class ResultLine(Line):
    """`result`: a turn ended. `subtype` success with `is_error` is the form of an API error."""

    subtype: str
    is_error: bool = False
    result: str | None = None
    session_id: str | None = None
    num_turns: int | None = None
    stop_reason: str | None = None
    terminal_reason: str | None = None
    api_error_status: int | None = None
    errors: list[JsonValue] = []
    total_cost_usd: float | None = None
    usage: WireUsage | None = None
    model_usage: dict[str, ModelUsage] = Field(default={}, alias="modelUsage")
    since_last: dict[str, ModelUsage] | None = Field(default=None, alias="model_usage_since_last_result")
    structured_output: JsonValue = None


# ---- The control channel --------------------------------------------------------------------------------------------


class HookInput(Line):
    """What a hook is told; `tool_response` after a success, `error` after a failure."""

    hook_event_name: str
    tool_name: str
    tool_input: JsonValue
    tool_use_id: str
    tool_response: JsonValue = None
    error: str | None = None
    agent_id: str | None = None
    cwd: str | None = None
    permission_mode: str | None = None
    transcript_path: str | None = None


class HookCallback(Line):
    """A hook of ours is asked."""

    callback_id: str
    input: HookInput


class CanUseTool(Line):
    """The CLI's own question about a call."""

    tool_name: str
    input: JsonObject
    tool_use_id: str
    description: str | None = None
    decision_reason: str | None = None
    agent_id: str | None = None


class ControlRequest(Line):
    """A request of the CLI that waits for our answer."""

    request_id: str
    request: JsonObject


class ControlReply(Line):
    """The body of an answer to a request of ours."""

    subtype: str
    request_id: str
    response: JsonObject | None = None
    error: str | None = None


class ControlResponse(Line):
    """The CLI's answer to a request of ours."""

    response: ControlReply


class WireChoice(Line):
    """One answer that a question offers."""

    label: str
    description: str = ""


class WireQuestion(Line):
    """One question of AskUserQuestion."""

    question: str
    header: str = ""
    options: list[WireChoice] = []
    several: bool = Field(default=False, alias="multiSelect")


class WireQuestions(Line):
    """The input of AskUserQuestion."""

    questions: list[WireQuestion] = Field(min_length=1)


# ---- What we write --------------------------------------------------------------------------------------------------


def line(value: Mapping[str, object]) -> bytes:
    """One line for the CLI; it takes no line that is not JSON."""
    return to_json(value, inf_nan_mode="null") + b"\n"


def request(request_id: str, body: Mapping[str, object]) -> bytes:
    """A request of ours."""
    return line({"type": "control_request", "request_id": request_id, "request": body})


def success(request_id: str, body: Mapping[str, object]) -> bytes:
    """An answer to a request of the CLI."""
    return line(
        {
            "type": "control_response",
            "response": {"subtype": "success", "request_id": request_id, "response": body},
        },
    )


def failure(request_id: str, message: str) -> bytes:
    """The refusal of a request that we do not serve."""
    return line(
        {"type": "control_response", "response": {"subtype": "error", "request_id": request_id, "error": message}},
    )


def hook_deny(reason: str) -> dict[str, object]:
    """The one hook answer that stops a call: anything misspelt in it would let the call run."""
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": str(reason),
        },
    }


def user_message(prompt: str, images: list[dict[str, object]], name: str | None = None) -> bytes:
    """A prompt as blocks; only the last one is scanned for `@path` and `/command`, and a blank one is not sent on."""
    blocks = [{"type": "text", "text": prompt}, *images, {"type": "text", "text": ""}]
    named = {} if name is None else {"uuid": name}
    return line({"type": "user", "message": {"role": "user", "content": blocks}, **named})


# ---- Deltas ---------------------------------------------------------------------------------------------------------

DELTA_MARK = b'{"type":"stream_event","event":{"type":"content_block_delta"'
"""How both versions begin the line of a delta; a line that begins otherwise takes the common path."""
_TEXT_MARK = b'"delta":{"type":"text_delta"'
_OWN_FIELDS = 2
"""`type` and `text`; the other fields of the event are for us to fill in, never for the wire."""


class _TextPiece(TypedDict):
    delta: TextDelta


class _TextLine(TypedDict):
    event: _TextPiece
    parent_tool_use_id: str | None


_text_line = TypeAdapter(_TextLine).validator.validate_json
"""A piece of text is spelt on the wire as the event is, so that the event comes straight out of the parser."""


def delta(data: bytes) -> tuple[TextDelta | ThinkingDelta | None, str | None]:
    """The event of a line that begins with `DELTA_MARK`, None where it shows nothing, and the call it is inside of.

    May raise on a line that is not what it seems.
    """
    if _TEXT_MARK in data:
        line = _text_line(data)
        text = line["event"]["delta"]
        if len(text.model_fields_set) != _OWN_FIELDS:
            raise ValueError("more than a piece of text")
        return text, line["parent_tool_use_id"]
    value = cast("dict[str, Any]", from_json(data))
    piece = value["event"]["delta"]
    match piece["type"]:
        case "thinking_delta":
            return ThinkingDelta(text=piece["thinking"]), value.get("parent_tool_use_id")
        case _:
            return None, None
