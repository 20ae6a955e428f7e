"""The example application runs unchanged over each real agent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock_fixtures.clis import copilot_cache, require_cli
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = pytest.mark.live
EXAMPLE = Path(__file__).parents[2] / "examples" / "same_app.py"


def shell(agent: str, command: str) -> ToolCall:
    """How the model of each agent runs a command."""
    match agent:
        case "claude":
            return ToolCall("Bash", {"command": command})
        case "codex":
            return ToolCall("exec_command", {"cmd": command})
        case _:
            return ToolCall("bash", {"command": command, "description": "a command"})


@pytest.mark.parametrize("agent", ["claude", "codex", "copilot"])
def test_one_application_keeps_its_guard_and_its_approvals_over_each_agent(agent: str, tmp_path: Path) -> None:
    binary = require_cli(agent, "oldest")
    workspace, home = tmp_path / "repo", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    if agent == "copilot":  # what it unpacks at its first start all tests share
        unpacked = home / ".local" / "state" / "interlock" / "copilot" / "packages"
        unpacked.parent.mkdir(parents=True)
        unpacked.symlink_to(copilot_cache() / "copilot")
    script = [Turn(shell(agent, "touch made")), Turn(shell(agent, "git push")), Turn(Text("all done"))]
    with ScriptedModel(script) as model:
        words = [sys.executable, str(EXAMPLE), "--agent", agent, "--yes", "--binary", str(binary)]
        for name, value in model.environment(agent).items():
            words += ["--env", f"{name}={value}"]
        own = [word for word in model.arguments(agent) if word.startswith("model_provider")] if agent == "codex" else []
        words += ["make a file", "--", *[part for word in own for part in ("-c", word)]]
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run(words, cwd=workspace, env=env, capture_output=True, text=True, timeout=90, check=False)
        shown = [result.content for result in model.shown]
    assert ran.returncode == 0, ran.stderr
    assert (workspace / "made").exists()
    assert "touch made" in ran.stdout
    assert "denied: denied by interceptor 'no-pushes': pushing is for people" in ran.stdout
    assert "all done" in ran.stdout
    assert f"{agent} run completed" in ran.stdout
    assert "pushing is for people" in shown[-1]
