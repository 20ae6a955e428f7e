"""How Copilot is given our hooks, and what they may answer, in its own words (Copilot CLI 1.0.102).

The hooks stand in a plugin of the run: each posts one JSON object to an endpoint of ours. Of a hook before a call a
timeout, or an answer that is not understood, counts as a yes; so does one that is missing. Therefore no flag lets
anything run that is asked about, and a second hook, for the permission, grants what was decided and nothing else: there
all of that counts as a no. Only the few forms below are ever answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from interlock.adapter import Endpoint
from interlock.model import JsonValue
from interlock.tools import MAIN_AGENT

__all__ = [
    "AFTER",
    "BEFORE",
    "ENDPOINTS",
    "FAILED",
    "GRANT",
    "NOTHING",
    "PERMISSION",
    "PROMPT",
    "REFUSALS",
    "START",
    "TIMEOUT",
    "HookBody",
    "deny",
    "modify",
    "release",
    "settings",
    "show",
]

START, PROMPT, BEFORE, PERMISSION = "start", "prompt", "before", "permission"
AFTER, FAILED = "after", "failed"
EVENTS: Mapping[str, str] = {
    "sessionStart": START,
    "userPromptSubmitted": PROMPT,
    "preToolUse": BEFORE,
    "permissionRequest": PERMISSION,
    "postToolUse": AFTER,
    "postToolUseFailure": FAILED,
}
"""Each event of Copilot that is hooked, and the endpoint that it calls."""
ENDPOINTS = tuple(
    Endpoint(name, "http", unrefused=(name,) if name == FAILED else ()) for name in dict.fromkeys(EVENTS.values())
)
"""The output of a failed call cannot be replaced: only not answering keeps it from the model."""
TIMEOUT = 86_400
"""Seconds that Copilot is told to wait; the limits of ours are far below."""
FAULT = "the answer about this call could not be given"
NO_OUTPUT = "(no output)"

NOTHING = b"{}"
"""No objection."""
GRANT = b'{"behavior":"allow"}'


def deny(reason: str) -> bytes:
    """No before a call."""
    said = {"permissionDecision": "deny", "permissionDecisionReason": reason if reason.strip() else FAULT}
    return json.dumps(said).encode()


def modify(native: JsonValue) -> bytes:
    """No objection to the call with another input; the permission is asked for that one."""
    return json.dumps({"modifiedArgs": native}).encode()


def show(text: str, *, is_error: bool) -> bytes:
    """What the model, and everybody who reads the stream, is shown in place of the output of a call."""
    text = text if text.strip() else NO_OUTPUT
    result: dict[str, JsonValue] = {"textResultForLlm": text, "sessionLog": text, "contents": []}
    result |= {"resultType": "failure", "error": text} if is_error else {"resultType": "success"}
    return json.dumps({"modifiedResult": result}).encode()


def release(prompt: str) -> bytes:
    """The prompt of the run, in place of the one that was typed."""
    return json.dumps({"modifiedPrompt": prompt}).encode()


def _withheld(reason: str) -> bytes:
    return json.dumps({"behavior": "deny", "message": reason}).encode()


REFUSALS: Mapping[str, bytes] = {
    START: NOTHING,
    PROMPT: json.dumps({"decision": "block", "reason": FAULT}).encode(),
    BEFORE: deny(FAULT),
    PERMISSION: _withheld("it was not decided that this call may run"),
    AFTER: show(FAULT, is_error=True),
    FAILED: NOTHING,
}


def settings() -> str:
    """The hooks as the plugin's file has them, placeholders not filled in; the tokens make it secret."""
    hooks = {
        event: [
            {
                "type": "http",
                "url": f"{{endpoint:{name}}}",
                "headers": {"Authorization": f"Bearer {{token:{name}}}"},
                "timeoutSec": TIMEOUT,
            }
        ]
        for event, name in EVENTS.items()
    }
    return json.dumps({"version": 1, "hooks": hooks})


# ---- What a hook is called with -------------------------------------------------------------------------------------


class ToolResult(BaseModel):
    """What a call gave; `success`, `failure`, ..."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: str = Field(alias="resultType")
    text: str = Field(default="", alias="textResultForLlm")


class HookBody(BaseModel):
    """The body of one call of a hook; which fields it has depends on the event."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    session: str = Field(alias="sessionId")
    cwd: str
    agent: str = Field(default=MAIN_AGENT, alias="agentId")
    prompt: str = ""
    name: str = Field(default="", alias="toolName")
    args: JsonValue = Field(default=None, alias="toolArgs")
    asked: JsonValue = Field(default=None, alias="toolInput")
    """What a permission is asked for; of a file the path alone, of a command its text."""
    result: ToolResult | None = Field(default=None, alias="toolResult")
    error: str = ""
