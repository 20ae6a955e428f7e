"""Who descends from whom on this machine, and how a tree of processes is ended.

Strategy: one look at the process table, then judgement over plain data. A pid counts only together with its start
time, and is compared again in the moment it is signalled, so that a recycled pid is never hit. A tree is ended by
stopping all of it until a look finds nobody new (a stopped parent keeps its children attached and starts none), then
by killing until a look finds nobody. A process group is signalled whole: that is one step of the kernel, which a loop
of forks cannot outrun, and it cannot hit strangers, since every agent starts in a session of its own and nobody joins
a session.

Only the standard library, and little of it: the guardian imports this file and must start fast.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

MARK = "INTERLOCK_RUN"
"""The variable that every agent is given and its descendants inherit; its value names the run."""

UNTOLD = ""
"""The mark of a process whose environment is being replaced right now."""

_MARK = b"\0" + MARK.encode() + b"="
_STOP_ROUNDS = 40
_PAUSE = 0.002
_NO_MEMORY = 0x00000004 | 0x00200000  # PF_EXITING, PF_KTHREAD
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


class Proc:
    """One process as one look saw it; `start` tells two holders of one pid apart."""

    __slots__ = ("dead", "group", "parent", "pid", "session", "start")

    def __init__(self, pid: int, parent: int, group: int, session: int, start: int, dead: bool) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.start = start
        self.dead = dead

    @property
    def key(self) -> tuple[int, int]:
        """What no other process of this machine ever shares."""
        return (self.pid, self.start)


def processes() -> dict[int, Proc]:
    """Every process of this machine by pid: the one place where the platforms differ in kind."""
    if sys.platform != "linux":
        return table_from_ps()
    names = os.listdir("/proc")  # noqa: PTH208 -- pathlib would double the guardian's start
    seen = (_stat(int(name)) for name in names if name.isdigit())
    return {proc.pid: proc for proc in seen if proc is not None}


def look(pid: int) -> Proc | None:
    """One process as it is now, or None."""
    return _stat(pid) if sys.platform == "linux" else processes().get(pid)


def newest() -> Proc | None:
    """The process that was started last, where the system tells (Linux); there is no faster look than this one."""
    text = _content("/proc/loadavg")
    return look(int(text.split()[-1])) if text else None


def _stat(pid: int) -> Proc | None:
    """Read /proc/<pid>/stat; a leader that ended while its threads run on shows as a zombie and is not dead."""
    text = _content(f"/proc/{pid}/stat")
    if not text:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    dead = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return Proc(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), dead)


def _content(path: str) -> bytes | None:
    """Whole content of a file of /proc, None where it is gone or not for us to read."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        content = piece = os.read(handle, 1 << 16)
        while len(piece) == 1 << 16:
            piece = os.read(handle, 1 << 16)
            content += piece
    except OSError:
        return None
    finally:
        os.close(handle)
    return content


def table_from_ps() -> dict[int, Proc]:
    """The process table by ps, where there is no /proc; groups stand in for sessions, which macOS does not number."""
    table: dict[int, Proc] = {}
    for line in _ps("-axo", "pid=,ppid=,pgid=,stat=,lstart="):
        pid, parent, group, state, _day, month, day, clock, year = line.split()[:9]
        when = int(f"{year}{_MONTHS.index(month):02}{int(day):02}{clock.replace(':', '')}")
        table[int(pid)] = Proc(int(pid), int(parent), int(group), int(group), when, state[0] == "Z")
    return table


def _ps(*options: str) -> list[str]:
    """Lines that ps prints; it is started bare, since the guardian has no subprocess module loaded."""
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8", errors="replace") as output:
        try:
            to_us = [(os.POSIX_SPAWN_DUP2, writing, 1)]
            pid = os.posix_spawn("/bin/ps", ["ps", *options], {"LC_ALL": "C"}, file_actions=to_us)
        finally:
            os.close(writing)
        lines = output.read().split("\n")
    _collect(pid)
    return [line for line in lines if line.strip()]


def _collect(pid: int) -> None:
    """Wait for a child of ours, unless somebody else in this process waits for every child."""
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return


def marks(pids: Collection[int]) -> dict[int, str]:
    """The mark that each of these processes carries in its environment, where it carries one that we may read.

    It is UNTOLD for one in the middle of an exec: look again.
    """
    if sys.platform != "linux":
        return _marks_from_ps(pids)
    found = ((pid, _mark(pid)) for pid in pids)
    return {pid: mark for pid, mark in found if mark is not None}


def _mark(pid: int) -> str | None:
    path = f"/proc/{pid}/environ"
    content = _content(path)
    if content == b"":
        if _in_exec(pid):
            return UNTOLD
        content = _content(path)
    _, mark, rest = (b"\0" + (content or b"")).partition(_MARK)
    return rest.partition(b"\0")[0].decode("ascii", "replace") if mark else None


def _in_exec(pid: int) -> bool:
    """Whether a living program of ours has no end of its environment yet (field env_end of proc_pid_stat(5))."""
    fields = (_content(f"/proc/{pid}/stat") or b"").rpartition(b") ")[2].split()
    return len(fields) > 48 and fields[0] not in (b"Z", b"X") and not int(fields[6]) & _NO_MEMORY and fields[48] == b"0"


def _marks_from_ps(pids: Collection[int]) -> dict[int, str]:
    """The marks as ps shows them behind the command, for our own user's processes."""
    found: dict[int, str] = {}
    for line in _ps("-axEww", "-o", "pid=,command=") if pids else ():
        head, mark, rest = line.partition(f" {MARK}=")
        pid = int(head.split(None, 1)[0])
        if mark and pid in pids:
            found[pid] = rest.split(None, 1)[0]
    return found


def by_parent(table: Mapping[int, Proc]) -> dict[int, list[Proc]]:
    """Children of each pid; one older than its parent shows a pid recycled between two reads, and is left out."""
    children: dict[int, list[Proc]] = {}
    for proc in table.values():
        parent = table.get(proc.parent)
        if parent is None or parent.start <= proc.start:
            children.setdefault(proc.parent, []).append(proc)
    return children


def descend(roots: Iterable[Proc], children: Mapping[int, list[Proc]]) -> list[Proc]:
    """These processes and all that descend from them, each once."""
    found: dict[int, Proc] = {}
    open_ends = list(roots)
    while open_ends:
        proc = open_ends.pop()
        if proc.pid not in found:
            found[proc.pid] = proc
            open_ends += children.get(proc.pid, ())
    return list(found.values())


def strike(proc: Proc, number: int) -> bool:
    """Signal exactly this process; False if it is gone, its pid is another's by now, or we may not."""
    try:
        return _strike(proc, number)
    except OSError:
        return False


def _strike(proc: Proc, number: int) -> bool:
    """Where there are pidfds, hold the process by one, so that what was verified is what is hit."""
    if sys.platform != "linux":
        os.kill(proc.pid, number)
        return True
    handle = os.pidfd_open(proc.pid)
    try:
        now = _stat(proc.pid)
        if now is None or now.start != proc.start:
            return False
        signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)
    return True


def strike_all(prey: Iterable[Proc], number: int) -> list[Proc]:
    """Signal these processes, each with its whole group; returns those that the signal reached."""
    hit: list[Proc] = []
    groups: set[int] = set()
    for proc in prey:
        if proc.group in groups:
            hit.append(proc)
        elif strike(proc, number):
            hit.append(proc)
            if strike_group(proc.group, number):
                groups.add(proc.group)
    return hit


def strike_group(group: int, number: int) -> bool:
    """Signal a group of which a member was verified just now, or is a dead child that we have not collected."""
    if group in (0, 1, os.getpgrp()):
        return False
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


class Hunt:
    """The end of one tree, a step a look; `stopped` and `killed` hold the keys of those that were reached."""

    def __init__(self) -> None:
        self.stopped: set[tuple[int, int]] = set()
        self.killed: set[tuple[int, int]] = set()
        self._rounds = 0

    def press(self, prey: list[Proc]) -> bool:
        """Stop whoever is new, or kill everybody once nobody is; True if the next look must follow at once."""
        fresh = [proc for proc in prey if proc.key not in self.stopped]
        if fresh and self._rounds < _STOP_ROUNDS:
            self._rounds += 1
            strike_all(fresh, signal.SIGSTOP)
            self.stopped |= {proc.key for proc in fresh}
            return True
        self._rounds = _STOP_ROUNDS
        self.killed |= {proc.key for proc in strike_all(prey, signal.SIGKILL)}
        return bool(fresh)


def destroy(agents: Mapping[str, tuple[int, int]], within: float) -> int:
    """End the trees of these agents (mark -> pid and start time) without a guardian; returns how many were killed.

    Blocks for at most `within` seconds. Orphans have been adopted by a stranger then, so that any process that carries
    one of the marks counts.
    """
    hunt, deadline = Hunt(), time.monotonic() + within
    while time.monotonic() < deadline:
        prey, complete = _kindred(agents, hunt.stopped)
        if not prey and complete:
            break
        if not hunt.press(prey):
            time.sleep(_PAUSE)
    return len(hunt.killed)


def _kindred(agents: Mapping[str, tuple[int, int]], known: set[tuple[int, int]]) -> tuple[list[Proc], bool]:
    """The living of these trees, found by pid, by mark and by having been seen before; and whether that is all."""
    table = processes()
    marked, wanted = marks(table.keys()), known.union(agents.values())
    roots = [proc for proc in table.values() if proc.key in wanted or marked.get(proc.pid) in agents]
    tree = descend(roots, by_parent(table))
    return [proc for proc in tree if not proc.dead and proc.pid != os.getpid()], UNTOLD not in marked.values()
