"""The real Copilot, run by hand against the scripted model: one prompt of `copilot -p`."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock_fixtures.clis import copilot_cache
from interlock_fixtures.scripted_model import HttpError, ScriptedModel, Text, Thinking, ToolCall, Turn

pytestmark = pytest.mark.live

LIMIT = 60.0
EDITS, PATCHES = "gpt-4.1", "gpt-5.4"
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+from a patch\n*** End Patch\n"

Event = dict[str, Any]
Prompt = Callable[..., tuple[list[Event], int]]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    return folder


@pytest.fixture
def prompt(copilot_cli: Path, tmp_path: Path, repo: Path) -> Prompt:
    """Run one prompt to its end: the events, and the exit code."""

    def run(model: ScriptedModel, *options: str, **variables: str) -> tuple[list[Event], int]:
        (tmp_path / "home").mkdir()
        places = {"HOME": str(tmp_path / "home"), "COPILOT_HOME": str(tmp_path / "copilot")}
        shared = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(copilot_cache())}
        done = subprocess.run(
            [copilot_cli, "-p", "the prompt", "--output-format", "json", "--log-level", "none", *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd=repo,
            env={**shared, **places, **model.environment("copilot"), **variables},
            timeout=LIMIT,
        )
        return [json.loads(line) for line in done.stdout.split(b"\n") if line], done.returncode

    return run


def of(events: list[Event], kind: str) -> list[Event]:
    """What the events of one kind say."""
    return [event["data"] for event in events if event["type"] == kind]


def test_text_and_a_function_and_nothing_but_the_model_is_asked(prompt: Prompt):
    call = ToolCall("bash", {"command": "echo out; exit 3", "description": "d"}, "c1")
    with ScriptedModel([Turn(Thinking("hm"), Text("working", chunk=3), call), Turn(Text("done"))]) as model:
        proxies = {"HTTP_PROXY": model.url, "HTTPS_PROXY": model.url, "https_proxy": model.url}
        events, code = prompt(model, "--allow-all-tools", COPILOT_MODEL=EDITS, **proxies)
        assert (model.unplayed, model.overrun) == ((), 0)
        assert [(request.method, request.path) for request in model.requests] == [("POST", "/v1/chat/completions")] * 2
        assert b"the prompt" in model.requests[0].raw
        (shown,) = model.shown
    assert code == 0
    assert [said["deltaContent"] for said in of(events, "assistant.message_delta")] == ["wor", "kin", "g", "done"]
    assert [said["content"] for said in of(events, "assistant.reasoning")] == ["hm"]
    (ran,) = of(events, "tool.execution_complete")
    assert (ran["toolCallId"], ran["shellExecution"]["exitCode"]) == ("c1", 3)
    assert (shown.tool_use_id, shown.content.startswith("out\n")) == ("c1", True)


def test_a_patch_is_a_custom_call_and_its_result_is_shown(prompt: Prompt, repo: Path):
    with ScriptedModel([Turn(ToolCall("apply_patch", {"input": PATCH}, "c1")), Turn(Text("done"))]) as model:
        events, code = prompt(model, "--allow-all-tools", COPILOT_MODEL=PATCHES)
        assert (model.unplayed, model.overrun) == ((), 0)
        (shown,) = model.shown
    assert code == 0
    assert [said["arguments"] for said in of(events, "tool.execution_start")] == [PATCH]
    assert (repo / "made.txt").read_text("utf-8") == "from a patch\n"
    assert shown.tool_use_id == "c1"
    assert "made.txt" in shown.content


def test_an_error_of_the_model_is_one_of_the_session(prompt: Prompt):
    with ScriptedModel([Turn(HttpError(400, "invalid_request_error", "bad"))]) as model:
        events, code = prompt(model)
    assert code == 1
    (error,) = of(events, "session.error")
    assert error["statusCode"] == 400
