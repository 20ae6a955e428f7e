"""The team's guard under test, as the program that runs for everybody; `--interlock-cli PATH` takes the real CLI."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interlock_fixtures.guarded import GuardedRun, Ran
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

GUARD = Path(__file__).with_name("guard.py")
KEY = "AKIA" + "IOSFODNN7QRSTUVW"


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    written = subprocess.run([sys.executable, GUARD, "--hooks-file"], check=True, capture_output=True, text=True)
    path = tmp_path / "hooks.json"
    path.write_text(written.stdout)
    return path


def under_guard(run: GuardedRun, hooks: Path, *calls: ToolCall, **files: str) -> Ran:
    script = [*(Turn(call) for call in calls), Turn(Text("done"))]
    return run(script, client={"hooks": hooks}, files=files)


def test_pushes_and_files_outside_are_refused_and_work_goes_on(guarded_run: GuardedRun, hooks: Path) -> None:
    ran = under_guard(
        guarded_run,
        hooks,
        ToolCall("Bash", {"command": "touch made && git -C . push --force"}),
        ToolCall("Write", {"file_path": "../outside.txt", "content": "x"}),
        ToolCall("Bash", {"command": "touch made-too"}),
    )
    assert [path.name for path in ran.workspace.iterdir()] == ["made-too"]
    assert not (ran.workspace.parent / "outside.txt").exists()
    assert ["'team-guard'" in denial.reason for denial in ran.denials] == [True, True]
    assert "pull requests are opened by people" in ran.denials[0].reason


def test_a_secret_is_not_shown_to_the_model(guarded_run: GuardedRun, hooks: Path) -> None:
    ran = under_guard(guarded_run, hooks, ToolCall("Bash", {"command": "cat settings"}, "t1"), settings=f"id = {KEY}\n")
    shown = json.dumps(ran.shown["t1"])
    assert KEY not in shown
    assert "redacted" in shown
