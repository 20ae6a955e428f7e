"""One end of an agent's stdio: a non-blocking AF_UNIX socket behind anyio.

Strategy: try the socket first and wait only if it would block. Closing shuts the socket down before it closes it,
which wakes whoever waits on it in whatever task or loop; the last one to wake closes the descriptor, so that no waiter
is left with a number that may be somebody else's by then. What is never closed is closed, silently, with the object.
"""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from interlock.engine.lifeline_wire import NO_SIGNAL

CHUNK = 65536 * 4
"""Bytes that one `receive` returns at most, unless told otherwise."""


class StreamClosed(ConnectionError):
    """The other side no longer reads, or this side was closed."""


class Stream:
    """Bytes from and to an agent. Belongs to one event loop; `close` may be called from anywhere, at any time."""

    __slots__ = ("__weakref__", "_closed", "_finalizer", "_owner", "_sending", "_sock", "_waiting")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._owner = os.getpid()
        self._sending = anyio.Lock(fast_acquire=True)
        self._waiting = 0
        self._closed = False
        self._finalizer = weakref.finalize(self, sock.close)

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        """Up to `max_bytes` as soon as there are any; b"" at the end, which a reset or our own close is too."""
        await anyio.lowlevel.checkpoint()
        while not self._closed:
            try:
                return self._sock.recv(max_bytes)
            except BlockingIOError:
                await self._wait(anyio.wait_readable)
            except ConnectionError:
                return b""
        return b""

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send the whole of it, one sender at a time; raises StreamClosed. Cancelled half-way, a part may be sent."""
        async with self._sending:
            await anyio.lowlevel.checkpoint()
            rest = memoryview(data).cast("B")
            while rest:
                rest = rest[await self._send_some(rest) :]

    def offer(self, data: bytes | memoryview) -> int:
        """Send what fits at once, none of it while somebody sends; how many bytes went. Raises StreamClosed."""
        return 0 if self._sending.locked() else self._send_now(data)

    def _send_now(self, data: bytes | memoryview) -> int:
        if self._closed:
            raise StreamClosed("the stream was closed")
        try:
            return self._sock.send(data, NO_SIGNAL)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise StreamClosed(error.errno, "the other side no longer reads") from error

    async def _send_some(self, data: memoryview) -> int:
        sent = self._send_now(data)
        if not sent:
            await self._wait(anyio.wait_writable)
        return sent

    async def _wait(self, ready: Callable[[socket.socket], Awaitable[None]]) -> None:
        self._waiting += 1
        try:
            await ready(self._sock)
        finally:
            self._waiting -= 1
            if self._closed and not self._waiting:
                self._finalizer()

    def send_eof(self) -> None:
        """Tell the other side that nothing more will be sent; receiving goes on."""
        if not self._closed:
            _shut_down(self._sock, socket.SHUT_WR)

    def close(self) -> None:
        """Close both directions; idempotent."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() == self._owner:  # a forked child must not shut down what its parent still uses
            _shut_down(self._sock, socket.SHUT_RDWR)
        if not self._waiting:
            self._finalizer()


def _shut_down(sock: socket.socket, how: int) -> None:
    try:
        sock.shutdown(how)
    except OSError:
        return  # the other side is gone already
