"""The same interceptors and the same permission decide the same about the same work, whichever real agent does it."""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock import Allow, Approve, Deny, DenyCall, Modify, Replace
from interlock.events import ApprovalRequested, ToolDecided, ToolFinished, ToolRequested
from interlock_fixtures.clis import Which
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        about = {"name": "birds", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    elif asked["method"] == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        result = {"tools": [{"name": "say", "description": "says", "inputSchema": schema}]}
    elif asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "said " + asked["params"]["arguments"]["text"]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@dataclass(frozen=True)
class Agent:
    """One agent, and how its model asks for the same work."""

    live: Any
    name: str

    def shell(self, command: str, call_id: str) -> ToolCall:
        """Runs a command."""
        if self.name == "claude":
            return ToolCall("Bash", {"command": command}, call_id)
        if self.name == "copilot":
            return ToolCall("bash", {"command": command, "description": "a command"}, call_id)
        return self._codex("exec_command", {"cmd": command}, call_id)

    def write(self, path: Path, line: str, call_id: str) -> ToolCall:
        """Makes a file of one line."""
        if self.name == "claude":
            return ToolCall("Write", {"file_path": str(path), "content": f"{line}\n"}, call_id)
        if self.name == "copilot":
            return ToolCall("create", {"path": str(path), "file_text": f"{line}\n"}, call_id)
        text = f"*** Begin Patch\n*** Add File: {path}\n+{line}\n*** End Patch\n"
        if self.name == "codex":
            return ToolCall("apply_patch", {"input": text}, call_id)
        return ToolCall("exec", {"input": f"text(await tools.apply_patch({json.dumps(text)}))"}, call_id)

    def read(self, path: Path, call_id: str) -> ToolCall:
        """Reads a file, by the tool or the command that this agent has for it."""
        if self.name == "claude":
            return ToolCall("Read", {"file_path": str(path)}, call_id)
        if self.name == "copilot":
            return ToolCall("view", {"path": str(path)}, call_id)
        return self.shell(shlex.join(["cat", str(path)]), call_id)

    def say(self, text: str, call_id: str) -> ToolCall:
        """Calls a tool of an MCP server."""
        if self.name == "claude":
            return ToolCall("mcp__birds__say", {"text": text}, call_id)
        if self.name == "copilot":
            return ToolCall("birds-say", {"text": text}, call_id)
        return self._codex("mcp__birds/say", {"text": text}, call_id)

    def _codex(self, name: str, given: dict[str, Any], call_id: str) -> ToolCall:
        if self.name == "codex":
            return ToolCall(name, given, call_id)
        script = f"text(await tools.{name.replace('/', '__')}({json.dumps(given)}))"
        return ToolCall("exec", {"input": script}, call_id)

    async def play(self, script: list[ToolCall], *chain: Any, **fields: Any) -> Any:
        """One call a turn."""
        if self.name == "code mode":
            fields["model"] = "gpt-6.2-sol"
        return await self.live.play([*map(Turn, script), DONE], *chain, **fields)


@pytest.fixture
def claude_which() -> Which:
    """One version is enough to compare agents."""
    return "oldest"


@pytest.fixture
def codex_which() -> Which:
    """The same."""
    return "oldest"


@pytest.fixture
def copilot_which() -> Which:
    """The same."""
    return "oldest"


FIXTURES = {"claude": "live", "codex": "codex", "code mode": "codex", "copilot": "copilot"}


@pytest.fixture(params=list(FIXTURES))
def agent(request: pytest.FixtureRequest) -> Agent:
    """Each agent in turn, at the oldest version; Codex with models of both styles."""
    return Agent(request.getfixturevalue(FIXTURES[request.param]), request.param)


def decisions(played: Any) -> list[str]:
    """What was decided before the calls, in order."""
    return [f"{one.decision} by {one.by}" for one in played.of(ToolDecided) if one.event == "pre_tool_use"]


def guard(call: Any) -> Any:
    """Reads nothing but the shared vocabulary."""
    if "forbidden" in (call.subject.command or ""):
        return DenyCall(reason="no such command")
    if any("forbidden" in path for path in call.subject.paths):
        return DenyCall(reason="no such file")
    if call.subject.mcp is not None and "forbidden" in json.dumps(call.input):
        return DenyCall(reason="no such words")
    if call.tool_kind == "shell" and "plain" in call.subject.command:
        return Modify(input={**call.input, "command": call.subject.command.replace("plain", "changed")})
    return Allow()


async def test_one_interceptor_decides_the_same_about_every_kind_of_call(agent, policy):
    here = agent.live.workspace
    (here / "kept.txt").write_text("content\n")
    (here / "forbidden.txt").write_text("tiger-lily\n")
    script = [
        agent.shell("touch allowed", "c1"),
        agent.shell("touch forbidden", "c2"),
        agent.shell("touch plain", "c3"),
        agent.write(here / "written.txt", "x", "c4"),
        agent.write(here / "forbidden2.txt", "x", "c5"),
        agent.read(here / "kept.txt", "c6"),
        agent.read(here / "forbidden.txt", "c7"),
    ]
    played = await agent.play(script, policy(guard), permission=FULL)
    yes, no = "allow by posture", "deny by hook"
    assert decisions(played) == [yes, no, yes, yes, no, yes, no]
    made = {path.name for path in here.iterdir()}
    assert made == {"allowed", "changed", "written.txt", "kept.txt", "forbidden.txt"}
    assert [event.status for event in played.of(ToolFinished)] == ["ok", "denied", "ok", "ok", "denied", "ok", "denied"]
    assert "no such command" in played.result("c2").content
    assert "no such file" in played.result("c5").content
    assert "content" in played.result("c6").content
    assert not played.knows(b"tiger-lily")
    assert (played.outcome.ok, played.unguarded(), len(played.of(ToolRequested))) == (True, [], 7)
    assert [denial.by for denial in played.outcome.denials] == ["hook"] * 3


async def test_one_interceptor_decides_the_same_about_mcp_tools(agent, policy, tmp_path):
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    servers = {"birds": {"type": "stdio", "command": sys.executable, "args": [str(program)]}}
    script = [agent.say("hello", "c1"), agent.say("forbidden", "c2")]
    played = await agent.play(script, policy(guard), permission=FULL, mcp_servers=servers)
    assert decisions(played) == ["allow by posture", "deny by hook"]
    assert "said hello" in played.result("c1").content
    assert "no such words" in played.result("c2").content
    rules = {"posture": "read", "allow": ["mcp(birds/say)"], "deny": ["shell"]}
    played = await agent.play(script[:1], permission=rules, mcp_servers=servers)
    assert decisions(played) == ["allow by rule"]


async def test_one_interceptor_replaces_the_same_outputs(agent, policy):
    kept = agent.live.workspace / "kept.txt"
    kept.write_text("tiger-lily\n")

    def redact(call):
        return Replace(output=str(call.output).replace("tiger-lily", "a flower")) if call.output else Allow()

    script = [agent.read(kept, "c1"), agent.shell("echo said; cat kept.txt", "c2")]
    played = await agent.play(script, policy(after=redact), permission=FULL)
    assert "a flower" in played.result("c1").content
    assert "a flower" in played.result("c2").content
    assert not played.knows(b"tiger-lily")
    assert (played.outcome.ok, played.unguarded()) == (True, [])


@pytest.mark.parametrize(
    ("permission", "expected"),
    [
        ({"posture": "none"}, ["deny by policy"] * 4),
        (
            {"posture": "full", "deny": ["shell(touch:*)", "write(w*)", "patch(w*)"]},
            ["deny by rule"] * 2 + ["allow by posture"] * 2,
        ),
        ({"posture": "edit", "deny": ["read(kept.txt)"]}, [None, "allow by posture", "deny by rule", None]),
    ],
    ids=["none", "deny-rules", "read-rule"],
)
async def test_one_permission_decides_the_same(agent, permission, expected):
    here = agent.live.workspace
    (here / "kept.txt").write_text("content\n")
    script = [
        agent.shell("touch made", "c1"),
        agent.write(here / "written.txt", "x", "c2"),
        agent.read(here / "kept.txt", "c3"),
        agent.shell("cat other.txt", "c4"),
    ]
    played = await agent.play(script, permission=permission)
    for found, wanted in zip(decisions(played), expected, strict=True):
        assert wanted in {None, found}
    assert played.unguarded() == []


async def test_one_approval_decides_the_same(agent):
    here = agent.live.workspace
    script = [
        agent.shell("touch yes", "c1"),
        agent.shell("touch no", "c2"),
        agent.write(here / "yes.txt", "x", "c3"),
        agent.write(here / "no.txt", "x", "c4"),
    ]

    def respond(approval):
        return Deny(reason="not that one") if "no" in json.dumps(approval.call.input).split("/")[-1] else Approve()

    permission = {"posture": "read", "otherwise": "ask"}
    played = await agent.play(script, permission=permission, respond=respond)
    assert decisions(played) == ["allow by user", "deny by user"] * 2
    assert sorted(path.name for path in here.iterdir()) == ["yes", "yes.txt"]
    assert len(played.of(ApprovalRequested)) == 4
    assert "not that one" in played.result("c2").content
    assert (played.outcome.ok, played.unguarded()) == (True, [])
