"""The command line as a program, with a scripted agent in place of a CLI and a home of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pexpect
import pytest

from interlock_fixtures.scripted_agent.launcher import install

PROGRAM = [sys.executable, "-c", "from interlock_adapters.cli import main; main()"]
KEPT = ("PATH", "PYTHONPATH", "TMPDIR", "LANG")


@dataclass
class Cli:
    """Runs the command line in a workspace of its own."""

    folder: Path
    workspace: Path
    env: dict[str, str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def arguments(self, script: Any, *more: str, command: str = "run") -> list[str]:
        """What follows `interlock` to run the agent that plays `script`."""
        binary = install(self.folder, script)
        return [command, "-a", "claude", "--binary", str(binary), "-C", str(self.workspace), "--login", "env", *more]

    def start(self, *arguments: str, **how: Any) -> subprocess.Popen[bytes]:
        """Start a command; its pipes are the caller's to read."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.env}
        process = subprocess.Popen([*PROGRAM, *arguments], **{**pipes, **how})
        self.started.append(process)
        return process

    def interlock(self, *arguments: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        return subprocess.run(
            [*PROGRAM, *arguments], input=stdin, capture_output=True, env={**self.env, **env}, timeout=40, check=False
        )

    def run(self, script: Any, *more: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
        """Run the agent that plays `script` to its end."""
        return self.interlock(*self.arguments(script, *more), **how)

    def events(self, done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
        """What stood on stdout, each line as JSON."""
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """The command line, with a home, a workspace and a key that opens nothing."""
    for name in ("home", "workspace", "agent"):
        (tmp_path / name).mkdir()
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env |= {
        "HOME": str(tmp_path / "home"),
        "ANTHROPIC_API_KEY": "opens-nothing",
        "TERM": "xterm",
        "INPUTRC": "/dev/null",
    }
    made = Cli(tmp_path / "agent", tmp_path / "workspace", env)
    yield made
    for process in made.started:
        with process:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


Typing = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture
def typed(cli: Cli) -> Iterator[Typing]:
    """Starts a command with a person at its terminal."""
    children: list[pexpect.spawn[str]] = []

    def start(*arguments: str, **env: str) -> "pexpect.spawn[str]":
        child = pexpect.spawn(
            PROGRAM[0],
            [*PROGRAM[1:], *arguments],
            encoding="utf-8",
            timeout=20,
            env={**cli.env, **env},
            dimensions=(40, 300),
        )
        child.delaybeforesend = None
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)
