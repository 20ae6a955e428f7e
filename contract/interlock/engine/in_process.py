"""Servers of tools in this process, as an agent's MCP client sees them: one JSON-RPC message in, one answer out.

Whatever a server does, the agent gets an answer. Its own fault is the tool's error, which the model reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from interlock.engine.plain_json import copied
from interlock.errors import ConfigurationError
from interlock.model import JsonValue
from interlock.servers import InProcessServer, ServedTool, ServerResult

__all__ = ["InProcess"]

UNKNOWN_METHOD = -32601
VERSION = "2025-06-18"
"""Of MCP, where the client names none."""
Object = dict[str, JsonValue]


@dataclass(slots=True)
class InProcess:
    """The servers of one run, by name."""

    servers: Mapping[str, InProcessServer]
    _tools: dict[str, tuple[ServedTool, ...]] = field(default_factory=dict[str, tuple[ServedTool, ...]])

    def __post_init__(self) -> None:
        for name, server in self.servers.items():
            _check(name, server)

    async def answer(self, name: str, message: JsonValue) -> JsonValue:
        """The answer to a message; to a notification too, which says nothing."""
        told = message if isinstance(message, dict) else {}
        number, method, params = told.get("id"), told.get("method"), told.get("params")
        if number is None:
            return {"jsonrpc": "2.0", "id": 0, "result": {}}
        fields = params if isinstance(params, dict) else {}
        match method:
            case "initialize":
                result: JsonValue = _introduced(name, fields)
            case "ping":
                result = {}
            case "tools/list":
                result = {"tools": [_listed(tool) for tool in self._known(name)]}
            case "tools/call":
                result = await self._called(name, fields)
            case _:
                return _error(number, UNKNOWN_METHOD, f"{method} is not served")
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def _known(self, name: str) -> tuple[ServedTool, ...]:
        if name not in self._tools:
            self._tools[name] = tuple(self.servers[name].tools())
        return self._tools[name]

    async def _called(self, name: str, fields: Object) -> JsonValue:
        tool, arguments = fields.get("name"), fields.get("arguments") or {}
        if not isinstance(tool, str) or tool not in {known.name for known in self._known(name)}:
            return _shown(ServerResult(text=f"there is no tool {tool!r}", is_error=True))
        if not isinstance(arguments, dict):
            return _shown(ServerResult(text="the arguments are no object", is_error=True))
        try:
            given = await self.servers[name].call(tool, arguments)
            return _shown(given if isinstance(given, ServerResult) else ServerResult(text=given))
        except Exception as error:  # noqa: BLE001  # a tool's fault is for the model to read
            return _shown(ServerResult(text=f"{type(error).__name__}: {error}", is_error=True))


def _check(name: str, server: object) -> None:
    if not isinstance(server, InProcessServer):
        raise ConfigurationError(f"mcp[{name!r}]", "is no server: it needs `tools()` and `async call()`")


def _introduced(name: str, fields: Object) -> JsonValue:
    version = fields.get("protocolVersion")
    return {
        "protocolVersion": version if isinstance(version, str) else VERSION,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": name, "version": "1"},
    }


def _listed(tool: ServedTool) -> JsonValue:
    return {"name": tool.name, "description": tool.description, "inputSchema": copied(dict(tool.input_schema))}


def _shown(result: ServerResult) -> JsonValue:
    blocks = [copied(block) for block in result.blocks]
    if result.text or not blocks:
        blocks.insert(0, {"type": "text", "text": result.text})
    return {"content": blocks, "isError": result.is_error}


def _error(number: JsonValue, code: int, message: str) -> JsonValue:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
