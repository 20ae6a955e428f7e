"""The narrowest rule that would let one call run, for people who want to say yes once and for all."""

from __future__ import annotations

import re

from interlock.engine.hosts import plain_host
from interlock.engine.places import Place
from interlock.engine.rules import Rules
from interlock.errors import ConfigurationError
from interlock.tools import ToolCall, ToolKind

__all__ = ["suggest"]

_PORTS = {"http": 80, "https": 443}


def suggest(call: ToolCall, place: Place) -> str | None:
    """A rule that covers this call; None where no narrow one can."""
    pattern = _pattern(call, place)
    if pattern is None:
        return None
    rule = f"{call.tool_kind}({pattern})" if pattern else str(call.tool_kind)
    try:
        return rule if Rules([rule], "allow", place).match(call) is not None else None
    except ConfigurationError:
        return None


def _pattern(call: ToolCall, place: Place) -> str | None:
    match call.tool_kind:
        case ToolKind.SHELL:
            return (call.subject.command or "").strip(" \t") or None
        case ToolKind.READ | ToolKind.SEARCH | ToolKind.EDIT | ToolKind.WRITE | ToolKind.PATCH:
            return _path(call, place)
        case ToolKind.MCP:
            return _plain(call.subject.mcp or "")
        case ToolKind.FETCH:
            return _host(call)
        case ToolKind.UNKNOWN:
            return _plain(call.tool_name)
        case _:
            return ""


def _path(call: ToolCall, place: Place) -> str | None:
    if len(call.subject.paths) != 1:
        return None
    spellings = place.spellings(call.subject.paths[0], call.cwd)
    if spellings is None or len(spellings.written) != 1:
        return None
    (path,) = spellings.written
    if path == place.workspace:
        return "."
    return _plain(path.removeprefix(place.workspace.rstrip("/") + "/"))


def _plain(text: str) -> str | None:
    return text if text and not re.search(r"[*?{}\s\0]", text) else None


def _host(call: ToolCall) -> str | None:
    hosts = {plain_host(url) for url in call.subject.urls}
    read = hosts.pop() if len(hosts) == 1 else None
    if read is None:
        return None
    scheme, host, port = read
    return host if port == _PORTS[scheme] else f"{host}:{port}"
