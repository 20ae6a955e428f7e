"""Claude Code at its own screen, with a person before it and our hooks behind it (2.1.197 and 2.1.332).

The hooks are of type `http` and stand in the settings of `--settings`, the only ones that are loaded. Whatever goes
wrong with such a hook, the call goes on to the agent's own flow; so a rule over everything has that flow ask, under
every mode that can be chosen on the screen, and a second hook answers for the person where it was decided that a call
may run. Hooks that are lost or too slow leave a person who is asked about every call.

A session's start is told to no hook of this type: the first one that comes is that of the first prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from interlock.adapter import Argument, Codec, Endpoint, LadderStep, Launch, LaunchFile, LaunchLink, Order, WindowSize
from interlock.attached import AttachedCodec, Heard
from interlock.capabilities import EVERY_KIND, Capabilities, Hole, Unmet
from interlock.model import JsonValue, same_json
from interlock.permission import Backstop, Otherwise
from interlock.tools import MAIN_AGENT, ToolCall
from interlock_adapters.claude.environment import CONFIG_HOME, dropped_variables, set_variables, unmet_variables
from interlock_adapters.claude.extra_args import unmet_arguments
from interlock_adapters.claude.launch import SESSIONS
from interlock_adapters.claude.login import CREDENTIALS, CREDENTIALS_FILE, KEYS, SERVICE
from interlock_adapters.claude.tools import canonical_name, kind_of, subject_of
from interlock_adapters.claude.versions import NEWEST, OLDEST

__all__ = ["Attach"]

SETTINGS = "settings.json"
"""Outside the config home; the tokens make it secret, so it never stands in argv."""
STATE = f"{CONFIG_HOME}/.claude.json"
TIMEOUT = 86_400
"""Seconds that the agent is told to wait; the limits of ours are far below."""
FAULT = "the answer about this call could not be given"
APPROVED = 20
"""Characters at the end of a key by which the agent knows that the person has agreed to its use."""
LADDER = (LadderStep("signal", 2.0, "INT"), LadderStep("signal", 1.0, "TERM"))

_Event = Literal["alive", "before", "permission", "after", "failed"]
EVENTS: Mapping[str, _Event] = {
    "UserPromptSubmit": "alive",
    "PreToolUse": "before",
    "PermissionRequest": "permission",
    "PostToolUse": "after",
    "PostToolUseFailure": "failed",
}
"""Each event of the agent that is hooked, and what it means; its name is that of the endpoint too."""

CAPABILITIES = Capabilities(
    agent="claude",
    transport="attach",
    versions=f"{OLDEST} to {NEWEST}",
    sees_before="all",
    deny=EVERY_KIND,
    modify=EVERY_KIND,
    holes=(
        Hole(what="what you run yourself on the screen (`!`), and files that you name with `@`"),
        Hole(what="all outputs, and what re-reads them", before=False),
        Hole(what="whether a file exists, when an edit of it is refused before any hook"),
    ),
    backstops=(Backstop.FLAGS,),
    otherwise=frozenset({Otherwise.DENY, Otherwise.CHAIN, Otherwise.AGENT}),
    add_dirs=True,
    efforts=("low", "medium", "high", "xhigh", "max"),
)


class Attach:
    """`claude` on the person's terminal, and hooks that call us."""

    name = "attach"
    capabilities = CAPABILITIES

    def check(self, order: Order) -> Sequence[Unmet]:
        """Everything that is wrong with the order at once."""
        return (
            *unmet_arguments(order.request.extra_args),
            *CREDENTIALS.unmet(order),
            *unmet_variables(order),
        )

    def launch(self, order: Order) -> Launch:
        """The process for this order; deterministic."""
        login = CREDENTIALS.chosen(order)
        links = [LaunchLink(f"{CONFIG_HOME}/projects", f"{{state}}/{SESSIONS}", make="folder")]
        if login.source == "file":
            credentials = f"{order.host.login_folder}/{CREDENTIALS_FILE}"
            links.append(LaunchLink(f"{CONFIG_HOME}/{CREDENTIALS_FILE}", credentials))
        return Launch(
            argv=tuple(_argv(order)),
            env=set_variables(order),
            secret_env=frozenset({*KEYS, SERVICE[1]}),
            drop_env=dropped_variables(order),
            files=(
                LaunchFile(SETTINGS, _settings(), "secret", template=True),
                LaunchFile(STATE, _state(order), "secret"),
            ),
            links=tuple(links),
            endpoints=tuple(Endpoint(name, "http") for name in EVENTS),
            refusals=Dialect.refusals,
            ladder=LADDER,
            terminal=WindowSize(),
            warnings=(
                f"credentials: {login.described}",
                "what was not decided here is asked by the agent on its own screen, and your answer there counts",
                "its hooks are heard of once you have typed a prompt; should they be lost, it asks about each call",
            ),
        )

    def codec(self, order: Order) -> Codec:
        """A fresh translator for one process."""
        del order
        return AttachedCodec(Dialect())


def _argv(order: Order) -> Iterator[Argument]:
    request = order.request
    yield Argument(order.host.binary)
    yield from map(Argument, ("--setting-sources=", "--strict-mcp-config", "--permission-mode=default"))
    yield Argument(f"--settings={{home}}/{SETTINGS}", template=True)
    yield from (Argument(f"--add-dir={folder}") for folder in request.add_dirs)
    if request.model is not None:
        yield Argument(f"--model={request.model}")
    if request.effort is not None:
        yield Argument(f"--effort={request.effort}")
    yield from (Argument(text, "unchecked") for text in request.extra_args)


def _settings() -> str:
    """The one source of settings: the hooks, and the rule that has the agent ask about every call."""
    hooks = {
        event: [
            {
                "matcher": "*",
                "hooks": [
                    {
                        "type": "http",
                        "url": f"{{endpoint:{event}}}",
                        "headers": {"Authorization": f"Bearer {{token:{event}}}"},
                        "timeout": TIMEOUT,
                    }
                ],
            }
        ]
        for event in EVENTS
    }
    return json.dumps({"permissions": {"disableAutoMode": "disable", "ask": ["*"]}, "hooks": hooks})


def _state(order: Order) -> str:
    """What the agent would ask at the first start of a config home, and this one is new each time.

    The folder counts as trusted: nothing that trust would load is loaded. The key that the session logs in with was
    chosen by who started it.
    """
    state: dict[str, JsonValue] = {
        "hasCompletedOnboarding": True,
        "projects": {order.request.cwd: {"hasTrustDialogAccepted": True}},
    }
    key = order.request.env.get(KEYS[0]) or order.host.environ.get(KEYS[0])
    if key and KEYS[0] not in CREDENTIALS.chosen(order).dropped:
        state["customApiKeyResponses"] = {"approved": [key[-APPROVED:]], "rejected": []}
    return json.dumps(state)


class _Body(BaseModel):
    """The body of one call of a hook; which fields it has depends on the event."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    event: str = Field(alias="hook_event_name")
    cwd: str
    agent: str = Field(default=MAIN_AGENT, alias="agent_id")
    name: str = Field(default="", alias="tool_name")
    native: JsonValue = Field(default=None, alias="tool_input")
    call: str = Field(default="", alias="tool_use_id")


def _specific(event: str, **said: JsonValue) -> bytes:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **said}}).encode()


def _deny(reason: str) -> bytes:
    return _specific("PreToolUse", permissionDecision="deny", permissionDecisionReason=reason)


class Dialect:
    """How the hooks of Claude Code speak."""

    refusals: Mapping[str, bytes] = {
        "UserPromptSubmit": json.dumps({"decision": "block", "reason": FAULT}).encode(),
        "PreToolUse": _deny(FAULT),
        "PermissionRequest": _specific("PermissionRequest", decision={"behavior": "deny", "message": FAULT}),
        "PostToolUse": b"{}",
        "PostToolUseFailure": b"{}",
    }
    nothing = b"{}"
    grant: bytes | None = _specific("PermissionRequest", decision={"behavior": "allow"})

    def read(self, channel: str, body: bytes) -> Heard:
        """What a hook was called with; raises ValueError."""
        told = _Body.model_validate_json(body)
        if told.event != channel:
            raise ValueError(f"the hook of {channel} was called for {told.event}")
        name = canonical_name(told.name)
        return Heard(EVENTS[channel], name, told.native, told.agent, told.call, told.cwd)

    def describe(self, heard: Heard, call_id: str) -> ToolCall:
        """The call in the shared vocabulary."""
        return ToolCall(
            tool_call_id=call_id,
            tool_name=heard.name,
            input=heard.native,
            tool_kind=kind_of(heard.name),
            subject=subject_of(heard.name, heard.native),
            agent_id=heard.agent_id,
            cwd=heard.cwd,
        )

    def asks_about(self, call: ToolCall, heard: Heard) -> bool:
        """The hook of a permission is not told the id, but the whole input."""
        return call.tool_name == heard.name and same_json(call.input, heard.native)

    def passed(self, call: ToolCall, *, changed: bool) -> tuple[bytes, JsonValue]:
        """The agent's own flow follows, which asks."""
        if not isinstance(call.input, dict):
            raise TypeError("an input of this agent is an object")
        return _specific("PreToolUse", updatedInput=call.input) if changed else self.nothing, call.input

    def deny(self, reason: str) -> bytes:
        """No before a call."""
        return _deny(reason)
