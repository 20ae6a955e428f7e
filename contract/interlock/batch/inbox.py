"""Messages to attempts that run in this process, from any thread: `deliver(key, message)`.

An executor whose workers run attempts in threads calls `deliver` in the worker's process; nothing else is needed
there to cancel a running attempt, or to answer it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import anyio

__all__ = ["Inbox", "deliver", "loop_caller", "running_keys"]

_open: dict[str, Inbox] = {}


def deliver(key: str, message: bytes) -> bool:
    """Give the bytes of a `Message` to a running attempt, from any thread; False if none of that key runs here."""
    inbox = _open.get(key)
    return inbox is not None and inbox.put(message)


def running_keys() -> tuple[str, ...]:
    """The keys of the attempts that run in this process."""
    return tuple(_open)


class Inbox:
    """The messages to one attempt; made and read on its event loop, filled from anywhere."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._messages: deque[bytes] = deque()
        self._wake = anyio.Event()
        self._call = loop_caller()
        _open[key] = self

    def put(self, message: bytes) -> bool:
        """Add a message; False if the attempt's loop is gone."""
        self._messages.append(message)
        try:
            self._call(self._rouse)
        except RuntimeError:  # the loop is closed; of trio, RunFinishedError
            return False
        return True

    def _rouse(self) -> None:
        self._wake.set()

    async def take(self) -> bytes:
        """The next message, once there is one."""
        while not self._messages:
            self._wake = anyio.Event()
            await self._wake.wait()
        return self._messages.popleft()

    def close(self) -> None:
        """Nothing is delivered any more."""
        _open.pop(self.key, None)


def loop_caller() -> Callable[[Callable[[], None]], object]:
    """What calls a function on the running loop, from any thread; it raises RuntimeError once that loop is over."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        import trio  # noqa: PLC0415  # only who runs on trio has it

        return trio.lowlevel.current_trio_token().run_sync_soon
