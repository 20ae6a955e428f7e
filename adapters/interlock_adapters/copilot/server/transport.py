"""`copilot --headless --stdio`: what it can do, the process of one run, and what cannot be had of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.adapter import Argument, Codec, LadderStep, Launch, Order
from interlock.capabilities import EVERY_KIND, Capabilities, Hole, ToolClass, Unbacked, Unmet
from interlock.permission import Backstop, Otherwise
from interlock.tools import ToolKind
from interlock_adapters.copilot.classes import NEVER_ASKED, NO_PLAN
from interlock_adapters.copilot.environment import dropped_variables, set_variables, unmet_variables
from interlock_adapters.copilot.extra_args import unmet_arguments
from interlock_adapters.copilot.links import links, session_file, unmet_session
from interlock_adapters.copilot.login import SECRETS, chosen_login, provider, unmet_login, unmet_model
from interlock_adapters.copilot.server.codec import ServerCodec
from interlock_adapters.copilot.server.session import unmet_fork
from interlock_adapters.copilot.servers import unmet_servers
from interlock_adapters.copilot.versions import NEWEST, OLDEST

__all__ = ["Server"]

LADDER = (
    LadderStep("interrupt", 2.0),
    LadderStep("close_input", 2.0),
    LadderStep("signal", 1.0, "TERM"),
)
"""At the end of its input, and on SIGTERM, the server ends its commands and exits (1.0.102)."""
_FIXED = ("--headless", "--no-auto-update", "--log-level", "none", "--stdio")

UNASKED = NEVER_ASKED | {ToolClass.FETCH, ToolClass.WEB_SEARCH, ToolClass.MCP}
"""A tool of a server that calls itself harmless is not asked about, and what leaves the machine was not tried."""
CAPABILITIES = Capabilities(
    agent="copilot",
    transport="server",
    versions=f"{OLDEST} to {NEWEST}",
    asks=True,
    questions=True,
    sees_before="all",
    sees_after="all",
    deny=EVERY_KIND,
    modify=EVERY_KIND,
    replace=frozenset({
        ToolKind.SHELL, ToolKind.READ, ToolKind.SEARCH, ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH,
        ToolKind.AGENT, ToolKind.QUESTION, ToolKind.INTERNAL, ToolKind.MCP,
    }),
    holes=(
        Hole(
            what="what commands and sub-agents in the background report",
            before=False,
            closed_by="where outputs are judged, none run there",
            tool_class=ToolClass.BACKGROUND_SHELL,
        ),
        Hole(
            what="a long output in a file of its own",
            before=False,
            closed_by="where outputs may be replaced, none is made",
        ),
        Hole(
            what="the words around the error of a call that failed",
            before=False,
            closed_by="they name paths, lines and tools, and nothing that a file holds",
        ),
        Hole(what="instructions found beside a file that is read", before=False, closed_by="none are looked for"),
        Hole(
            what="a call whose arguments are no JSON",
            closed_by="it does not run, and its error repeats the arguments alone",
        ),
    ),
    absent=(NO_PLAN,),
    unbacked=(Unbacked(backstop=Backstop.GATE, tool_classes=UNASKED),),
    backstops=(Backstop.GATE,),
    otherwise=frozenset({Otherwise.DENY, Otherwise.ASK, Otherwise.CHAIN}),
    new_session_id=True,
    resume=True,
    fork=True,
    images=True,
    mcp_servers=frozenset({"stdio", "http", "sse"}),
    output_schema=True,
    efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
    instructions=True,
    add_dirs=True,
    max_turns=True,
    interrupt=True,
    steer=True,
    several_turns=True,
)  # fmt: skip


class Server:
    """JSON-RPC over stdin and stdout: hooks, permission requests, questions, turns. One process a run, never shared."""

    name = "server"
    capabilities = CAPABILITIES

    def check(self, order: Order) -> Sequence[Unmet]:
        """Everything that is wrong with the order at once."""
        return (
            *unmet_arguments(order.request.extra_args),
            *unmet_session(order),
            *unmet_fork(order),
            *unmet_servers(order),
            *unmet_login(order),
            *unmet_model(order),
            *unmet_variables(order),
        )

    def launch(self, order: Order) -> Launch:
        """The process for this order; deterministic."""
        return Launch(
            argv=tuple(_argv(order)),
            env=set_variables(order),
            secret_env=SECRETS,
            drop_env=dropped_variables(order),
            links=links(order),
            session_file=session_file(order),
            ladder=LADDER,
            warnings=(f"credentials: {chosen_login(order).described}",),
        )

    def codec(self, order: Order) -> Codec:
        """A fresh translator for one process."""
        return ServerCodec(order)


def _argv(order: Order) -> Iterator[Argument]:
    """No account is looked for where a provider is used."""
    yield Argument(order.host.binary)
    yield from map(Argument, _FIXED)
    if provider(order) is not None:
        yield Argument("--no-auto-login")
    yield from (Argument(text, "unchecked") for text in order.request.extra_args)
