"""What hooks of the real Codex do not see is closed: input, late output, heredoc patches, hosted tools, sub-agents."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from interlock import Allow, DenyCall, Modify, Reason, Replace, Status
from interlock.events import SubagentStarted, ToolFinished, ToolRequested
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
DIRECT, CODE = "gpt-5.5", "gpt-6.2-sol"
BOTH_STYLES = pytest.mark.parametrize("model", [DIRECT, CODE])
HEREDOC = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: tiger-lily.txt\n+x\n*** End Patch\nEOF"
echo = runpy.run_path(str(Path(__file__).parent / "mcp_servers.py"))["echo"]

RESOURCES = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    said = {"jsonrpc": "2.0", "id": asked["id"], "result": {}}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        about = {"name": "e", "version": "1"}
        said["result"] = {"protocolVersion": version, "capabilities": {"resources": {}}, "serverInfo": about}
    elif asked["method"] == "tools/list":
        said["result"] = {"tools": []}
    elif asked["method"] == "resources/list":
        said["result"] = {"resources": [{"uri": "x://good", "name": "good"}]}
    elif asked["method"] == "resources/templates/list":
        said["result"] = {"resourceTemplates": []}
    elif asked["method"] == "resources/read" and asked["params"]["uri"] == "x://bad":
        del said["result"]
        said["error"] = {"code": -32000, "message": "tiger-" + "bad"}
    elif asked["method"] == "resources/read":
        said["result"] = {"contents": [{"uri": asked["params"]["uri"], "text": "tiger-" + "good"}]}
    print(json.dumps(said), flush=True)
"""


def call(model: str, name: str, given: dict, call_id: str) -> ToolCall:
    if model == DIRECT:
        return ToolCall(name, given, call_id)
    return ToolCall("exec", {"input": f"text(await tools.{name.replace('/', '__')}({json.dumps(given)}))"}, call_id)


def shell(model: str, command: str, call_id: str = "c1", **more: object) -> ToolCall:
    return call(model, "exec_command", {"cmd": command, **more}, call_id)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def typing(model: str, text: str, wait: int = 5000):
    """Types into the command that the model was last told to be running."""

    def reply(request):
        found = re.search(r"session(?:_id| ID)\D*(\d+)", request.shown[-1].content)
        if found is None:
            return Turn(Text("nothing runs"))
        return Turn(
            call(model, "write_stdin", {"session_id": int(found[1]), "chars": text, "yield_time_ms": wait}, "w")
        )

    return reply


@BOTH_STYLES
@pytest.mark.parametrize("tty", [False, True])
async def test_a_shell_that_waits_for_input_gets_none(codex, policy, model, tty):
    script = [Turn(shell(model, "bash", yield_time_ms=1000, tty=tty)), typing(model, "touch typed\n"), DONE]
    played = await codex.play(script, policy(), model=model, permission=FULL)
    assert names(codex.workspace) == []
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


@BOTH_STYLES
async def test_no_output_of_a_long_command_reaches_the_model_unjudged(codex, policy, model):
    guard = policy(after=lambda asked: Replace(output="hidden") if "tiger" in str(asked.output) else Allow())
    command = "echo tiger-$((1+1)); sleep 2; echo late"
    script = [Turn(shell(model, command, yield_time_ms=300)), typing(model, ""), DONE]
    played = await codex.play(script, guard, model=model, permission=FULL)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert "hidden" in played.result("w").content
    assert not played.knows(b"tiger-2")


@BOTH_STYLES
async def test_a_patch_written_as_a_heredoc_is_a_command_like_any_other(codex, policy, model):
    guard = policy(after=lambda _: Replace(output="hidden"))
    played = await codex.play([Turn(shell(model, HEREDOC)), DONE], guard, model=model, permission=FULL)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert "hidden" in played.result("c1").content
    assert [asked.tool_name for asked in guard.calls] == ["Bash", "Bash"]


async def test_a_search_that_the_service_runs_is_noticed(codex, policy):
    played = await codex.play([Turn(ToolCall("web_search", {"query": "weather"}, "w1"), Text("sunny"))], policy())
    offered = json.dumps(played.requests[0].body["tools"])
    assert "web_search" not in offered
    assert [kind for kind, *_ in played.unguarded()] == ["no_decision"]


@BOTH_STYLES
async def test_a_call_of_an_mcp_tool_is_denied_and_rewritten(codex, policy, model):
    servers = echo()

    def before(asked):
        assert (asked.tool_kind, asked.subject.mcp) == ("mcp", "e/echo")
        match asked.input["x"]:
            case "no":
                return DenyCall(reason="not this")
            case "plain":
                return Modify(input={"x": "changed"})
            case _:
                return Allow()

    script = [Turn(call(model, "mcp__e/echo", {"x": x}, x)) for x in ("no", "plain", "bad")]
    played = await codex.play([*script, DONE], policy(before), model=model, permission=FULL, mcp_servers=servers)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert "not this" in played.result("no").content
    assert "changed" in played.result("plain").content
    assert [event.status for event in played.of(ToolFinished)] == ["denied", "ok", "error"]
    assert "changed" in str(played.of(ToolFinished)[1].output)
    narrow = await codex.play([script[2], DONE], model=model, permission={"posture": "edit"}, mcp_servers=servers)
    assert narrow.of(ToolFinished)[0].status == "denied"


@BOTH_STYLES
@pytest.mark.parametrize("shown", [True, False])
async def test_what_a_failed_call_of_an_mcp_tool_says_is_judged_before_the_model_is_asked(codex, policy, model, shown):
    servers = echo()

    def after(asked):
        if not asked.is_error:
            return Replace(output="hidden")
        return Allow() if shown else Replace(output="hidden")

    guard = policy(after=after)
    script = [Turn(call(model, "mcp__e/echo", {"x": x}, x)) for x in ("good", "bad")]
    played = await codex.play([*script, DONE], guard, model=model, permission=FULL, mcp_servers=servers)
    assert [asked.output for asked in guard.calls if asked.event == "post_tool_use"] == [
        'echoed {"x": "good"}',
        'echoed {"x": "bad"}',
    ]
    assert "hidden" in played.result("good").content
    assert len(played.requests) == (3 if shown else 2)
    assert played.unguarded() == []
    if shown:
        assert played.outcome.ok
        assert "bad" in played.result("bad").content
    else:
        assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.UNREPLACEABLE), played.outcome
        assert played.of(ToolFinished)[-1].output == "hidden"


@BOTH_STYLES
@pytest.mark.parametrize("shown", [True, False])
async def test_resources_of_a_server_are_judged_and_so_is_what_a_failed_reading_says(
    codex, policy, model, shown, tmp_path
):
    program = tmp_path / "server.py"
    program.write_text(RESOURCES)
    servers = {"e": {"type": "stdio", "command": sys.executable, "args": [str(program)]}}

    def after(asked):
        return Allow() if shown and asked.is_error else Replace(output="hidden")

    def before(asked):
        assert (asked.tool_kind, asked.subject.mcp) == ("mcp", "e/resource" if asked.input else None)
        return DenyCall(reason="not this") if "x://no" in str(asked.input) else Allow()

    guard = policy(before, after)
    uris = ("x://no", "x://good", "x://bad")
    script = [Turn(call(model, "list_mcp_resources", {}, "list"))]
    script += [Turn(call(model, "read_mcp_resource", {"server": "e", "uri": uri}, uri)) for uri in uris]
    played = await codex.play([*script, DONE], guard, model=model, permission=FULL, mcp_servers=servers)
    assert played.unguarded() == []
    assert [event.status for event in played.of(ToolFinished)] == ["ok", "denied", "ok", "error"]
    assert "not this" in played.result("x://no").content
    assert not played.knows(b"tiger-good")
    assert played.knows(b"tiger-bad") is shown
    if shown:
        assert played.outcome.ok
    else:
        assert played.outcome.reason is Reason.UNREPLACEABLE


@pytest.mark.parametrize("model", ["gpt-5.4", CODE])
async def test_a_call_of_a_sub_agent_is_judged_under_its_own_name(codex, policy, model):
    brief = {"message": "INNER"} if model != CODE else {"task_name": "inner", "message": "INNER", "fork_turns": "none"}
    name = "multi_agent_v1/spawn_agent" if model != CODE else "collaboration/spawn_agent"
    asked_for = []

    def is_inner(request) -> bool:
        return b"INNER" in request.raw and b"the outer prompt" not in request.raw

    def reply(request):
        if is_inner(request):
            inner = shell(DIRECT if model != CODE else CODE, "touch made", "inner")
            return Turn(Text("report")) if request.shown else Turn(inner)
        asked_for.append(request)
        if len(asked_for) == 1:
            return Turn(ToolCall(name, brief, "outer"))
        return (
            Turn(shell(DIRECT if model != CODE else CODE, "sleep 3", f"wait{len(asked_for)}"))
            if len(asked_for) == 2
            else DONE
        )

    guard = policy(lambda asked: DenyCall(reason="no touching") if "touch" in str(asked.input) else Allow())
    played = await codex.play([reply] * 6, guard, model=model, prompt="the outer prompt", permission=FULL)
    inner = [asked for asked in guard.calls if "touch" in str(asked.input)]
    assert [asked.agent_id == "main" for asked in inner] == [False], played.outcome
    assert names(codex.workspace) == []
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert [event.subagent_id for event in played.of(SubagentStarted)] == [inner[0].agent_id]
    requested = {(event.agent_id, event.tool_call_id): event for event in played.of(ToolRequested)}
    assert len(requested) == len(played.of(ToolRequested))
