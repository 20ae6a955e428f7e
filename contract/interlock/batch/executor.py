"""Where attempts are made: the seam between the driver, which owns all policy, and whatever runs them.

An executor takes the bytes of an `AttemptSpec` and gives the bytes of an `AttemptResult`. It must not try again by
itself; one whose cluster does so anyway is seen, since each attempt makes its own id and announces it. What it cannot
do beyond `capacity` and `execute` it leaves out: without `events` there is no live view and no answering, without
`send` a running attempt ends only by the cancellation of `execute`.

    class Mine:
        shares_files = False
        async def capacity(self) -> int: ...
        async def execute(self, spec: bytes, *, key: str) -> bytes:
            return await somewhere(execute_attempt, spec)      # interlock.batch.attempt
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

__all__ = ["AttemptLost", "Executor", "ExecutorGone", "Reachable", "Telling"]


class AttemptLost(Exception):
    """Whatever made the attempt is gone, and nobody knows how far it came."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ExecutorGone(Exception):
    """The executor itself can be used no more: a fault of no run, and the batch ends so that it can be resumed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Executor(Protocol):
    """Makes attempts. Opened and closed by whoever made it; used by one batch at a time."""

    @property
    def shares_files(self) -> bool:
        """Whether attempts record into the batch's folder themselves; else results carry their events."""
        ...

    async def capacity(self) -> int:
        """How many attempts can run at once; asked again and again, since it may change. 0: none for now.

        Raises `ExecutorGone`, as whatever else it raises is taken.
        """
        ...

    async def execute(self, spec: bytes, *, key: str) -> bytes:
        """Make one attempt to its end; raises `AttemptLost` and `ExecutorGone`.

        Cancelled, it ends the attempt and all that it started, or sees to it that it ends, before it returns.
        """
        ...


@runtime_checkable
class Telling(Protocol):
    """An executor that carries news from running attempts."""

    def events(self) -> AsyncIterator[bytes]:
        """The bytes of `News`, in order for each attempt, until the executor is closed; the last may be missing."""
        ...


@runtime_checkable
class Reachable(Protocol):
    """An executor that carries messages to running attempts."""

    async def send(self, key: str, message: bytes) -> bool:
        """Deliver the bytes of a `Message`; False if no such attempt runs, or it did not take it."""
        ...
