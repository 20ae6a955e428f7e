"""Finding adapters: by name, in the entry-point group `interlock.adapters`; the engine imports none itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from interlock.adapter import Adapter, Family
from interlock.engine.families import member_of, members
from interlock.errors import ConfigurationError, UnknownAgent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "find_adapter", "known_agents"]

GROUP = "interlock.adapters"
FAMILY = "family"
"""The attribute that an entry point of a family points to."""


@cache
def _installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415  # slow to import, and not needed to import us

    return {point.name: point for point in entry_points(group=GROUP)}


def known_agents() -> tuple[str, ...]:
    """The names of all installed adapters, sorted; of a family the name of each of its members."""
    names: list[str] = []
    for name in _installed():
        family = _loaded(name).family if name in _families() else None
        names += [name] if family is None else members(name, family)
    return tuple(sorted(names))


@cache
def _families() -> frozenset[str]:
    """The entry points that are families: they say so by where they point to, so that no other is loaded for it."""
    return frozenset(name for name, point in _installed().items() if point.attr == FAMILY)


def find_adapter(name: str) -> Adapter:
    """The adapter of that name; raises `UnknownAgent`, or `ConfigurationError` where its package is broken."""
    point, colon, member = name.partition(":")
    if point not in _installed():
        raise UnknownAgent(name, known_agents())
    loaded = _loaded(point)
    if loaded.family is not None and colon:
        return member_of(point, loaded.family, member)
    if loaded.adapter is not None and not colon:
        return loaded.adapter
    raise UnknownAgent(name, known_agents())


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What an entry point points to: one of the two."""

    adapter: Adapter | None
    family: Family | None


def _loaded(name: str) -> _Loaded:
    return _load(_installed()[name])


@cache
def _load(point: EntryPoint) -> _Loaded:
    """Once in the life of this process: a look at all that a protocol asks for takes longer than one would think."""
    source = f"entry point {GROUP}:{point.name} = {point.value}"
    try:
        found: object = point.load()
    except Exception as error:
        raise ConfigurationError(source, f"cannot be loaded: {error}") from error
    if isinstance(found, Family):
        return _Loaded(None, found)
    if isinstance(found, Adapter):
        return _Loaded(found, None)
    raise ConfigurationError(source, "is no adapter")
