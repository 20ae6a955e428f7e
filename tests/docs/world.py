"""Where blocks of the docs run: an empty home, the agents on PATH, and the files that the pages speak of.

`claude` is the scripted agent, which needs no CLI. The others are the pinned real CLIs, led to a scripted model.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from interlock_fixtures.clis import CliMissing, clis_required, copilot_cache, find_cli
from interlock_fixtures.scripted_agent.launcher import install
from interlock_fixtures.scripted_model import ScriptedModel, Text, Turn

ROOT = Path(__file__).parents[2]
LIMIT = 100.0
PATH = "/usr/local/bin:/usr/bin:/bin"
DENIES = '#!/bin/sh\nread -r call; echo \'{"decision": "deny", "reason": "not here"}\'\n'
POLICY = 'schema = 1\n[permission]\nposture = "edit"\ndeny = ["read(**/.env)"]\n'
TURN = [
    {"text": "I look.", "tool": "Write", "input": {"file_path": "made.txt", "content": "made\n"}},
    {"text": "Done."},
]
RECORD = {
    "run_id": "run-1", "agent": "claude", "agent_id": "main", "tool_call_id": "call-1", "tool_name": "Bash",
    "event": "pre_tool_use", "round": 1, "participant": "policy", "binding": "policy", "decision": "deny",
    "reason": "not covered", "input_digest": "0" * 64, "time": 1.0, "duration": 0.0,
}  # fmt: skip


@dataclass
class World:
    """One folder with all that a page takes for granted."""

    folder: Path
    stack: ExitStack
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.home, self.work, self.bin = (self.folder / name for name in ("home", "work", "bin"))
        for made in (self.home, self.work, self.bin, self.work / "app", self.work / "site", self.work / "my-project"):
            made.mkdir(parents=True)
        self.env = {
            "PATH": f"{self.bin}:{PATH}",
            "HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "LANG": "C.UTF-8",
        }
        program = f"exec {shlex.quote(sys.executable)}"
        self._write(self.bin / "interlock", f"{program} -c 'from interlock_adapters.cli import main; main()' \"$@\"")
        self._write(self.bin / "python", f'{program} "$@"')
        self._write(self.bin / "pytest", f'{program} -m pytest "$@"')
        install(self.bin, [TURN] * 3)
        (self.home / "bin").mkdir()
        (self.home / "bin" / "claude").symlink_to(self.bin / "claude")
        self._files()

    def _write(self, path: Path, script: str) -> None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def _files(self) -> None:
        guard = self.folder / "deny.sh"  # outside of the workspace, as it must be
        guard.write_text(DENIES)
        hooks = {"schema": 1, "hooks": [{"name": "deny", "command": ["sh", str(guard)], "timeout": 10}]}
        for name in ("guards.json", "hooks.json"):
            (self.work / name).write_text(json.dumps(hooks))
        (self.work / "policy.toml").write_text(POLICY)
        (self.work / "audit.jsonl").write_text(json.dumps(RECORD) + "\n")
        (self.work / "call.json").write_text(json.dumps({"tool_name": "Bash", "input": {"command": "ls"}}))
        tasks = [{"id": name, "agent": "claude", "prompt": "go", "cwd": name} for name in ("app", "site")]
        (self.work / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
        shutil.copytree(ROOT / "examples", self.work / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "examples" / "test_my_guard.py", self.work)

    def recorded(self) -> None:
        """Put a recorded conversation where the pages have theirs."""
        found = next((ROOT / "fixtures" / "recordings" / "claude").glob("*/*/meta.json")).parent
        shutil.copytree(found, self.work / "recordings" / "claude" / found.parent.name / found.name)

    def real(self, agent: str) -> None:
        """Put the pinned CLI of an agent on PATH; skips or fails where it is missing.

        Those but `claude`, which is only driven by what brings a model of its own, talk to one that makes no call.
        """
        cli = find_cli(agent, "newest")
        if cli is None and clis_required():
            raise CliMissing(agent)
        if cli is None:
            pytest.skip(f"the pinned CLI of {agent} is not installed")
        (self.bin / agent).unlink(missing_ok=True)
        if agent == "claude":
            (self.bin / agent).symlink_to(cli)
            return
        model = self.stack.enter_context(ScriptedModel([Turn(Text("Done.")) for _ in range(4)]))
        if agent == "copilot":
            unpacked = self.home / ".local" / "state" / "interlock" / "copilot" / "packages"
            unpacked.parent.mkdir(parents=True)
            unpacked.symlink_to(copilot_cache() / "copilot")
        self.env |= model.environment(agent) | {"OPENAI_API_KEY": "opens-nothing"}
        variables = [f"{name}={shlex.quote(value)}" for name, value in model.environment(agent).items()]
        options = shlex.join(model.arguments(agent))
        self._write(self.bin / agent, f'{" ".join(variables)} exec {shlex.quote(str(cli))} {options} "$@"')

    def run(self, *argv: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the folder where the reader is."""
        return subprocess.run(
            argv,
            cwd=self.work,
            env=self.env | more,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
