"""A token that a redactor hides is in nothing that the real agent sends to its model, on whatever road it might go.

Every byte of every request is searched, for the token as it is and in other spellings. The redactors are the example
in JavaScript as a resident hook, one in Python that is started for each call, and the one that ships.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio
import pytest

from interlock import Client, Reason, Status
from interlock.events import ToolDecided, ToolFinished, TurnFinished
from interlock_adapters.guards import PushGuard, SecretRedactor
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

EXAMPLES = Path(__file__).parents[2] / "examples" / "hooks"
DONE = Turn(Text("done"))
FULL = {"posture": "full"}
TOOLS = {"extra_args": ["--tools=Bash,Read,Grep,Glob,Edit,Write,NotebookEdit,Agent,TodoWrite,TaskCreate,Monitor"]}
CORE = "48213Kestrel"
TOKEN = "ghp_" + CORE * 3
"""Shaped like a token of GitHub, and none."""

ONE_SHOT = f"""
import sys
sys.path.insert(0, {str(EXAMPLES.parents[1] / "contract")!r})
from interlock.hook import allow, replace, serve

def hide(value):
    if isinstance(value, str):
        return value.replace({TOKEN!r}, "[redacted]")
    if isinstance(value, list):
        return [hide(one) for one in value]
    return {{hide(key): hide(one) for key, one in value.items()}} if isinstance(value, dict) else value

def after(call):
    output = hide(call["output"])
    return allow() if output == call["output"] else replace(output, reason="a token")

serve(after=after)
"""


def spellings(secret: str) -> set[bytes]:
    """A text as it is, escaped, in hexadecimal, in UTF-16, and in base64 wherever it begins."""
    plain = secret.encode()
    found = {plain, plain.hex().encode(), plain[::-1], "".join(f"\\u{ord(one):04x}" for one in secret).encode()}
    found |= {secret.encode("utf-16-le"), secret.encode("utf-16-be")}
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + plain)
        found.add(coded[2 * (before > 0) + (before > 0) * before : -4])
    return found


def leaks(requests: Iterable) -> list[str]:
    """Where the token is in what the model was sent, with what stands round it."""
    wanted = spellings(CORE)
    return [
        request.raw[max(0, at - 200) : at + 100].decode(errors="replace")
        for request in requests
        for one in wanted
        if (at := request.raw.find(one)) >= 0
    ]


def bash(command: str, call_id: str, **more: object) -> ToolCall:
    return ToolCall("Bash", {"command": command, **more}, call_id)


BOTH_ENDS = [(which, binding) for which in ("oldest", "newest") for binding in ("resident", "in process")]
RESIDENTS = pytest.mark.parametrize(("claude_which", "guards"), BOTH_ENDS, indirect=True)
EACH = pytest.mark.parametrize(("claude_which", "guards"), [*BOTH_ENDS, ("newest", "one shot")], indirect=True)
SHIPPED = pytest.mark.parametrize("guards", ["in process"], indirect=True)


@pytest.fixture
def guards(request, live):
    """A redactor and a guard against pushes, as the fields of a client."""
    if request.param == "in process":
        return {"interceptors": (PushGuard(), SecretRedactor())}
    if request.param == "resident":
        return {"hooks": str(EXAMPLES / "hooks.json")}
    (live.folder / "redact.py").write_text(ONE_SHOT)
    push = {"name": "push", "command": ["sh", str(EXAMPLES / "push_guard.sh")], "tools": ["shell"], "may": ["deny"]}
    redact = {"name": "redact", "command": [sys.executable, str(live.folder / "redact.py")], "may": ["replace"]}
    hooks = [push, {**redact, "events": ["post_tool_use"]}]
    (live.folder / "hooks.json").write_text(json.dumps({"schema": 1, "hooks": hooks}))
    return {"hooks": str(live.folder / "hooks.json")}


# ---- one conversation over every road -------------------------------------------------------------------------------

SERVER = """
import json, sys
token = open(sys.argv[1]).read().strip()
tool = {"name": "say", "description": "says", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    arguments = asked.get("params", {}).get("arguments", {})
    match asked.get("method"):
        case "initialize":
            version = asked["params"]["protocolVersion"]
            offers = {"tools": {}, "resources": {}}
            result = {"protocolVersion": version, "capabilities": offers, "serverInfo": {"name": "s", "version": "1"}}
        case "tools/list":
            result = {"tools": [tool]}
        case "resources/list":
            result = {"resources": [{"uri": "birds://one", "name": token}]}
        case "resources/read":
            result = {"contents": [{"uri": "birds://one", "mimeType": "text/plain", "text": token}]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": token}], **arguments}
            if "structuredContent" in arguments:
                result["structuredContent"] = {"text": token}
        case _:
            result = {}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def birds(live):
    """An MCP server whose every answer holds the token."""
    program = live.folder / "server.py"
    program.write_text(SERVER)
    server = {"type": "stdio", "command": sys.executable, "args": [str(program), str(live.workspace / "secret.txt")]}
    return {"mcp_servers": {"birds": server}}


def furnish(workspace: Path) -> None:
    """Files with the token in them, and in their names."""
    (workspace / "secret.txt").write_text(f"first\n{TOKEN}\nlast\n")
    (workspace / f"{TOKEN}.log").write_text("heron\n")
    (workspace / "twice.txt").write_text(f"x {TOKEN}\nx {TOKEN}\n")
    cell = {"cell_type": "code", "id": "c1", "metadata": {}, "source": TOKEN, "outputs": [], "execution_count": None}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (workspace / "n.ipynb").write_text(json.dumps(notebook))


BRIEF = {"description": "look", "prompt": "INNER", "subagent_type": "general-purpose"}
HIDDEN = {
    "read": ToolCall("Read", {"file_path": "secret.txt"}),
    "part": ToolCall("Read", {"file_path": "secret.txt", "offset": 2, "limit": 1}),
    "notebook": ToolCall("Read", {"file_path": "n.ipynb"}),
    "grep": ToolCall("Grep", {"pattern": "ghp_", "output_mode": "content", "-n": True, "-A": 1}),
    "grep names": ToolCall("Grep", {"pattern": "heron"}),
    "grep counts": ToolCall("Grep", {"pattern": "heron", "output_mode": "count"}),
    "glob": ToolCall("Glob", {"pattern": "*.log"}),
    "cat": bash("cat secret.txt", ""),
    "stderr": bash("cat secret.txt >&2", ""),
    "ls": bash("ls", ""),
    "long": bash("cat secret.txt; seq 20000", ""),
    "longer": bash("for i in $(seq 3000); do cat secret.txt; done", ""),
    "cwd": bash('mkdir "$(sed -n 2p secret.txt)" && cd "$(sed -n 2p secret.txt)" && pwd', ""),
    "mcp": ToolCall("mcp__birds__say", {}),
    "mcp structured": ToolCall("mcp__birds__say", {"structuredContent": True}),
}
"""Calls whose output holds the token."""
OTHERS = {
    "again": ToolCall("Read", {"file_path": "secret.txt"}),
    "end of long": bash("seq 20000; cat secret.txt", ""),
    "edit": ToolCall("Edit", {"file_path": "secret.txt", "old_string": "first", "new_string": "1st"}),
    "edit nothing": ToolCall("Edit", {"file_path": "secret.txt", "old_string": "no such", "new_string": "x"}),
    "edit unread": ToolCall("Edit", {"file_path": "twice.txt", "old_string": "x", "new_string": "y"}),
    "read twice": ToolCall("Read", {"file_path": "twice.txt"}),
    "edit two": ToolCall("Edit", {"file_path": "twice.txt", "old_string": "x ghp", "new_string": "y"}),
    "change": bash("cat secret.txt >> twice.txt; cat twice.txt > n2; cat n2 >> secret.txt", ""),
    "edit changed": ToolCall("Edit", {"file_path": "secret.txt", "old_string": "1st", "new_string": "2nd"}),
    "write changed": ToolCall("Write", {"file_path": "twice.txt", "content": "x"}),
    "where": bash("pwd", ""),
    "outside": bash('mkdir "../$(sed -n 2p secret.txt)" && cd "../$(sed -n 2p secret.txt)"', ""),
    "later": bash("true", ""),
    "background": bash("cat secret.txt", "", run_in_background=True),
    "detached": bash("(sleep 0.1; cat secret.txt) & true", ""),
    "monitor": ToolCall("Monitor", {"command": "cat secret.txt", "description": "d", "timeout_ms": 1000}),
    "no such file": ToolCall("Read", {"file_path": "secret.tx"}),
    "todo": ToolCall("TodoWrite", {"todos": []}),
}
"""Calls that might show it beside their output, or later."""


def named(calls: dict[str, ToolCall], workspace: Path) -> list[Turn]:
    """A turn for each call, under its name, with absolute paths."""
    turns = []
    for name, call in calls.items():
        fields = dict(call.input)
        if path := fields.get("file_path"):
            fields["file_path"] = str(workspace / str(path))
        turns.append(Turn(ToolCall(call.name, fields, name)))
    return turns


async def converse(live, script: Sequence[object], prompts: Sequence[str], client: dict, **fields: object):
    """A conversation of these turns; all events, all requests and what was shown of each call."""
    rest, events = list(prompts[1:]), []
    with ScriptedModel(script) as model, anyio.fail_after(60):
        request = live.request(model, prompts[0], permission=FULL, **fields)
        async with Client(state=live.state, **client).stream(request, conversation=True) as run:
            async for event in run:
                events.append(event)
                match event:
                    case TurnFinished():
                        await (run.send(rest.pop(0)) if rest else run.finish())
                    case _:
                        pass
        return events, model.requests, {one.tool_use_id: one for one in model.shown}


@RESIDENTS
@pytest.mark.sampled
async def test_no_road_shows_the_model_a_token(live, guards, birds, inner):
    furnish(live.workspace)
    calls = named(HIDDEN | OTHERS, live.workspace)

    def outer_or_inner(request):
        if inner(request):
            held = {one.tool_use_id for one in request.shown}
            return Turn(Text(f"I made up {TOKEN}")) if "inner" in held else Turn(bash("cat secret.txt", "inner"))
        return (
            DONE if "agent" in {one.tool_use_id for one in request.shown} else Turn(ToolCall("Agent", BRIEF, "agent"))
        )

    script = [*calls, *[outer_or_inner] * 4, Turn(Text("compacted")), Turn(bash("cat secret.txt", "last")), DONE]
    prompts = ("go", "/compact", "and what was in @secret.txt ?")
    events, requests, shown = await converse(live, script, prompts, guards, **TOOLS, **birds)
    outcome = events[-1].outcome
    assert outcome.status is Status.COMPLETED, outcome.describe()
    assert leaks(requests) == []
    hidden = {name: shown[name].content for name in (*HIDDEN, "inner", "agent", "last")}
    assert [name for name, content in hidden.items() if "[redacted" not in content] == [], hidden
    finished = [event.model_dump_json() for event in events if isinstance(event, ToolFinished)]
    assert [text for text in finished if CORE in text and "structuredContent" not in text] == []


# ---- what is told before any call, and what an interrupt leaves ---------------------------------------------------


@SHIPPED
async def test_a_token_in_the_history_of_the_repository_is_not_told_with_the_first_request(live, guards):
    def git(*words: str) -> None:
        person = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", "-C", str(live.workspace), *person, *words], check=True)

    git("init", "-q", "-b", TOKEN)
    git("commit", "-q", "--allow-empty", "-m", TOKEN)
    for name in (f"{TOKEN}.txt", "CLAUDE.md", "AGENTS.md", ".mcp.json"):
        (live.workspace / name).write_text(json.dumps({"mcpServers": {}, "note": TOKEN}))
    events, requests, shown = await converse(live, [Turn(bash("git log", "log")), DONE, DONE], ("go", "on"), guards)
    assert "[redacted" in shown["log"].content
    assert leaks(requests) == []
    assert events[-1].outcome.ok


@SHIPPED
async def test_what_a_command_had_said_when_it_was_interrupted_is_not_told_in_the_next_turn(live, guards):
    furnish(live.workspace)
    os.mkfifo(live.workspace / "said")
    said = os.open(live.workspace / "said", os.O_RDWR | os.O_NONBLOCK)
    script = [Turn(bash("cat secret.txt; echo >said; sleep 30", "t1")), Turn(Text("second"))]
    try:
        with ScriptedModel(script) as model, anyio.fail_after(60):
            request = live.request(model, permission=FULL)
            async with Client(state=live.state, **guards).stream(request, conversation=True) as run:
                async for event in run:
                    match event:
                        case ToolDecided(event="pre_tool_use"):
                            await anyio.wait_readable(said)
                            await run.interrupt()
                            await run.send("second words")
                        case TurnFinished(turn=2):
                            await run.finish()
                        case _:
                            pass
            assert any(b"second words" in one.raw for one in model.requests)
            assert leaks(model.requests) == []
    finally:
        os.close(said)


# ---- outputs that no hook can replace: the run stops first ----------------------------------------------------------

FAILING = {
    "exit 3": [bash("cat secret.txt; exit 3", "t1")],
    "beside another": [bash("echo fine", "t0"), bash("cat secret.txt; exit 3", "t1"), bash("cat secret.txt", "t2")],
    "out of time": [bash("cat secret.txt; sleep 30", "t1", timeout=300)],
    "mcp error": [ToolCall("mcp__birds__say", {"isError": True}, "t1")],
    "resource": [ToolCall("ReadMcpResourceTool", {"server": "birds", "uri": "birds://one"}, "t1")],
    "resources": [ToolCall("ListMcpResourcesTool", {"server": "birds"}, "t1")],
}
UNREPLACEABLE = [("newest", case) for case in FAILING if case != "exit 3"] + [("oldest", "beside another")]


async def stopped(live, guards, birds, calls: Sequence[ToolCall]) -> None:
    """The run of these calls ends before the model is told what they said."""
    furnish(live.workspace)
    played = await live.play([Turn(*calls), DONE], client=guards, permission=FULL, **birds)
    assert leaks(played.requests) == []
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.UNREPLACEABLE)
    kept = [path for path in live.state.rglob("*") if path.is_file() and CORE.encode() in path.read_bytes()]
    assert kept == []


@EACH
async def test_a_failed_command_that_says_a_token_stops_the_run(live, guards, birds):
    await stopped(live, guards, birds, FAILING["exit 3"])


@SHIPPED
@pytest.mark.parametrize(("claude_which", "case"), UNREPLACEABLE, indirect=["claude_which"])
@pytest.mark.sampled
async def test_what_cannot_be_replaced_stops_the_run(live, guards, birds, case):
    await stopped(live, guards, birds, FAILING[case])


@SHIPPED
async def test_a_failed_command_of_a_sub_agent_stops_the_whole_run(live, guards, inner):
    furnish(live.workspace)

    def reply(request):
        return Turn(bash("cat secret.txt; exit 3", "inner") if inner(request) else ToolCall("Agent", BRIEF, "outer"))

    played = await live.play([reply] * 3, client=guards, permission=FULL)
    assert leaks(played.requests) == []
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.UNREPLACEABLE)
