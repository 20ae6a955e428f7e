"""Claude Code as an adapter: who it is, what its one transport can do, and what cannot be had of it."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.adapter import Codec, Launch, Order, Transport, VersionRange
from interlock.capabilities import EVERY_KIND, Absent, Capabilities, Hole, ToolClass, Unmet
from interlock.permission import Backstop, Otherwise
from interlock.tools import ToolCall, ToolKind
from interlock_adapters.claude.attach import Attach
from interlock_adapters.claude.codec import ClaudeCodec
from interlock_adapters.claude.environment import unmet_variables
from interlock_adapters.claude.extra_args import unmet_arguments
from interlock_adapters.claude.launch import launch, unmet_instructions, unmet_schema, unmet_servers, unmet_session
from interlock_adapters.claude.login import CREDENTIALS, CREDENTIALS_FILE, KEYS, SERVICE
from interlock_adapters.claude.tools import describe
from interlock_adapters.claude.versions import NEWEST, OLDEST

__all__ = ["ClaudeAdapter", "StreamJson", "adapter"]

CAPABILITIES = Capabilities(
    agent="claude",
    transport="stream-json",
    versions=f"{OLDEST} to {NEWEST}",
    asks=True,
    asks_in_parallel=True,
    questions=True,
    sees_before="all",
    sees_after="all",
    deny=EVERY_KIND,
    modify=EVERY_KIND,
    replace=frozenset({
        ToolKind.SHELL, ToolKind.READ, ToolKind.SEARCH, ToolKind.EDIT, ToolKind.WRITE, ToolKind.WEB_SEARCH,
        ToolKind.AGENT, ToolKind.QUESTION, ToolKind.MCP,
    }),
    holes=(
        Hole(what="`@path` in a prompt is read and inlined", closed_by="the prompt ends with a blank text block"),
        Hole(what="reports of background work", before=False, closed_by="background work is switched off"),
        Hole(what="what Monitor streams", before=False, closed_by="Monitor is not offered where outputs may change"),
        Hole(
            what="files read again after compaction or a change on disk",
            closed_by="compaction and attachments are off where outputs may change",
        ),
        Hole(
            what="the path of a file that holds a long output",
            before=False,
            closed_by="it is left out of what replaces the output",
        ),
        Hole(
            what="whether a file exists, when an edit of it is refused before any hook",
            closed_by="nothing of the file is shown",
        ),
    ),
    absent=(
        Absent(tool_class=ToolClass.BACKGROUND_SHELL, why="background work is switched off"),
        Absent(tool_class=ToolClass.SHELL_INPUT, why="no shell goes on that could be typed into"),
        Absent(tool_class=ToolClass.PATCH, why="the agent has no such tool"),
    ),
    backstops=(Backstop.GATE, Backstop.NONE),
    otherwise=frozenset(Otherwise),
    new_session_id=True,
    resume=True,
    fork=True,
    images=True,
    mcp_servers=frozenset({"stdio", "http", "sse"}),
    in_process_servers=True,
    output_schema=True,
    plan_mode=True,
    efforts=("low", "medium", "high", "xhigh", "max"),
    instructions=True,
    add_dirs=True,
    max_turns=True,
    budget_usd=True,
    interrupt=True,
    steer=True,
    several_turns=True,
)  # fmt: skip


class StreamJson:
    """`claude -p` with JSON lines both ways: hooks, approvals and interrupts over its control channel."""

    name = "stream-json"
    capabilities = CAPABILITIES

    def check(self, order: Order) -> Sequence[Unmet]:
        """Everything that is wrong with the order at once."""
        return (
            *unmet_arguments(order.request.extra_args),
            *unmet_session(order),
            *unmet_instructions(order),
            *unmet_schema(order),
            *unmet_servers(order),
            *CREDENTIALS.unmet(order),
            *unmet_variables(order),
        )

    def launch(self, order: Order) -> Launch:
        """The process for this order."""
        return launch(order)

    def codec(self, order: Order) -> Codec:
        """A fresh translator for one process."""
        return ClaudeCodec(order)


class ClaudeAdapter:
    """Anthropic's Claude Code."""

    name = "claude"
    title = "Claude Code"
    programs = ("claude",)
    install_hint = "npm install -g @anthropic-ai/claude-code"
    versions = VersionRange(OLDEST, NEWEST)
    key_variables = (*KEYS, *SERVICE)
    login_folder = ".claude"
    login_variable = "CLAUDE_CONFIG_DIR"
    login_files = (CREDENTIALS_FILE,)
    transports: tuple[Transport, ...] = (StreamJson(),)
    attached: Transport = Attach()
    login_arguments = ("auth", "login")

    def describe(self, call: ToolCall) -> ToolCall:
        """The call with kind and subject read anew."""
        return describe(call)


adapter = ClaudeAdapter()
