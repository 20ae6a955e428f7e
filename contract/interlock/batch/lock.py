"""One driver a batch: a lock that ends with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from interlock.errors import BatchBusy, JournalFailed

__all__ = ["BatchLock", "holder_of"]

NAME = "batch.lock"


class BatchLock:
    """The hold on a batch's folder; raises `BatchBusy`, or `JournalFailed` where no lock can be made."""

    def __init__(self, folder: Path) -> None:
        self._fd = -1
        try:
            self._fd = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            _lock(self._fd)
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        except BlockingIOError:
            holder = os.pread(self._fd, 1000, 0).decode("utf-8", "replace")
            self.release()
            raise BatchBusy(str(folder), holder) from None
        except OSError as error:
            self.release()
            raise JournalFailed(str(folder), NAME, error.strerror or str(error)) from error

    def release(self) -> None:
        """Give it back; idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _lock(fd: int) -> None:
    """Take the lock; who only looks whether it is taken has it for a moment, which is waited for."""
    for _ in range(10):
        with suppress(BlockingIOError):
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(0.01)
    return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def holder_of(folder: Path) -> str | None:
    """What the driver that has the batch says of itself; None if none has it."""
    with suppress(OSError):
        fd = os.open(folder / NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(fd, 1000, 0).decode("utf-8", "replace")
        finally:
            os.close(fd)
    return None
