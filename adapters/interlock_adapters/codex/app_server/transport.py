"""`codex app-server`: what it can do, the process of one run, and what cannot be had of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from interlock.adapter import Argument, Codec, Endpoint, LadderStep, Launch, Order
from interlock.capabilities import EVERY_KIND, Capabilities, Hole, ToolClass, Unbacked, Unmet
from interlock.permission import Backstop, Otherwise, Posture
from interlock.tools import ToolKind
from interlock_adapters.codex import hooks, planning, sandbox
from interlock_adapters.codex.app_server.codec import AppServerCodec
from interlock_adapters.codex.classes import ABSENT, UNCONFINED
from interlock_adapters.codex.config import arguments
from interlock_adapters.codex.versions import NEWEST, OLDEST

__all__ = ["AppServer"]

LADDER = (
    LadderStep("interrupt", 2.0),
    LadderStep("close_input", 2.0),
    LadderStep("signal", 1.0, "TERM"),
)
"""At the end of its input the server ends its commands and exits; SIGINT would leave them behind (0.171.0)."""

UNASKED = frozenset({ToolClass.SHELL_INPUT, ToolClass.READ, ToolClass.AGENT, ToolClass.QUESTION, ToolClass.UNKNOWN})
"""What Codex never asks about by itself, under no policy (0.171.0)."""

CAPABILITIES = Capabilities(
    agent="codex",
    transport="app-server",
    versions=f"{OLDEST} to {NEWEST}",
    asks=True,
    asks_in_parallel=True,
    questions=True,
    sees_before="all",
    sees_after="all",
    deny=EVERY_KIND,
    modify=EVERY_KIND,
    replace=frozenset({
        ToolKind.SHELL, ToolKind.SHELL_INPUT, ToolKind.PATCH, ToolKind.MCP, ToolKind.AGENT, ToolKind.QUESTION,
        ToolKind.UNKNOWN,
    }),
    replace_failed=frozenset({ToolKind.SHELL}),
    holes=(
        Hole(
            what="input typed into a running command",
            after=False,
            closed_by="commands read from nothing, unless they open their terminal themselves",
            tool_class=ToolClass.SHELL_INPUT,
        ),
        Hole(
            what="what a command has said before its end",
            before=False,
            closed_by="where outputs are judged, it says all of it at its end",
        ),
        Hole(
            what="a patch written as a heredoc of a command",
            closed_by="commands are wrapped, and so are no such patches",
        ),
        Hole(what="searches of the web", closed_by="they are switched off"),
        Hole(
            what="the report of an image that could not be viewed",
            before=False,
            closed_by="where outputs are judged, no images are viewed",
            tool_class=ToolClass.READ,
        ),
        Hole(
            what="the output of a failed call of an MCP tool, or of reading a resource",
            before=False,
            closed_by="the model is not asked again before it is judged; what may not be shown stops the run",
        ),
        Hole(what="what a patch that does not apply says of it", before=False, closed_by="it repeats the patch alone"),
    ),
    absent=ABSENT,
    unbacked=(
        Unbacked(backstop=Backstop.SANDBOX, tool_classes=UNCONFINED),
        Unbacked(backstop=Backstop.GATE, tool_classes=UNASKED),
    ),
    backstops=(Backstop.SANDBOX, Backstop.GATE),
    otherwise=frozenset(Otherwise),
    confines=True,
    network_switch=True,
    resume=True,
    fork=True,
    images=True,
    mcp_servers=frozenset({"stdio", "http"}),
    output_schema=True,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
    instructions=True,
    add_dirs=True,
    interrupt=True,
    steer=True,
    several_turns=True,
)  # fmt: skip


class AppServer:
    """JSON-RPC over stdin and stdout: approvals, questions, turns, and hooks that call us."""

    name = "app-server"
    capabilities = CAPABILITIES

    def check(self, order: Order) -> Sequence[Unmet]:
        """Everything that is wrong with the order at once."""
        return tuple(planning.unmet(order))

    def launch(self, order: Order) -> Launch:
        """The process for this order; deterministic."""
        planned = planning.launch(order, _argv(order), *_warnings(order))
        gate = order.backstop is Backstop.GATE
        return replace(
            planned,
            endpoints=(Endpoint(hooks.ENDPOINT, "mcp", hooks.STAGES, unrefused=hooks.OBSERVING),),
            refusals={hooks.ENDPOINT: hooks.REFUSAL},
            ladder=LADDER,
            confined=planned.confined and not gate,
            enforces_posture=planned.enforces_posture and not gate,
            backstop=_true_backstop(order),
        )

    def codec(self, order: Order) -> Codec:
        """A fresh translator for one process."""
        return AppServerCodec(order)


def _true_backstop(order: Order) -> Backstop | None:
    """The posture `full` runs without a sandbox."""
    full = order.request.permission.posture is Posture.FULL
    return Backstop.NONE if full and order.backstop is Backstop.SANDBOX else None


def _argv(order: Order) -> Iterator[Argument]:
    yield Argument(order.host.binary)
    yield Argument("app-server")
    yield from arguments(order)
    yield from (Argument(text, "unchecked") for text in order.request.extra_args)


def _warnings(order: Order) -> Iterator[str]:
    permission = order.request.permission
    if order.backstop is Backstop.GATE:
        yield "under the gate the sandbox is no guarantee: a command that is let through may ask to leave it unseen"
        yield "the agent asks as a gate about commands, patches and MCP tools alone: behind the rest is the chain"
    elif permission.posture is Posture.FULL:
        yield "the posture `full` runs without a sandbox: no backstop stands behind the chain"
    elif sandbox.mode(permission) == "workspace-write":
        yield "the sandbox keeps commands from .git, .codex and .agents alone, not from all that edits may not change"
