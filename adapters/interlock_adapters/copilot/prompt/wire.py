"""The lines that this transport alone has, and the file of its usage (Copilot CLI 1.0.102)."""

from __future__ import annotations

from pydantic import Field

from interlock_adapters.copilot.wire import Part

__all__ = ["ResultLine", "UsageFile"]


class ResultLine(Part):
    """`result`, the last line, which has no `data`."""

    session: str | None = Field(default=None, alias="sessionId")
    code: int = Field(alias="exitCode")


class Tokens(Part):
    """The tokens of one model; the cached ones are a part of the input."""

    input: int = Field(default=0, alias="inputTokens")
    output: int = Field(default=0, alias="outputTokens")
    cache_read: int = Field(default=0, alias="cacheReadTokens")
    cache_write: int = Field(default=0, alias="cacheWriteTokens")
    reasoning: int | None = Field(default=None, alias="reasoningTokens")


class Requests(Part):
    """How often a model was asked."""

    count: int = 0


class ModelMetrics(Part):
    """What one model was used for, sub-agents included."""

    requests: Requests = Field(default_factory=Requests)
    usage: Tokens = Field(default_factory=Tokens)


class UsageFile(Part):
    """What `--usage-output-file` is given when the process ends."""

    models: dict[str, ModelMetrics] = Field(default_factory=dict[str, ModelMetrics], alias="modelMetrics")
