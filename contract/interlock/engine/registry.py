"""Finding adapters: by name, in the entry-point group `interlock.adapters`; the engine imports none itself."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from interlock.adapter import Adapter
from interlock.errors import ConfigurationError, UnknownAgent

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "find_adapter", "known_agents"]

GROUP = "interlock.adapters"


@cache
def _installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415  # slow to import, and not needed to import us

    return {point.name: point for point in entry_points(group=GROUP)}


def known_agents() -> tuple[str, ...]:
    """The names of all installed adapters, sorted."""
    return tuple(sorted(_installed()))


def find_adapter(name: str) -> Adapter:
    """The adapter of that name; raises `UnknownAgent`, or `ConfigurationError` where its package is broken."""
    point = _installed().get(name)
    if point is None:
        raise UnknownAgent(name, known_agents())
    try:
        loaded = point.load()
    except Exception as error:
        raise ConfigurationError(f"entry point {GROUP}:{name} = {point.value}", f"cannot be loaded: {error}") from error
    if not isinstance(loaded, Adapter):
        raise ConfigurationError(f"entry point {GROUP}:{name} = {point.value}", "is no adapter")
    return loaded
