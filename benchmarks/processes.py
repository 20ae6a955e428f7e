"""What the system says of processes: who lives, and how much memory each takes."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["alive", "memory", "peak"]


def alive(pids: Iterable[int]) -> list[int]:
    """Those that still run; a zombie does not."""
    return [pid for pid in pids if _runs(pid)]


def memory(pid: int) -> int:
    """Bytes of memory that a process takes at the moment."""
    return _status(pid, "VmRSS")


def peak() -> int:
    """Bytes of memory that this process took at its peak."""
    if Path("/proc/self/status").exists():
        return _status(os.getpid(), "VmHWM")  # `ru_maxrss` would count what the parent had before the exec
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return not Path("/proc/self").exists()


def _status(pid: int, name: str) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    sizes = [row.split()[1] for row in text.splitlines() if row.startswith(f"{name}:")]
    return int(sizes[0]) * 1024 if sizes else 0
