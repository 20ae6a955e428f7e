"""A task of its own for each run, so that a run may be left from any task and still ends in good order.

A task group that lives in the caller's task breaks as soon as an abandoned generator is closed from another task. A run
therefore has one root task, with its task group inside; the caller's context manager only asks it to end and waits.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["start_root"]

_running: set[asyncio.Task[None]] = set()


def start_root(main: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Start `main` beside the current task on the running loop, asyncio or trio. It must not raise."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio  # noqa: PLC0415  # only who runs on trio has it

        trio.lowlevel.spawn_system_task(main, name=name, context=contextvars.copy_context())
        return
    task = loop.create_task(main(), name=name)
    _running.add(task)
    task.add_done_callback(_running.discard)
