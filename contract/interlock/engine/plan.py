"""Planning: all that can be known of a run before any process is started, and every reason against it at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from interlock.adapter import Adapter, Launch, Order, Sensitivity, Transport
from interlock.capabilities import Capabilities, Needs, Unmet, check
from interlock.engine import rule_warnings
from interlock.engine.comparison import obeyed, repository_root
from interlock.engine.environment import child_environment, refused_variables
from interlock.engine.host import BinaryFacts, survey
from interlock.engine.structured import schema_problem
from interlock.engine.workspace import programs_named_by
from interlock.errors import NotInstalled, Unsupported
from interlock.model import Model
from interlock.permission import Backstop, Otherwise
from interlock.policy import Effective
from interlock.request import NewSession, Request

__all__ = ["Plan", "PlanArgument", "PlanEndpoint", "Prepared", "prepare"]

NO_DEADLINE = 20 * 86_400.0
"""What stands for "never" where an agent wants a number of seconds."""
HOOK_MARGIN = 60.0
"""By how much the agent's own limit on a hook exceeds the sum of ours, so that ours always denies first."""


class PlanArgument(Model):
    """One element of argv and how it may be shown."""

    text: str
    sensitivity: Sensitivity = "public"


class PlanEndpoint(Model):
    """An address on loopback that the agent calls about its calls; its token is made when the run starts."""

    name: str
    style: Literal["mcp", "http"]
    tools: tuple[str, ...] = ()
    """What it serves, of style `mcp`."""


class Plan(Model):
    """What would run. Printed and as JSON it is redacted."""

    agent: str
    title: str
    transport: str
    why: str
    """Why this transport."""
    binary: str
    argv: tuple[PlanArgument, ...]
    env: tuple[str, ...]
    """Names only."""
    files: tuple[str, ...]
    """What is written into the run's private folder, `{home}`."""
    links: tuple[str, ...]
    endpoints: tuple[PlanEndpoint, ...] = ()
    backstop: Backstop
    confined: bool
    """Whether commands run in a sandbox of the agent; if not, they run as you and reach what you can."""
    enforces_posture: bool = False
    """Whether that sandbox lets commands do no more than the posture, so that they run unasked in it."""
    posture: str
    otherwise: str
    chain: tuple[str, ...]
    hook_timeout: float
    """Seconds that the agent waits for our side about one call."""
    capabilities: Capabilities
    policies: tuple[str, ...] = ()
    """The policies that took part, in order of authority."""
    warnings: tuple[str, ...] = ()

    def redacted_argv(self) -> tuple[str, ...]:
        """The command line with every value that is not public replaced by a placeholder."""
        return tuple(arg.text if arg.sensitivity == "public" else f"<{arg.sensitivity}>" for arg in self.argv)

    def redacted(self) -> Plan:
        """This plan without the values that may not be shown."""
        shown = tuple(PlanArgument(text=text) for text in self.redacted_argv())
        return self.model_copy(update={"argv": shown})

    def to_json(self) -> str:
        """The redacted plan as one line of JSON."""
        return self.redacted().model_dump_json()

    def describe(self) -> str:
        """The redacted plan for people."""
        can = self.capabilities
        rows = [
            ("agent", f"{self.title} over {self.transport} ({self.why})"),
            ("binary", self.binary),
            ("command", "\n".join(_wrapped(self.redacted_argv()))),
            ("environment", " ".join(self.env)),
            ("files", " ".join(self.files) or "none"),
            ("links", "\n".join(self.links) or "none"),
            ("endpoints", "\n".join(map(_endpoint, self.endpoints)) or "none"),
            ("permission", f"posture {self.posture}, otherwise {self.otherwise}"),
            ("policies", "\n".join(self.policies) or "none"),
            ("chain", " -> ".join(self.chain) or "nobody"),
            ("backstop", self.backstop),
            ("confined", self._confined()),
            ("sees", f"before: {can.sees_before} calls, after: {can.sees_after} calls; tested {can.versions}"),
        ]
        rows += [("hole", hole.what + (f" (closed: {hole.closed_by})" if hole.closed_by else "")) for hole in can.holes]
        rows += [("warning", warning) for warning in self.warnings]
        return "\n".join(f"{name:<12}{text.replace(chr(10), chr(10) + ' ' * 12)}" for name, text in rows)

    def _confined(self) -> str:
        if not self.confined:
            return "no: the agent runs as you and can reach what you can"
        if self.enforces_posture:
            return "yes: the sandbox lets commands do no more than the posture"
        return "yes, in a sandbox wider than the posture: each command is decided"


def _endpoint(endpoint: PlanEndpoint) -> str:
    return f"{endpoint.name} ({endpoint.style}){': ' if endpoint.tools else ''}{', '.join(endpoint.tools)}"


def _wrapped(argv: tuple[str, ...]) -> Iterator[str]:
    line = ""
    for arg in argv:
        shown = arg if arg and not set(arg) & set(" \t\n\"'{}[]$*") else "'" + arg.replace("'", "'\\''") + "'"
        if line and (len(line) + len(shown) > 100 or arg.startswith("-")):
            yield line
            line = shown
        else:
            line = f"{line} {shown}".strip()
    yield line


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and all that is needed to carry it out."""

    plan: Plan
    order: Order
    launch: Launch
    adapter: Adapter
    transport: Transport
    env: dict[str, str]
    """The child's whole environment, placeholders not yet filled in."""
    state: Path
    binary: BinaryFacts
    effective: Effective | None = None
    """What policies made of the request's permission."""


def prepare(
    request: Request, adapter: Adapter, needs: Needs, *, run_id: str, chain: tuple[str, ...], state: Path
) -> Prepared:
    """Plan one run; raises `Unsupported` with every reason, or `NotInstalled`."""
    host = survey(adapter, request)
    request = _absolute(request)
    order = Order(
        run_id=run_id,
        request=request,
        needs=needs,
        host=host,
        backstop=Backstop.NONE,
        hook_timeout=_hook_timeout(request),
        hooks=True,
    )
    transport, why, unmet = _choose(adapter, order)
    unmet = (*_surroundings(request, state), *unmet)
    if unmet:
        raise Unsupported(adapter.name, unmet)
    if not host.binary:
        tried = (request.binary,) if request.binary is not None else adapter.programs
        raise NotInstalled(adapter.name, tried, adapter.install_hint)
    order = replace(order, backstop=_backstop(order, transport.capabilities))
    launch = transport.launch(order)
    if unmet := (
        *_variables(request, launch.drop_env),
        *_session(request, launch, state),
        *_obeyed(adapter, request, launch),
    ):
        raise Unsupported(adapter.name, unmet)
    env = child_environment(
        host=host.environ,
        request_env=request.env,
        policy=request.env_policy,
        key_variables=adapter.key_variables,
        set_=launch.env,
        drop=launch.drop_env,
    )
    plan = _plan(order, adapter, transport, launch, why=why, env=env, chain=chain)
    return Prepared(plan, order, launch, adapter, transport, env, state, BinaryFacts.of(host.binary))


def _absolute(request: Request) -> Request:
    """The request with every path absolute and real, so that nothing depends on where this process stands."""
    return request.model_copy(
        update={
            "cwd": str(Path(request.cwd).expanduser().resolve()),
            "add_dirs": tuple(str(Path(path).expanduser().resolve()) for path in request.add_dirs),
        },
    )


def _hook_timeout(request: Request) -> float:
    limits = request.limits
    return (limits.approval or NO_DEADLINE) + 2 * limits.chain + HOOK_MARGIN


def _choose(adapter: Adapter, order: Order) -> tuple[Transport, str, tuple[Unmet, ...]]:
    """The plainest transport that can do all that is asked; else the one that lacks the least, with what it lacks."""
    wanted = order.request.transport
    named = [transport for transport in adapter.transports if wanted in {"auto", transport.name}]
    if not named:
        names = tuple(f"transport={transport.name}" for transport in adapter.transports)
        unknown = Unmet(field="transport", value=wanted, reason="there is no such transport", alternatives=names)
        first = adapter.transports[0]
        return first, "", (unknown, *_unmet(first, order))
    lacks = [(transport, _unmet(transport, order)) for transport in named]
    best, unmet = min(lacks, key=lambda pair: len(pair[1]))
    why = "as asked" if wanted != "auto" else "the plainest that does all that is asked"
    return best, why, unmet


def _unmet(transport: Transport, order: Order) -> tuple[Unmet, ...]:
    return (*check(order.request, order.needs, transport.capabilities), *transport.check(order))


def _surroundings(request: Request, state: Path) -> Iterator[Unmet]:
    for field, path in (("cwd", request.cwd), *(("add_dirs", path) for path in request.add_dirs)):
        if not Path(path).is_dir():
            yield Unmet(field=field, value=path, reason="there is no such directory")
        elif state.resolve().is_relative_to(path):
            reason = f"the folder where runs keep their guards ({state}) would lie inside it"
            yield Unmet(
                field=field, value=path, reason=reason, alternatives=("a narrower directory", "Client(state=...)")
            )
        elif not request.trust_workspace:
            for finding in programs_named_by(path):
                yield Unmet(
                    field="trust_workspace",
                    value="False",
                    reason=f"the git configuration of {path} names a program that agents run unasked: {finding}",
                    alternatives=("trust_workspace=True", "remove it"),
                )
    yield from _variables(request, frozenset())
    yield from _schema(request)


def _session(request: Request, launch: Launch, state: Path) -> Iterator[Unmet]:
    """A session lies where it began: elsewhere there is none, and a new one would have lost what was said in it."""
    if launch.session_file is None or isinstance(request.session, NewSession):
        return
    if not Path(launch.session_file.replace("{state}", str(state))).is_file():
        yield Unmet(
            field="session.id",
            value=request.session.id,
            reason=f"no session of this id began in {request.cwd}, as far as {state} knows",
            alternatives=("the directory in which it began as cwd", "a new session"),
        )


def _obeyed(adapter: Adapter, request: Request, launch: Launch) -> Iterator[Unmet]:
    """What would make the agent answer its own questions, or send its key elsewhere, is for no option to undo."""
    for path in obeyed(request.cwd, launch.obeys):
        reason = f"{adapter.title} would obey {path}, and no option keeps it from that"
        yield Unmet(field="cwd", value=request.cwd, reason=reason, alternatives=("move it away",))
    root = repository_root(request.cwd) if launch.rooted else None
    if root is not None and root != request.cwd:
        reason = f"{adapter.title} names every path from the root of the git repository"
        yield Unmet(field="cwd", value=request.cwd, reason=reason, alternatives=(f"cwd={root}",))


def _schema(request: Request) -> Iterator[Unmet]:
    schema = request.json_schema()
    if schema is not None and (problem := schema_problem(schema)) is not None:
        yield Unmet(field="output_schema", value="...", reason=f"is no JSON Schema: {problem}")


def _variables(request: Request, drop: frozenset[str]) -> Iterator[Unmet]:
    for name in refused_variables(request.env, drop):
        reason = "never reaches an agent as it is: it switches a guard off, names programs, or marks a nested run"
        yield Unmet(field=f"env.{name}", value="...", reason=reason, alternatives=("leave it out",))


def _backstop(order: Order, can: Capabilities) -> Backstop:
    """The first that the transport offers and that fits: where the agent's own flow decides, a gate would not."""
    permission = order.request.permission
    if permission.backstop is not Backstop.ANY:
        return permission.backstop
    agent_decides = permission.otherwise is Otherwise.AGENT
    fitting = (stop for stop in can.backstops if not (agent_decides and stop is Backstop.GATE))
    return next(fitting, Backstop.NONE)


def _plan(
    order: Order,
    adapter: Adapter,
    transport: Transport,
    launch: Launch,
    *,
    why: str,
    env: dict[str, str],
    chain: tuple[str, ...],
) -> Plan:
    permission = order.request.permission
    return Plan(
        agent=adapter.name,
        title=adapter.title,
        transport=transport.name,
        why=why,
        binary=order.host.binary,
        argv=tuple(PlanArgument(text=arg.text, sensitivity=arg.sensitivity) for arg in launch.argv),
        env=tuple(sorted(env)),
        files=tuple(file.path for file in launch.files),
        links=tuple(f"{link.path} -> {link.target}" for link in launch.links),
        backstop=launch.backstop or order.backstop,
        endpoints=tuple(PlanEndpoint(name=one.name, style=one.style, tools=one.tools) for one in launch.endpoints),
        confined=launch.confined,
        enforces_posture=launch.enforces_posture,
        posture=permission.posture,
        otherwise=permission.otherwise,
        chain=chain,
        hook_timeout=order.hook_timeout,
        capabilities=transport.capabilities,
        warnings=(*launch.warnings, *rule_warnings.warnings(permission, confined=launch.enforces_posture)),
    )
