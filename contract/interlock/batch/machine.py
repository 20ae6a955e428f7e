"""How many runs this machine bears: by its memory and its file descriptors, as they are now."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

__all__ = ["FILES_A_RUN", "MEMORY_A_RUN", "available_memory", "room_for", "spare_files"]

MEMORY_A_RUN = 512 * 1024 * 1024
"""Bytes that one agent with its commands is taken to need."""
FILES_A_RUN = 16
"""Descriptors in this process: two socket pairs, a file of events, and what a start needs for a moment."""
FILES_APART = 64
_CGROUP = Path("/sys/fs/cgroup")


def room_for(running: int, *, memory: int = MEMORY_A_RUN) -> int:
    """How many runs in all, `running` ones included, there is room for; at least one."""
    by_files = spare_files() // FILES_A_RUN
    free = available_memory()
    by_memory = by_files if free is None else free // memory
    return max(1, running + min(by_memory, by_files))


def spare_files() -> int:
    """Descriptors that this process may still open, some kept apart."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 20
    try:
        used = len(os.listdir("/dev/fd"))  # noqa: PTH208  # as fast as can be
    except OSError:
        used = FILES_APART
    return max(0, soft - used - FILES_APART)


def available_memory() -> int | None:
    """Bytes that can be had without swapping, of the machine and of the container we are in; None if nobody says."""
    found = [size for size in (_of_machine(), _of_container()) if size is not None]
    return min(found) if found else None


def _of_machine() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError):  # macOS does not say what is free: half of all
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    return None


def _of_container() -> int | None:
    with suppress(OSError, ValueError):
        most = int((_CGROUP / "memory.max").read_text("ascii"))
        return max(0, most - int((_CGROUP / "memory.current").read_text("ascii")))
    return None
