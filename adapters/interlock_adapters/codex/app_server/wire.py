"""The messages of `codex app-server` that are read here, as Codex 0.171.0 speaks them.

Unknown fields are kept and ignored, since every version adds some. Only what is read is declared. Deltas have no
model: they are the most frequent messages by far, and pieces of text have a short way, `text_piece`.
"""

from __future__ import annotations

from typing import NotRequired

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic cannot read that of `typing` before Python 3.12

from interlock.model import JsonValue

__all__ = [
    "PIECE_MARK",
    "Changed",
    "CommandApproval",
    "ConfigAnswer",
    "Elicitation",
    "ErrorTold",
    "HookTold",
    "Item",
    "ItemTold",
    "PatchApproval",
    "PlanTold",
    "SkillsAnswer",
    "Thread",
    "ThreadAnswer",
    "TokenUsage",
    "TokensTold",
    "Turn",
    "TurnError",
    "TurnTold",
    "UserInput",
    "text_piece",
]


class Part(BaseModel):
    """A part of the wire."""

    model_config = ConfigDict(extra="allow", frozen=True)


class LayerName(Part):
    """Where a layer of the configuration comes from."""

    type: str


class Layer(Part):
    """One layer of the configuration; one that is disabled says why."""

    name: LayerName
    config: dict[str, JsonValue]
    disabled: str | None = Field(default=None, alias="disabledReason")


class ConfigAnswer(Part):
    """The answer to `config/read` with its layers."""

    layers: list[Layer]


class Skill(Part):
    """One skill; its path is what it is switched off by."""

    path: str


class SkillsOfPlace(Part):
    """The skills that load in one directory, those of the person among them."""

    skills: list[Skill]


class SkillsAnswer(Part):
    """The answer to `skills/list`."""

    data: list[SkillsOfPlace]


class Thread(Part):
    """A conversation."""

    id: str


class ThreadAnswer(Part):
    """What a thread that was begun, resumed or forked is said to be."""

    thread: Thread
    model: str | None = None
    cwd: str | None = None
    approval_policy: JsonValue = Field(default=None, alias="approvalPolicy")
    approvals_reviewer: str | None = Field(default=None, alias="approvalsReviewer")
    sandbox: JsonValue = None


class TurnError(Part):
    """Why a turn failed; `info` is a word, or an object of one word with details."""

    message: str = ""
    info: JsonValue = Field(default=None, alias="codexErrorInfo")


class Turn(Part):
    """One turn."""

    id: str
    status: str = ""
    error: TurnError | None = None


class TurnTold(Part):
    """`turn/started`, `turn/completed`, and the answer to `turn/start` but for the thread."""

    turn: Turn
    thread: str = Field(default="", alias="threadId")


class Change(Part):
    """How a file changed."""

    type: str = ""


class Changed(Part):
    """One file of a patch."""

    path: str
    kind: Change = Field(default_factory=Change)


class ItemFailure(Part):
    """Why a call of an MCP tool failed."""

    message: str = ""


class Item(Part):
    """One thing that happened in a turn; which fields it has follows from its type."""

    type: str
    id: str = ""
    text: str = ""
    status: str | None = None
    summary: list[str] = []
    command: str | None = None
    output: str | None = Field(default=None, alias="aggregatedOutput")
    exit_code: int | None = Field(default=None, alias="exitCode")
    changes: list[Changed] = []
    server: str = ""
    tool: str = ""
    arguments: JsonValue = None
    result: JsonValue = None
    error: ItemFailure | None = None
    query: str | None = None
    receivers: list[str] = Field(default=[], alias="receiverThreadIds")
    prompt: str | None = None
    kind: str | None = None
    agent: str | None = Field(default=None, alias="agentThreadId")


class ItemTold(Part):
    """`item/started` and `item/completed`."""

    item: Item
    thread: str = Field(alias="threadId")


class HookEntry(Part):
    """A line about a hook."""

    kind: str = ""
    text: str = ""


class HookRun(Part):
    """One run of a hook; the end of its id is the id of the call."""

    id: str
    event: str = Field(default="", alias="eventName")
    status: str = ""
    entries: list[HookEntry] = []


class HookTold(Part):
    """`hook/started` and `hook/completed`."""

    run: HookRun
    thread: str = Field(alias="threadId")


class TokenUsage(Part):
    """Tokens; the cached ones are a part of the input, those of reasoning a part of the output."""

    input: int = Field(default=0, alias="inputTokens")
    cached: int = Field(default=0, alias="cachedInputTokens")
    written: int = Field(default=0, alias="cacheWriteInputTokens")
    output: int = Field(default=0, alias="outputTokens")
    reasoning: int = Field(default=0, alias="reasoningOutputTokens")


class TokenUsages(Part):
    """Of the whole thread, and of the last request."""

    total: TokenUsage
    last: TokenUsage


class TokensTold(Part):
    """`thread/tokenUsage/updated`."""

    usage: TokenUsages = Field(alias="tokenUsage")
    thread: str = Field(alias="threadId")
    turn: str = Field(alias="turnId")


class ErrorTold(Part):
    """`error`: a retry, if `will_retry`; else the turn's end repeats it."""

    error: TurnError
    will_retry: bool = Field(default=False, alias="willRetry")


class PlanStep(Part):
    """One step of the agent's plan."""

    step: str
    status: str


class PlanTold(Part):
    """`turn/plan/updated`."""

    plan: list[PlanStep]
    thread: str = Field(alias="threadId")


class CommandApproval(Part):
    """`item/commandExecution/requestApproval`."""

    thread: str = Field(alias="threadId")
    item: str = Field(alias="itemId")
    kind: str = ""
    command: str | None = None
    reason: str | None = None


class McpMeta(Part):
    """Which call of an MCP tool an elicitation is about, if it is about one."""

    kind: str = Field(default="", alias="codex_approval_kind")
    tool: str = Field(default="", alias="tool_name")
    params: JsonValue = Field(default=None, alias="tool_params")


class Elicitation(Part):
    """`mcpServer/elicitation/request`."""

    thread: str = Field(alias="threadId")
    server: str = Field(alias="serverName")
    meta: McpMeta = Field(alias="_meta")


class PatchApproval(Part):
    """`item/fileChange/requestApproval`."""

    thread: str = Field(alias="threadId")
    item: str = Field(alias="itemId")
    reason: str | None = None


class Option(Part):
    """One answer that a question offers."""

    label: str
    description: str = ""


class UserQuestion(Part):
    """One question."""

    id: str
    question: str
    header: str = ""
    options: list[Option] | None = None


class UserInput(Part):
    """`item/tool/requestUserInput`."""

    thread: str = Field(alias="threadId")
    item: str = Field(alias="itemId")
    questions: list[UserQuestion]


# ---- Pieces of text -------------------------------------------------------------------------------------------------

PIECE_MARK = b'{"method":"item/agentMessage/delta"'
"""How the line of a piece of text begins; one that begins otherwise takes the common path."""


class _Piece(TypedDict):
    threadId: str
    delta: str


class _PieceLine(TypedDict):
    params: _Piece
    id: NotRequired[object]


_piece_line = TypeAdapter(_PieceLine).validator.validate_json


def text_piece(line: bytes) -> tuple[str, str] | None:
    """Thread and text of a line that begins with `PIECE_MARK`; None if it is not what it seems."""
    try:
        found = _piece_line(line)
    except ValidationError:
        return None
    return None if "id" in found else (found["params"]["threadId"], found["params"]["delta"])
