"""A chain by names, and the digest by which two processes see that they would build the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, cast

from interlock.batch.options import ChainNames
from interlock.engine.client import Client
from interlock.engine.programs import resolve_program
from interlock.errors import ConfigurationError
from interlock.hooks import HookSpec, Interceptor
from interlock.model import digest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "chain_digest", "client_of"]

GROUP = "interlock.interceptors"


def client_of(chain: ChainNames) -> Client:
    """A client with that chain; raises `ConfigurationError` where it cannot be built."""
    return Client(interceptors=[_interceptor(name) for name in chain.interceptors], hooks=chain.hooks)


def chain_digest(chain: ChainNames) -> str:
    """What the names stand for here: of interceptors their origin and version, of programs their bytes."""
    points = [_point(name) for name in chain.interceptors]
    return digest(
        {
            "interceptors": [[point.name, point.value, _version(point)] for point in points],
            "hooks": [[spec.model_dump(mode="json"), _content(spec)] for spec in chain.hooks],
        }
    )


@cache
def _points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415  # slow to import

    return {point.name: point for point in entry_points(group=GROUP)}


def _point(name: str) -> EntryPoint:
    point = _points().get(name)
    if point is None:
        raise ConfigurationError(f"chain.interceptors: {name}", f"no entry point of {GROUP} has this name")
    return point


def _version(point: EntryPoint) -> str:
    return point.dist.version if point.dist is not None else ""


def _interceptor(name: str) -> Interceptor:
    try:
        loaded: object = _point(name).load()
        made = loaded if isinstance(loaded, Interceptor) and not isinstance(loaded, type) else _called(loaded)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"chain.interceptors: {name}", f"cannot be loaded: {error}") from error
    if not isinstance(made, Interceptor):
        raise ConfigurationError(f"chain.interceptors: {name}", "is no interceptor, and makes none")
    return made


def _called(loaded: object) -> object:
    return cast("Callable[[], object]", loaded)()


def _content(spec: HookSpec) -> str:
    source = f"chain.hooks: {spec.name}"
    return resolve_program(spec.command, source=source, folder=None, outside=(), in_workspace=True).digest
