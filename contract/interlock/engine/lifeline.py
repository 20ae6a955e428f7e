"""The guardian: a small program, one for each host process, that starts agents and sees that none outlives its run.

Strategy. The guardian is the parent of every agent, so that no tree can get out of its sight (see household.py). The
host talks to it over AF_UNIX connections, one for each event loop, handed over on a master connection. The end of a
connection is the end of every process that was started on it; the end of the master, or of the host's pid, is the end
of all of them and then of the guardian. It keeps no end of an agent's stdio, ignores what terminals send, and survives
any message. Descriptors that it is told to hold it neither reads nor writes: a connection stays open with them, should
the host die, until what was started is gone. One thread, one selector.

Only the standard library, and little of it: it runs with -I -S and must start fast.
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import socket
import sys
import time

from interlock.engine.descent import MARK, Hunt, by_parent, descend, processes, strike
from interlock.engine.household import Household, Run
from interlock.engine.lifeline_wire import Line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.engine.lifeline_wire import Message

_SET_CHILD_SUBREAPER = 36
_HOST_PAUSE = 0.5
_WATCH_PAUSE, _WATCH_SHARE = 1.0, 50
_FAREWELL = 5.0
_LAST_PAUSE = 0.002
_RESETTABLE = [int(number) for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}]
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGSYS, signal.SIGTRAP}


class Guardian:
    """The loop: messages of the host on one side, ends of processes on the other."""

    def __init__(self, master: socket.socket, host: int) -> None:
        self._home = Household(subreaper=_become_subreaper())
        self._selector = selectors.DefaultSelector()
        self._host = host
        self._leave_by: float | None = None
        self._next_sweep: float | None = None
        self._next_watch = 0.0
        self._children = _wake_on_children()
        self._selector.register(self._children, selectors.EVENT_READ)
        self._handle = _handle_of(host)
        if self._handle is not None:
            self._selector.register(self._handle, selectors.EVENT_READ)
        self._lines: set[Line] = set()
        self._held: dict[tuple[Line, int], int] = {}
        self._master = self._add_line(master)

    def run(self) -> None:
        """Serve until the host is gone and so is everything that it started."""
        while not self._done():
            for key, _ in self._selector.select(self._timeout()):
                if isinstance(key.data, Line):
                    if key.data in self._lines:
                        self._serve(key.data)
                elif key.fileobj is self._children:
                    self._children.recv(4096)
                    self._sweep_soon()
                else:
                    self._leave()
            self._look_around()
            self._let_go()
            self._watch_outboxes()

    def _done(self) -> bool:
        if self._leave_by is None:
            return False
        empty = self._home.childless and not self._home.runs
        return empty or time.monotonic() >= self._leave_by

    def _timeout(self) -> float | None:
        """Seconds until something is due without being woken; None for never."""
        due = [] if self._next_sweep is None else [self._next_sweep]
        if len(self._home.runs) > 1:
            due.append(self._next_watch)
        pause = max(0.0, min(due) - time.monotonic()) if due else None
        return pause if self._handle is not None else min(_HOST_PAUSE, _HOST_PAUSE if pause is None else pause)

    def _look_around(self) -> None:
        """Do what is due: reap, end what must end, watch the trees while several runs could own an orphan."""
        if self._handle is None and os.getppid() != self._host:
            self._leave()
        now = time.monotonic()
        if self._next_sweep is not None and now >= self._next_sweep:
            self._sweep()
        elif len(self._home.runs) > 1 and now >= self._next_watch:
            self._home.survey()
            self._next_watch = now + max(_WATCH_PAUSE, _WATCH_SHARE * (time.monotonic() - now))

    def _sweep(self) -> None:
        if self._home.busy or self._leave_by is not None:
            pause = self._home.sweep()
        else:
            pause = 0.0 if self._home.collect() else None
        self._next_sweep = None if pause is None else time.monotonic() + pause

    def _watch_outboxes(self) -> None:
        """Wait for room where something could not be sent at once."""
        for line in self._lines:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.outbox else 0)
            if self._selector.get_key(line.sock).events != wanted:
                self._selector.modify(line.sock, wanted, line)

    def _sweep_soon(self) -> None:
        self._next_sweep = 0.0

    def _leave(self) -> None:
        """The host is gone: end everything, then end."""
        if self._leave_by is None:
            self._leave_by = time.monotonic() + _FAREWELL
            for line in list(self._lines):
                self._hang_up(line)
            if self._handle is not None:
                self._selector.unregister(self._handle)
            self._sweep_soon()

    def _add_line(self, sock: socket.socket) -> Line:
        line = Line(sock)
        self._lines.add(line)
        self._selector.register(sock, selectors.EVENT_READ, line)
        return line

    def _hang_up(self, line: Line) -> None:
        """End a connection and every run that was started on it."""
        self._lines.discard(line)
        self._selector.unregister(line.sock)
        line.close()
        for run in self._home.runs:
            if run.line is line:
                run.doom(_FAREWELL)
        self._sweep_soon()

    def _let_go(self) -> None:
        """Close the descriptors that were held for a connection, once nothing is left of what was started on it."""
        for line, number in list(self._held):
            if line not in self._lines and not any(run.line is line for run in self._home.runs):
                os.close(self._held.pop((line, number)))

    def _serve(self, line: Line) -> None:
        """Read a connection and obey what came; its end, or nonsense in its framing, ends it."""
        line.flush()
        alive = line.read()
        try:
            while (frame := line.inbox.take()) is not None:
                self._answer(line, *frame)
        except ValueError:
            alive = False
        if not alive:
            self._leave() if line is self._master else self._hang_up(line)

    def _answer(self, line: Line, message: Message, fds: list[int]) -> None:
        """Obey one message and answer it; whatever is wrong with it is its sender's trouble alone."""
        try:
            answer = self._obey(line, message, fds)
        except OSError as error:
            answer = {"errno": error.errno, "filename": _name(error.filename)}
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            answer = {"errno": errno.EINVAL, "filename": None}
        finally:
            for fd in fds:
                os.close(fd)
        if answer is not None:
            line.send({"op": "answer", "seq": message.get("seq"), **answer})

    def _obey(self, line: Line, message: Message, fds: list[int]) -> Message | None:
        match message.get("op"):
            case "spawn":
                return self._spawn(line, message, fds)
            case "signal":
                return self._signal(self._run_of(line, message), message["number"], group=message["group"])
            case "kill":
                return self._kill(self._run_of(line, message), message["seq"], message["within"])
            case "connect":
                self._add_line(socket.socket(fileno=os.dup(fds[0])))
            case "hold":
                self._held[line, message["number"]] = os.dup(fds[0])
            case "release":
                os.close(self._held.pop((line, message["number"])))
            case "abandon":
                self._kill(next((run for run in self._home.runs if run.token == message["token"]), None))
            case _:
                raise ValueError("an unknown request")
        return None

    def _run_of(self, line: Line, message: Message) -> Run | None:
        number = message["run"]
        return next((run for run in self._home.runs if run.line is line and run.number == number), None)

    def _spawn(self, line: Line, message: Message, fds: list[int]) -> Message:
        env = {_raw(name): _raw(value) for name, value in message["env"].items()}
        token = str(message["token"])
        env[MARK.encode()] = token.encode()
        words, cwd = [_raw(word) for word in message["argv"]], _raw(message["cwd"])
        pid = start(words, env, cwd, fds, terminal=bool(message.get("terminal")))
        run = Run(line, message["seq"], token, pid)
        self._home.add(run)
        return {"pid": pid, "start": run.start}

    def _signal(self, run: Run | None, number: int, *, group: bool) -> Message:
        """Signal an agent, or its group; once it is collected, only what is left of the group."""
        if run is not None and not run.exited:
            (os.killpg if group else os.kill)(run.pid, number)
        elif run is not None and group:
            for proc in self._home.survey()[0][run]:
                if proc.group == run.pid:
                    strike(proc, number)
        return {}

    def _kill(self, run: Run | None, seq: int | None = None, within: float = _FAREWELL) -> Message | None:
        """Doom a run; the answer follows when nothing is left of it, or when `within` is over."""
        if run is None:
            return {"cleared": True, "killed": 0, "survivors": []}
        run.doom(within)
        if seq is not None:
            run.askers.append(seq)
        self._sweep_soon()
        return None


def start(argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, fds: list[int], *, terminal: bool = False) -> int:
    """Start a program in its own session with these three descriptors and no others; returns its pid.

    With `terminal` the one descriptor is a terminal's: it becomes all three, and controls the session.

    Raises OSError as exec would, with the working directory or the program as file name.
    """
    os.chdir(cwd)
    try:
        return os.posix_spawn(
            _program(argv[0], env),
            argv,
            env,
            file_actions=_on_terminal(fds[0]) if terminal else _on_descriptors(fds),
            setsid=True,
            setsigmask=(),
            setsigdef=_RESETTABLE,
        )
    finally:
        os.chdir("/")


def _on_descriptors(fds: list[int]) -> list[tuple[int, int, int]]:
    return [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds[:3])]


def _on_terminal(fd: int) -> list[tuple[int, ...] | tuple[int, int, str, int, int]]:
    """The leader of a new session who opens a terminal has it as controlling terminal from then on."""
    opened = (os.POSIX_SPAWN_OPEN, 0, os.ttyname(fd), os.O_RDWR, 0)
    return [opened, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]


def _program(word: bytes, env: dict[bytes, bytes]) -> bytes:
    """Where the program is, by the PATH of the environment it will run in."""
    if b"/" in word:
        return word
    seen = False
    for folder in env.get(b"PATH", os.fsencode(os.defpath)).split(b":"):
        path = os.path.join(folder or b".", word)  # noqa: PTH118 -- bytes
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112 -- bytes
            return path
        seen = seen or os.access(path, os.F_OK)
    number = errno.EACCES if seen else errno.ENOENT
    raise OSError(number, os.strerror(number), word)


def _raw(text: str) -> bytes:
    return text.encode("latin-1")


def _name(name: object) -> str | None:
    return name.decode("latin-1") if isinstance(name, bytes) else None


def _become_subreaper() -> bool:
    """Have orphaned descendants handed to us; False where the system has no such thing."""
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 -- only where it is needed

    return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def _wake_on_children() -> socket.socket:
    """A socket that becomes readable when a child ends."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _woken)
    return ours


def _woken(_number: int, _frame: object) -> None:
    """Python writes to the wakeup socket only for signals that have a handler."""


def _handle_of(host: int) -> int | None:
    """A descriptor that becomes readable when the host ends; None where there is none, and its pid is asked for."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(host)
    except OSError:
        return None


def main() -> None:
    """Run as the guardian of the process whose pid is the last argument; the master connection is descriptor 0."""
    os.chdir("/")
    for number in _RESETTABLE:
        if number not in _FAULTS:
            signal.signal(number, signal.SIG_IGN)
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 -- pathlib would double the start
        if int(name) > 2:
            _close(int(name))
    os.set_inheritable(0, False)
    try:
        Guardian(socket.socket(fileno=0), int(sys.argv[-1])).run()
    finally:
        _end_everything()


def _end_everything() -> None:
    """Whatever has ended the guardian, a fault of its own included: nothing that it started may be left."""
    hunt, end = Hunt(), time.monotonic() + _FAREWELL
    while time.monotonic() < end:
        table = processes()
        children = by_parent(table)
        prey = [proc for proc in descend(children.get(os.getpid(), ()), children) if not proc.dead]
        if not prey:
            return
        if not hunt.press(prey):
            time.sleep(_LAST_PAUSE)


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        return
