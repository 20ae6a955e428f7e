"""Work on a disk that takes its time, in a thread, so that the other runs of the event loop go on.

Removing a folder waits for the disk, milliseconds for each folder on some file systems. The threads are few and not
those that the application shares out, which may all be taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

__all__ = ["off_loop"]

T = TypeVar("T")

THREADS = 8
"""At most so many at a time, for each event loop."""

_limiter: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("interlock_off_loop")


async def off_loop(work: Callable[[], T]) -> T:
    """What `work()` returns or raises; where no thread can be had, it is done at once. Cancelled, it goes on alone."""
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
    begun = False

    def noted() -> T:
        nonlocal begun
        begun = True
        return work()

    try:
        return await anyio.to_thread.run_sync(noted, limiter=limiter, abandon_on_cancel=True)
    except RuntimeError:  # "can't start new thread": a process that is out of them still clears up
        if begun:
            raise
        return work()
