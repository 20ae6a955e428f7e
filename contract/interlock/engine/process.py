"""Processes of agents: started by the guardian, spoken to over sockets, ended with all their descendants.

Strategy. The host keeps one end of three AF_UNIX socket pairs, or of a terminal (see pty.py), and hands the others to
the guardian, which starts the program on them. Sockets, never pipes: a command that an agent runs can open
/proc/<agent>/fd/0 of a pipe and speak in our name; opening that of a socket fails with ENXIO. (Whatever runs on a
terminal can open it; who asks for one knows that.) Whatever becomes of the caller, the tree ends: by `kill_tree`, by
`abandon`, by this object's collection, by the end of its event loop, of the interpreter, of the host.
"""

from __future__ import annotations

import os
import secrets
import socket
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from interlock.engine import descent
from interlock.engine.guardian import Agent, GuardianLost, Link, NothingSent, current_link, destroy
from interlock.engine.pty import Terminal
from interlock.engine.stream import Stream, StreamClosed

if TYPE_CHECKING:
    from interlock.adapter import WindowSize
    from interlock.engine.lifeline_wire import Message
    from interlock.engine.pty import Modes

__all__ = [
    "Exit",
    "GuardianLost",
    "Process",
    "Stream",
    "StreamClosed",
    "TerminalProcess",
    "spawn",
    "spawn_on_terminal",
]

_ANSWER_MARGIN = 1.0
_LAST_RESORT_WITHIN = 0.5


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: with a code, or by a signal."""

    code: int | None
    signal: int | None


class Tree:
    """A running program and all that descends from it. Belongs to one event loop."""

    __slots__ = ("__weakref__", "_agent", "_link", "_owner", "cleared", "pid", "survivors")

    def __init__(self, link: Link, agent: Agent) -> None:
        self.pid = agent.pid
        self.cleared = False
        self.survivors: tuple[int, ...] = ()
        self._link = link
        self._agent = agent
        self._owner = os.getpid()
        weakref.finalize(self, _let_go, link, agent).atexit = False

    async def wait(self) -> Exit:
        """Wait until the program itself has ended; its descendants and its output may live on. Raises GuardianLost."""
        await self._link.until(lambda: self._agent.status is not None)
        status = self._agent.status or 0
        return Exit(None, -status) if status < 0 else Exit(status, None)

    async def signal(self, number: int, *, group: bool = False) -> None:
        """Signal the program, or its process group; nothing happens if it has ended. Raises GuardianLost."""
        await self._link.ask({"op": "signal", "run": self._agent.number, "number": int(number), "group": group})

    async def kill_tree(self, within: float = 2.0) -> int:
        """Kill the program and every descendant; returns how many were killed, `survivors` holds who could not be.

        Returns once nothing is left, or after about `within` seconds. Not cancelled by anything, raises nothing, may be
        called again.
        """
        killed = 0
        with anyio.CancelScope(shield=True):
            try:
                killed = await self._ask_for_the_end(within)
            except GuardianLost:
                killed = await destroy([self._agent], within)
        return killed

    async def _ask_for_the_end(self, within: float) -> int:
        if self.cleared or self._owner != os.getpid():
            return 0
        request: Message = {"op": "kill", "run": self._agent.number, "within": within}
        answer = await self._link.ask(request, within=within + _ANSWER_MARGIN)
        self.survivors = tuple(answer["survivors"])
        self.cleared = bool(answer["cleared"])
        if self.cleared:
            self._link.agents.pop(self._agent.number, None)
        return int(answer["killed"])

    def abandon(self) -> None:
        """Have the tree killed without waiting for it: the last resort where no event loop runs any more."""
        if self._owner != os.getpid() or self.cleared:
            return
        if not self._link.guardian.abandon(self._agent.token):
            trees = {self._agent.token: (self._agent.pid, self._agent.start)}
            descent.destroy(trees, _LAST_RESORT_WITHIN)


class Process(Tree):
    """A tree whose program is spoken to over sockets; made only by `spawn`."""

    __slots__ = ("stderr", "stdin", "stdout")

    def __init__(self, link: Link, agent: Agent, streams: Sequence[Stream]) -> None:
        super().__init__(link, agent)
        self.stdin, self.stdout, self.stderr = streams


class TerminalProcess(Tree):
    """A tree whose program has a terminal as stdin, stdout and stderr; made only by `spawn_on_terminal`."""

    __slots__ = ("stderr", "stdin", "stdout", "terminal")

    def __init__(self, link: Link, agent: Agent, terminal: Terminal, stderr: Stream) -> None:
        super().__init__(link, agent)
        self.terminal = terminal
        self.stdin, self.stdout = terminal.keys, terminal.screen
        self.stderr = stderr
        """At its end from the start: what would stand there stands on the screen."""


def _let_go(link: Link, agent: Agent) -> None:
    """A process was dropped without having been cleared: nothing of it may live on."""
    if link.agents.pop(agent.number, None) is not None:
        link.guardian.abandon(agent.token)


async def spawn(argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> Process:
    """Start a program in its own session, with this environment and nothing inherited but its three streams.

    Raises OSError as exec would (FileNotFoundError, PermissionError, E2BIG ...), with the program or `cwd` as file
    name, ValueError for what no program can be given, and GuardianLost. Once begun it is not cancelled.
    """
    request = _request(argv, cwd, env)
    await anyio.lowlevel.checkpoint()
    try:
        return await _spawn(await current_link(), request)
    except NothingSent:
        return await _spawn(await current_link(), request)


async def spawn_on_terminal(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], size: WindowSize, modes: Modes | None = None
) -> TerminalProcess:
    """Start a program in its own session, which a terminal of this size controls; raises what `spawn` raises.

    It is raw, or has these `modes`, as of `termios.tcgetattr`.
    """
    request = {**_request(argv, cwd, env), "terminal": True}
    await anyio.lowlevel.checkpoint()
    try:
        return await _spawn_on_terminal(await current_link(), request, size, modes)
    except NothingSent:
        return await _spawn_on_terminal(await current_link(), request, size, modes)


def _request(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> Message:
    if not argv or any("=" in name or not name for name in env):
        raise ValueError("an empty argv, or a variable whose name is empty or holds '='")
    words = [_text(word) for word in argv]
    variables = {_text(name): _text(value) for name, value in env.items()}
    return {"op": "spawn", "argv": words, "env": variables, "cwd": _text(str(Path(cwd).absolute()))}


def _text(word: str) -> str:
    """The bytes that the system is given, as text of one character a byte."""
    if "\0" in word:
        raise ValueError("a zero byte in an argument, a variable or a path")
    return word if word.isascii() else os.fsencode(word).decode("latin-1")


async def _spawn(link: Link, request: Message) -> Process:
    with ExitStack() as on_failure, ExitStack() as handed_over:
        streams: list[Stream] = []
        theirs: list[socket.socket] = []
        for _ in range(3):
            ours, other = socket.socketpair()
            theirs.append(handed_over.enter_context(other))
            streams.append(Stream(ours))
            on_failure.callback(streams[-1].close)
        agent = await _order(link, request, [sock.fileno() for sock in theirs], on_failure)
        on_failure.pop_all()
    return Process(link, agent, streams)


async def _spawn_on_terminal(link: Link, request: Message, size: WindowSize, modes: Modes | None) -> TerminalProcess:
    with ExitStack() as on_failure, ExitStack() as handed_over:
        ours, other = socket.socketpair()
        other.close()
        stderr = Stream(ours)
        on_failure.callback(stderr.close)
        terminal, theirs = Terminal.open(size, modes)
        on_failure.callback(terminal.close)
        handed_over.callback(os.close, theirs)
        agent = await _order(link, request, [theirs], on_failure)
        on_failure.pop_all()
    return TerminalProcess(link, agent, terminal, stderr)


async def _order(link: Link, request: Message, fds: Sequence[int], on_failure: ExitStack) -> Agent:
    """Have it started, and note what it became."""
    agent = Agent(link.next_number(), secrets.token_hex(16))
    link.agents[agent.number] = agent
    on_failure.callback(link.agents.pop, agent.number, None)
    message: Message = {**request, "token": agent.token}
    answer = await link.ask(message, fds=fds, number=agent.number)
    if "errno" in answer:
        name = answer["filename"]
        text = None if name is None else os.fsdecode(name.encode("latin-1"))
        raise OSError(answer["errno"], os.strerror(answer["errno"]), text)
    agent.pid, agent.start = answer["pid"], answer["start"]
    return agent
