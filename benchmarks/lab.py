"""Where the measurements happen: a folder of fake agents, and processes in which one contestant does one task."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks import agents

__all__ = ["Lab", "TaskFailed"]

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 300.0
"""Seconds after which a task is given up."""


class TaskFailed(Exception):
    """A task ended without a figure; the text says how."""


@dataclass(slots=True)
class Lab:
    """A temporary folder that holds everything; `quick` makes every row small."""

    quick: bool
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="interlock-bench-")))
    made: dict[str, str] = field(default_factory=dict[str, str])

    def __enter__(self) -> Self:
        self.workspace.mkdir(parents=True)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def workspace(self) -> Path:
        """Where agents run."""
        return self.folder / "bench" / "workspace"

    def size(self, full: int, quick: int) -> int:
        """A size that depends on how much time there is."""
        return quick if self.quick else full

    def agent(self, name: str, output: bytes, **script: object) -> str:
        """A fake agent that several tasks share."""
        if name not in self.made:
            self.made[name] = agents.install(self.folder / name, output, **script)
        return self.made[name]

    def fresh(self, name: str) -> Path:
        """A folder that no other task uses."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder)) / "agent"

    @property
    def warm(self) -> str:
        """An agent with little to say."""
        return self.agent("small", agents.deltas(50))

    def task(self, contestant: str, task: str, **parameters: object) -> dict[str, Any]:
        """What a contestant's task found; raises `TaskFailed`."""
        argv = self.command(contestant, task, **parameters)
        try:
            done = subprocess.run(
                argv,
                check=False,
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST,
            )
        except subprocess.TimeoutExpired as error:
            raise TaskFailed(f"not done after {LONGEST:.0f} s") from error
        if done.returncode:
            raise TaskFailed(done.stderr.strip().rpartition("\n")[2])
        return json.loads(done.stdout.strip().rpartition("\n")[2])

    def command(self, contestant: str, task: str, **parameters: object) -> list[str]:
        """The command line of a task."""
        given = json.dumps({"folder": str(self.workspace), **parameters})
        return [sys.executable, "-m", "benchmarks.tasks", contestant, task, given]

    @property
    def env(self) -> dict[str, str]:
        """The environment of every contestant: nobody's home, and a key that opens nothing."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1",
        }
