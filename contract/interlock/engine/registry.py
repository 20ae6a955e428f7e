"""Finding adapters: by name, in the entry-point group `interlock.adapters`; the engine imports none itself."""

from __future__ import annotations

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
        loaded = _loaded(name) if name in _families() else None
        names += members(name, loaded) if isinstance(loaded, Family) else [name]
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
    if isinstance(loaded, Family) and colon:
        return member_of(point, loaded, member)
    if isinstance(loaded, Adapter) and not colon:
        return loaded
    if isinstance(loaded, Family | Adapter):
        raise UnknownAgent(name, known_agents())
    raise ConfigurationError(f"entry point {GROUP}:{point} = {_installed()[point].value}", "is no adapter")


def _loaded(name: str) -> object:
    point = _installed()[name]
    try:
        return point.load()
    except Exception as error:
        raise ConfigurationError(f"entry point {GROUP}:{name} = {point.value}", f"cannot be loaded: {error}") from error
