"""Batches on the command line, whose agents are scripted by their prompts, and what is known of what truly ran."""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from tests.batch.conftest import Heard
from tests.engine.conftest import MARK, Bench

from interlock_fixtures.scripted_agent.launcher import install


class Batches:
    """The batches of one test; `close` proves that nothing of them is left."""

    def __init__(self, cli: Any, folder: Path) -> None:
        self.cli = cli
        self.folder = folder
        self.out = folder / "out"
        self.program = str(install(cli.folder, []))
        cli.env["XDG_STATE_HOME"] = str(folder / "state")
        self.bench = Bench(folder, cli.workspace, folder / "state" / "interlock")

    def line(self, name: str, *steps: object, **more: Any) -> dict[str, Any]:
        """A line of a tasks file: a run that plays these steps in a directory of its own."""
        workspace = self.folder / f"at-{name}"
        workspace.mkdir(exist_ok=True)
        return {
            "id": name,
            "agent": "claude",
            "binary": self.program,
            "login": "env",
            "env": {MARK: self.bench.mark},
            "cwd": str(workspace),
            "permission": {"posture": "full"},
            "prompt": json.dumps(steps or [{"text": "done"}]),
            **more,
        }

    def ran(self, name: str) -> dict[str, Any]:
        """A step that writes down that a run ran."""
        return {"tool": "Bash", "input": {"command": f"echo {name} >> {self.folder}/ledger"}}

    def until_gate(self, name: str) -> dict[str, Any]:
        """A step that tells its process id and waits, unless `gate` is open."""
        command = f"test -e {self.folder}/gate || {{ echo $$ > {self.bench.fifo}; exec sleep 600; }}; true {name}"
        return {"tool": "Bash", "input": {"command": command}}

    def open_gate(self) -> None:
        (self.folder / "gate").touch()

    def executions(self) -> Counter[str]:
        ledger = self.folder / "ledger"
        return Counter(ledger.read_text("utf-8").split()) if ledger.exists() else Counter()

    def write(self, *lines: Any) -> str:
        """A tasks file of these lines; what is text stands there as it is."""
        path = self.folder / "tasks.jsonl"
        path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines), "utf-8")
        return str(path)

    def begin(self, *lines: Any, more: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
        """A batch of these lines, to its end."""
        return self.cli.interlock("batch", self.write(*lines), "--out", str(self.out), *more)

    def begin_same(self) -> subprocess.CompletedProcess[bytes]:
        """The command that began it, again."""
        return self.cli.interlock("batch", str(self.folder / "tasks.jsonl"), "--out", str(self.out))

    def again(self, *more: str) -> subprocess.CompletedProcess[bytes]:
        """Go on with it."""
        return self.cli.interlock("batch", "--out", str(self.out), *more)

    def start(self, *lines: Any, more: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """A batch of these lines, which runs while the test goes on."""
        return self.cli.start("batch", self.write(*lines), "--out", str(self.out), *more)

    def status(self, *more: str) -> list[dict[str, Any]]:
        """What `status --json` prints: a run a line, then the sums."""
        done = self.cli.interlock("batch", "status", str(self.out), "--json", *more)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def listen(self) -> Heard:
        """Hear the process ids that waiting runs tell."""
        return Heard(self.bench.fifo)
