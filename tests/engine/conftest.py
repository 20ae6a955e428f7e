"""A bench for runs: a workspace, a state folder, scripted agents, and proof that nothing of them is left.

Every agent of a bench carries its mark in the environment, and so does whatever the agent starts.
"""

import gc
import os
import select
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import uuid4

import anyio
import pytest

from interlock.engine.client import Client
from interlock.engine.run import Run
from interlock.events import BaseEvent
from interlock.permission import Permission
from interlock.request import Request
from interlock_fixtures.scripted_agent.launcher import install

MARK = "BENCH_MARK"
ALONE = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
FULL = Permission(posture="full")

E = TypeVar("E", bound=BaseEvent)


@dataclass
class Bench:
    """Where agents of one test run, and what is known of them."""

    folder: Path
    workspace: Path
    state: Path
    mark: str = field(default_factory=lambda: uuid4().hex)
    agents: int = 0
    expected_log: bool = False
    """Whether the test itself has something logged."""

    def binary(self, script: object) -> str:
        """A program that plays `script`."""
        self.agents += 1
        folder = self.folder / f"agent-{self.agents}"
        folder.mkdir()
        return str(install(folder, script))

    def program(self, code: str, shell: str = "/bin/sh") -> str:
        """A shell program in place of an agent."""
        self.agents += 1
        path = self.folder / f"program-{self.agents}"
        path.write_text(f"#!{shell}\n{code}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def request(self, script: object = (), **more: Any) -> Request:
        """A request for a run of `script` in which everything is allowed, unless said otherwise."""
        env = {MARK: self.mark, **more.pop("env", {})}
        fields: dict[str, Any] = {"agent": "claude", "prompt": "go", "cwd": str(self.workspace), "permission": FULL}
        if "binary" not in more:
            fields["binary"] = self.binary(script)
        return Request.model_validate({**fields, **more, "env": env})

    def client(self, **more: Any) -> Client:
        """A client with the bench's state folder."""
        return Client(**{"state": self.state, **more})

    @property
    def fifo(self) -> Path:
        """Where commands tell their process ids."""
        path = self.folder / "fifo"
        if not path.exists():
            os.mkfifo(path)
        return path

    def sleeper(self, how: str = "exec sleep 600") -> dict[str, Any]:
        """A step that runs a command which tells its process id and then sleeps."""
        return {"tool": "Bash", "input": {"command": f"echo $$ > {self.fifo}; {how}"}}

    def listen(self) -> "Listener":
        """Hear the process ids that commands tell; open it before they do."""
        return Listener(self.fifo)

    def survivors(self) -> list[str]:
        """Living processes that carry the mark: each as `pid command`."""
        return [f"{pid} {_command(pid)}" for pid in _processes() if self._is_ours(pid)]

    def leftovers(self) -> list[str]:
        """Private folders of runs that still exist."""
        runs = self.state / "runs"
        return sorted(path.name for path in runs.iterdir()) if runs.exists() else []

    def assert_nothing_left(self) -> None:
        """No process of any run, and no private folder."""
        assert self.survivors() == []
        assert self.leftovers() == []

    async def until(self, run: Run, kind: type[E]) -> E:
        """Read events until one of this kind."""
        async for event in run:
            if isinstance(event, kind):
                return event
        raise AssertionError(f"the run ended without {kind.__name__}: {await run.outcome()}")

    async def events(self, run: Run) -> list[BaseEvent]:
        """All events that are still to come."""
        return [event async for event in run]

    def _is_ours(self, pid: int) -> bool:
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return False
        return f"{MARK}={self.mark}".encode() in environ.split(b"\0") and state not in "ZX"


class Listener:
    """Reads process ids from a fifo that commands write to."""

    def __init__(self, path: Path) -> None:
        assert stat.S_ISFIFO(path.stat().st_mode)
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._told = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    async def pid(self) -> int:
        """The next process id."""
        while b"\n" not in self._told:
            await anyio.wait_readable(self._fd)
            self._told += os.read(self._fd, 4096)
        return self._next()

    def pid_within(self, seconds: float) -> int:
        """The next process id, where no event loop runs."""
        while b"\n" not in self._told:
            assert select.select([self._fd], [], [], seconds)[0], "no process id came"
            self._told += os.read(self._fd, 4096)
        return self._next()

    def _next(self) -> int:
        line, _, self._told = self._told.partition(b"\n")
        return int(line)


def _processes() -> Sequence[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return "?"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Bench]:
    """A bench; when the test is over, nothing of its runs may live, lie about or be logged."""
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "default-state"))
    for name in ALONE:
        monkeypatch.delenv(name, raising=False)
    bench = Bench(tmp_path, workspace, tmp_path / "state")
    yield bench
    gc.collect()
    bench.assert_nothing_left()
    if not bench.expected_log:
        assert [record.getMessage() for record in caplog.get_records("call")] == []
