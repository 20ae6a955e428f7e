"""The process of one run: argv, variables, links and the way down.

Nothing of the user's or the project's configuration takes part (`--setting-sources=`, `--strict-mcp-config`, a
private config home), but the login is linked in and sessions outlive the run. The prompt and the instructions never
stand in argv. Options of Claude Code 2.1.197 to 2.1.332.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from decimal import Decimal

from interlock.adapter import Argument, LadderStep, Launch, LaunchFile, LaunchLink, Order
from interlock.capabilities import Unmet
from interlock.model import JsonValue, canonical_json
from interlock.permission import Backstop, Otherwise, Posture
from interlock.request import Fork, McpServer, NewSession, Resume
from interlock_adapters.claude.environment import CONFIG_HOME, dropped_variables, set_variables
from interlock_adapters.claude.login import CREDENTIALS, CREDENTIALS_FILE, KEYS, SERVICE

__all__ = [
    "launch",
    "our_settings",
    "permission_mode",
    "unmet_instructions",
    "unmet_schema",
    "unmet_servers",
    "unmet_session",
]

LADDER = (
    LadderStep("interrupt", 2.0),
    LadderStep("close_input", 1.0),
    LadderStep("signal", 2.0, "INT"),
    LadderStep("signal", 1.0, "TERM"),
)
"""SIGINT is the signal on which the CLI ends its shell commands; on SIGTERM 2.1.197 leaves them behind."""

SESSIONS = "claude/projects"
"""The durable folder of the sessions, in the state folder."""
LONGEST_NAME = 200
"""Characters of the name of a session's folder that are not shortened."""
MCP_FILE = "mcp.json"
"""Outside the config home; it may hold keys, so it never stands in argv."""

_FIXED = (
    "-p",
    "--verbose",
    "--output-format=stream-json",
    "--input-format=stream-json",
    "--include-partial-messages",
    "--replay-user-messages",
    "--permission-prompt-tool=stdio",
    "--setting-sources=",
    "--strict-mcp-config",
)

_ROUND_THE_HOOKS = ("CronCreate", "Monitor", "RemoteTrigger", "ScheduleWakeup", "Skill", "Workflow")
"""Tools whose output, or whose later turns, the after-hook does not see: gone where outputs may be replaced."""


def launch(order: Order) -> Launch:
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
        files=tuple(_mcp_file(order)),
        links=tuple(links),
        session_file=_session_file(order),
        ladder=LADDER,
        warnings=(f"credentials: {login.described}",),
    )


def _session_file(order: Order) -> str | None:
    """Where the CLI keeps a session: a folder named after the directory in which it began, by UTF-16 units.

    2.1.332 finds a session from other directories too, 2.1.197 does not: here neither does. A long name is shortened by
    a hash, which is the CLI's own affair.
    """
    session = order.request.session
    if isinstance(session, NewSession):
        return None
    name = "".join(
        char if char.isascii() and char.isalnum() else "-" * (len(char.encode("utf-16-le", "surrogatepass")) // 2)
        for char in order.request.cwd
    )
    return f"{{state}}/{SESSIONS}/{name}/{session.id}.jsonl" if len(name) <= LONGEST_NAME else None


def our_settings(order: Order) -> dict[str, JsonValue]:
    """The one source of settings that may be in force."""
    permissions: dict[str, JsonValue] = {"disableAutoMode": "disable"}
    if order.backstop is Backstop.GATE:
        permissions["ask"] = ["*"]
    return {"permissions": permissions}


def permission_mode(order: Order) -> str:
    """The agent's own mode: it matters only where the agent's own flow may decide."""
    if order.request.mode == "plan":
        return "plan"
    request = order.request.permission
    edits = request.posture in {Posture.EDIT, Posture.FULL}
    return "acceptEdits" if request.otherwise is Otherwise.AGENT and edits else "default"


def disallowed_tools(order: Order) -> tuple[str, ...]:
    """Tools that the model is not offered."""
    questions = () if order.needs.answered else ("AskUserQuestion",)
    return (*questions, *(_ROUND_THE_HOOKS if order.needs.replace else ()))


def unmet_session(order: Order) -> Iterator[Unmet]:
    """Session ids that the CLI would not take: it wants UUIDs, and a resumed id could else name a file."""
    for field, value in _session_ids(order).items():
        if value is not None and not _is_uuid(value):
            yield Unmet(field=field, value=value, reason="is no UUID", alternatives=(str(uuid.UUID(int=0)),))


def unmet_schema(order: Order) -> Iterator[Unmet]:
    """The schema becomes the input of a tool, which is always an object."""
    schema = order.request.json_schema()
    if schema is not None and schema.get("type") != "object":
        reason = "Claude Code gives a structured answer only as an object: the schema's `type` must be `object`"
        way_out = "wrap it: an object with one property"
        yield Unmet(field="output_schema", value="...", reason=reason, alternatives=(way_out,))


def unmet_instructions(order: Order) -> Iterator[Unmet]:
    """2.1.332 keeps the system prompt with which a conversation began, and drops a new one without a word."""
    if order.request.instructions is not None and not isinstance(order.request.session, NewSession):
        yield Unmet(
            field="instructions",
            value="...",
            reason="a resumed or forked session keeps the instructions with which it began",
            alternatives=("say it in the prompt", "a new session"),
        )


def _mcp_file(order: Order) -> Iterator[LaunchFile]:
    servers = {name: server.model_dump(mode="json") for name, server in order.request.mcp_servers.items()}
    if servers:
        yield LaunchFile(MCP_FILE, canonical_json({"mcpServers": servers}).decode(), "secret")


def unmet_servers(order: Order) -> Iterator[Unmet]:
    """Names that would make a tool's name ambiguous: it is `mcp__SERVER__TOOL`."""
    for name in sorted({*order.request.mcp_servers} & {*order.needs.servers}):
        yield Unmet(field=f"mcp_servers.{name}", value=name, reason="a server in this process has that name too")
    for name in (*order.request.mcp_servers, *order.needs.servers):
        if not re.fullmatch(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*", name):
            reason = "a name is letters, digits, `-`, and single `_` between them"
            yield Unmet(field=f"mcp_servers.{name}", value=name, reason=reason, alternatives=("another name",))
    for name, server in order.request.mcp_servers.items():
        for field in _expanded(server):
            reason = "holds `${...}`, which the agent would replace by the value of a variable"
            yield Unmet(field=f"mcp_servers.{name}.{field}", value="...", reason=reason, alternatives=("its value",))


def _expanded(server: McpServer) -> Iterator[str]:
    """What the CLI would not take as it stands: it puts variables into the whole configuration of a server."""
    for field, value in server.model_dump(mode="json").items():
        if re.search(r"\$\{[^}]+\}", str(value)):
            yield field


def _session_ids(order: Order) -> Mapping[str, str | None]:
    match order.request.session:
        case NewSession(id=new):
            return {"session.id": new}
        case Resume(id=old):
            return {"session.id": old}
        case Fork(id=old, new_id=new):
            return {"session.id": old, "session.new_id": new}


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _argv(order: Order) -> Iterator[Argument]:
    request = order.request
    yield Argument(order.host.binary)
    yield from map(Argument, _FIXED)
    yield Argument(f"--permission-mode={permission_mode(order)}")
    yield Argument(f"--settings={canonical_json(our_settings(order)).decode()}")
    if disallowed := disallowed_tools(order):
        yield Argument(f"--disallowedTools={','.join(disallowed)}")
    yield from (Argument(f"--add-dir={folder}") for folder in request.add_dirs)
    if request.mcp_servers:
        yield Argument(f"--mcp-config={{home}}/{MCP_FILE}", template=True)
    if request.model is not None:
        yield Argument(f"--model={request.model}")
    if request.effort is not None:
        yield Argument(f"--effort={request.effort}")
    if request.limits.max_turns is not None:
        yield Argument(f"--max-turns={request.limits.max_turns}")
    if request.limits.budget_usd is not None:
        yield Argument(f"--max-budget-usd={Decimal(repr(request.limits.budget_usd)):f}")
    yield from _session(order)
    yield from (Argument(text, "unchecked") for text in request.extra_args)


def _session(order: Order) -> Iterator[Argument]:
    match order.request.session:
        case NewSession(id=new):
            if new is not None:
                yield Argument(f"--session-id={new}", "session")
        case Resume(id=old):
            yield Argument(f"--resume={old}", "session")
        case Fork(id=old, new_id=new):
            yield Argument(f"--resume={old}", "session")
            yield Argument("--fork-session")
            if new is not None:
                yield Argument(f"--session-id={new}", "session")
