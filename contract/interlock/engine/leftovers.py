"""Private folders whose host was killed: each names its host, and the next host of the same state takes them away."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from interlock.engine.descent import look
from interlock.engine.off_loop import off_loop

__all__ = ["claim", "sweep", "sweep_once"]

OWNER = "owner"
_swept: set[Path] = set()


def claim(folder: Path) -> None:
    """Write into a private folder whose it is: this process, told apart from a later holder of its pid."""
    (folder / OWNER).write_text(_name_of(os.getpid()), encoding="utf-8")


@cache
def _name_of(pid: int) -> str:
    """This process, by its pid, so that a forked child does not go by the name of its parent."""
    me = look(pid)
    return f"{pid} {me.start if me else 0}"


async def sweep_once(runs: Path) -> None:
    """`sweep`, once in the life of this process: the run that comes first waits for it."""
    if runs not in _swept:
        _swept.add(runs)
        await off_loop(partial(sweep, runs))


def sweep(runs: Path) -> None:
    """Remove the private folders in `runs` whose host is gone."""
    with suppress(OSError):
        for folder in list(runs.iterdir()):
            if _is_orphaned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_orphaned(folder: Path) -> bool:
    try:
        pid, start = (folder / OWNER).read_text(encoding="utf-8").split()
        host = look(int(pid))
    except (OSError, ValueError):  # just being made, or none of ours
        return False
    return host is None or host.dead or (start != "0" and str(host.start) != start)
