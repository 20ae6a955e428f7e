"""Copilot at its own screen, with a person before it and our hooks behind it (Copilot CLI 1.0.102).

The hooks are those of a run, in a plugin of their own. No flag lets anything run: what Copilot asks about is granted by
a hook where it was decided that the call may run, and asked on the screen where it was not. So hooks that are lost or
too slow leave a person who is asked; what Copilot never asks about, above all reading inside the folder, then goes
unseen.

The start of the session is told to a hook only with the first prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from interlock.adapter import Argument, Codec, Endpoint, Launch, LaunchFile, Order, WindowSize
from interlock.attached import AttachedCodec, Heard
from interlock.capabilities import EVERY_KIND, Capabilities, Hole, Unmet
from interlock.model import JsonValue, same_json
from interlock.permission import Backstop, Otherwise
from interlock.tools import ToolCall
from interlock_adapters.copilot.environment import dropped_variables, set_variables, unmet_variables
from interlock_adapters.copilot.extra_args import unmet_arguments
from interlock_adapters.copilot.links import links
from interlock_adapters.copilot.login import SECRETS, chosen_login, unmet_login, unmet_model
from interlock_adapters.copilot.prompt import hooks
from interlock_adapters.copilot.prompt.flags import permission_flags
from interlock_adapters.copilot.prompt.hooks import HookBody
from interlock_adapters.copilot.prompt.transport import LADDER, PLUGIN
from interlock_adapters.copilot.tools import PATCH, SHELL, Tools
from interlock_adapters.copilot.versions import NEWEST, OLDEST
from interlock_adapters.copilot.wrapping import foreign_agent, wrapped

__all__ = ["Attach"]

OBEYS = (".github/hooks", ".github/copilot", ".github/agents")
"""What a folder that is trusted on the screen would bring: hooks that change what ours has seen, and programs."""

_Event = Literal["alive", "before", "permission", "after", "failed"]
EVENTS: Mapping[str, _Event] = {
    hooks.START: "alive",
    hooks.PROMPT: "alive",
    hooks.BEFORE: "before",
    hooks.PERMISSION: "permission",
    hooks.AFTER: "after",
    hooks.FAILED: "failed",
}

CAPABILITIES = Capabilities(
    agent="copilot",
    transport="attach",
    versions=f"{OLDEST} to {NEWEST}",
    sees_before="all",
    deny=EVERY_KIND,
    modify=EVERY_KIND,
    holes=(
        Hole(what="what you run yourself on the screen (`!`), and files that you name with `@`"),
        Hole(what="all outputs, and what a command says in the background", before=False),
    ),
    backstops=(Backstop.FLAGS,),
    otherwise=frozenset({Otherwise.DENY, Otherwise.CHAIN, Otherwise.AGENT}),
    efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
)


class Attach:
    """`copilot` on the person's terminal, and hooks that call us."""

    name = "attach"
    capabilities = CAPABILITIES

    def check(self, order: Order) -> Sequence[Unmet]:
        """Everything that is wrong with the order at once."""
        return (
            *unmet_arguments(order.request.extra_args),
            *unmet_login(order),
            *unmet_model(order),
            *unmet_variables(order),
        )

    def launch(self, order: Order) -> Launch:
        """The process for this order; deterministic."""
        plugin: JsonValue = {"name": "interlock", "version": "1.0.0", "hooks": "hooks.json"}
        return Launch(
            argv=tuple(_argv(order)),
            env={**set_variables(order), "COPILOT_HOOK_ALLOW_LOCALHOST": "1"},
            secret_env=SECRETS,
            drop_env=dropped_variables(order),
            files=(
                LaunchFile(f"{PLUGIN}/plugin.json", json.dumps(plugin)),
                LaunchFile(f"{PLUGIN}/hooks.json", hooks.settings(), "secret", template=True),
            ),
            links=links(order),
            endpoints=tuple(Endpoint(name, "http") for name in EVENTS),
            refusals=hooks.REFUSALS,
            ladder=LADDER,
            terminal=WindowSize(),
            obeys=OBEYS,
            warnings=(
                f"credentials: {chosen_login(order).described}",
                "what was not decided here is asked by the agent on its own screen, and your answer there counts",
                "its hooks are heard of once you have typed a prompt; should they be lost, it asks, and reads unseen",
            ),
        )

    def codec(self, order: Order) -> Codec:
        """A fresh translator for one process."""
        return AttachedCodec(Dialect(trusted=order.request.trust_workspace))


def _argv(order: Order) -> Iterator[Argument]:
    request = order.request
    yield Argument(order.host.binary)
    yield from map(Argument, ("-C", request.cwd, "--log-level=none", "--no-auto-update", "--no-remote"))
    yield from map(Argument, ("--no-experimental", "--no-bash-env", "--no-custom-instructions"))
    yield Argument("--disable-builtin-mcps")
    yield Argument(f"--plugin-dir={{home}}/{PLUGIN}", template=True)
    yield from map(Argument, permission_flags(request))
    if request.model is not None:
        yield Argument(f"--model={request.model}")
    if request.effort is not None:
        yield Argument(f"--reasoning-effort={request.effort}")
    yield from (Argument(text, "unchecked") for text in request.extra_args)


class Dialect:
    """How the hooks of Copilot speak."""

    refusals = hooks.REFUSALS
    nothing = hooks.NOTHING
    grant: bytes | None = hooks.GRANT

    def __init__(self, *, trusted: bool) -> None:
        self._tools = Tools()
        self._trusted = trusted

    def read(self, channel: str, body: bytes) -> Heard:
        """What a hook was called with; raises ValueError."""
        told = HookBody.model_validate_json(body)
        native = told.asked if channel == hooks.PERMISSION else told.args
        return Heard(EVENTS[channel], told.name, native, told.agent, "", told.cwd)

    def describe(self, heard: Heard, call_id: str) -> ToolCall:
        """The call in the shared vocabulary."""
        return ToolCall(
            tool_call_id=call_id,
            tool_name=heard.name,
            input=heard.native,
            tool_kind=self._tools.kind_of(heard.name),
            subject=self._tools.subject_of(heard.name, heard.native),
            agent_id=heard.agent_id,
            cwd=heard.cwd,
        )

    def asks_about(self, call: ToolCall, heard: Heard) -> bool:
        """Of a command its text is asked for; of a file the path, and then any change could be meant."""
        if heard.name == SHELL:
            return call.tool_name == SHELL and _field(call.input, "command") == _field(heard.native, "command")
        if heard.name == "edit":
            return call.tool_name in {"create", "edit", PATCH}
        return call.tool_name == heard.name and same_json(call.input, heard.native)

    def passed(self, call: ToolCall, *, changed: bool) -> tuple[bytes, JsonValue]:
        """The agent's own flow follows; what a run rewrites for its own reasons is rewritten here too."""
        native = call.input
        if isinstance(native, str) is not (call.tool_name == PATCH) or not isinstance(native, str | dict):
            raise TypeError("an input of this agent is an object, and a patch a text")
        reason = None if self._trusted else foreign_agent(call.tool_name, native)
        if reason is not None:
            raise ValueError(reason)
        told = wrapped(call.tool_name, native, at_once=False)
        return hooks.modify(told) if changed or not same_json(told, native) else self.nothing, told

    def deny(self, reason: str) -> bytes:
        """No before a call."""
        return hooks.deny(reason)


def _field(native: JsonValue, name: str) -> JsonValue:
    return native.get(name) if isinstance(native, dict) else None
