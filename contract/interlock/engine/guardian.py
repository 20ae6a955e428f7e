"""The host's side of its guardian: starting one, and one connection to it for each event loop.

Strategy. There is one guardian a host process, started at the first need and again after a loss. Its master connection
is used under a lock, from any thread, for small messages only. An event loop has a `Link` of its own. Nobody owns a
background task there: whoever waits for word from the guardian takes a turn at reading for all, and hands the turn on
when it leaves. A link ends with its loop (an asynchronous generator, which the loop itself closes then), with the
interpreter, or with the guardian; in the last case the reader on turn ends the trees itself before anybody is told.

A forked child drops its copies of the connections, so that they end with the host and not with its child.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import anyio.to_thread

from interlock.engine import descent
from interlock.engine.lifeline_wire import Inbox, pack, send_with

if TYPE_CHECKING:
    from interlock.engine.lifeline_wire import Message

ANSWER_WITHIN = 10.0
"""Seconds after which a guardian that does not answer counts as lost."""

_MASTER_WITHIN = 5.0
_BURY_WITHIN = 2.0
_READ = 1 << 18

# The package's own __init__ files are passed by: the guardian needs nothing of them and has no site-packages.
_PROGRAM = """
import sys, types
for name, folder in (("interlock", sys.argv[2]), ("interlock.engine", sys.argv[3])):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [folder]
from interlock.engine.lifeline import main
main()
"""


class GuardianLost(RuntimeError):
    """The guardian ended or does not answer: what it had started has been killed, and how that ended is not known."""


class NothingSent(GuardianLost):
    """The guardian was gone before a byte of the request was sent, so that it may be made again."""


@dataclass(slots=True, eq=False)
class Agent:
    """What is known here of one process that the guardian started."""

    number: int
    token: str
    pid: int = 0
    start: int = 0
    status: int | None = None


class Guardian:
    """The guardian of this process, if it has been started."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # re-entered when a garbage collection abandons a process in the middle
        self._host = os.getpid()
        self._pid = 0
        self._former: set[int] = set()
        self._master: socket.socket | None = None
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()

    @property
    def pid(self) -> int:
        """Process id of the guardian, 0 if none runs."""
        return self._pid

    def connect(self) -> Link:
        """A new connection, to a new guardian if there is none that takes it. Raises OSError."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            try:
                self._hand_over(theirs)
            except OSError:
                self.dismiss(self._pid)
                self._start()
                self._hand_over(theirs)
            link = Link(ours, self, self._pid)
            self._links.add(link)
        return link

    def _hand_over(self, sock: socket.socket) -> None:
        if self._master is None:
            raise ConnectionError("no guardian is running")
        send_with(self._master, pack({"op": "connect"}, 1), [sock.fileno()])

    def _start(self) -> None:
        self.collect()
        engine = Path(__file__).parent
        ours, theirs = socket.socketpair()
        ours.settimeout(_MASTER_WITHIN)
        words = [sys.executable, "-I", "-S", "-c", _PROGRAM, "interlock-guardian", str(engine.parent), str(engine)]
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (1, 2)]
        with theirs:
            self._pid = os.posix_spawn(
                sys.executable,
                [*words, str(self._host)],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), *null],
                setsid=True,
                setsigmask=(),
            )
        self._master = ours

    def abandon(self, token: str) -> bool:
        """Have the tree with this mark killed, without waiting; False if there is no guardian to tell."""
        with self._lock:
            if self._master is None:
                return False
            try:
                send_with(self._master, pack({"op": "abandon", "token": token}), (), socket.MSG_DONTWAIT)
            except OSError:
                return False
            return True

    def dismiss(self, pid: int) -> None:
        """Let go of the guardian with this pid, and kill it if it lives; of a later one, nothing."""
        with self._lock:
            if pid and pid == self._pid:
                if not _collected(pid):  # still our child: the pid cannot be another's
                    os.kill(pid, signal.SIGKILL)
                    self._former.add(pid)
                self._let_go()

    def collect(self) -> None:
        """Reap guardians that are gone."""
        with self._lock:
            if self._pid and _collected(self._pid):
                self._let_go()
            self._former = {pid for pid in self._former if not _collected(pid)}

    def _let_go(self) -> None:
        if self._master is not None:
            self._master.close()
        self._master = None
        self._pid = 0

    def forget(self) -> None:
        """In a forked child: nothing here is ours."""
        for link in list(self._links):
            link.drop()
        if self._master is not None:
            self._master.close()
        Guardian.__init__(self)


def _collected(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


class Link:
    """One event loop's connection to the guardian; raises GuardianLost from everything once that is gone."""

    def __init__(self, sock: socket.socket, guardian: Guardian, pid: int) -> None:
        sock.setblocking(False)
        self.lost = False
        self.agents: dict[int, Agent] = {}
        self.guardian = guardian
        self._pid = pid
        self._sock = sock
        self._close = weakref.finalize(self, sock.close)
        self._inbox = Inbox()
        self._numbers = itertools.count(1)
        self._answers: dict[int, Message | None] = {}
        self._sending = anyio.Lock()
        self._burying = anyio.Lock()
        self._reading = False
        self._waiters: dict[anyio.Event, Callable[[], bool]] = {}
        self._keeper: AsyncGenerator[None] | None = None

    async def _until_the_loop_ends(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self.drop()
            self._keeper = None  # it knows the loop, which must not be kept by what the loop keeps

    async def keep(self) -> None:
        """Have the running event loop end this link when it ends itself."""
        self._keeper = self._until_the_loop_ends()
        await anext(self._keeper)

    async def end(self) -> None:
        """Close the connection; the guardian ends every process that was started on it."""
        if self._keeper is not None:
            await self._keeper.aclose()

    def drop(self) -> None:
        """Close without a loop."""
        self.lost = True
        self._close()

    def next_number(self) -> int:
        """A number for a request that no other on this link has."""
        return next(self._numbers)

    async def ask(
        self, message: Message, *, fds: Sequence[int] = (), number: int | None = None, within: float = ANSWER_WITHIN
    ) -> Message:
        """Send a request and wait for its answer, shielded from cancellation, for at most `within` seconds.

        Raises GuardianLost, also when there was no answer in time: the guardian is replaced then.
        """
        seq = self.next_number() if number is None else number
        self._answers[seq] = None
        try:
            with anyio.move_on_after(within, shield=True):
                await self._send(pack({**message, "seq": seq}, len(fds)), fds)
                await self.until(lambda: self._answers[seq] is not None)
            answer = self._answers.pop(seq)
        finally:
            self._answers.pop(seq, None)
        if answer is None:
            self.guardian.dismiss(self._pid)
            await self._bury()
            raise GuardianLost("the guardian did not answer")
        return answer

    async def tell(self, message: Message, *, fds: Sequence[int] = ()) -> None:
        """Send what has no answer, shielded from cancellation; raises GuardianLost as `ask` does."""
        with anyio.move_on_after(ANSWER_WITHIN, shield=True):
            await self._send(pack(message, len(fds)), fds)
            return
        self.guardian.dismiss(self._pid)
        await self._bury()
        raise GuardianLost("the guardian does not listen")

    async def _send(self, frame: bytes, fds: Sequence[int]) -> None:
        async with self._sending:
            rest = memoryview(frame)
            while rest:
                if self.lost:
                    raise NothingSent("the guardian is gone") if len(rest) == len(frame) else GuardianLost
                try:
                    rest, fds = rest[send_with(self._sock, rest, fds) :], ()
                except BlockingIOError:
                    await anyio.wait_writable(self._sock)
                except OSError:
                    await self._bury()

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until `done()`, which only word from the guardian can bring about."""
        try:
            while not done():
                if self.lost:
                    raise GuardianLost("the guardian is gone")
                if self._reading:
                    await self._wait_for_a_turn(done)
                else:
                    await self._read()
        finally:
            if not self._reading and self._waiters:
                next(iter(self._waiters)).set()

    async def _wait_for_a_turn(self, done: Callable[[], bool]) -> None:
        event = anyio.Event()
        self._waiters[event] = done
        try:
            await event.wait()
        finally:
            del self._waiters[event]

    async def _read(self) -> None:
        """One turn at reading for all; the end of the connection is the end of the guardian."""
        self._reading = True
        try:
            await anyio.wait_readable(self._sock)
            if not self._take_in():
                await self._bury()
        finally:
            self._reading = False
        for event, done in self._waiters.items():
            if self.lost or done():
                event.set()

    def _take_in(self) -> bool:
        try:
            data = self._sock.recv(_READ)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._inbox.feed(data, [])
        while (frame := self._inbox.take()) is not None:
            self._note(frame[0])
        return bool(data)

    def _note(self, message: Message) -> None:
        """An answer for whoever still waits for it, or the end of a process."""
        if message["op"] == "answer":
            if message["seq"] in self._answers:
                self._answers[message["seq"]] = message
        elif (agent := self.agents.get(message["run"])) is not None:
            agent.status = message["status"]

    async def _bury(self) -> None:
        """The guardian is gone, or as good as: end what it left behind, then let everybody know."""
        with anyio.CancelScope(shield=True):
            async with self._burying:
                if not self.lost:
                    await destroy(list(self.agents.values()), _BURY_WITHIN)
                    self.drop()
                    self.guardian.collect()
        for event in self._waiters:
            event.set()


async def destroy(agents: Sequence[Agent], within: float) -> int:
    """End trees without the guardian, in at most about `within` seconds; returns how many were killed."""
    trees = {agent.token: (agent.pid, agent.start) for agent in agents}
    work = partial(descent.destroy, trees, within)
    return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1)) if trees else 0


_guardian = Guardian()
_link: anyio.lowlevel.RunVar[Link] = anyio.lowlevel.RunVar("interlock_link")

os.register_at_fork(after_in_child=_guardian.forget)


@asynccontextmanager
async def held(descriptor: int) -> AsyncGenerator[None]:
    """While this lasts a connection is held by the guardian too: if we die, its other end notices nothing before the
    processes that were started are gone. Without a guardian nothing is held.
    """
    link = _link.get(None)
    if link is None or link.lost:
        yield
        return
    number = link.next_number()
    with suppress(GuardianLost):
        await link.tell({"op": "hold", "number": number}, fds=[descriptor])
    try:
        yield
    finally:
        with suppress(GuardianLost):
            await link.tell({"op": "release", "number": number})


async def current_link() -> Link:
    """The running event loop's connection to the guardian, a new one if there is none that is whole."""
    link = _link.get(None)
    if link is not None and not link.lost:
        return link
    if link is not None:
        await link.end()
    link = _guardian.connect()
    _link.set(link)
    await link.keep()
    return link
