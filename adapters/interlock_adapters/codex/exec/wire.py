"""The lines of `codex exec --json`, as Codex 0.171.0 writes them.

Unknown fields are kept and ignored. An item of a web search has two members `id`; no id of an item means more than that
two lines speak of the same item, and none is a call's id.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from interlock.model import JsonValue

__all__ = ["Changed", "ErrorLine", "Item", "ItemLine", "ThreadLine", "TurnLine", "Usage"]


class Line(BaseModel):
    """A part of the wire."""

    model_config = ConfigDict(extra="allow", frozen=True)


class ThreadLine(Line):
    """`thread.started`."""

    thread_id: str


class Changed(Line):
    """One file that a patch changed."""

    path: str
    kind: str = ""


class Failure(Line):
    """Why something failed."""

    message: str = ""


class Item(Line):
    """One thing that happened; which fields it has follows from its type."""

    id: str = ""
    type: str
    text: str = ""
    command: str | None = None
    output: str | None = Field(default=None, alias="aggregated_output")
    exit_code: int | None = None
    status: str | None = None
    changes: list[Changed] = []
    server: str = ""
    tool: str = ""
    arguments: JsonValue = None
    result: JsonValue = None
    error: Failure | None = None
    query: str | None = None
    prompt: str | None = None
    receivers: list[str] = Field(default=[], alias="receiver_thread_ids")
    message: str = ""


class ItemLine(Line):
    """`item.started`, `item.updated` and `item.completed`."""

    item: Item


class Usage(Line):
    """Tokens of the whole thread; the cached ones are a part of the input."""

    input: int = Field(default=0, alias="input_tokens")
    cached: int = Field(default=0, alias="cached_input_tokens")
    written: int = Field(default=0, alias="cache_write_input_tokens")
    output: int = Field(default=0, alias="output_tokens")
    reasoning: int = Field(default=0, alias="reasoning_output_tokens")


class TurnLine(Line):
    """`turn.completed` and `turn.failed`."""

    usage: Usage | None = None
    error: Failure | None = None


class ErrorLine(Line):
    """`error`: a retry, or what the end of the turn repeats."""

    message: str = ""
