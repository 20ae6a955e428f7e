"""`interlock batch` over the three real CLIs, each run against a scripted model of its own, offline."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.live.conftest import CodexLive, CopilotLive, Live, installed

from interlock_fixtures.clis import copilot_cache
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = pytest.mark.live

PROGRAM = [sys.executable, "-c", "from interlock_adapters.cli import main; main()"]
KINDS: dict[str, type[Live]] = {"claude": Live, "codex": CodexLive, "copilot": CopilotLive}
GUARD = """#!/bin/sh
case $(cat) in
  *forbidden*) echo '{"decision": "deny", "reason": "it is forbidden here"}' ;;
  *) echo '{"decision": "allow"}' ;;
esac
"""


def shell(agent: str, command: str, call_id: str) -> ToolCall:
    """How each agent's model calls for a command."""
    match agent:
        case "claude":
            return ToolCall("Bash", {"command": command}, call_id)
        case "codex":
            return ToolCall("exec_command", {"cmd": command}, call_id)
        case _:
            return ToolCall("bash", {"command": command, "description": "a command"}, call_id)


@dataclass
class RealBatch:
    """A batch over real CLIs: what is written for it, and the process."""

    folder: Path
    models: ExitStack

    def line(self, agent: str, number: int) -> dict[str, Any]:
        """One run: a command that leaves its mark, one that the guard forbids, and an answer of its own."""
        name = f"{agent}-{number}"
        script = [
            Turn(shell(agent, f"echo {name} > made", "c1")),
            Turn(shell(agent, "touch forbidden", "c2")),
            Turn(Text(f"answer of {name}")),
        ]
        model = self.models.enter_context(ScriptedModel(script))
        (self.folder / name).mkdir()
        live = KINDS[agent](installed(agent, "newest"), "newest", self.folder / name)
        request = live.request(model, permission={"posture": "full"})
        return {"id": name, **request.model_dump(mode="json")}

    def hooks(self) -> str:
        """A hooks file whose program denies what is forbidden."""
        guard = self.folder / "guard"
        guard.write_text(GUARD, "utf-8")
        guard.chmod(0o755)
        path = self.folder / "hooks.json"
        entry = {"name": "guard", "command": [str(guard)], "events": ["pre_tool_use"], "tools": ["*"]}
        path.write_text(json.dumps({"schema": 1, "hooks": [entry]}), "utf-8")
        return str(path)

    def run(self, lines: list[dict[str, Any]], *more: str) -> subprocess.CompletedProcess[str]:
        """The command on these lines, with a home and a state folder of its own."""
        tasks = self.folder / "tasks.jsonl"
        tasks.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        (self.folder / "home").mkdir()
        unpacked = self.folder / "state" / "interlock" / "copilot" / "packages"
        unpacked.parent.mkdir(parents=True)
        unpacked.symlink_to(copilot_cache() / "copilot")
        env = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "TMPDIR") if name in os.environ}
        env |= {
            "HOME": str(self.folder / "home"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(copilot_cache()),
            "LANG": "C.UTF-8",
        }
        arguments = ["batch", str(tasks), "--out", str(self.folder / "out"), "--json", "--hooks", self.hooks(), *more]
        return subprocess.run([*PROGRAM, *arguments], env=env, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealBatch]:
    with ExitStack() as models:
        yield RealBatch(tmp_path, models)


@pytest.mark.timeout(660)
@pytest.mark.parametrize("each", [1, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.behaviour("batch:counted-once")
def test_runs_over_three_real_agents_are_counted_once_and_guarded(real: RealBatch, each: int) -> None:
    lines = [real.line(agent, number) for number in range(each) for agent in KINDS]
    done = real.run(lines, "--concurrency", "4", "--per-agent", "copilot=2", "--attempt-timeout", "120")
    assert done.returncode == 0, done.stderr
    results = {found["run"]: found for found in map(json.loads, done.stdout.splitlines())}
    assert sorted(results) == sorted(line["id"] for line in lines)
    assert len(done.stdout.splitlines()) == len(lines)
    for line in lines:
        name, workspace = line["id"], Path(line["cwd"])
        outcome = results[name]["outcome"]
        assert (outcome["agent"], outcome["text"]) == (line["agent"], f"answer of {name}")
        assert [denial["by"] for denial in outcome["denials"]] == ["hook"], outcome
        assert (workspace / "made").read_text("utf-8") == f"{name}\n"
        assert not (workspace / "forbidden").exists()
    kept = (real.folder / "out" / "results.jsonl").read_text("utf-8").splitlines()
    counted = Counter(json.loads(line)["run"] for line in kept)
    assert counted == dict.fromkeys(results, 1)
    assert f"{len(lines)} of {len(lines)} runs counted: {len(lines)} completed" in done.stderr
