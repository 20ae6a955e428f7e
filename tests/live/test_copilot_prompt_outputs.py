"""What the model of the real Copilot, with its prompt on stdin, is shown of outputs that the chain replaces."""

import sys
from functools import partial

import pytest

from interlock import Allow, DenyCall, Replace
from interlock.events import ToolFinished, ToolOutput
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
SECRET = "tiger-lily"

BIRDS = """
import json, sys
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("sing", "fail")]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    params, result = asked.get("params", {}), {}
    if asked["method"] == "initialize":
        serves = {"name": "birds", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": serves}
    elif asked["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "tiger-lily"}], "structuredContent": {"v": "tiger-lily"}}
        result["isError"] = params["name"] == "fail"
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def bash(command: str, call_id: str = "c1", **more: object) -> ToolCall:
    return ToolCall("bash", {"command": command, "description": "x", **more}, call_id)


def redact(call):
    """Everything but the two halves of which commands make the secret."""
    return Replace(output=call.output.replace(SECRET, "***")) if SECRET in str(call.output) else Allow()


@pytest.fixture
def play(copilot):
    """Runs the CLI over this transport, under the posture `full`."""
    return partial(copilot.play, transport="prompt", permission=FULL)


@pytest.fixture
def birds(copilot):
    """A server of tools that say the secret."""
    program = copilot.folder / "birds.py"
    program.write_text(BIRDS)
    return {"birds": {"type": "stdio", "command": sys.executable, "args": [str(program)]}}


def said(how: str = "") -> str:
    """A command that says the secret, which does not stand in it."""
    return f"{how}printf 'tiger-%s\\n' lily"


@pytest.mark.sampled
async def test_a_replaced_output_is_all_that_the_model_is_shown(copilot, play, policy, birds):
    at = copilot.workspace
    (at / "found").write_text(f"{SECRET}\n")
    (at / SECRET).touch()
    script = [
        Turn(
            bash(said(), "c1"),
            ToolCall("view", {"path": f"{at}/found"}, "c2"),
            ToolCall("grep", {"pattern": "tiger", "path": str(at), "output_mode": "content"}, "c3"),
            ToolCall("glob", {"pattern": "tiger*"}, "c4"),
            ToolCall("birds-sing", {}, "c5"),
            ToolCall("sql", {"query": "select 'tiger' || '-lily'", "description": "x"}, "c6"),
        ),
        DONE,
    ]
    played = await play(script, policy(None, redact), mcp_servers=birds)
    assert (played.outcome.ok, played.unguarded()) == (True, [])
    assert not played.knows(SECRET.encode())
    assert all("***" in played.result(f"c{number}").content for number in range(1, 7))
    shown = {event.tool_call_id: event.output for event in played.of(ToolFinished)}
    assert all("***" in output and SECRET not in output for output in shown.values())
    assert played.of(ToolOutput) == []


async def test_what_changed_files_say_of_it_is_replaced(copilot, play, policy):
    at = copilot.workspace
    instead = policy(None, lambda call: Replace(output=f"{call.tool_name} was done"))
    create = ToolCall("create", {"path": f"{at}/made", "file_text": "one"}, "c1")
    edit = ToolCall("edit", {"path": f"{at}/made", "old_str": "one", "new_str": "two"}, "c2")
    played = await play([Turn(create), Turn(edit), DONE], instead)
    assert [played.result(name).content for name in ("c1", "c2")] == ["create was done", "edit was done"]
    patch = ToolCall("apply_patch", id="p1", raw="*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n")
    patched = await play([Turn(patch), DONE], instead, model="gpt-5.4")
    assert patched.result("p1").content == "apply_patch was done"
    assert (played.unguarded(), patched.unguarded()) == ([], [])


async def test_a_denied_output_is_an_error_with_the_reason(play, policy):
    guard = policy(None, lambda _: DenyCall(reason="not for you"))
    played = await play([Turn(bash(said())), DONE], guard)
    assert "not for you" in played.result("c1").content
    assert not played.knows(SECRET.encode())
    assert [event.status for event in played.of(ToolFinished)] == ["error"]
    assert (played.outcome.ok, played.unguarded()) == (True, [])


@pytest.mark.parametrize("how", ["background", "long", "large", "read"])
@pytest.mark.sampled
async def test_no_road_leads_round_the_hook_after_a_call(play, policy, how):
    match how:
        case "background":
            calls = [Turn(bash(said("sleep 1; "), mode="async"))]
        case "long":
            calls = [Turn(bash(said("sleep 2; "), initial_wait=1))]
        case "large":
            calls = [Turn(bash(said("head -c 200000 /dev/zero | tr '\\0' x; ")))]
        case _:
            calls = [
                Turn(bash(said("sleep 1; "), mode="async", shellId="s")),
                Turn(ToolCall("read_bash", {"shellId": "s"})),
            ]
    played = await play([*calls, Turn(Text("waiting")), DONE], policy(None, redact))
    assert not played.knows(SECRET.encode())
    assert "***" in played.result("c1").content
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


async def test_what_a_failed_call_says_is_judged_before_the_model_is_asked(play, policy, birds):
    script = [Turn(ToolCall("birds-fail", {}, "c1")), DONE]
    guard = policy(None, redact)
    stopped = await play(script, guard, mcp_servers=birds)
    assert (stopped.outcome.status, stopped.outcome.reason) == ("failed", "unreplaceable")
    assert (len(stopped.requests), stopped.knows(SECRET.encode())) == (1, False)
    assert [call.is_error for call in guard.calls if call.event == "post_tool_use"] == [True]
    kept = await play(script, policy(None, lambda _: Allow()), mcp_servers=birds)
    assert (kept.outcome.ok, SECRET in kept.result("c1").content) == (True, True)


async def test_the_report_of_a_sub_agent_and_the_outputs_that_it_sees_are_replaced(play, policy, inner):
    steps = {
        True: [Turn(bash(said(), "s1")), Turn(Text(SECRET))],
        False: [Turn(ToolCall("task", {"description": "x", "prompt": "INNER", "agent_type": "general-purpose",
                                       "name": "inner", "mode": "background"}, "t1")), DONE],
    }  # fmt: skip
    played = await play([lambda request: steps[inner(request)].pop(0)] * 4, policy(None, redact))
    assert "***" in played.result("t1").content
    told = [request.raw for request in played.requests if not inner(request)]
    assert not any(SECRET.encode() in raw for raw in told)
    assert (played.outcome.text, played.unguarded()) == ("done", [])
