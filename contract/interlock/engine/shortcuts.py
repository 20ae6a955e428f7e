"""The client's methods as functions, for a client without a chain. They load the engine only when they are called."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.engine.client import Client
    from interlock.engine.plan import Plan
    from interlock.engine.run import Run
    from interlock.outcome import Outcome
    from interlock.request import Request

__all__ = ["plan", "run", "run_sync", "stream"]


def plan(request: Request, *, answered: bool = False) -> Plan:
    """`Client().plan`: what the request would run; starts nothing."""
    return _client().plan(request, answered=answered)


def stream(request: Request, *, conversation: bool = False) -> AbstractAsyncContextManager[Run]:
    """`Client().stream`: a run whose events are read inside the block."""
    return _client().stream(request, conversation=conversation)


async def run(request: Request, *, check: bool = True) -> Outcome:
    """`Client().run`: one run to its end."""
    return await _client().run(request, check=check)


def run_sync(request: Request, *, check: bool = True, **client: Any) -> Outcome:
    """One run to its end, for scripts; further arguments are those of `Client`."""
    import anyio  # noqa: PLC0415  # see the top

    async def main() -> Outcome:
        async with _client(**client) as interlock:
            return await interlock.run(request, check=check)

    return anyio.run(main)


def _client(**arguments: Any) -> Client:
    from interlock.engine.client import Client  # noqa: PLC0415  # see the top

    return Client(**arguments)
