"""The real Codex calls an endpoint of ours as its hook; the token reaches it over its stdin alone."""

import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock.adapter import Endpoint
from interlock.engine.hook_endpoint import HookEndpoints
from interlock.engine.process import Process, spawn
from interlock.framing.lines import LineFramer
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = [pytest.mark.anyio, pytest.mark.live]

LIMIT = 60.0
HOOKS = Endpoint("hooks", "mcp", ("before", "after", "start"))
REFUSAL = json.dumps({"decision": "block", "reason": "refused by us"}).encode()
STAGES = {"SessionStart": "start", "PreToolUse": "before", "PostToolUse": "after"}
SNAKE = {"SessionStart": "session_start", "PreToolUse": "pre_tool_use", "PostToolUse": "post_tool_use"}
INPUT = {"id": "${tool_use_id}", "name": "${tool_name}", "input": "${tool_input}"}

Json = dict[str, Any]
Answer = Callable[[Json], bytes | None]


def handler(event: str) -> Json:
    """What codex runs at an event."""
    given = {"source": "${source}"} if event == "SessionStart" else INPUT
    given = given | {"output": "${tool_response}"} if event == "PostToolUse" else given
    return {"type": "mcp_tool", "server": "ours", "tool": STAGES[event], "timeout": 600, "input": given}


def trusted(event: str) -> str:
    """The hash under which codex runs the handler without asking."""
    whole = {"event_name": SNAKE[event], "hooks": [handler(event)]}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def toml(value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{json.dumps(name)}={toml(each)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ",".join(map(toml, value)) + "]"
        case _:
            return json.dumps(value)


def options(repo: Path) -> list[str]:
    """The hooks, which hold no secret, and no trust for what lies in the workspace."""
    state = {f"/<session-flags>/config.toml:{SNAKE[event]}:0:0": {"trusted_hash": trusted(event)} for event in STAGES}
    settings: Json = {f"hooks.{event}": [{"hooks": [handler(event)]}] for event in STAGES}
    settings |= {"hooks.state": state, "projects": {str(repo): {"trust_level": "untrusted"}}}
    return [word for name, value in settings.items() for word in ("-c", f"{name}={toml(value)}")]


@dataclass
class Desk:
    """Notes what codex asks, and answers as it is told."""

    answer: Answer
    endpoints: HookEndpoints = field(init=False)
    calls: list[Json] = field(default_factory=list)
    gone: anyio.Event = field(default_factory=anyio.Event)
    asked: anyio.Event = field(default_factory=anyio.Event)
    troubles: list[str] = field(default_factory=list)

    def called(self, channel: str, key: str, body: bytes) -> None:
        call = json.loads(body)
        self.calls.append(call)
        data = self.answer(call)
        if data is None:
            self.asked.set()
        else:
            self.endpoints.reply(channel, key, data)

    def hung_up(self, channel: str, key: str) -> None:
        self.gone.set()

    def repeated(self, channel: str, message: str) -> None:
        self.troubles.append(message)

    def stranger(self, message: str) -> None:
        self.troubles.append(message)

    def trouble(self, message: str, error: Exception | None = None) -> None:
        self.troubles.append(message)

    @property
    def stages(self) -> list[str]:
        return [call["name"] for call in self.calls]


class Server:
    """A client of `codex app-server`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.heard: list[Json] = []
        self._framer = LineFramer()
        self._number = 0

    async def ask(self, method: str, **params: Any) -> Json:
        self._number += 1
        number, start = self._number, len(self.heard)
        question = {"id": number, "method": method, "params": params}
        await self.process.stdin.send(json.dumps(question).encode() + b"\n")
        return await self.until(lambda message: message.get("id") == number and "method" not in message, start)

    async def until(self, holds: Callable[[Json], bool], start: int) -> Json:
        while True:
            for message in self.heard[start:]:
                if holds(message):
                    return message
            start = len(self.heard)
            data = await self.process.stdout.receive()
            assert data, self.heard
            self.heard += [json.loads(bytes(line)) for line in self._framer.feed(data) if isinstance(line, bytes)]

    async def start_turn(self, thread: str) -> str:
        said = {"type": "text", "text": "the prompt", "text_elements": []}
        answer = await self.ask("turn/start", threadId=thread, input=[said])
        return str(answer["result"]["turn"]["id"])

    async def turn_over(self) -> str:
        over = await self.until(lambda message: message.get("method") == "turn/completed", 0)
        return str(over["params"]["turn"]["status"])


@dataclass
class Setup:
    """One Codex with folders of its own."""

    cli: Path
    folder: Path
    repo: Path = field(init=False)

    def __post_init__(self) -> None:
        self.repo = self.folder / "repo"
        for name in ("home", "codex", "repo"):
            (self.folder / name).mkdir()

    @asynccontextmanager
    async def server(self, model: ScriptedModel, desk: Desk) -> AsyncIterator[tuple[Server, str]]:
        """A server with a thread whose hooks are ours."""
        homes = {"HOME": str(self.folder / "home"), "CODEX_HOME": str(self.folder / "codex")}
        env = {"PATH": os.environ["PATH"], **homes, **model.environment("codex")}
        desk.endpoints = HookEndpoints([HOOKS], {"hooks": REFUSAL}, desk)
        await desk.endpoints.open()
        argv = [str(self.cli), "app-server", *model.arguments("codex"), *options(self.repo)]
        process = await spawn(argv, cwd=str(self.repo), env=env)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(desk.endpoints.serve)
                server = Server(process)
                yield server, await self.thread(server, desk)
                group.cancel_scope.cancel()
        finally:
            await process.kill_tree()
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()
            await desk.endpoints.close()

    async def thread(self, server: Server, desk: Desk) -> str:
        place = desk.endpoints.places["hooks"]
        ours = {"url": place.url, "http_headers": {"Authorization": f"Bearer {place.token}"}, "required": True}
        await server.ask("initialize", clientInfo={"name": "test", "title": "Test", "version": "1"})
        hooks = (await server.ask("hooks/list", cwds=[str(self.repo)]))["result"]["data"][0]["hooks"]
        assert {hook["trustStatus"] for hook in hooks} == {"trusted"}
        assert len(hooks) == len(STAGES)
        told = {"cwd": str(self.repo), "sandbox": "workspace-write", "approvalPolicy": "never"}
        answer = await server.ask("thread/start", **told, config={"mcp_servers": {"ours": ours}})
        return str(answer["result"]["thread"]["id"])


@pytest.fixture
def setup(codex_cli: Path, tmp_path: Path) -> Setup:
    return Setup(codex_cli, tmp_path)


def touch(name: str) -> Turn:
    return Turn(ToolCall("exec_command", {"cmd": f"touch {name}; echo {name}"}, name))


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_codex_asks_before_and_after_every_call_and_does_as_it_is_told(setup: Setup) -> None:
    def answer(call: Json) -> bytes:
        name = call["arguments"].get("id")
        if call["name"] == "before" and name == "denied":
            return json.dumps({"decision": "block", "reason": "because no"}).encode()
        if call["name"] == "before" and name == "changed":
            said = {"permissionDecision": "allow", "updatedInput": {"command": "touch other"}}
            return json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}).encode()
        if call["name"] == "after" and name == "hidden":
            return json.dumps({"decision": "block", "reason": "shown instead"}).encode()
        return b""

    script = [touch("allowed"), touch("denied"), touch("changed"), touch("hidden"), Turn(Text("done"))]
    desk = Desk(answer)
    with anyio.fail_after(LIMIT), ScriptedModel(script) as model:
        async with setup.server(model, desk) as (server, thread):
            await server.start_turn(thread)
            assert await server.turn_over() == "completed"
        shown = {each.tool_use_id: each.content for each in model.shown}
    assert desk.stages == ["start", "before", "after", "before", "before", "after", "before", "after"]
    assert sorted(path.name for path in setup.repo.iterdir()) == ["allowed", "hidden", "other"]
    assert "because no" in shown["denied"]
    assert shown["hidden"] == "shown instead"
    assert desk.troubles == []


async def test_the_token_is_in_no_argument_no_variable_no_file_and_no_request_to_the_model(setup: Setup) -> None:
    desk = Desk(lambda _: b"")
    with anyio.fail_after(LIMIT), ScriptedModel([touch("made"), Turn(Text("done"))]) as model:
        async with setup.server(model, desk) as (server, thread):
            await server.start_turn(thread)
            await server.turn_over()
            token = desk.endpoints.places["hooks"].token.encode()
            proc = Path("/proc") / str(server.process.pid)
            assert proc.is_dir()
            assert not any(token in (proc / name).read_bytes() for name in ("cmdline", "environ"))
        assert not any(token in request.raw for request in model.requests)
    files = [path for path in setup.folder.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert [path for path in files if token in path.read_bytes()] == []


async def test_a_call_that_nobody_decided_is_refused_when_the_run_winds_down(setup: Setup) -> None:
    desk = Desk(lambda call: None if call["name"] == "before" else b"")
    with anyio.fail_after(LIMIT), ScriptedModel([touch("made"), Turn(Text("done"))]) as model:
        async with setup.server(model, desk) as (server, thread):
            await server.start_turn(thread)
            await desk.asked.wait()
            desk.endpoints.refuse()
            await server.turn_over()
        assert "refused by us" in model.shown[0].content
    assert not (setup.repo / "made").exists()


async def test_codex_hangs_up_on_a_call_whose_turn_is_interrupted_and_nothing_runs(setup: Setup) -> None:
    desk = Desk(lambda call: None if call["name"] == "before" else b"")
    with anyio.fail_after(LIMIT), ScriptedModel([touch("made"), Turn(Text("done"))]) as model:
        async with setup.server(model, desk) as (server, thread):
            turn = await server.start_turn(thread)
            await desk.asked.wait()
            await server.ask("turn/interrupt", threadId=thread, turnId=turn)
            assert await server.turn_over() == "interrupted"
            await desk.gone.wait()
    assert not (setup.repo / "made").exists()
    assert desk.troubles == []
