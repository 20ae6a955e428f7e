"""Codex at its own screen, with a person before it and our hooks behind it (0.171.0).

The hooks are those of a run, trusted by their hash in the arguments; the server that they call stands in the private
configuration, since its token belongs into no argument. The sandbox is that of the posture, and Codex asks the person
who wants to leave it: nothing is ever answered for them. Hooks that are lost leave the sandbox. That configuration is
read again for each conversation, so a command outside of the sandbox could take the hooks from the next one.

The start of the session is told to a hook only with the first prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from interlock.adapter import Argument, Codec, Endpoint, LadderStep, Launch, LaunchFile, Order, WindowSize
from interlock.attached import AttachedCodec, Heard
from interlock.capabilities import EVERY_KIND, Capabilities, Hole, Unmet
from interlock.model import JsonValue
from interlock.permission import Backstop, Otherwise, Posture
from interlock.tools import MAIN_AGENT, ToolCall
from interlock_adapters.codex import hooks, planning, sandbox
from interlock_adapters.codex.config import arguments, toml
from interlock_adapters.codex.environment import CONFIG_HOME, exec_variables
from interlock_adapters.codex.hooks import HookParams
from interlock_adapters.codex.shell import wrapped
from interlock_adapters.codex.tools import HIDDEN, PATCH, SHELL, kind_of, subject_of
from interlock_adapters.codex.versions import NEWEST, OLDEST

__all__ = ["Attach"]

LADDER = (LadderStep("signal", 2.0, "TERM"),)

_Event = Literal["alive", "before", "permission", "after", "failed"]
EVENTS: Mapping[str, _Event] = {"start": "alive", "request": "alive", "before": "before", "after": "after"}

CAPABILITIES = Capabilities(
    agent="codex",
    transport="attach",
    versions=f"{OLDEST} to {NEWEST}",
    sees_before="all",
    deny=EVERY_KIND,
    modify=EVERY_KIND,
    holes=(
        Hole(what="what you run yourself on the screen (`!`), and files that you name with `@`"),
        Hole(what="all outputs", before=False),
        Hole(what="what it asks to do outside its sandbox, which is yours to answer on the screen", after=False),
    ),
    tamperable=True,
    backstops=(Backstop.SANDBOX,),
    otherwise=frozenset({Otherwise.DENY, Otherwise.CHAIN, Otherwise.AGENT}),
    confines=True,
    network_switch=True,
    add_dirs=True,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
)


class Attach:
    """`codex` on the person's terminal, and hooks that call us."""

    name = "attach"
    capabilities = CAPABILITIES

    def check(self, order: Order) -> Sequence[Unmet]:
        """Everything that is wrong with the order at once."""
        return tuple(planning.unmet(_confined(order)))

    def launch(self, order: Order) -> Launch:
        """The process for this order; deterministic."""
        confined = _confined(order)
        planned = planning.launch(confined, _argv(confined))
        full = order.request.permission.posture is Posture.FULL
        left = "nothing stands behind them" if full else "its sandbox is what is left"
        return replace(
            planned,
            env=exec_variables(order),
            files=(*planned.files, LaunchFile(f"{CONFIG_HOME}/config.toml", _configuration(), "secret", template=True)),
            endpoints=(Endpoint(hooks.ENDPOINT, "mcp", hooks.STAGES),),
            refusals=Dialect.refusals,
            ladder=LADDER,
            terminal=WindowSize(),
            backstop=Backstop.NONE if full else None,
            warnings=(
                *planned.warnings,
                "it asks on its own screen before it leaves the sandbox, and your answer there counts",
                f"its hooks are heard of once you have typed a prompt; should they be lost, {left}",
            ),
        )

    def codec(self, order: Order) -> Codec:
        """A fresh translator for one process."""
        del order
        return AttachedCodec(Dialect())


def _confined(order: Order) -> Order:
    """The order with the sandbox of the posture alone: what goes beyond it is the person's to answer."""
    permission = order.request.permission.model_copy(update={"otherwise": Otherwise.DENY, "allow": ()})
    return replace(order, request=order.request.model_copy(update={"permission": permission}))


def _argv(order: Order) -> Iterator[Argument]:
    request = order.request
    yield Argument(order.host.binary)
    yield from map(Argument, ("--no-daemon", "-C", request.cwd, "-s", sandbox.mode(request.permission)))
    yield from map(Argument, ("-a", sandbox.approval_policy(order)))
    if request.model is not None:
        yield from map(Argument, ("-m", request.model))
    yield from arguments(order)
    settings: dict[str, JsonValue] = sandbox.settings(order)
    if request.effort is not None:
        settings["model_reasoning_effort"] = request.effort
    for key, value in settings.items():
        yield from map(Argument, ("-c", f"{key}={toml(value)}"))
    yield from (Argument(text, "unchecked") for text in request.extra_args)


def _configuration() -> str:
    """Our server, as the run's file names it."""
    server = hooks.server(f"{{endpoint:{hooks.ENDPOINT}}}", f"{{token:{hooks.ENDPOINT}}}")
    return f"mcp_servers.{hooks.SERVER} = {toml(server)}\n"


class Dialect:
    """How the hooks of Codex speak."""

    refusals: Mapping[str, bytes] = {hooks.ENDPOINT: hooks.REFUSAL}
    nothing = hooks.ALLOW
    grant: bytes | None = None

    def __init__(self) -> None:
        self._main: str | None = None

    def read(self, channel: str, body: bytes) -> Heard:
        """What a hook was called with; raises ValueError. The first thread that is heard of is the main agent's."""
        del channel
        params = HookParams.model_validate_json(body)
        told = params.arguments
        if params.name not in EVENTS:
            raise ValueError(f"there is no hook {params.name!r}")
        self._main = self._main or params.meta.thread
        agent = MAIN_AGENT if params.meta.thread in {None, self._main} else str(params.meta.thread)
        return Heard(EVENTS[params.name], told.name, told.input, agent, told.id, told.cwd)

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
            hidden=HIDDEN.get(heard.name, ()),
        )

    def asks_about(self, call: ToolCall, heard: Heard) -> bool:
        """It asks no hook."""
        del call, heard
        return False

    def passed(self, call: ToolCall, *, changed: bool) -> tuple[bytes, JsonValue]:
        """Commands are always rewritten: they read from nothing, and run where they were judged or not at all."""
        native = call.input
        if call.tool_name in {SHELL, PATCH}:
            command = native.get("command") if isinstance(native, dict) else None
            if not isinstance(command, str) or not isinstance(native, dict) or (changed and len(native) != 1):
                raise TypeError("of a command or a patch only its text can be changed")
            if call.tool_name == SHELL:
                told: JsonValue = {"command": wrapped(command, at_once=False, cwd=call.cwd)}
                return hooks.modify(told), told
        elif changed and not isinstance(native, dict):
            raise TypeError("an input of this agent is an object")
        return hooks.modify(native) if changed else self.nothing, native

    def deny(self, reason: str) -> bytes:
        """No before a call."""
        return hooks.deny(reason)
