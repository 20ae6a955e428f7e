"""The real Claude Code, oldest and newest of the tested range, run by hand against the scripted model."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock_fixtures.clis import Which, cli_version
from interlock_fixtures.scripted_model import (
    CutStream,
    HttpError,
    ModelRequest,
    ScriptedModel,
    StreamError,
    Text,
    Thinking,
    ToolCall,
    Turn,
    Usage,
)

pytestmark = pytest.mark.live

EXAMPLE = Path(__file__).parents[2] / "examples" / "scripts" / "touch-claude.json"
STREAM = ("-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json")
BYPASS = ("--permission-mode", "bypassPermissions")


@dataclass(frozen=True)
class Conversation:
    exit_code: int
    messages: list[dict[str, Any]]
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        (result,) = (message for message in self.messages if message["type"] == "result")
        return result

    def blocks(self, kind: str) -> list[dict[str, Any]]:
        said = [message for message in self.messages if message["type"] == "assistant"]
        return [block for message in said for block in message["message"]["content"] if block["type"] == kind]


Converse = Callable[..., Conversation]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def converse(claude_cli: Path, workspace: Path, tmp_path: Path) -> Converse:
    """Run the CLI with one prompt to its end."""

    def run(model: ScriptedModel, prompt: str, *options: str) -> Conversation:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        private = {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "config"), "IS_SANDBOX": "1"}
        line = json.dumps({"type": "user", "message": {"role": "user", "content": prompt}}) + "\n"
        done = subprocess.run(
            [claude_cli, *STREAM, *options],
            input=line.encode(),
            capture_output=True,
            check=False,
            cwd=workspace,
            env={"PATH": os.environ["PATH"], **private, **model.environment("claude")},
            timeout=60,
        )
        messages = [json.loads(message) for message in done.stdout.split(b"\n") if message]
        return Conversation(done.returncode, messages, done.stderr.decode())

    return run


def turns(model: ScriptedModel) -> list[ModelRequest]:
    return [request for request in model.requests if request.kind == "turn"]


def test_a_text_turn_is_the_result(converse: Converse, claude_which: Which):
    turn = Turn(Thinking("hm"), Text("hello there", chunk=3), usage=Usage(123, 45))
    with ScriptedModel([turn]) as model:
        conversation = converse(model, "hi")
        assert (model.unplayed, model.overrun) == ((), 0)
        (request,) = turns(model)
    assert (conversation.exit_code, conversation.stderr) == (0, "")
    assert conversation.result["result"] == "hello there"
    assert conversation.result["usage"]["input_tokens"] == 123
    assert conversation.result["usage"]["output_tokens"] == 45
    assert conversation.messages[0]["claude_code_version"] == cli_version("claude", claude_which)
    assert [block["thinking"] for block in conversation.blocks("thinking")] == ["hm"]
    assert b'"hi"' in request.raw


def test_a_bash_call_runs_and_its_output_is_shown_to_the_model(converse: Converse, workspace: Path):
    call = ToolCall("Bash", {"command": "touch made; echo out; echo err >&2"}, "t1")
    failing = ToolCall("Bash", {"command": "echo no; exit 3"}, "t2")
    with ScriptedModel([Turn(Text("working"), call), Turn(failing), Turn(Text("done"))]) as model:
        conversation = converse(model, "go", *BYPASS)
        first, second = model.shown
    assert conversation.result["result"] == "done"
    assert (workspace / "made").is_file()
    assert (first.tool_use_id, first.content, first.is_error) == ("t1", "out\nerr", False)
    assert (second.tool_use_id, second.content, second.is_error) == ("t2", "Exit code 3\nno", True)


def test_parallel_calls_are_all_run_and_shown_together(converse: Converse, workspace: Path):
    calls = [ToolCall("Bash", {"command": f"echo {name} > {name}; cat {name}"}) for name in ("a", "b", "c")]
    with ScriptedModel([Turn(*calls), Turn(Text("done"))]) as model:
        conversation = converse(model, "go", *BYPASS)
        assert [shown.content for shown in model.shown] == ["a", "b", "c"]
        assert len(turns(model)) == 2
    assert [block["id"] for block in conversation.blocks("tool_use")] == [s.tool_use_id for s in model.shown]
    assert sorted(path.name for path in workspace.iterdir()) == ["a", "b", "c"]


def test_a_prompt_of_five_megabytes_arrives_whole_or_is_refused_before_it_is_sent(
    converse: Converse, claude_which: Which
):
    prompt = "word " * 1_000_000
    with ScriptedModel([Turn(Text("read"))]) as model:
        conversation = converse(model, prompt)
        sent = turns(model)
    if claude_which == "oldest":
        assert conversation.result["result"] == "read"
        assert json.dumps(prompt).encode() in sent[0].raw
    else:
        assert (conversation.result["is_error"], sent) == (True, [])


def test_a_subagent_is_told_apart_by_the_request(converse: Converse):
    def reply(request: ModelRequest) -> Turn:
        assert isinstance(request.body, dict)
        if b"INNER" not in request.raw:
            brief = {"description": "look", "prompt": "INNER", "subagent_type": "general-purpose"}
            return Turn(ToolCall("Agent", {**brief, "run_in_background": False}, "t1"))
        return Turn(Text("outer done" if request.shown else "inner report"))

    with ScriptedModel([reply] * 3) as model:
        conversation = converse(model, "go", *BYPASS)
        assert model.unplayed == ()
        assert "inner report" in model.shown[0].content
    assert conversation.result["result"] == "outer done"


@pytest.mark.parametrize(
    "trouble",
    [
        Turn(HttpError(529, "overloaded_error", "busy", {"retry-after": "0"})),
        Turn(Text("lost"), StreamError("overloaded_error", "busy")),
        Turn(Text("lost"), CutStream(after="first_delta")),
        Turn(Text("lost"), CutStream()),
        Turn(Text("lost"), CutStream(after="request")),
    ],
    ids=["http error", "error event", "cut after first delta", "cut after headers", "cut before headers"],
)
@pytest.mark.sampled
def test_the_cli_asks_again_after_trouble(converse: Converse, trouble: Turn):
    with ScriptedModel([trouble, Turn(Text("second try"))]) as model:
        conversation = converse(model, "hi")
        assert (model.unplayed, model.overrun) == ((), 0)
    assert (conversation.exit_code, conversation.result["result"]) == (0, "second try")


def test_an_error_that_is_not_retried_ends_the_run(converse: Converse):
    with ScriptedModel([Turn(HttpError(403, "permission_error", "not for you"))]) as model:
        conversation = converse(model, "hi")
        assert len(turns(model)) == 1
    assert conversation.exit_code == 1
    assert "not for you" in conversation.result["result"]


def test_the_example_script_drives_the_cli_from_a_shell(claude_cli: Path, workspace: Path, tmp_path: Path):
    serve = [sys.executable, "-m", "interlock_fixtures.scripted_model", str(EXAMPLE)]
    shell = f"""
        {shlex.join(serve)} > ../exports & server=$!
        until grep -q '^# serving' ../exports; do sleep 0.05; done
        . ../exports
        echo 'Make a file' | {shlex.quote(str(claude_cli))} -p --permission-mode bypassPermissions
        kill $server; wait $server
    """
    private = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "config"), "IS_SANDBOX": "1"}
    done = subprocess.run(
        ["/bin/sh", "-c", shell],
        capture_output=True,
        check=False,
        cwd=workspace,
        env={"PATH": os.environ["PATH"], **private},
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "I made hello.txt.\n")
    assert (workspace / "hello.txt").is_file()
