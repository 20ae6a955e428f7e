"""How Codex is given our hooks, and what they may answer, in its own words (Codex 0.171.0).

A hook runs only if its hash is trusted; a wrong one is skipped without a word. The hash is over the handler with its
defaults filled in, as JSON with sorted keys: no number but the timeout may stand in it, since others are written in a
way of their own. Nearly every malformed answer counts as a yes, so only the few forms below are ever given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from interlock.model import JsonValue

__all__ = [
    "ENDPOINT",
    "EVENTS",
    "OBSERVING",
    "REFUSAL",
    "SERVER",
    "SOURCE",
    "STAGES",
    "HookArguments",
    "HookParams",
    "deny",
    "handler",
    "hash_of",
    "modify",
    "server",
    "settings",
    "show",
    "trust_hash",
]

SERVER = "interlock"
"""The name of our MCP server in the agent's configuration."""
ENDPOINT = "hooks"
SOURCE = "/<session-flags>/config.toml"
"""What Codex calls the place of settings that stand in argv."""
TIMEOUT = 86_400
"""Seconds at the most that Codex is told to wait; the limits of ours are far below, or none."""
START_UP = 20
FAULT = "the answer about this call could not be given"


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One event: its name in a hash, in a list of hooks, and the tool of our server that serves it."""

    snake: str
    camel: str
    tool: str


EVENTS: Mapping[str, HookEvent] = {
    "SessionStart": HookEvent("session_start", "sessionStart", "start"),
    "PreToolUse": HookEvent("pre_tool_use", "preToolUse", "before"),
    "PostToolUse": HookEvent("post_tool_use", "postToolUse", "after"),
    "PreModelRequest": HookEvent("pre_model_request", "preModelRequest", "request"),
}
STAGES = tuple(event.tool for event in EVENTS.values())
OBSERVING = (EVENTS["PreModelRequest"].tool,)
"""Events that no answer stops: only not answering does."""

ALLOW = b""


def deny(reason: str) -> bytes:
    """No before a call; after it, the text in place of the output."""
    return json.dumps({"decision": "block", "reason": reason if reason.strip() else FAULT}).encode()


def show(text: str) -> bytes:
    """What the model is shown in place of the output; a blank text would let the output through."""
    return deny(text if text.strip() else "(no output)")


def modify(native: JsonValue) -> bytes:
    """Yes, with another input."""
    said = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": native}
    return json.dumps({"hookSpecificOutput": said}).encode()


REFUSAL = deny(FAULT)


# ---- Configuration --------------------------------------------------------------------------------------------------

_COMMON = {"event": "${hook_event_name}", "session": "${session_id}", "cwd": "${cwd}"}
_CALL = _COMMON | {"id": "${tool_use_id}", "name": "${tool_name}", "input": "${tool_input}", "turn": "${turn_id}"}
_INPUTS: Mapping[str, Mapping[str, str]] = {
    "SessionStart": _COMMON | {"source": "${source}"},
    "PreToolUse": _CALL,
    "PostToolUse": _CALL | {"output": "${tool_response}"},
    "PreModelRequest": _COMMON,
}


def handler(event: str) -> dict[str, JsonValue]:
    """The one handler of an event, with every default filled in."""
    asked: dict[str, JsonValue] = {**_INPUTS[event]}
    return {"type": "mcp_tool", "server": SERVER, "tool": EVENTS[event].tool, "timeout": TIMEOUT, "input": asked}


def hash_of(event: str) -> str:
    """What Codex must be told to trust for our handler of this event to run."""
    return trust_hash(EVENTS[event].snake, handler(event))


def trust_hash(event: str, told: Mapping[str, JsonValue]) -> str:
    """The hash of the only handler, without a matcher, of an event; raises nothing, and knows no defaults."""
    known = {"event_name": event, "hooks": [told]}
    text = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def settings() -> dict[str, JsonValue]:
    """The hooks and their trust, by dotted key of the configuration; no secret is in them."""
    trusted: dict[str, JsonValue] = {
        f"{SOURCE}:{known.snake}:0:0": {"trusted_hash": hash_of(event)} for event, known in EVENTS.items()
    }
    found: dict[str, JsonValue] = {f"hooks.{event}": [{"hooks": [handler(event)]}] for event in EVENTS}
    found["hooks.state"] = trusted
    return found


def server(url: str, token: str) -> dict[str, JsonValue]:
    """Our MCP server; said over the server's stdin alone, so that the token stands in no argv, variable or file."""
    return {
        "url": url,
        "http_headers": {"Authorization": f"Bearer {token}"},
        "required": True,
        "tool_timeout_sec": TIMEOUT,
        "startup_timeout_sec": START_UP,
    }


# ---- What a hook is called with -------------------------------------------------------------------------------------


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class HookArguments(_Part):
    """What our templates ask for."""

    event: str
    session: str
    cwd: str | None = None
    id: str = ""
    name: str = ""
    input: JsonValue = None
    output: JsonValue = None


class HookMeta(_Part):
    """Who calls: the thread, a sub-agent's too."""

    thread: str | None = Field(default=None, alias="threadId")


class HookParams(_Part):
    """The parameters of one call of a hook."""

    name: str
    arguments: HookArguments
    meta: HookMeta = Field(default_factory=HookMeta, alias="_meta")
