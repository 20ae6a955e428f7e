"""One exchange with a program: a question on its stdin, all that it prints, and how it ended, in bounded memory.

Writing, reading and waiting happen at once, so that neither side waits for the other; a program need not read what it
is asked. With the exchange ends everything that the program started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from interlock.engine.process import Exit, GuardianLost, Process, Stream, StreamClosed, spawn

__all__ = [
    "LINGER",
    "LONGEST_ANSWER",
    "STDERR_TAIL",
    "Heard",
    "NotStarted",
    "converse",
    "end",
    "ending",
    "keep_tail",
    "words",
]

LONGEST_ANSWER = 8 * 1024 * 1024
"""Bytes that a program may print."""
STDERR_TAIL = 2048
"""Bytes that are kept of what it complains."""
LINGER = 0.25
"""Seconds for the output to end after the program has; who still holds it then is killed."""


class NotStarted(Exception):
    """The program could not be started; the text says why."""


@dataclass(slots=True)
class Heard:
    """What a program said, and how it ended: None where that was not seen."""

    answer: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    exit: Exit | None = None

    @property
    def too_much(self) -> bool:
        """It printed more than an answer may hold."""
        return len(self.answer) > LONGEST_ANSWER

    def trouble(self) -> str | None:
        """Why nothing that it printed counts; None if it ended as it should."""
        if self.too_much:
            return f"it printed more than {LONGEST_ANSWER} bytes"
        return None if self.exit == Exit(0, None) else ending(self.exit)

    def tail(self) -> str:
        """The end of what it complained."""
        return words(self.stderr)


def ending(exited: Exit | None) -> str:
    """How a program ended, in words."""
    if exited is None:
        return "nothing is known of how it ended"
    if exited.signal is not None:
        return f"it was ended by signal {exited.signal}"
    return f"it exited with code {exited.code}"


def words(stderr: bytearray) -> str:
    """The end of a program's complaints as text."""
    return bytes(stderr[-STDERR_TAIL:]).decode("utf-8", "replace").strip()


async def converse(argv: Sequence[str], *, cwd: str, env: Mapping[str, str], question: bytes) -> Heard:
    """Ask a program once; raises `NotStarted`. Cancelled, it leaves no process."""
    try:
        process = await spawn(argv, cwd=cwd, env=env)
    except (OSError, ValueError, GuardianLost) as error:
        raise NotStarted(str(error)) from error
    heard = Heard()
    try:
        await _exchange(process, question, heard)
    finally:
        await end(process)
    return heard


async def end(process: Process) -> None:
    """End a program with all that it started; not cancelled by anything."""
    await process.kill_tree()
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


async def _exchange(process: Process, question: bytes, heard: Heard) -> None:
    ended = anyio.Event()

    async def watch() -> None:
        with suppress(GuardianLost):
            heard.exit = await process.wait()
        with anyio.move_on_after(LINGER):
            await ended.wait()
        group.cancel_scope.cancel()

    async def listen() -> None:
        while not heard.too_much and (data := await process.stdout.receive()):
            heard.answer += data
        ended.set()
        if heard.too_much:
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        group.start_soon(listen)
        group.start_soon(keep_tail, process.stderr, heard.stderr)
        group.start_soon(_write, process.stdin, question)


async def _write(stdin: Stream, question: bytes) -> None:
    with suppress(StreamClosed):
        await stdin.send(question)
    stdin.send_eof()


async def keep_tail(stderr: Stream, kept: bytearray) -> None:
    """Read complaints to their end and keep the last of them."""
    while data := await stderr.receive():
        kept += data
        del kept[:-STDERR_TAIL]
