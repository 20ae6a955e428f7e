"""One run a session: two that write one transcript would garble it, so the second gets an error instead.

A lock is a file that a run holds open and locked, so that it ends with its process, however that ends; it counts
between processes and inside of one.
"""

from __future__ import annotations

import fcntl
import os
from hashlib import sha256
from pathlib import Path

from interlock.errors import SessionBusy
from interlock.request import Fork, NewSession, Resume, Session

__all__ = ["SessionLock"]


class SessionLock:
    """The hold on a session; nothing is held where the run has one whose id only the agent will choose."""

    def __init__(self, path: Path | None = None, descriptor: int = -1) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, state: Path, agent: str, session: Session) -> SessionLock:
        """Take the session that the run will write; raises `SessionBusy` if another run has it."""
        session_id = _written(session)
        if session_id is None:
            return cls()
        folder = state / "locks"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / sha256(f"{agent}\0{session_id}".encode()).hexdigest()
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise SessionBusy(agent, session_id) from None
            if _is_at(path, descriptor):
                return cls(path, descriptor)
            os.close(descriptor)  # whoever held it has removed it meanwhile

    def release(self) -> None:
        """Give it back; idempotent."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._path = None


def _written(session: Session) -> str | None:
    match session:
        case NewSession(id=written) | Resume(id=written) | Fork(new_id=written):
            return written


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))
