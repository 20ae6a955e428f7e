"""Tools that the application itself serves to an agent: an MCP server that is an object in this process.

Nothing listens anywhere: the agent reaches it through the channel on which it is driven. A call of such a tool passes
permission and chain like a call of any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from interlock.model import FrozenMap, JsonValue, Map, Model

__all__ = ["InProcessServer", "ServedTool", "ServerResult"]

ANY_OBJECT: FrozenMap[JsonValue] = FrozenMap({"type": "object"})


class ServedTool(Model):
    """One tool: what the model is told of it."""

    name: str
    description: str = ""
    input_schema: Map[JsonValue] = ANY_OBJECT
    """A JSON Schema of type object."""


class ServerResult(Model):
    """What a call gives: text, or content blocks of MCP where text is not enough."""

    text: str = ""
    blocks: tuple[JsonValue, ...] = ()
    is_error: bool = False


@runtime_checkable
class InProcessServer(Protocol):
    """A server of tools in this process."""

    def tools(self) -> Sequence[ServedTool]:
        """The tools, asked for once a run."""
        ...

    async def call(self, name: str, arguments: Mapping[str, JsonValue]) -> str | ServerResult:
        """Do it; what is raised is shown to the model as the tool's error."""
        ...
