"""Policy files: TOML, read strictly, and the layers that are in force for a run.

In order of authority: the administrator's file, which always applies and must be root's alone to write; the user's, if
asked for; the client's own, in the order given; then the request. A workspace has no say: what an agent can write is no
policy. A file that is not there is no layer, unless it was named.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import normpath
from typing import TypeVar, cast

from pydantic import ValidationError

from interlock.engine.hooks_file import FoundSpec, owned_content
from interlock.engine.places import Place
from interlock.engine.registry import known_agents
from interlock.engine.rules import Effect, compile_rule
from interlock.errors import ConfigurationError
from interlock.hooks import HookSpec
from interlock.model import FrozenMap
from interlock.policy import Effective, Layer, Policy, PolicyPart, combine
from interlock.request import Request

__all__ = [
    "ADMINISTRATORS_POLICY",
    "PolicySource",
    "govern",
    "governed",
    "hooks_of",
    "read_policy",
    "unknown_agents",
    "users_policy",
]

ADMINISTRATORS_POLICY = "/etc/interlock/policy.toml"
PolicySource = str | os.PathLike[str] | Policy
M = TypeVar("M", bound=PolicyPart)
ROOT = 0
_ANYWHERE = Place(workspace="/", home="/", roots=("/",), written_roots=("/",), resolve=lambda path: path)
"""Where rules are compiled only to see that they can be."""


def users_policy(environ: Mapping[str, str], home: str) -> str:
    """`$XDG_CONFIG_HOME/interlock/policy.toml`, by default under `~/.config`."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return f"{base if base.startswith('/') else home + '/.config'}/interlock/policy.toml"


def govern(
    request: Request,
    policy: PolicySource | Sequence[PolicySource] | None = None,
    *,
    user_policy: bool = False,
    source: str = "the request",
    _administrators: tuple[str, int] = (ADMINISTRATORS_POLICY, ROOT),
) -> Effective:
    """What is in force for a run; raises `ConfigurationError` for a file that cannot be used, or a bound passed.

    `source` is how messages name the request.
    """
    layers = list(_layers(policy, user_policy=user_policy, administrators=_administrators))
    return combine(layers, agent=request.agent, permission=request.permission, limits=request.limits, source=source)


def governed(request: Request, effective: Effective) -> Request:
    """The request with the permission and limits that are in force."""
    return request.model_copy(update={"permission": effective.permission, "limits": effective.limits})


def _layers(
    policy: PolicySource | Sequence[PolicySource] | None, *, user_policy: bool, administrators: tuple[str, int]
) -> Iterator[Layer]:
    file, owner = administrators
    if (found := read_policy(file, owner=owner)) is not None:
        yield Layer(f"the administrator's policy {file}", found, binds=True)
    users = users_policy(os.environ, str(Path.home()))
    if user_policy and (found := read_policy(users)) is not None:
        yield Layer(f"the user's policy {users}", found)
    given = (policy,) if isinstance(policy, str | os.PathLike | Policy) else policy or ()
    for number, one in enumerate(given, 1):
        if isinstance(one, Policy):
            yield Layer(f"the client's policy{f' {number}' if len(given) > 1 else ''}", one)
        else:
            path = str(Path(os.fspath(one)).expanduser().absolute())
            yield Layer(f"the policy {path}", _named(path))


def _named(path: str) -> Policy:
    found = read_policy(path, must_exist=True)
    if found is None:
        raise ConfigurationError(path, "there is no such file")
    return found


def read_policy(path: str, *, must_exist: bool = False, owner: int | None = None) -> Policy | None:
    """The policy in a file; None if there is no file. Raises `ConfigurationError` naming the file and the key."""
    data = owned_content(path, must_exist=must_exist, owner=owner)
    if data is None:
        return None
    value = _parsed(data, path)
    if type(value.get("schema")) is not int or value["schema"] != 1:
        raise ConfigurationError(path, f"`schema` must be 1, not {json.dumps(value.get('schema'), default=str)}")
    agents = value.pop("agents", {})
    if not isinstance(agents, dict):
        raise ConfigurationError(path, "`agents` holds a table for each agent, as in [agents.claude.permission]")
    named = cast("dict[str, object]", agents)
    parts = {name: _model(PolicyPart, part, path, ("agents", name)) for name, part in named.items()}
    policy = _model(Policy, value, path, ()).model_copy(update={"agents": FrozenMap(parts)})
    _check_rules(policy, path)
    return _with_folder(policy, str(Path(path).absolute().parent))


def _parsed(data: bytes, path: str) -> dict[str, object]:
    try:
        return tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(path, f"it is no TOML: {error}") from error


def _model(kind: type[M], value: object, path: str, place: tuple[str, ...]) -> M:
    """TOML judged as strictly as JSON; dates, times and numbers that are none have no place in it."""
    try:
        return kind.model_validate_json(json.dumps(value, allow_nan=False), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        problems = [_problem(dict(detail), place) for detail in error.errors(include_url=False)]
        raise ConfigurationError(path, "; ".join(problems)) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(path, f"it holds a value that no policy has: {error}") from error


def _problem(detail: dict[str, object], outer: tuple[str, ...]) -> str:
    *front, last = (*outer, *cast("tuple[str | int, ...]", detail["loc"])) or ("",)
    place = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in front).lstrip(".")
    if detail["type"] == "extra_forbidden":
        return f"unknown key `{last}`" + (f" in `{place}`" if place else "")
    end = f"[{last + 1}]" if isinstance(last, int) else f".{last}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"`{(place + end).lstrip('.')}`: {message}"


def _check_rules(policy: Policy, path: str) -> None:
    """A rule that would never mean what it says is an error of this file, whoever runs what."""
    for part in (policy, *policy.agents.values()):
        for rules, effect in _rules(part):
            for rule in rules:
                try:
                    compile_rule(rule, effect, _ANYWHERE)
                except ConfigurationError as error:
                    raise ConfigurationError(path, f"{effect} rule {rule!r}: {error.problem}") from error


def _rules(part: PolicyPart) -> tuple[tuple[tuple[str, ...], Effect], ...]:
    allow, deny, room = part.permission.allow, part.permission.deny, part.bounds.allow or ()
    return (allow, "allow"), (deny, "deny"), (room, "allow")


def _with_folder(policy: Policy, folder: str) -> Policy:
    """A hook's relative path is meant from the folder of its file."""

    def settled(spec: HookSpec) -> HookSpec:
        program, *more = spec.command
        if "/" not in program or program.startswith("/"):
            return spec
        return spec.model_copy(update={"command": (normpath(f"{folder}/{program}"), *more)})

    def part(one: PolicyPart) -> PolicyPart:
        return one.model_copy(update={"hooks": tuple(map(settled, one.hooks))})

    agents = FrozenMap({name: part(one) for name, one in policy.agents.items()})
    hooks = tuple(map(settled, policy.hooks))
    return policy.model_copy(update={"agents": agents, "hooks": hooks})


def hooks_of(effective: Effective, *, administrators: bool) -> tuple[FoundSpec, ...]:
    """The hooks of the administrator's policy, or of all others."""
    return tuple(
        FoundSpec(spec, f"{layer.source}: hook {spec.name!r}", None)
        for layer, spec in effective.hooks
        if layer.binds is administrators
    )


def unknown_agents(effective: Effective) -> tuple[str, ...]:
    """A warning for each part of a policy that is about no installed agent: misspelled, it would guard nothing."""
    named = [(layer.source, name) for layer in effective.layers for name in layer.policy.agents]
    known = known_agents() if named else ()
    return tuple(
        f"{source} has a part for {name!r}, which is no installed agent" for source, name in named if name not in known
    )
