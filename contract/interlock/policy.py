"""Policies: what holds for every run, said in layers, and the one permission that comes of them.

Layers are combined in order of authority: the administrator's first, the request's own permission last.

- Deny rules and hooks of all layers unite. Of limits the smallest holds.
- Posture, `otherwise`, `backstop` and `network` are the last layer's that says something; allow rules and writable
  folders add up.
- A layer's bounds say how far later layers may go. What goes further is refused, with the layer, the value and the
  bound named; nothing is quietly cut down.
- What the administrator's layer sets is a bound by itself: of another layer it is only what it gives, unless it has
  `bounds`. A bound on the posture leaves no room for what would undo it (allow rules, `otherwise` beyond deny, writable
  folders) unless the same bounds name that room. What earlier layers gave is narrowed to later bounds on posture,
  `otherwise`, `backstop` and `network`; their allow rules stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field

from interlock.errors import ConfigurationError
from interlock.hooks import HookSpec
from interlock.model import FrozenMap, Map, Model
from interlock.permission import Backstop, Otherwise, Permission, Posture, Rule
from interlock.request import Limits
from interlock.rule_order import within

__all__ = [
    "Bounds",
    "Effective",
    "Layer",
    "Policy",
    "PolicyLimits",
    "PolicyPart",
    "PolicyPermission",
    "Sourced",
    "combine",
]

Folder = Annotated[str, Field(min_length=1)]
Span = Annotated[float, Field(gt=0, le=31_536_000)]
T = TypeVar("T")
M = TypeVar("M", bound=Model)

_POSTURES = tuple(Posture)
"""From the narrowest to the widest."""


# ---- What a file says -----------------------------------------------------------------------------------------------


class PolicyPermission(Model):
    """What a policy says about the permission of runs; None, or nothing, is no word on it."""

    posture: Posture | None = None
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    otherwise: Otherwise | None = None
    backstop: Backstop | None = None
    network: bool | None = None
    writable: tuple[Folder, ...] = ()


class Bounds(Model):
    """How far later layers may go; None is no bound."""

    posture: Posture | None = None
    """The widest."""
    otherwise: tuple[Otherwise, ...] | None = None
    """The values there may be; `deny` is always one of them."""
    allow: tuple[Rule, ...] | None = None
    """An allow rule must lie within one of these."""
    backstop: Backstop | None = None
    """What must stand behind the chain."""
    network: Literal[False] | None = None
    """False: the sandbox lets no command reach the network."""
    writable: tuple[Folder, ...] | None = None
    """A writable folder must be one of these or lie below one."""
    grant: bool | None = None
    """Whether participants other than the administrator's may grant where `otherwise` may be `chain`."""


class PolicyLimits(Model):
    """Bounds on runs, as in `Limits`, in seconds unless said otherwise; None is no word on it."""

    total: Span | None = None
    idle: Span | None = None
    start_up: Span | None = None
    approval: Span | None = None
    chain: Span | None = None
    hook: Span | None = None
    max_turns: int | None = Field(default=None, ge=1)
    budget_usd: float | None = Field(default=None, gt=0)
    budget_tokens: int | None = Field(default=None, ge=1)
    unreplaceable: Literal["stop", "refuse"] | None = None


class PolicyPart(Model):
    """What a policy says about the runs of all agents, or of one."""

    permission: PolicyPermission = Field(default_factory=PolicyPermission)
    bounds: Bounds = Field(default_factory=Bounds)
    limits: PolicyLimits = Field(default_factory=PolicyLimits)
    hooks: tuple[HookSpec, ...] = ()


class Policy(PolicyPart):
    """One policy file. `agents.<name>` overrides field by field for that agent; its rules and hooks are added."""

    model_config = ConfigDict(serialize_by_alias=True, populate_by_name=True)

    schema_: Literal[1] = Field(default=1, alias="schema")
    agents: Map[PolicyPart] = Field(default_factory=FrozenMap[PolicyPart])

    def part(self, agent: str) -> PolicyPart:
        """What this policy says about the runs of one agent."""
        own = self.agents.get(agent)
        if own is None:
            return self
        return PolicyPart(
            permission=_over(self.permission, own.permission),
            bounds=_over(self.bounds, own.bounds),
            limits=_over(self.limits, own.limits),
            hooks=(*self.hooks, *own.hooks),
        )


_ADDED = frozenset({"allow", "deny", "writable"})


def _over(base: M, own: M) -> M:
    """The base with what the own part says in place of it; the lists of a permission are joined."""
    said = {name: value for name, value in own if value not in {None, ()}}
    if isinstance(base, PolicyPermission):
        said = {name: (*getattr(base, name), *value) if name in _ADDED else value for name, value in said.items()}
    if isinstance(base, Bounds):
        said |= {name: () for name, value in own if value == ()}
    return base.model_copy(update=said)


# ---- Layers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sourced:
    """A rule, folder or other value, and the layer that it comes from."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Layer:
    """A policy and where it comes from; `binds`: what it sets is a bound on the layers after it."""

    source: str
    policy: Policy
    binds: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """The bounds of one layer, those included that it did not spell out."""

    source: str
    posture: Posture | None
    otherwise: frozenset[Otherwise] | None
    allow: tuple[str, ...] | None
    backstop: Backstop | None
    network_off: bool
    writable: tuple[str, ...] | None
    grants_kept: bool
    """Only the participants of this layer may grant."""

    @classmethod
    def of(cls, source: str, part: PolicyPart, *, binds: bool) -> Room:
        """The bounds of a layer."""
        said, bounds = part.permission, part.bounds
        posture = bounds.posture or (said.posture if binds else None)
        chosen = frozenset({Otherwise.DENY, said.otherwise or Otherwise.DENY})
        otherwise = frozenset(bounds.otherwise) | chosen if bounds.otherwise is not None else None
        if otherwise is None and (posture is not None or (binds and said.otherwise is not None)):
            otherwise = chosen
        closes = posture is not None
        backstop = bounds.backstop or (said.backstop if binds else None)
        return cls(
            source=source,
            posture=posture,
            otherwise=otherwise,
            allow=_open(bounds.allow, said.allow, closes=closes),
            backstop=None if backstop is Backstop.ANY else backstop,
            network_off=bounds.network is False or (binds and said.network is False),
            writable=_open(bounds.writable, said.writable, closes=closes or (binds and bool(said.writable))),
            grants_kept=binds and otherwise is not None and Otherwise.CHAIN in otherwise and bounds.grant is not True,
        )

    def objections(self, said: PolicyPermission) -> Iterator[str]:
        """What goes further than these bounds, each in words."""
        by = f"beyond the bounds of {self.source}"
        if said.posture is not None and self.posture is not None and _wider(said.posture, self.posture):
            yield f"posture {said.posture} is {by}: at most {self.posture}"
        if said.otherwise is not None and self.otherwise is not None and said.otherwise not in self.otherwise:
            yield f"otherwise {said.otherwise} is {by}: {' or '.join(sorted(self.otherwise))}"
        for rule in said.allow if self.allow is not None else ():
            if not any(within(rule, room) for room in self.allow or ()):
                yield f"allow rule {rule!r} is {by}: {_listed('allow rules within', self.allow)}"
        if said.backstop not in {None, Backstop.ANY, self.backstop} and self.backstop is not None:
            yield f"backstop {said.backstop} is {by}: {self.backstop}"
        if said.network and self.network_off:
            yield f"network true is {by}: false"
        for folder in said.writable if self.writable is not None else ():
            if not any(_below(folder, room) for room in self.writable or ()):
                yield f"writable folder {folder!r} is {by}: {_listed('folders below', self.writable)}"


def _open(room: tuple[str, ...] | None, own: tuple[str, ...], *, closes: bool) -> tuple[str, ...] | None:
    """What later layers may add: what the bounds name, and what is there already; None is anything."""
    return None if room is None and not closes else (*(room or ()), *own)


def _wider(posture: Posture, bound: Posture) -> bool:
    return _POSTURES.index(posture) > _POSTURES.index(bound)


def _listed(what: str, open_: tuple[str, ...] | None) -> str:
    return f"only {what} {', '.join(map(repr, open_))}" if open_ else "they leave none open"


def _below(folder: str, room: str) -> bool:
    if ".." in folder.split("/"):
        return False
    return folder == room or folder.startswith(room.rstrip("/") + "/")


# ---- What comes of them ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Effective:
    """What is in force for one run, and which layer it comes from."""

    permission: Permission
    limits: Limits
    layers: tuple[Layer, ...]
    """Those that took part, without the request."""
    allow: tuple[Sourced, ...]
    deny: tuple[Sourced, ...]
    origins: FrozenMap[str]
    """Of posture, otherwise, backstop and network: the layer that said so; absent where it is the default."""
    rooms: tuple[Room, ...]
    hooks: tuple[tuple[Layer, HookSpec], ...] = ()

    @property
    def grants_kept_by(self) -> str | None:
        """The layer that keeps the power to grant to its own participants."""
        return next((room.source for room in self.rooms if room.grants_kept), None)

    def may_allow(self, rule: str) -> bool:
        """Whether the bounds leave room for one allow rule more; raises ValueError for what is no rule."""
        return not self.objections(allow=(rule,))

    def objections(self, **said: Any) -> tuple[str, ...]:
        """Why a later layer that says so would be refused; empty if it may."""
        wish = PolicyPermission(**said)
        return tuple(words for room in self.rooms for words in room.objections(wish))


@dataclass(slots=True)
class _Sum:
    """The layers so far."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    origins: dict[str, str] = field(default_factory=dict[str, str])
    allow: list[Sourced] = field(default_factory=list[Sourced])
    deny: list[Sourced] = field(default_factory=list[Sourced])
    writable: list[str] = field(default_factory=list[str])
    rooms: list[Room] = field(default_factory=list[Room])

    def add(self, source: str, said: PolicyPermission) -> None:
        """One layer more; raises `ConfigurationError` where it goes further than an earlier one lets it."""
        problems = [words for room in self.rooms for words in room.objections(said)]
        if problems:
            raise ConfigurationError(source, "; ".join(problems))
        for name in ("posture", "otherwise", "backstop", "network"):
            value = getattr(said, name)
            if value is not None and value is not Backstop.ANY:
                self.values[name], self.origins[name] = value, source
        self.allow += [Sourced(rule, source) for rule in said.allow]
        self.deny += [Sourced(rule, source) for rule in said.deny]
        self.writable += said.writable

    def enforced(self) -> dict[str, Any]:
        """The values within all bounds: a default, or what an earlier layer gave, may be beyond them."""
        for room in reversed(self.rooms):
            if room.posture is not None and _wider(self.values.get("posture", Posture.READ), room.posture):
                self._narrow("posture", room.posture, room)
            if room.otherwise is not None and self.values.get("otherwise", Otherwise.DENY) not in room.otherwise:
                self._narrow("otherwise", Otherwise.DENY, room)
            if room.backstop not in {None, self.values.get("backstop")}:
                self._narrow("backstop", room.backstop, room)
            if room.network_off and self.values.get("network") is not False:
                self._narrow("network", False, room)
        return self.values

    def _narrow(self, name: str, value: object, room: Room) -> None:
        self.values[name], self.origins[name] = value, room.source


def combine(
    layers: Sequence[Layer],
    *,
    agent: str,
    permission: Permission | None = None,
    limits: Limits | None = None,
    source: str = "the request",
) -> Effective:
    """What is in force for a run of `agent`; raises `ConfigurationError` for what is beyond an earlier layer's bounds.

    `permission` and `limits` are the request's own, its last layer; of them only what was set counts as said.
    """
    permission, limits = permission or Permission(), limits or Limits()
    total = _Sum()
    parts = [(layer, layer.policy.part(agent)) for layer in layers]
    for layer, part in parts:
        _check(layer, part)
        total.add(layer.source, part.permission)
        total.rooms.append(Room.of(layer.source, part, binds=layer.binds))
    total.add(source, _said(permission))
    lists = {
        "allow": _once(rule.value for rule in total.allow),
        "deny": _once(rule.value for rule in total.deny),
        "writable": _once(total.writable),
    }
    enforced = {**total.enforced(), **lists}
    return Effective(
        permission=permission.model_copy(update=enforced) if layers else permission,
        limits=_smallest(limits, [part.limits for _, part in parts]),
        layers=tuple(layers),
        allow=tuple(total.allow),
        deny=tuple(total.deny),
        origins=FrozenMap(total.origins),
        rooms=tuple(total.rooms),
        hooks=tuple((layer, spec) for layer, part in parts for spec in part.hooks),
    )


def _check(layer: Layer, part: PolicyPart) -> None:
    """A layer that goes further than its own bounds contradicts itself."""
    own = replace(Room.of("its own", part, binds=False), allow=None, writable=None)
    problems = [words.replace("of its own", "that it sets itself") for words in own.objections(part.permission)]
    if problems:
        raise ConfigurationError(layer.source, "; ".join(problems))


def _said(permission: Permission) -> PolicyPermission:
    """What the caller set, defaults left out."""
    return PolicyPermission(**{name: getattr(permission, name) for name in permission.model_fields_set})


def _once(values: Iterator[str] | Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _smallest(limits: Limits, parts: Sequence[PolicyLimits]) -> Limits:
    changes: dict[str, Any] = {}
    for name in PolicyLimits.model_fields:
        bounds = [value for part in parts if (value := getattr(part, name)) is not None]
        own = getattr(limits, name)
        if bounds and own is not None and name in limits.model_fields_set:
            bounds.append(own)
        if bounds:
            changes[name] = ("refuse" if "refuse" in bounds else "stop") if name == "unreplaceable" else min(bounds)
    return limits.model_copy(update=changes)
