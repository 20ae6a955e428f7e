"""Who is measured with a real CLI, and where: one prompt, answered by a scripted model in a process of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["Agent", "Contestant", "Stage", "prompt"]


def prompt(calls: int) -> str:
    """What the model reads, and answers with so many calls of a tool, one after the other."""
    return f"make {calls} calls"


@dataclass(frozen=True, slots=True)
class Stage:
    """The CLI, the URL of the model, and folders that nobody else uses."""

    cli: Path
    url: str
    folder: Path
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def workspace(self) -> Path:
        """Where agents run."""
        return self.folder / "workspace"

    def fresh(self) -> Path:
        """A folder that is empty."""
        made = self.folder / f"home-{next(self.numbers)}"
        made.mkdir()
        return made

    def environ(self, **more: str) -> dict[str, str]:
        """The variables that every contestant's agent gets."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.folder), "NO_PROXY": "127.0.0.1", **more}


@dataclass(frozen=True, slots=True)
class Contestant:
    """One column: `run` makes one run with so many calls from start to exit, and raises if it went wrong."""

    name: str
    run: Callable[[Stage, int], Awaitable[None]]
    bare: str = ""
    """The contestant that does the same without anything round it; empty: this is such a one."""
    package: str = ""
    """The package that must be installed; empty: nothing more than Interlock."""

    @property
    def version(self) -> str | None:
        """The version of its package, empty where there is none; None: it is not installed."""
        try:
            return version(self.package) if self.package else ""
        except PackageNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class Agent:
    """A CLI and all that drive it."""

    name: str
    call: Mapping[str, object]
    """The call of a tool that does nothing, as the scripted model says it: name and input."""
    contestants: tuple[Contestant, ...]
