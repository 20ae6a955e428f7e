"""Private folders whose host was killed: each names its host, and the next host of the same state takes them away.

The host stands in the name, so that a folder has an owner from the step in which it comes to be until the one in which
it is gone, wherever its host is killed. Those of another machine or container are left alone, since nobody can tell
from here whether their host lives.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

from interlock.engine.descent import look
from interlock.engine.off_loop import off_loop

__all__ = ["claimed", "sweep", "sweep_once"]

_CLAIM = re.compile(r"\.(\d+)-(\d+)-([0-9a-f]{8})\Z")
_swept: set[Path] = set()


def claimed(name: str) -> str:
    """The name of a private folder of this process, told apart from a later holder of its pid."""
    me = look(os.getpid())
    return f"{name}.{os.getpid()}-{me.start if me else 0}-{_place()}"


async def sweep_once(runs: Path) -> None:
    """`sweep`, once in the life of this process: the run that comes first waits for it."""
    if runs not in _swept:
        _swept.add(runs)
        await off_loop(partial(sweep, runs))


def sweep(runs: Path) -> None:
    """Remove the private folders in `runs` whose host is gone."""
    with suppress(OSError):
        for folder in list(runs.iterdir()):
            if _is_orphaned(folder.name):
                shutil.rmtree(folder, ignore_errors=True)


def _is_orphaned(name: str) -> bool:
    claim = _CLAIM.search(name)
    if claim is None or claim[3] != _place():
        return False
    host = look(int(claim[1]))
    return host is None or host.dead or (claim[2] != "0" and str(host.start) != claim[2])


def _place() -> str:
    """Where a pid means one process: this machine, and on Linux this namespace of pids."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # the text is all that is wanted
    except OSError:
        namespace = ""
    return sha256(f"{socket.gethostname()}\0{namespace}".encode()).hexdigest()[:8]
