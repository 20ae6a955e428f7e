"""`copilot` with the prompt on stdin: what it can do, the process of one run, and what cannot be had of it.

It asks nobody, so nothing can be approved while it runs. Every call is shown to us before and after it runs, whatever
the permission: the flags express none exactly. They let commands run that only seem to read, and of what a rule or a
posture says about paths and commands they know a part.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence

from interlock.adapter import Argument, Codec, LadderStep, Launch, LaunchFile, Order
from interlock.capabilities import EVERY_KIND, Capabilities, Hole, ToolClass, Unbacked, Unmet
from interlock.model import JsonValue
from interlock.permission import Backstop, Otherwise
from interlock.request import HttpServer, NewSession, StdioServer
from interlock.tools import ToolKind
from interlock_adapters.copilot.classes import NO_PLAN, NO_QUESTION
from interlock_adapters.copilot.environment import dropped_variables, set_variables, unmet_variables
from interlock_adapters.copilot.extra_args import unmet_arguments
from interlock_adapters.copilot.links import links, session_file, unmet_session
from interlock_adapters.copilot.login import SECRETS, chosen_login, unmet_key, unmet_login
from interlock_adapters.copilot.prompt import hooks
from interlock_adapters.copilot.prompt.codec import USAGE_FILE, PromptCodec
from interlock_adapters.copilot.prompt.flags import permission_flags
from interlock_adapters.copilot.servers import unmet_servers
from interlock_adapters.copilot.versions import NEWEST, OLDEST

__all__ = ["Prompt"]

LADDER = (LadderStep("signal", 2.0, "INT"), LadderStep("signal", 1.0, "TERM"))
"""Of both it ends its commands and exits, within 0.3 s; of SIGKILL they would stay."""
PLUGIN = "plugin"
SERVERS_FILE = "servers.json"
INSTEAD = "transport=server"
HOOK_MARGIN = 60.0
_NAMES = uuid.UUID("0d9a5d0e-5f5c-4f0a-9d55-8d7c1b1f6a52")

CAPABILITIES = Capabilities(
    agent="copilot",
    transport="prompt",
    versions=f"{OLDEST} to {NEWEST}",
    sees_before="all",
    sees_after="all",
    deny=EVERY_KIND,
    modify=EVERY_KIND,
    replace=frozenset({
        ToolKind.SHELL, ToolKind.SHELL_INPUT, ToolKind.READ, ToolKind.SEARCH, ToolKind.WRITE, ToolKind.EDIT,
        ToolKind.PATCH, ToolKind.MCP, ToolKind.AGENT, ToolKind.UNKNOWN,
    }),
    holes=(
        Hole(
            what="what a command or a sub-agent says in the background, which the agent reads by itself",
            before=False,
            closed_by="where outputs are judged nothing runs in the background; after 600 s the run is stopped",
            tool_class=ToolClass.BACKGROUND_SHELL,
        ),
        Hole(
            what="the output of a failed call",
            before=False,
            closed_by="the model is not asked again before it is judged; what may not be shown stops the run",
        ),
        Hole(
            what="the path of a file that holds a long output",
            before=False,
            closed_by="where outputs are judged they are not cut up to 1 GiB",
        ),
        Hole(
            what="programs that sub-agents of the workspace name (.github/agents)",
            closed_by="in a workspace that is not trusted only general-purpose sub-agents are started",
        ),
    ),
    absent=(NO_PLAN, NO_QUESTION),
    backstops=(Backstop.FLAGS,),
    unbacked=(
        Unbacked(
            backstop=Backstop.FLAGS,
            tool_classes=frozenset({
                ToolClass.READ, ToolClass.SEARCH, ToolClass.SHELL_INPUT, ToolClass.AGENT, ToolClass.UNKNOWN,
                ToolClass.FETCH, ToolClass.WEB_SEARCH,
            }),
        ),
    ),
    otherwise=frozenset({Otherwise.DENY, Otherwise.CHAIN}),
    new_session_id=True,
    resume=True,
    mcp_servers=frozenset({"stdio", "http"}),
    efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
    instructions=True,
    add_dirs=True,
    max_turns=True,
)  # fmt: skip


class Prompt:
    """One process, one turn, nobody asked, and every call shown to us by hooks."""

    name = "prompt"
    capabilities = CAPABILITIES

    def check(self, order: Order) -> Sequence[Unmet]:
        """Everything that is wrong with the order at once."""
        return (
            *unmet_arguments(order.request.extra_args),
            *_unmet_permission(order),
            *_unmet_session(order),
            *unmet_servers(order),
            *unmet_login(order),
            *unmet_key(order),
            *unmet_variables(order),
        )

    def launch(self, order: Order) -> Launch:
        """The process for this order; deterministic."""
        login = chosen_login(order)
        return Launch(
            argv=tuple(_argv(order)),
            env={**set_variables(order), "COPILOT_HOOK_ALLOW_LOCALHOST": "1"},
            secret_env=SECRETS,
            drop_env=dropped_variables(order),
            files=tuple(_files(order)),
            links=links(order),
            session_file=session_file(order),
            endpoints=hooks.ENDPOINTS,
            refusals=hooks.REFUSALS,
            ladder=LADDER,
            harvest=(USAGE_FILE,),
            warnings=(f"credentials: {login.described}", "this transport does not tell which version it is"),
        )

    def codec(self, order: Order) -> Codec:
        """A fresh translator for one process."""
        return PromptCodec(order)


def _argv(order: Order) -> Iterator[Argument]:
    """Each value stands in one word with its option, so that none is taken for another option."""
    request = order.request
    yield Argument(order.host.binary)
    yield from map(Argument, ("-C", request.cwd, "--output-format=json", "--no-color", "--log-level=none"))
    yield from map(Argument, ("--no-auto-update", "--no-remote", "--no-experimental", "--no-bash-env"))
    yield from map(Argument, ("--no-custom-instructions", "--no-ask-user", "--disable-builtin-mcps"))
    yield Argument(f"--plugin-dir={{home}}/{PLUGIN}", template=True)
    yield Argument(f"--usage-output-file={{home}}/{USAGE_FILE}", template=True)
    yield _session(order)
    yield from map(Argument, permission_flags(request))
    if request.model is not None:
        yield Argument(f"--model={request.model}")
    if request.effort is not None:
        yield Argument(f"--reasoning-effort={request.effort}")
    if request.instructions is not None:
        name = _minted(order, "agent")
        yield Argument(f"--agent={name}:{name}")
    if request.mcp_servers:
        yield Argument(f"--additional-mcp-config=@{{home}}/{SERVERS_FILE}", template=True)
    yield from (Argument(text, "unchecked") for text in request.extra_args)


def _session(order: Order) -> Argument:
    session = order.request.session
    if isinstance(session, NewSession):
        return Argument(f"--session-id={session.id or _minted(order, 'session')}", "session")
    return Argument(f"--resume={session.id}", "session")


def _minted(order: Order, what: str) -> str:
    """A name of this run, which no file of the workspace can know."""
    return str(uuid.uuid5(_NAMES, f"{order.run_id}/{what}"))


def _files(order: Order) -> Iterator[LaunchFile]:
    """The plugin, and what may hold keys."""
    request, name = order.request, _minted(order, "agent")
    plugin: JsonValue = {"name": name, "version": "1.0.0", "hooks": "hooks.json"}
    yield LaunchFile(f"{PLUGIN}/plugin.json", json.dumps(plugin))
    yield LaunchFile(f"{PLUGIN}/hooks.json", hooks.settings(), "secret", template=True)
    if request.instructions is not None:
        head = f"---\nname: {name}\ndescription: The instructions of this run.\n---\n"
        yield LaunchFile(f"{PLUGIN}/agents/{name}.agent.md", head + request.instructions, "prompt")
    if request.mcp_servers:
        servers = {name: _server(server) for name, server in request.mcp_servers.items()}
        yield LaunchFile(SERVERS_FILE, json.dumps({"mcpServers": servers}), "secret")


def _server(server: StdioServer | HttpServer) -> dict[str, JsonValue]:
    match server:
        case StdioServer():
            said: dict[str, JsonValue] = {"type": "local", "command": server.command, "args": [*server.args]}
            return {**said, "env": {**server.env}, "tools": ["*"]}
        case HttpServer():
            return {"type": server.type, "url": server.url, "headers": {**server.headers}, "tools": ["*"]}


def _unmet_permission(order: Order) -> Iterator[Unmet]:
    permission, limits = order.request.permission, order.request.limits
    if permission.otherwise in {Otherwise.ASK, Otherwise.AGENT}:
        reason = "prompt asks nobody, and the agent's own flow denies what is not decided"
        yield Unmet(field="permission.otherwise", value=permission.otherwise, reason=reason, alternatives=(INSTEAD,))
    if 2 * limits.chain + HOOK_MARGIN > hooks.TIMEOUT:
        reason = f"the agent waits no longer than {hooks.TIMEOUT} s for a hook"
        yield Unmet(field="limits.chain", value=str(limits.chain), reason=reason, alternatives=("a shorter one",))


def _unmet_session(order: Order) -> Iterator[Unmet]:
    yield from unmet_session(order)
    session = order.request.session
    if isinstance(session, NewSession) and session.id is not None and not _is_uuid(session.id):
        reason = "is no UUID"
        yield Unmet(field="session.id", value=session.id, reason=reason, alternatives=(str(uuid.UUID(int=0)),))


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
