"""Interlock as a contestant: one run of an agent's request, with or without a chain that has no objection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.real.contestants import Stage
from interlock import Allow, Client, HookCall, Request

__all__ = ["driven"]


class _Guard:
    """Has no objection, before a call and, if asked, after it."""

    name = "guard"

    def __init__(self, *events: str) -> None:
        self.events = events

    async def before(self, _: HookCall) -> Allow:
        return Allow()

    async def after(self, _: HookCall) -> Allow:
        return Allow()


def driven(request: Callable[[Stage, int], Request], state: Callable[[Stage], str | Path], *events: str) -> Any:
    """What a contestant does: the request of a stage with so many calls, and the state folder that it runs in."""

    async def run(stage: Stage, calls: int) -> None:
        chain = [_Guard(*events)] if events else []
        async with Client(interceptors=chain, state=state(stage)) as client:  # type: ignore[arg-type]
            outcome = await client.run(request(stage, calls))
        if not outcome.ok or outcome.text != "done":
            raise RuntimeError(outcome.describe())

    return run
