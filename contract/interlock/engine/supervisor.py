"""All I/O with one agent process: it reads, writes and signals, and brings it down.

The way down is bounded and always complete: the rungs of the launch's ladder, each with its seconds, then KILL for
every descendant. Exit is not the end of output and the end of output is not exit; each of the two ends in bounded time:

- after the exit, stdout is read until it ends or has been silent for `SILENCE` seconds, since a grandchild may hold it;
- after the end of stdout, the process has `LINGER` seconds to exit, and after that of its stdin `DEAF` seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from interlock.adapter import LadderStep
from interlock.engine.process import Exit, GuardianLost, Process, StreamClosed, TerminalProcess
from interlock.engine.pty import InputCut

__all__ = ["Supervisor", "Tail"]

SILENCE = 0.25
LINGER = 5.0
DEAF = 1.0
CATCHING_UP = 0.01
TAIL = 16 * 1024
CHUNK = 256 * 1024
SIGNALS = {"INT": 2, "TERM": 15, "HUP": 1}


class Tail:
    """The last bytes of a stream, in bounded memory."""

    __slots__ = ("_kept", "_limit")

    def __init__(self, limit: int = TAIL) -> None:
        self._kept = bytearray()
        self._limit = limit

    def add(self, data: bytes) -> None:
        """Add what came."""
        self._kept += data
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def text(self) -> str:
        """What is kept, as text; bytes that are no UTF-8 are replaced."""
        return bytes(self._kept[-self._limit :]).decode("utf-8", "replace")


class Supervisor:
    """One process under supervision. `gone` is set once it has exited and its output is read."""

    def __init__(
        self,
        process: Process | TerminalProcess,
        on_bytes: Callable[[bytes], Awaitable[None]],
        on_end: Callable[[], None],
        on_deaf: Callable[[str], None],
    ) -> None:
        self._process = process
        self._terminal = process.terminal if isinstance(process, TerminalProcess) else None
        self._on_bytes = on_bytes
        self._on_end = on_end
        self._on_deaf = on_deaf
        self._outgoing: deque[bytes | None] = deque()
        self._written = anyio.Event()
        self._input_closed = False
        self._reading = False
        self._received = 0
        self._answered_at: int | None = None
        self._reader = anyio.CancelScope()
        self._ended = anyio.Event()
        self.exit: Exit | None = None
        self.exited = anyio.Event()
        self.gone = anyio.Event()
        self._drained = anyio.Event()
        self.stderr = Tail()

    def start(self, group: TaskGroup) -> None:
        """Start reading, writing and watching in `group`."""
        for task in (self._read, self._write, self._listen, self._drain_stderr, self._watch, self._linger):
            group.start_soon(task)

    def send(self, data: bytes) -> None:
        """Queue bytes for the agent's stdin; what cannot be delivered any more is dropped."""
        self._outgoing.append(data)
        self._written.set()

    def close_input(self) -> None:
        """Close the agent's stdin once everything queued is written."""
        self._input_closed = True
        self._outgoing.append(None)
        self._written.set()

    async def descend(self, steps: Sequence[LadderStep], interrupt: Callable[[], anyio.Event | None]) -> None:
        """Bring the process down, rung by rung, and everything that it started with it."""
        for step in steps:
            if self.exited.is_set():
                break
            goal = self.exited
            if step.action == "interrupt":
                goal = interrupt() or self.exited
                if goal is self.exited:
                    continue
            elif step.action == "close_input":
                self.close_input()
            else:
                with suppress(GuardianLost):
                    await self._process.signal(SIGNALS[step.signal])
            with anyio.move_on_after(step.wait):
                await _first(goal, self.exited)
        await self._process.kill_tree()
        with anyio.move_on_after(1.0):
            await self.gone.wait()
            await self._drained.wait()

    async def caught_up(self) -> None:
        """Of an agent on a terminal: wait until all that it has written so far was received, or it is gone."""
        terminal = self._terminal
        if terminal is None:
            return
        while (terminal.speaks or not self._reading) and not self._ended.is_set():  # noqa: ASYNC110 -- nothing tells it
            await anyio.sleep(CATCHING_UP)

    def answered(self, keys: int) -> None:
        """Of an agent on a terminal: the keys just sent, so many bytes, answer a question that it waits to have read.

        A terminal that echoes writes them before they are read, so as much of its output says nothing.
        """
        self._answered_at = self._received + 2 * keys + 2

    @property
    def typed_ahead(self) -> bool:
        """Whether the agent on its terminal went on without reading the answer to its question.

        Then it had asked none, and the answer would be taken for that to another.
        """
        terminal = self._terminal
        if terminal is None or self._answered_at is None or self._outgoing or self.exited.is_set():
            return False
        if not terminal.unread:
            self._answered_at = None
        return self._answered_at is not None and self._received > self._answered_at

    async def kill(self) -> None:
        """Bring down the process and everything that it started, at once."""
        await self._process.kill_tree()

    def close(self) -> None:
        """Give everything back, whatever state it is in."""
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            stream.close()
        self._process.abandon()

    async def _read(self) -> None:
        stdout = self._process.stdout
        with self._reader:
            while True:
                self._reading = True
                data = await stdout.receive(CHUNK)
                self._reading = False
                if not data:
                    break
                self._received += len(data)
                await self._on_bytes(data)
        self._on_end()
        self._ended.set()

    async def _write(self) -> None:
        stdin = self._process.stdin
        while True:
            while self._outgoing:
                data = self._outgoing.popleft()
                try:
                    if data is None:
                        stdin.send_eof()
                        return
                    await stdin.send(data)
                except InputCut as cut:
                    self._on_deaf(str(cut))
                    return
                except StreamClosed:
                    return
            self._written = anyio.Event()
            if not self._outgoing:
                await self._written.wait()

    async def _listen(self) -> None:
        """If the agent closes its stdin and stays, what waits there for our answers never gets one."""
        while await self._process.stdin.receive(CHUNK):
            pass  # whatever is written into a stdin is no message
        with anyio.move_on_after(DEAF):
            await self.exited.wait()
        if not self.exited.is_set() and not self._input_closed:
            self._on_deaf("the agent no longer hears what it is told")

    async def _drain_stderr(self) -> None:
        while data := await self._process.stderr.receive(CHUNK):
            self.stderr.add(data)
        self._drained.set()

    async def _watch(self) -> None:
        with anyio.CancelScope(shield=True):  # the way down waits for it, and always ends it
            try:
                self.exit = await self._process.wait()
            except GuardianLost:
                await self._process.kill_tree()
            self.exited.set()
        while not self._ended.is_set():
            seen = self._received
            with anyio.move_on_after(SILENCE):
                await self._ended.wait()
            if self._reading and seen == self._received:
                self._reader.cancel()
        self.gone.set()

    async def _linger(self) -> None:
        await self._ended.wait()
        with anyio.move_on_after(LINGER):
            await self.exited.wait()
        if not self.exited.is_set():
            await self._process.kill_tree()


async def _first(left: anyio.Event, right: anyio.Event) -> None:
    """Wait until one of two events is set."""
    if left is right:
        await left.wait()
        return
    async with anyio.create_task_group() as group:

        async def wait(event: anyio.Event) -> None:
            await event.wait()
            group.cancel_scope.cancel()

        group.start_soon(wait, left)
        group.start_soon(wait, right)
