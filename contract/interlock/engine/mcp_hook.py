"""The little of MCP over HTTP that an agent needs to call us as its hook; pure.

Each message is a POST of its own, answered with plain JSON: no session, no stream from us. The tools are hidden from
the model. What is no call is answered here; a call becomes a `HookCalled`, and its answer is one text block. Seen with
Codex 0.171.0, which speaks MCP 2025-06-18: `initialize`, `notifications/initialized`, `tools/list`, `tools/call`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic_core import to_json

from interlock.framing.json_objects import NotJson, parse_object

__all__ = ["HookCalled", "NotMcp", "Said", "answer", "read"]

PROTOCOL = "2025-06-18"
"""What is spoken where the agent does not say which version it speaks."""
_HIDDEN = {"ui": {"visibility": ["app"]}}
_METHOD_NOT_FOUND = -32601

Id = int | str


@dataclass(frozen=True, slots=True)
class HookCalled:
    """A tool was called: `body` holds the parameters of the call as JSON, its name among them."""

    id: Id
    body: bytes


@dataclass(frozen=True, slots=True)
class Said:
    """What is answered at once: an HTTP status and a body."""

    status: int
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class NotMcp:
    """The message makes no sense, and why."""

    reason: str


def read(message: bytes, tools: Sequence[str]) -> HookCalled | Said | NotMcp:
    """Read one message of the agent."""
    found = parse_object(message)
    if isinstance(found, NotJson):
        return NotMcp(found.reason)
    method, id_ = found.get("method"), found.get("id")
    if not isinstance(method, str):
        return NotMcp("it names no method")
    if "id" not in found:
        return Said(202)
    if isinstance(id_, bool) or not isinstance(id_, int | str):
        return NotMcp("its id is neither a number nor a text")
    params = found.get("params")
    known = cast("dict[str, object]", params) if isinstance(params, dict) else dict[str, object]()
    if method == "tools/call":
        return HookCalled(id_, to_json(known)) if known.get("name") in tools else NotMcp("it calls an unknown tool")
    return _said(id_, method, known, tools)


def answer(id_: Id, text: str) -> bytes:
    """The result of a call: one text block."""
    return _result(id_, {"content": [{"type": "text", "text": text}]})


def _said(id_: Id, method: str, params: Mapping[str, object], tools: Sequence[str]) -> Said:
    match method:
        case "initialize":
            asked = params.get("protocolVersion")
            server = {"name": "interlock", "version": "1"}
            version = asked if isinstance(asked, str) else PROTOCOL
            offered = {"tools": dict[str, object]()}
            hello = {"protocolVersion": version, "capabilities": offered, "serverInfo": server}
            return Said(200, _result(id_, hello))
        case "tools/list":
            shown = [{"name": name, "inputSchema": {"type": "object"}, "_meta": _HIDDEN} for name in tools]
            return Said(200, _result(id_, {"tools": shown}))
        case "ping":
            return Said(200, _result(id_, {}))
        case _:
            error = {"code": _METHOD_NOT_FOUND, "message": "unknown method"}
            return Said(200, _dump({"jsonrpc": "2.0", "id": id_, "error": error}))


def _result(id_: Id, result: object) -> bytes:
    return _dump({"jsonrpc": "2.0", "id": id_, "result": result})


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
