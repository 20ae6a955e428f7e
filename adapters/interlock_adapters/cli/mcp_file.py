"""A file of MCP servers, in the shape that agents' own files have: `{"mcpServers": {NAME: {"command": ...}}}`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from interlock.request import McpServer

__all__ = ["McpFileProblem", "read_servers"]

LONGEST = 1024 * 1024
"""Bytes of such a file."""


class McpFileProblem(Exception):
    """A file of MCP servers that cannot be used; the text names the file, the place in it and the way out."""


def read_servers(paths: list[str]) -> "dict[str, McpServer]":
    """The servers of all files by name; raises `McpFileProblem`, also where two files have a server of one name."""
    servers: dict[str, McpServer] = {}
    for path in paths:
        found = _servers_of(path)
        twice = sorted(servers.keys() & found.keys())
        if twice:
            raise McpFileProblem(f"{path}: another file has a server {twice[0]!r} too; rename one of them")
        servers.update(found)
    return servers


def _servers_of(path: str) -> "dict[str, McpServer]":
    content = _content(path)
    named = cast("dict[str, object]", content).get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(named, dict):
        raise McpFileProblem(f'{path}: it must be {{"mcpServers": {{NAME: {{"command": ...}}}}}}')
    others = sorted(cast("dict[str, object]", content).keys() - {"mcpServers"})
    if others:
        raise McpFileProblem(f"{path}: {others[0]!r} is nothing that such a file has; only mcpServers is read")
    return {name: _server(path, name, entry) for name, entry in cast("dict[str, object]", named).items()}


def _content(path: str) -> object:
    try:
        with Path(path).open("rb") as file:
            data = file.read(LONGEST + 1)
    except OSError as error:
        raise McpFileProblem(f"{path}: {error.strerror}") from None
    if len(data) > LONGEST:
        raise McpFileProblem(f"{path}: it is longer than {LONGEST} bytes; name the file of servers itself")
    try:
        return json.loads(data.decode())
    except ValueError as error:
        raise McpFileProblem(f"{path}: it is no JSON in UTF-8: {error}") from None


def _server(path: str, name: str, entry: object) -> "McpServer":
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 -- `--help` needs no model

    from interlock.request import McpServer  # noqa: PLC0415 -- same

    if isinstance(entry, dict) and "type" not in entry:
        entry = {"type": "http" if "url" in entry else "stdio", **cast("dict[str, Any]", entry)}
    adapter: TypeAdapter[McpServer] = TypeAdapter(McpServer)
    try:
        return adapter.validate_json(json.dumps(entry))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"] if part not in {"stdio", "http", "sse"})
        raise McpFileProblem(f"{path}: mcpServers.{name}{f'.{place}' if place else ''}: {first['msg']}") from None
