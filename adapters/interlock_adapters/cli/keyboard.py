"""What a person types at the terminal on stdin, read so that the reading can be given up at any moment."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import termios
from collections.abc import Generator
from pathlib import Path

import anyio

from interlock.approval import escape

__all__ = ["Keyboard"]

PIECE = 4096
EDITOR = Path(__file__).with_name("line_editor.py")


class Keyboard:
    """The terminal on one descriptor, stdin as a rule."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor

    def discard(self) -> None:
        """Forget what was typed so far: nobody answers a question that they have not seen."""
        with contextlib.suppress(termios.error):
            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def line(self) -> str | None:
        """The next line without its end; None at the end of input, or when the terminal is gone."""
        typed = b""
        while not typed.endswith(b"\n"):
            await anyio.wait_readable(self._descriptor)
            try:
                piece = os.read(self._descriptor, PIECE)
            except OSError:
                return None
            if not piece:
                return None
            typed += piece
        return typed.decode(errors="replace").rstrip("\r\n")

    async def edited(self, begin: str) -> str | None:
        """A line that the person made out of `begin`; None where they gave up.

        What is not plain text is not put on the editor's line, since it would reach the terminal as it is.
        """
        plain = begin if escape(begin).replace("\\\\", "\\") == begin else ""
        ours, theirs = socket.socketpair()
        with ours, theirs, self._restored():
            ours.setblocking(False)
            command = [sys.executable, "-I", str(EDITOR), str(theirs.fileno())]
            process = await anyio.open_process(
                command, stdin=self._descriptor, stdout=2, stderr=None, pass_fds=[theirs.fileno()]
            )
            async with process:
                theirs.close()
                return await _exchange(ours, plain)

    @contextlib.contextmanager
    def _restored(self) -> Generator[None]:
        """An editor that is ended in the middle leaves the terminal without echo."""
        before = termios.tcgetattr(self._descriptor)
        try:
            yield
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)


async def _exchange(channel: socket.socket, begin: str) -> str | None:
    rest = begin.encode()
    while rest:
        await anyio.wait_writable(channel)
        rest = rest[channel.send(rest) :]
    channel.shutdown(socket.SHUT_WR)
    answer = b""
    while True:
        await anyio.wait_readable(channel)
        piece = channel.recv(PIECE)
        if not piece:
            return answer.decode(errors="replace") or None
        answer += piece
