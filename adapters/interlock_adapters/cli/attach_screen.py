"""The person's terminal, handed through to a program on a terminal of its own.

Keys, sizes and everything that the program writes pass as they are: it is the person's own program on their own screen.
While it is handed through their terminal is raw, so that each key, Ctrl-C too, is the program's. Afterwards it has the
modes that it had before, whatever has happened, and what the program has switched on there and left so is switched off:
another screen, mouse reports, a hidden cursor.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import termios
import tty
from collections.abc import Generator, Iterator

import anyio

from interlock.adapter import WindowSize
from interlock.engine.pty import Modes, Terminal
from interlock.engine.stream import StreamClosed
from interlock_adapters.cli.output import Sink, print_line

__all__ = ["AttachScreen", "Switches", "no_terminal"]

PIECE = 4096


class AttachScreen:
    """The terminal on two descriptors, stdin and stdout as a rule; what `interlock.engine.attach` calls a person."""

    def __init__(self, keyboard: int = 0, screen: int = 1) -> None:
        self._keyboard = keyboard
        self._sink = Sink(screen)
        self._switches = Switches()
        self._before: Modes = termios.tcgetattr(keyboard)

    @property
    def size(self) -> WindowSize:
        """Of the window; of one that says nothing the usual."""
        columns, rows = os.get_terminal_size(self._sink.descriptor)
        return WindowSize(rows or 24, columns or 80)

    @property
    def modes(self) -> Modes:
        """Those before it was handed through."""
        return self._before

    @contextlib.contextmanager
    def handed_through(self) -> Generator[None]:
        """Raw inside the block, and as before after it."""
        try:
            tty.setraw(self._keyboard, termios.TCSADRAIN)
            yield
        finally:
            self.give_back()

    def give_back(self) -> None:
        """As it was before; a terminal that is gone needs nothing."""
        with contextlib.suppress(termios.error, OSError):
            os.write(self._sink.descriptor, self._switches.undone())
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._keyboard, termios.TCSAFLUSH, self._before)

    async def show(self, data: bytes) -> None:
        """Write it all, as it is."""
        self._switches.feed(data)
        await self._sink.write(data)

    async def serve(self, terminal: Terminal) -> None:
        """Hand keys and new sizes on until cancelled; returns once the person's terminal is gone."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow_size, terminal)
            await self._type_into(terminal)
            group.cancel_scope.cancel()

    async def _follow_size(self, terminal: Terminal) -> None:
        with anyio.open_signal_receiver(signal.SIGWINCH) as changes:
            terminal.resize(self.size)  # it may have changed since the start
            async for _ in changes:
                with contextlib.suppress(OSError):
                    terminal.resize(self.size)

    async def _type_into(self, terminal: Terminal) -> None:
        while True:
            await anyio.wait_readable(self._keyboard)
            try:
                rest = os.read(self._keyboard, PIECE)
            except OSError:
                return
            if not rest:
                return
            while rest:
                try:
                    sent = terminal.write(rest)
                except StreamClosed:
                    await anyio.sleep_forever()  # the program is ending, which the caller sees
                    return
                rest = rest[sent:]
                if not sent:
                    await terminal.wait(anyio.wait_writable)


_SWITCH = re.compile(rb"\x1b\[(?:\?([\d;]+)([hl])|([<>])[\d;]*u)")
_ON_BY_ITSELF = frozenset({7, 25})
"""Wrapping, and the cursor."""
_LONGEST = 64
"""Bytes of a sequence at most, so that one that comes in pieces is seen."""


class Switches:
    """Which modes a program has switched on a terminal, and the bytes that switch them back."""

    def __init__(self) -> None:
        self._modes: dict[int, bool] = {}
        self._keyboards = 0
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """What the program wrote, in pieces of any size."""
        text = self._rest + data
        end = 0
        for match in _SWITCH.finditer(text):
            end = match.end()
            numbers, way, keyboard = match.groups()
            if numbers is None:
                self._keyboards = max(0, self._keyboards + (1 if keyboard == b">" else -1))
                continue
            for number in numbers.split(b";"):
                if number:
                    self._modes[int(number)] = way == b"h"
        self._rest = text[max(end, len(text) - _LONGEST) :]

    def undone(self) -> bytes:
        """Switch back what is not as at first; nothing where all is."""
        return b"".join(self._back())

    def _back(self) -> Iterator[bytes]:
        yield from (b"\x1b[<u" for _ in range(self._keyboards))
        for number, on in self._modes.items():
            if on is not (number in _ON_BY_ITSELF):
                yield b"\x1b[?%d%c" % (number, b"l" if on else b"h")
        if self._modes:
            yield b"\x1b[0m"


def no_terminal(command: str, instead: str) -> bool:
    """Whether there is no terminal to hand through, which is said."""
    if os.isatty(0) and os.isatty(1):
        return False
    print_line(f"interlock: {command} needs a terminal (stdin and stdout): {instead}", 2)
    return True
