"""What one transport of one agent can do, and a check that says all that a request needs and it lacks.

A capability is a claim about a real CLI: each is shown by a live test or a recording. What is not claimed is
`Unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from interlock.model import Model
from interlock.permission import Backstop, Otherwise
from interlock.request import Fork, NewSession, Request, Resume
from interlock.tools import ToolKind

__all__ = ["EVERY_KIND", "Absent", "Capabilities", "Hole", "Needs", "ToolClass", "Unbacked", "Unmet", "check"]

EVERY_KIND = frozenset(ToolKind)
"""All kinds of tools, for a transport that makes no difference between them."""
Sight = Literal["all", "asked", "none"]


class ToolClass(StrEnum):
    """What the coverage table tells apart: kinds of tools, and ways of using them that agents treat differently."""

    SHELL = "shell"
    BACKGROUND_SHELL = "background_shell"
    """A command that goes on while the model does."""
    SHELL_INPUT = "shell_input"
    """Typing into a running shell, or reading from it."""
    READ = "read"
    SEARCH = "search"
    EDIT = "edit"
    WRITE = "write"
    PATCH = "patch"
    FETCH = "fetch"
    WEB_SEARCH = "web_search"
    MCP = "mcp"
    AGENT = "agent"
    """Starting a sub-agent."""
    SUBAGENT_CALL = "subagent_call"
    """A call that a sub-agent makes."""
    PLAN = "plan"
    QUESTION = "question"
    UNKNOWN = "unknown"
    """A tool that our table does not have."""


class Unmet(Model):
    """One thing that a request asks for and that cannot be had."""

    field: str
    """The field of the request or of the client."""
    value: str
    reason: str
    alternatives: tuple[str, ...] = ()
    """What would work instead."""

    def describe(self) -> str:
        """One line for people."""
        way_out = f" ({'; or '.join(self.alternatives)})" if self.alternatives else ""
        return f"{self.field}={self.value}: {self.reason}{way_out}"


class Hole(Model):
    """Something that this transport does without letting it be seen, and what that means."""

    what: str
    before: bool = True
    """Nobody is asked before it happens."""
    after: bool = True
    """Its output reaches the model unseen."""
    closed_by: str = ""
    """How the adapter closes it; empty where it stays open."""
    tool_class: ToolClass | None = None
    """The class of tools whose calls go through it, if all of them do."""


class Absent(Model):
    """A class of tools of which a model can make no call over this transport."""

    tool_class: ToolClass
    why: str


class Unbacked(Model):
    """What a backstop does not stand behind: there the chain alone decides."""

    backstop: Backstop
    tool_classes: frozenset[ToolClass]


class Capabilities(Model):
    """What one transport can do. The defaults claim nothing."""

    agent: str
    transport: str
    versions: str
    """The tested range, for people."""
    asks: bool = False
    """A call can wait for an answer."""
    asks_in_parallel: bool = False
    """Several can wait at once and be answered in any order."""
    questions: bool = False
    sees_before: Sight = "none"
    sees_after: Sight = "none"
    deny: frozenset[ToolKind] = frozenset()
    modify: frozenset[ToolKind] = frozenset()
    replace: frozenset[ToolKind] = frozenset()
    """Kinds whose successful output can be replaced before the model sees it; for others the run is stopped, see
    `Limits.unreplaceable`."""
    replace_failed: frozenset[ToolKind] = frozenset()
    """Kinds whose failed output can be replaced; for others the run is stopped too."""
    holes: tuple[Hole, ...] = ()
    absent: tuple[Absent, ...] = ()
    unbacked: tuple[Unbacked, ...] = ()
    needs_prompt: bool = False
    """It acts on its prompt as soon as it is started, or confirms nothing before: there is no handshake without one."""
    tamperable: bool = False
    """What carries the chain can be overwritten by what an unsandboxed agent runs."""
    backstops: tuple[Backstop, ...] = (Backstop.NONE,)
    """In order of preference."""
    otherwise: frozenset[Otherwise] = frozenset({Otherwise.DENY})
    confines: bool = False
    """The agent has a sandbox of its own that this transport can switch on."""
    network_switch: bool = False
    new_session_id: bool = False
    resume: bool = False
    fork: bool = False
    images: bool = False
    mcp_servers: frozenset[str] = frozenset()
    """Types of MCP servers that can be given: stdio, http, sse."""
    in_process_servers: bool = False
    """MCP servers that are objects of the application."""
    output_schema: bool = False
    plan_mode: bool = False
    efforts: tuple[str, ...] = ()
    """The words that `Request.effort` takes; empty: none."""
    instructions: bool = False
    add_dirs: bool = False
    max_turns: bool = False
    budget_usd: bool = False
    budget_tokens: bool = False
    user_config: bool = False
    steer: bool = False
    interrupt: bool = False
    several_turns: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """What the client around a request needs of a transport, beside the request itself."""

    chain_before: bool = False
    chain_after: bool = False
    modify: bool = False
    replace: bool = False
    grants: bool = False
    """A participant of the chain may grant."""
    answered: bool = False
    """Somebody answers approvals: a stream, or an approver."""
    conversation: bool = False
    """The run goes on with further turns in the same process."""
    servers: tuple[str, ...] = ()
    """The names of MCP servers that are objects of the application."""


def check(request: Request, needs: Needs, can: Capabilities) -> tuple[Unmet, ...]:
    """All that `request` and `needs` ask for and `can` does not offer; empty if it fits."""
    return (
        *_permission(request, needs, can),
        *_chain(request, needs, can),
        *_features(request, needs, can),
        *_words(request, can),
    )


def _permission(request: Request, needs: Needs, can: Capabilities) -> Iterator[Unmet]:
    permission = request.permission
    wanted = permission.otherwise
    if wanted is Otherwise.ASK and not can.asks:
        yield _lacks(can, "permission.otherwise", wanted, "cannot ask", "otherwise=deny", "another transport")
    elif wanted not in can.otherwise:
        yield _lacks(can, "permission.otherwise", wanted, "has nothing that could decide", "otherwise=deny")
    if wanted is Otherwise.ASK and not needs.answered:
        reason = "nobody is there to answer approvals"
        yield Unmet(
            field="permission.otherwise",
            value=wanted,
            reason=reason,
            alternatives=("use stream()", "give the client an approver", "otherwise=deny"),
        )
    if wanted is Otherwise.CHAIN and not needs.grants:
        yield Unmet(
            field="permission.otherwise",
            value=wanted,
            reason="no participant of the chain has the power to grant",
            alternatives=("give one may=('grant', ...)", "otherwise=deny"),
        )
    if permission.backstop not in {Backstop.ANY, *can.backstops}:
        offers = ", ".join(can.backstops)
        yield _lacks(can, "permission.backstop", permission.backstop, f"offers {offers}", "backstop=any")
    if permission.backstop is Backstop.GATE and wanted is Otherwise.AGENT:
        reason = "a gate answers every question, so the agent's own flow would decide nothing"
        yield Unmet(field="permission.backstop", value="gate", reason=reason, alternatives=("otherwise=ask",))
    if permission.network is not None and not can.network_switch:
        yield _lacks(can, "permission.network", permission.network, "has no sandbox with such a switch", "leave it out")
    if permission.writable and not can.confines:
        yield _lacks(
            can,
            "permission.writable",
            permission.writable,
            "has no sandbox to make exceptions from",
            "add_dirs",
        )


def _chain(request: Request, needs: Needs, can: Capabilities) -> Iterator[Unmet]:
    def lacks(value: str, reason: str) -> Unmet:
        return _lacks(can, "hooks", value, reason, "a chain with fewer powers", "another transport")

    if needs.chain_before and can.sees_before != "all":
        yield lacks("pre_tool_use", "does not show every call before it runs")
    if needs.chain_after and can.sees_after != "all":
        yield lacks("post_tool_use", "does not show every output before the model sees it")
    if needs.chain_before and can.deny != EVERY_KIND:
        yield lacks("deny", f"cannot stop a call of: {_missing(can.deny)}")
    if needs.modify and can.modify != EVERY_KIND:
        yield lacks("modify", f"cannot run a changed input of: {_missing(can.modify)}")
    if needs.replace:
        unseen = [hole.what for hole in can.holes if hole.after and not hole.closed_by]
        if unseen:
            yield lacks("replace", f"shows the model outputs that nobody is asked about: {'; '.join(unseen)}")
        if request.limits.unreplaceable == "refuse":
            yield from _unreplaceable(can)


def _unreplaceable(can: Capabilities) -> Iterator[Unmet]:
    for outputs, kinds in (("the output", can.replace), ("the output of failed calls", can.replace_failed)):
        if kinds != EVERY_KIND:
            reason = f"cannot replace {outputs} of: {_missing(kinds)}"
            yield _lacks(can, "limits.unreplaceable", "refuse", reason, "unreplaceable=stop")


def _features(request: Request, needs: Needs, can: Capabilities) -> Iterator[Unmet]:
    limits, session = request.limits, request.session
    asked: tuple[tuple[str, object, bool, bool, str], ...] = (
        ("session.id", _new_id(request), _new_id(request) is not None, can.new_session_id, "cannot take a session id"),
        ("session", "resume", isinstance(session, Resume), can.resume, "cannot resume a session"),
        ("session", "fork", isinstance(session, Fork), can.fork, "cannot fork a session"),
        ("conversation", True, needs.conversation, can.several_turns, "takes no second turn in one process"),
        (
            "mcp",
            ", ".join(needs.servers),
            bool(needs.servers),
            can.in_process_servers,
            "takes no MCP servers in process",
        ),
        ("images", len(request.images), bool(request.images), can.images, "takes no images"),
        (
            "output_schema",
            "...",
            request.output_schema is not None,
            can.output_schema,
            "takes no output schema",
        ),
        ("mode", request.mode, request.mode == "plan", can.plan_mode, "has no plan mode"),
        ("instructions", "...", request.instructions is not None, can.instructions, "takes no instructions"),
        ("add_dirs", request.add_dirs, bool(request.add_dirs), can.add_dirs, "takes no further directories"),
        (
            "limits.max_turns",
            limits.max_turns,
            limits.max_turns is not None,
            can.max_turns,
            "cannot count turns",
        ),
        (
            "limits.budget_usd",
            limits.budget_usd,
            limits.budget_usd is not None,
            can.budget_usd,
            "reports no cost",
        ),
        (
            "limits.budget_tokens",
            limits.budget_tokens,
            limits.budget_tokens is not None,
            can.budget_tokens,
            "has no such bound",
        ),
        (
            "user_config",
            True,
            request.user_config,
            can.user_config,
            "cannot load the user's configuration safely",
        ),
    )
    for field, value, wanted, offered, reason in asked:
        if wanted and not offered:
            yield _lacks(can, field, value, reason, "leave it out")


def _words(request: Request, can: Capabilities) -> Iterator[Unmet]:
    """What is not offered or refused as a whole, but word by word."""
    if request.effort is not None and request.effort not in can.efforts:
        words = tuple(f"effort={word}" for word in can.efforts) or ("leave it out",)
        yield _lacks(can, "effort", request.effort, "does not know this effort", *words)
    for name, server in request.mcp_servers.items():
        if server.type not in can.mcp_servers:
            yield _lacks(can, f"mcp_servers.{name}", server.type, "takes no MCP servers of this type", "leave it out")


def _new_id(request: Request) -> str | None:
    match request.session:
        case NewSession(id=chosen) | Fork(new_id=chosen):
            return chosen
        case Resume():
            return None


def _missing(kinds: frozenset[ToolKind]) -> str:
    return ", ".join(sorted(EVERY_KIND - kinds))


def _lacks(can: Capabilities, field: str, value: object, reason: str, *alternatives: str) -> Unmet:
    return Unmet(
        field=field,
        value=str(value),
        reason=f"{can.agent} over {can.transport} {reason}",
        alternatives=alternatives,
    )
