"""A terminal as the channel to an agent, behind the same interface as a pair of sockets.

The host makes the pair of ends with the system's own call and keeps the master; the guardian opens the other end as
the agent's stdin, stdout and stderr, so that it becomes the controlling terminal of the agent's session. A library
that forks for itself would put the agent outside the guardian's sight.

The terminal is raw before the agent's first byte: nothing is echoed, no key is a signal, and a line has no greatest
length. (One that stands for a person's own has the modes of theirs.) An agent may turn its line mode on itself; what
would be cut then (Linux 4095 bytes, macOS 1023, without a word to the writer) is refused instead. A broken line (EIO on
Linux) is the end of output, as an end of file is.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import select
import struct
import sys
import termios
import tty
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from interlock.engine.stream import CHUNK, StreamClosed

if TYPE_CHECKING:
    from interlock.adapter import WindowSize

__all__ = ["InputCut", "Keys", "Modes", "Screen", "Terminal"]

Modes = list[Any]
"""What `termios.tcgetattr` gives."""

LONGEST_LINE = 4095 if sys.platform == "linux" else 1023
"""Bytes of a line, its end included or not, that a terminal in line mode takes."""
PIECE = 2048
"""Bytes of one write at most, so that a change of mode is seen between two."""


class InputCut(StreamClosed):
    """The agent put its terminal into line mode, in which what is to be sent would arrive without its end."""


class Terminal:
    """The master's end of a terminal; `keys` writes to it and `screen` reads from it. Belongs to one event loop."""

    __slots__ = ("__weakref__", "_closed", "_finalizer", "_master", "_waiting", "keys", "name", "screen")

    def __init__(self, master: int, name: str) -> None:
        os.set_blocking(master, False)
        self._master = master
        self._waiting = 0
        self._closed = False
        self._finalizer = weakref.finalize(self, os.close, master)
        self.name = name
        self.keys = Keys(self)
        self.screen = Screen(self)

    @classmethod
    def open(cls, size: WindowSize, modes: Modes | None = None) -> tuple[Terminal, int]:
        """A terminal of this size, and its other end, which the caller closes; raw, or in these modes. Raises OSError.

        `modes` are those of `termios.tcgetattr`.
        """
        master, other = os.openpty()
        try:
            if modes is None:
                tty.setraw(other, termios.TCSANOW)
                modes = termios.tcgetattr(other)
                modes[1] |= termios.OPOST | termios.ONLCR  # a line that ends goes on at the left, as on any terminal
            termios.tcsetattr(other, termios.TCSANOW, modes)
            _set_size(other, size)
            return cls(master, os.ttyname(other)), other
        except BaseException:
            os.close(other)
            raise

    def resize(self, size: WindowSize) -> None:
        """The window has another size: the program is told by SIGWINCH. Nothing happens once it is closed."""
        if not self._closed:
            _set_size(self._master, size)

    @property
    def closed(self) -> bool:
        """Whether this side was closed."""
        return self._closed

    @property
    def line_mode(self) -> bool:
        """Whether the agent reads whole lines of bounded length."""
        try:
            return bool(termios.tcgetattr(self._master)[3] & termios.ICANON)
        except termios.error:
            return False  # the other end is gone

    @property
    def speaks(self) -> bool:
        """Whether there is output that was not received yet."""
        return not self._closed and bool(select.select([self._master], [], [], 0)[0])

    @property
    def unread(self) -> int:
        """Bytes that were sent and that nobody has read yet."""
        count = array.array("i", [0])
        try:
            other = os.open(self.name, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            return 0  # nobody is left to read them
        try:
            fcntl.ioctl(other, termios.FIONREAD, count)
        except OSError:
            return 0
        finally:
            os.close(other)
        return count[0]

    def read(self, max_bytes: int) -> bytes:
        """What is there; b"" at the end. Raises BlockingIOError."""
        if self._closed:
            return b""
        try:
            return os.read(self._master, max_bytes)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno in {errno.EIO, errno.EBADF}:
                return b""
            raise

    def write(self, data: bytes | memoryview) -> int:
        """Write what fits; how many bytes went. Raises StreamClosed."""
        if self._closed:
            raise StreamClosed("the terminal was closed")
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise StreamClosed(error.errno, "nobody reads the terminal any more") from error

    async def wait(self, ready: Callable[[int], Awaitable[None]]) -> None:
        """Wait until the terminal is ready; the last who waits on a closed one closes the descriptor."""
        self._waiting += 1
        try:
            await ready(self._master)
        finally:
            self._waiting -= 1
            if self._closed and not self._waiting:
                self._finalizer()

    def close(self) -> None:
        """Hang up; idempotent."""
        self._closed = True
        if not self._waiting:
            self._finalizer()


def _set_size(descriptor: int, size: WindowSize) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


class Screen:
    """What the agent writes to its terminal."""

    __slots__ = ("_terminal",)

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        """Up to `max_bytes` as soon as there are any; b"" once nobody has the terminal open any more."""
        await anyio.lowlevel.checkpoint()
        while not self._terminal.closed:
            try:
                return self._terminal.read(max_bytes)
            except BlockingIOError:
                await self._terminal.wait(anyio.wait_readable)
        return b""

    def close(self) -> None:
        """Hang up."""
        self._terminal.close()


class Keys:
    """What is typed into the agent's terminal."""

    __slots__ = ("_sending", "_terminal")

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._sending = anyio.Lock(fast_acquire=True)

    async def send(self, data: bytes) -> None:
        """Type the whole of it, one sender at a time. Raises StreamClosed, and InputCut before anything is lost."""
        async with self._sending:
            await anyio.lowlevel.checkpoint()
            rest = memoryview(data)
            while rest:
                self._refuse_to_be_cut(rest)
                sent = self._terminal.write(rest[:PIECE])
                rest = rest[sent:]
                if not sent:
                    await self._terminal.wait(anyio.wait_writable)

    def _refuse_to_be_cut(self, rest: memoryview) -> None:
        if not self._terminal.line_mode:
            return
        longest = max(len(line) for line in bytes(rest).split(b"\n"))
        if longest > LONGEST_LINE:
            raise InputCut(
                f"the agent reads its terminal line by line, and of a line of {longest} bytes only the first "
                f"{LONGEST_LINE} would arrive"
            )

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        """Nothing is ever read from keys: wait for good."""
        del max_bytes
        await anyio.sleep_forever()
        return b""

    def send_eof(self) -> None:
        """A raw terminal has no word for it; hanging up is the end."""

    def close(self) -> None:
        """Hang up."""
        self._terminal.close()
