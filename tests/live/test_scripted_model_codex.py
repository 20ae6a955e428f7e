"""The real Codex, run by hand against the scripted model: `codex exec --json` and `codex app-server`."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from interlock_fixtures.scripted_model import (
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

LIMIT = 60.0
DIRECT, CODE = "gpt-5.5", "gpt-6.2-sol"
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+from a patch\n*** End Patch\n"

Message = dict[str, Any]


def shell(model: str, command: str, call_id: str) -> ToolCall:
    """A shell command as a model of either kind calls it."""
    if model == DIRECT:
        return ToolCall("exec_command", {"cmd": command}, call_id)
    return ToolCall("exec", {"input": f"text(await tools.exec_command({{cmd:{json.dumps(command)}}}))"}, call_id)


def patch(model: str, call_id: str) -> ToolCall:
    """A patch as a model of either kind calls it."""
    if model == DIRECT:
        return ToolCall("apply_patch", {"input": PATCH}, call_id)
    return ToolCall("exec", {"input": f"text(await tools.apply_patch({json.dumps(PATCH)}))"}, call_id)


@dataclass
class Place:
    """A Codex with a workspace and a home of its own."""

    cli: Path
    folder: Path
    repo: Path = field(init=False)

    def __post_init__(self) -> None:
        self.repo = self.folder / "repo"
        for name in ("home", "codex", "repo"):
            (self.folder / name).mkdir()

    def environment(self, model: ScriptedModel) -> dict[str, str]:
        """The child's whole environment."""
        home = {"HOME": str(self.folder / "home"), "CODEX_HOME": str(self.folder / "codex")}
        return {"PATH": os.environ["PATH"], **home, **model.environment("codex")}

    def exec(self, model: ScriptedModel, name: str, *options: str) -> list[Message]:
        """Run one prompt to its end: the messages, and the exit code as a last one."""
        words = ["exec", "--json", "--skip-git-repo-check", *model.arguments("codex", name), *options, "-"]
        done = subprocess.run(
            [self.cli, *words],
            input=b"the prompt",
            capture_output=True,
            check=False,
            cwd=self.repo,
            env=self.environment(model),
            timeout=LIMIT,
        )
        lines = [line for line in done.stdout.split(b"\n") if line]
        return [*map(json.loads, lines), {"type": "exit", "code": done.returncode}]

    @contextmanager
    def server(self, model: ScriptedModel, name: str) -> Iterator["Server"]:
        """An app-server that is asked to end by the end of its input."""
        process = subprocess.Popen(
            [self.cli, "app-server", *model.arguments("codex", name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.repo,
            env=self.environment(model),
        )
        watchdog = threading.Timer(LIMIT, process.kill)
        watchdog.start()
        try:
            with process:
                yield Server(process)
                assert process.stdin
                process.stdin.close()
                assert process.wait(LIMIT) == 0
        finally:
            watchdog.cancel()
            process.kill()


class Server:
    """A client of `codex app-server`: a request at a time, messages in order."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._number = 0
        self.heard: list[Message] = []

    def ask(self, method: str, **params: Any) -> Message:
        """The result of a request."""
        self._number += 1
        start = len(self.heard)
        self._say({"id": self._number, "method": method, "params": params})
        answer = self.until(lambda message: message.get("id") == self._number and "method" not in message, start)
        assert "result" in answer, answer
        return answer["result"]

    def thread(self, repo: Path, **more: Any) -> str:
        """Say hello and begin a thread."""
        self.ask("initialize", clientInfo={"name": "test", "title": "Test", "version": "1"}, capabilities={})
        self._say({"method": "initialized"})
        return self.ask("thread/start", cwd=str(repo), **more)["thread"]["id"]

    def turn(self, thread: str, text: str) -> list[Message]:
        """One turn: every notification of it, until it is over."""
        start = len(self.heard)
        self.ask("turn/start", threadId=thread, input=[{"type": "text", "text": text, "text_elements": []}])
        self.until(lambda message: message.get("method") == "turn/completed", start)
        return [message for message in self.heard[start:] if "method" in message]

    def until(self, holds: Any, start: int) -> Message:
        """Read on until a message holds, which may have come since `start`."""
        position = start
        while True:
            for message in self.heard[position:]:
                if holds(message):
                    return message
            position = len(self.heard)
            assert self._process.stdout
            line = self._process.stdout.readline()
            assert line, self.heard
            self.heard.append(json.loads(line))

    def _say(self, message: Message) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


@pytest.fixture
def place(codex_cli: Path, tmp_path: Path) -> Place:
    return Place(codex_cli, tmp_path)


def items(messages: list[Message], kind: str) -> list[Message]:
    """The finished items of one kind, of `exec` or of a server."""
    ends = {
        "item.completed": lambda message: message["item"],
        "item/completed": lambda message: message["params"]["item"],
    }
    found = [
        ends[name](message)
        for message in messages
        for name in [message.get("type", message.get("method"))]
        if name in ends
    ]
    return [item for item in found if item["type"] == kind]


def turns(model: ScriptedModel) -> list[ModelRequest]:
    return [request for request in model.requests if request.kind == "turn"]


@pytest.mark.parametrize("name", [DIRECT, CODE])
def test_exec_ends_with_the_text_and_the_usage(place: Place, name: str):
    usage = Usage(100, 20, cache_read_tokens=40, cache_write_tokens=7, reasoning_tokens=5)
    with ScriptedModel([Turn(Thinking("hm"), Text("hello", chunk=2), usage=usage)]) as model:
        messages = place.exec(model, name)
        assert (model.unplayed, model.overrun) == ((), 0)
        assert [request.path for request in model.requests] == ["/v1/responses"]
        assert b"the prompt" in model.requests[0].raw
    assert [item["text"] for item in items(messages, "reasoning")] == ["hm"]
    assert [item["text"] for item in items(messages, "agent_message")] == ["hello"]
    assert messages[-2]["usage"] == {
        "input_tokens": 100,
        "cached_input_tokens": 40,
        "cache_write_input_tokens": 7,
        "output_tokens": 20,
        "reasoning_output_tokens": 5,
    }
    assert messages[-1]["code"] == 0


@pytest.mark.parametrize("name", [DIRECT, CODE])
def test_exec_runs_a_command_and_a_patch_and_shows_their_outputs(place: Place, name: str):
    script = [Turn(Text("working"), shell(name, "echo out; exit 3", "c1")), Turn(patch(name, "c2")), Turn(Text("done"))]
    with ScriptedModel(script) as model:
        messages = place.exec(model, name, "-s", "workspace-write")
        shown = {each.tool_use_id: each.content for each in model.shown}
    (command,) = items(messages, "command_execution")
    assert (command["aggregated_output"], command["exit_code"], command["status"]) == ("out\n", 3, "failed")
    (change,) = items(messages, "file_change")
    assert change["changes"] == [{"path": str(place.repo / "made.txt"), "kind": "add"}]
    assert (place.repo / "made.txt").read_text(encoding="utf-8") == "from a patch\n"
    assert "out" in shown["c1"]
    assert "c2" in shown


@pytest.mark.parametrize("name", [DIRECT, CODE])
def test_a_server_streams_text_and_runs_a_command_and_a_patch(place: Place, name: str):
    script = [
        Turn(Thinking("hm", chunk=1), Text("hello", chunk=2), shell(name, "echo out", "c1")),
        Turn(patch(name, "c2")),
        Turn(Text("done")),
        Turn(Text("again")),
    ]
    with ScriptedModel(script) as model, place.server(model, name) as server:
        thread = server.thread(place.repo, sandbox="workspace-write", approvalPolicy="never")
        messages = server.turn(thread, "the prompt")
        second = server.turn(thread, "once more")
        assert (model.unplayed, model.overrun) == ((), 0)
    deltas = [message["params"]["delta"] for message in messages if message["method"] == "item/agentMessage/delta"]
    assert deltas[:3] == ["he", "ll", "o"]
    thoughts = [message for message in messages if message["method"] == "item/reasoning/summaryTextDelta"]
    assert "".join(message["params"]["delta"] for message in thoughts) == "hm"
    (command,) = items(messages, "commandExecution")
    assert (command["aggregatedOutput"], command["exitCode"]) == ("out\n", 0)
    assert name == CODE or command["id"] == "c1"
    assert len(items(messages, "fileChange")) == 1
    assert (place.repo / "made.txt").is_file()
    assert [item["text"] for item in items(second, "agentMessage")] == ["again"]


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (Turn(HttpError(400, "invalid_request_error", "bad")), "other"),
        (Turn(HttpError(429, "usage_limit_reached", "no more")), "usageLimitExceeded"),
        (Turn(StreamError("context_length_exceeded", "too long")), "contextWindowExceeded"),
        (Turn(Text("x"), stop_reason="max_output_tokens"), "other"),
    ],
    ids=["bad-request", "usage-limit", "context", "incomplete"],
)
def test_a_server_tells_the_errors_of_the_model_apart(place: Place, turn: Turn, error: str):
    with ScriptedModel([turn] * 3) as model, place.server(model, DIRECT) as server:
        over = server.turn(server.thread(place.repo), "the prompt")[-1]["params"]["turn"]
    assert over["status"] == "failed"
    assert over["error"]["codexErrorInfo"] == error


def test_a_hosted_search_has_run_when_the_model_says_it(place: Place):
    with ScriptedModel([Turn(ToolCall("web_search", {"query": "weather"}, "w1"), Text("sunny"))]) as model:
        messages = place.exec(model, DIRECT)
        assert len(turns(model)) == 1
    (search,) = items(messages, "web_search")
    assert search["query"] == "weather"


def test_codex_asks_for_nothing_but_the_model(place: Place, monkeypatch: pytest.MonkeyPatch):
    with ScriptedModel([Turn(Text("done"))]) as model:
        proxies = {"HTTP_PROXY": model.url, "HTTPS_PROXY": model.url, "https_proxy": model.url}
        environment = place.environment(model) | proxies
        monkeypatch.setattr(place, "environment", lambda _: environment)
        place.exec(model, DIRECT)
        assert [(request.method, request.path) for request in model.requests] == [("POST", "/v1/responses")]
