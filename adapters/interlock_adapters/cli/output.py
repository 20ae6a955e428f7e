"""Where bytes leave: stdout and stderr, written without stopping the event loop, and text made safe for a terminal.

A pipe or terminal is written in pieces that it has room for, so that a reader who is slow, or a terminal that was
stopped, never keeps the engine from answering its agent. A reader who is gone, or a full disk, ends the writing, not
the program.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import stat
import unicodedata

import anyio

__all__ = ["Sink", "print_line", "safe_line", "safe_text"]

PIECE = select.PIPE_BUF
"""A pipe that is writable takes as much without blocking."""
TERMINAL_PIECE = 256
KNOWN_LIMIT = 4096
"""Characters whose safe form is remembered."""


class Sink:
    """One file descriptor to write to; sinks that share a `turn` never write into the middle of each other's text."""

    def __init__(self, descriptor: int, turn: anyio.Lock | None = None) -> None:
        self.descriptor = descriptor
        self.terminal = os.isatty(descriptor)
        self.broken = False
        """Whether nothing can be written any more; what is written then is dropped."""
        self.trouble = ""
        """Why, where it is more than a reader who is gone."""
        mode = os.fstat(descriptor).st_mode
        self._waits = self.terminal or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._piece = TERMINAL_PIECE if self.terminal else PIECE
        self._turn = turn or anyio.Lock()
        self._patience = math.inf
        self._waiting: anyio.CancelScope | None = None

    async def write(self, data: bytes) -> None:
        """Write it all, unless the sink is or gets broken."""
        async with self._turn:
            rest = memoryview(data)
            while rest and not self.broken:
                rest = rest[await self._write_some(rest) :]

    def hurry(self, patience: float) -> None:
        """From now on a reader who takes nothing for so many seconds counts as gone."""
        self._patience = patience
        if self._waiting is not None:
            self._waiting.deadline = anyio.current_time() + patience

    async def _wait_for_room(self) -> None:
        with anyio.move_on_after(self._patience) as self._waiting:
            await anyio.wait_writable(self.descriptor)
            return
        self.broken = True

    async def _write_some(self, rest: memoryview) -> int:
        if self._waits:
            await self._wait_for_room()
        if self.broken:
            return 0
        try:
            return os.write(self.descriptor, rest[: self._piece] if self._waits else rest)
        except BlockingIOError:
            return 0
        except OSError as error:
            self.broken = True
            if error.errno not in {errno.EPIPE, errno.ECONNRESET, errno.EIO}:
                self.trouble = error.strerror or str(error)
            return 0


class _Safe(dict[int, str]):
    """A translation table that is filled as characters come."""

    def __init__(self, keep: str) -> None:
        super().__init__({ord(char): char for char in keep})

    def __missing__(self, code: int) -> str:
        char = chr(code)
        hidden = unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        shown = char.encode("unicode_escape").decode("ascii") if hidden else char
        if len(self) < KNOWN_LIMIT:
            self[code] = shown
        return shown


JOINERS = "\u200c\u200d"
"""Several scripts and emoji are spelled with them, and they move nothing."""
_TEXT = _Safe("\n\t" + JOINERS)
_LINE = _Safe(JOINERS)


def safe_text(text: str) -> str:
    r"""Text for a terminal: newlines and tabs stay, controls and what reorders or hides text become `\x1b` and such."""
    return text.replace("\r\n", "\n").translate(_TEXT)


def safe_line(text: str, width: int | None = None) -> str:
    """Text for one line of a terminal, cut to `width` characters with the full length named."""
    if width is not None and len(text) > width:
        return f"{text[:width].translate(_LINE)}... ({len(text)} characters)"
    return text.translate(_LINE)


def print_line(text: str, descriptor: int = 1) -> None:
    """Write a line at once, waiting for room; a reader who is gone is no error."""
    rest = memoryview(f"{text}\n".encode(errors="backslashreplace"))
    with contextlib.suppress(BrokenPipeError):
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:
                select.select([], [descriptor], [])
