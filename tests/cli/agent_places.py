"""Programs that stand in the way of an agent's name: ones that tell a version, and the real CLIs behind wrappers."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from interlock_fixtures.clis import find_cli


def program(folder: Path, body: str, name: str = "claude", mode: int = 0o755) -> Path:
    """A shell program in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    path.chmod(mode)
    return path


def telling(folder: Path, version: str, behind: Sequence[str | Path] = ("false",), name: str = "claude") -> Path:
    """A program that says it has this version, and is another one in everything else."""
    words = shlex.join(map(str, behind))
    told = shlex.quote(f"{version} (Claude Code)")
    return program(folder, f'[ "$1" = --version ] && echo {told} && exit\nexec {words} "$@"', name)


def real_claude() -> Path | None:
    """The newest real CLI, where it is installed."""
    return find_cli("claude", "newest")
