"""`codex exec`: what it can do, the process of one run, and what cannot be had of it.

It asks nobody and nothing is shown before it runs, so it takes only what the sandbox expresses by itself: no rules, no
chain, and MCP servers only where everything may run. What it cannot do, the app-server can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from interlock.adapter import Argument, Codec, LadderStep, Launch, LaunchFile, Order
from interlock.capabilities import Capabilities, Hole, Unbacked, Unmet
from interlock.model import JsonValue, canonical_json
from interlock.permission import Backstop, Otherwise, Posture
from interlock.request import Fork, NewSession, Resume
from interlock_adapters.codex import planning, sandbox
from interlock_adapters.codex.classes import ABSENT, UNCONFINED
from interlock_adapters.codex.config import mcp_servers, quiet_arguments, toml
from interlock_adapters.codex.environment import CONFIG_HOME, exec_variables
from interlock_adapters.codex.exec.codec import ExecCodec
from interlock_adapters.codex.versions import NEWEST, OLDEST

__all__ = ["Exec"]

LADDER = (LadderStep("signal", 2.0, "INT"), LadderStep("signal", 1.0, "TERM"))
"""SIGINT is the signal on which it ends its commands (0.171.0)."""
SCHEMA_FILE = "schema.json"
INSTEAD = "transport=app-server"
_SKILL = re.compile(r"\$[\w:-]+")
"""How a prompt names a skill, be it one of the workspace or of the person (0.171.0)."""

CAPABILITIES = Capabilities(
    agent="codex",
    transport="exec",
    versions=f"{OLDEST} to {NEWEST}",
    holes=(
        Hole(what="every call: nothing is asked, and the sandbox alone decides"),
        Hole(what="calls that its lines leave out: typed input, images, and what the sandbox stops at once"),
    ),
    absent=ABSENT,
    unbacked=(Unbacked(backstop=Backstop.SANDBOX, tool_classes=UNCONFINED),),
    backstops=(Backstop.SANDBOX,),
    otherwise=frozenset({Otherwise.DENY}),
    confines=True,
    network_switch=True,
    resume=True,
    fork=True,
    mcp_servers=frozenset({"stdio", "http"}),
    output_schema=True,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
    instructions=True,
    add_dirs=True,
)


class Exec:
    """One process, one turn, nothing asked."""

    name = "exec"
    capabilities = CAPABILITIES

    def check(self, order: Order) -> Sequence[Unmet]:
        """Everything that is wrong with the order at once."""
        return (*planning.unmet(order), *_unmet(order))

    def launch(self, order: Order) -> Launch:
        """The process for this order; deterministic."""
        planned = planning.launch(order, _argv(order), "exec does not tell which version it is")
        files = (*planned.files, *_files(order))
        return replace(planned, env=exec_variables(order), files=files, ladder=LADDER)

    def codec(self, order: Order) -> Codec:
        """A fresh translator for one process."""
        return ExecCodec(order)


def _argv(order: Order) -> Iterator[Argument]:
    """Options stand before `resume` and `fork`, which refuse most of them."""
    request = order.request
    yield Argument(order.host.binary)
    yield from map(Argument, ("exec", "--json", "--skip-git-repo-check", "--ignore-rules", "--color=never"))
    yield from map(Argument, ("-C", request.cwd, "-s", sandbox.mode(request.permission)))
    if request.model is not None:
        yield from map(Argument, ("-m", request.model))
    yield from quiet_arguments(order)
    settings: dict[str, JsonValue] = sandbox.settings(order)
    if request.effort is not None:
        settings["model_reasoning_effort"] = request.effort
    for key, value in settings.items():
        yield from map(Argument, ("-c", f"{key}={toml(value)}"))
    if request.output_schema is not None:
        yield Argument("--output-schema")
        yield Argument(f"{{home}}/{SCHEMA_FILE}", template=True)
    yield from (Argument(text, "unchecked") for text in request.extra_args)
    match request.session:
        case NewSession():
            pass
        case Resume(id=old):
            yield Argument("resume")
            yield Argument(old, "session")
        case Fork(id=old):
            yield Argument("fork")
            yield Argument(old, "session")
    yield Argument("-")


def _files(order: Order) -> Iterator[LaunchFile]:
    """The instructions and what may hold keys stand in no argv."""
    request = order.request
    if (schema := request.json_schema()) is not None:
        yield LaunchFile(SCHEMA_FILE, canonical_json(dict(schema)).decode())
    lines: list[str] = []
    if request.instructions is not None:
        lines.append(f"developer_instructions = {toml(request.instructions)}")
    lines += [f"mcp_servers.{name} = {toml(server)}" for name, server in mcp_servers(request.mcp_servers).items()]
    if lines:
        yield LaunchFile(f"{CONFIG_HOME}/config.toml", "\n".join(lines) + "\n", "secret")


def _unmet(order: Order) -> Iterator[Unmet]:
    """What no sandbox expresses; and a prompt in which a skill may be named, which exec would inline unseen."""
    permission = order.request.permission
    lacks: list[tuple[str, str, str]] = []
    if permission.otherwise is not Otherwise.DENY:
        lacks.append(("permission.otherwise", permission.otherwise, "exec asks nobody"))
    if permission.posture is Posture.NONE:
        lacks.append(("permission.posture", "none", "exec runs commands that only read whatever the posture"))
    if permission.posture is Posture.EDIT and order.request.transport == "auto":
        reason = "under exec edits may change all but .git, .codex and .agents: name the transport if that is meant"
        lacks.append(("permission.posture", "edit", reason))
    if permission.allow or permission.deny:
        lacks.append(("permission", "rules", "exec shows no call before it runs, so no rule can decide about it"))
    if order.request.mcp_servers and permission.posture is not Posture.FULL:
        lacks.append(("mcp_servers", ", ".join(order.request.mcp_servers), "exec runs their calls unasked"))
    if (named := _SKILL.search(order.request.prompt)) is not None:
        lacks.append(("prompt", named[0], "exec inlines the file of a skill of this name, if there is one"))
    for field, value, reason in lacks:
        yield Unmet(field=field, value=value, reason=reason, alternatives=(INSTEAD,))
