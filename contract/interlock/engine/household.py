"""The guardian's runs: who belongs to which, and the ending of those that must end.

Strategy. The guardian is a sub-reaper, so on Linux each orphaned descendant of an agent becomes its child. Whose an
orphan is: its mark says so; else having been seen in a run's tree, or a session seen there; else it belongs to the runs
that were alive when it was born, and ends with the last of these. Without sub-reaping (macOS) only the first three
count, over the children of pid 1.

A run is cleared when it has no process left. One look proves that: whatever descends from the run has an ancestor that
is the guardian's own child, and a child is seen, dead or alive, until it is collected, which no look is interrupted by.
"""

from __future__ import annotations

import os
import signal
import time

from interlock.engine.descent import (
    UNTOLD,
    Hunt,
    Proc,
    by_parent,
    descend,
    look,
    marks,
    newest,
    processes,
    strike,
    strike_group,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    class Sender(Protocol):
        """A connection to the host, as far as runs need it."""

        def send(self, message: dict[str, Any], /) -> None:
            """Queue a message."""


_COLLECT_AT_MOST = 1000
_CHASE_STEPS, _CHASE_HEIGHT = 50, 3
_BUSY_PAUSE, _STUBBORN_PAUSE = 0.01, 0.25


class Run:
    """One agent, numbered by the connection it was started on, and all that descends from it."""

    def __init__(self, line: Sender, number: int, token: str, pid: int) -> None:
        self.line = line
        self.number = number
        self.token = token
        self.pid = pid
        seen = look(pid)
        self.start = seen.start if seen else 0
        self.exited = False
        self.hunt: Hunt | None = None
        self.deadline = 0.0
        self.askers: list[int] = []
        self.known: set[tuple[int, int]] = set()
        self.sessions: set[int] = {pid}

    def doom(self, within: float) -> None:
        """From now on nothing of this run may live; `within` seconds from now whoever asked is told in any case."""
        self.hunt = self.hunt or Hunt()
        self.deadline = max(self.deadline, time.monotonic() + within)

    def remember(self, people: list[Proc]) -> None:
        """Keep what tells a later orphan of these apart, and no more than that."""
        self.known = {proc.key for proc in people}
        self.sessions = {proc.session for proc in people}
        if not self.exited:
            self.sessions.add(self.pid)

    def report(self, *, cleared: bool, survivors: Sequence[int] = ()) -> None:
        """Tell whoever asked for the end of this run how it went."""
        killed = len(self.hunt.killed) if self.hunt else 0
        answer = {"op": "answer", "cleared": cleared, "killed": killed, "survivors": list(survivors)}
        for seq in self.askers:
            self.line.send({**answer, "seq": seq})
        self.askers.clear()


class Household:
    """All runs of one guardian; `restless` while something of no run is being ended."""

    def __init__(self, *, subreaper: bool) -> None:
        self.runs: list[Run] = []
        self.childless = True
        self.restless = False
        self._agents: dict[int, Run] = {}
        self._me = os.getpid()
        self._adopters = {self._me} if subreaper else {self._me, 1}
        self._stray_hunt = Hunt()

    @property
    def busy(self) -> bool:
        """Whether something has to be ended."""
        return self.restless or any(run.hunt for run in self.runs)

    def add(self, run: Run) -> None:
        """Take in an agent that was just started."""
        self.runs.append(run)
        self._agents[run.pid] = run
        self.childless = False

    def collect(self) -> bool:
        """Reap dead children, orphans included, and tell the hosts of their agents' ends; True if there may be more."""
        self.childless = False
        for _ in range(_COLLECT_AT_MOST):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return False
            if not pid:
                return False
            run = self._agents.pop(pid, None)
            if run is not None:
                run.exited = True
                run.line.send({"op": "exited", "run": run.number, "status": os.waitstatus_to_exitcode(status)})
        return True

    def survey(self) -> tuple[dict[Run, list[Proc]], set[Run]]:
        """Everybody by run, the uncollected dead included; and the runs that may have had more than that a moment ago.

        What no run can own is struck on the way.
        """
        table = processes()
        children = by_parent(table)
        people: dict[Run, list[Proc]] = {run: [] for run in self.runs}
        unsettled: set[Run] = set()
        strays: list[Proc] = []
        for proc, claimants, settled in self._orphans(table):
            if len(claimants) == 1 or (claimants and all(run.hunt for run in claimants)):
                people[claimants[0]] += descend([proc], children)
            elif not settled:
                unsettled.update(claimants)
            elif not claimants and proc.parent == self._me:
                strays += descend([proc], children)
        self._strike_strays(strays)
        for run in self.runs:
            run.remember(people[run])
        return people, unsettled

    def _orphans(self, table: dict[int, Proc]) -> list[tuple[Proc, list[Run], bool]]:
        """Agents and orphans, the runs that can own them by the strongest evidence there is, and whether it is all.

        The dead have no environment to read any more, and those in the middle of an exec not yet.
        """
        orphans = [proc for proc in table.values() if proc.parent in self._adopters]
        marked = marks({proc.pid for proc in orphans if proc.pid not in self._agents})
        return [
            (proc, self._claimants(proc, mark), not proc.dead and mark != UNTOLD)
            for proc, mark in ((proc, marked.get(proc.pid)) for proc in orphans)
        ]

    def _claimants(self, proc: Proc, mark: str | None) -> list[Run]:
        agent = self._agents.get(proc.pid)
        if agent is not None:
            return [agent]
        for found in (
            [run for run in self.runs if run.token == mark],
            [run for run in self.runs if proc.key in run.known],
            [run for run in self.runs if proc.session in run.sessions],
        ):
            if found:
                return found[:1]
        return [run for run in self.runs if run.start <= proc.start] if proc.parent == self._me else []

    def _strike_strays(self, strays: list[Proc]) -> None:
        self.restless = bool(strays)
        if strays:
            self._stray_hunt.press([proc for proc in strays if not proc.dead])
        else:
            self._stray_hunt = Hunt()

    def sweep(self) -> float | None:
        """Take one step against everything doomed; returns the pause until the next, None if nothing is left to do."""
        self.collect()
        if self.childless and self._adopters == {self._me}:
            self._all_gone()
            return None
        people, unsettled = self.survey()
        at_once = False
        for run in [run for run in self.runs if run.hunt]:
            at_once |= self._press(run, people[run], settled=run not in unsettled)
        return 0.0 if at_once else self._pause()

    def _pause(self) -> float | None:
        now = time.monotonic()
        if self.restless or any(run.deadline > now for run in self.runs if run.hunt):
            return _BUSY_PAUSE
        return _STUBBORN_PAUSE if self.busy else None

    def _all_gone(self) -> None:
        """Nothing at all is left: whoever has no child has no descendant."""
        self.restless = False
        for run in [run for run in self.runs if run.hunt]:
            self._clear(run)

    def _press(self, run: Run, people: list[Proc], *, settled: bool) -> bool:
        """One step against one doomed run; True if the next must follow at once."""
        if not people and run.exited and settled:
            self._clear(run)
            return False
        prey = [proc for proc in people if not proc.dead]
        for group in {proc.group for proc in people if proc.dead and proc.parent == self._me}:
            strike_group(group, signal.SIGKILL)  # hits loops of forks, whose living are gone before they are looked at
        late = time.monotonic() >= run.deadline
        if late:
            run.report(cleared=False, survivors=[proc.pid for proc in prey])
        if not prey:
            self._chase()
        at_once = run.hunt is not None and run.hunt.press(prey) if prey else True
        return at_once and not late

    def _chase(self) -> None:
        """Strike at the newest processes, where a look found only dead: somebody forks and ends faster than we look."""
        for _ in range(_CHASE_STEPS):
            proc = top = newest()
            for _ in range(_CHASE_HEIGHT):
                if top is None or top.parent == self._me:
                    break
                top = look(top.parent)
            if proc is not None and top is not None and top.parent == self._me:
                self._strike_if_doomed(proc, top)

    def _strike_if_doomed(self, proc: Proc, top: Proc) -> None:
        claimants = self._claimants(top, marks([top.pid]).get(top.pid))
        for run in claimants[:1]:
            if run.hunt and all(other.hunt for other in claimants) and strike(proc, signal.SIGKILL):
                run.hunt.killed.add(proc.key)

    def _clear(self, run: Run) -> None:
        self.runs.remove(run)
        run.report(cleared=True)
