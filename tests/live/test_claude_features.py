"""What else may be asked of the real CLI: MCP servers, images, schemas, messages mid-turn, further turns."""

import json
import sys

import anyio
import pytest

from interlock import Allow, Answer, Client, DenyCall, Modify, Reason, Replace, Status
from interlock.events import RunFinished, TurnFinished
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
HIDDEN = b"48213"
BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

SERVER = """
import json, sys
schema = {"type": "object", "properties": {"text": {"type": "string"}}}
tool = {"name": "say", "description": "says", "inputSchema": schema}
info = {"name": "s", "version": "1"}
for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            version = asked["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            result = {"tools": [tool]}
        case "tools/call":
            text = asked["params"]["arguments"]["text"]
            open(sys.argv[1], "a").write(text + "\\n")
            result = {"content": [{"type": "text", "text": f"said {text} hunter-48213"}], "isError": text == "fail"}
        case _:
            result = {}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def birds(live):
    """An MCP server of one tool, which writes down what it was called with."""
    program = live.folder / "server.py"
    program.write_text(SERVER)
    calls = live.folder / "calls"
    calls.write_text("")
    server = {"type": "stdio", "command": sys.executable, "args": [str(program), str(calls)]}
    return {"mcp_servers": {"birds": server}}, calls


def say(text: str, call_id: str = "t1") -> ToolCall:
    return ToolCall("mcp__birds__say", {"text": text}, call_id)


async def test_a_call_of_an_mcp_tool_is_denied_rewritten_and_its_output_replaced(live, policy, birds):
    fields, calls = birds

    def before(call):
        assert call.subject.mcp == "birds/say"
        match call.input["text"]:
            case "crow":
                return DenyCall(reason="no crows")
            case "wren":
                return Modify(input={"text": "robin"})
            case _:
                return Allow()

    guard = policy(before, lambda call: Replace(output="REDACTED") if "48213" in str(call.output) else Allow())
    script = [Turn(say("crow", "t1")), Turn(say("wren", "t2")), Turn(say("heron", "t3")), DONE]
    played = await live.play(script, guard, permission=FULL, **fields)
    assert calls.read_text().split() == ["robin", "heron"]
    assert "no crows" in played.result("t1").content
    assert [played.result(name).content for name in ("t2", "t3")] == ["REDACTED", "REDACTED"]
    assert not played.knows(HIDDEN)
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_failed_mcp_call_whose_output_must_be_withheld_stops_the_run(live, policy, birds):
    fields, _ = birds
    guard = policy(after=lambda call: Replace(output="REDACTED"))
    played = await live.play([Turn(say("fail")), DONE], guard, permission=FULL, **fields)
    assert played.outcome.reason is Reason.UNREPLACEABLE
    assert not played.knows(HIDDEN)


async def test_an_mcp_tool_runs_unasked_only_by_rule_or_under_full(live, birds):
    fields, calls = birds
    script = [Turn(say("heron")), DONE]
    refused = await live.play(script, permission={"posture": "edit"}, **fields)
    assert refused.decisions() == {"t1": "deny by policy"}
    allowed = await live.play(script, permission={"posture": "none", "allow": ["mcp(birds/say)"]}, **fields)
    assert allowed.decisions() == {"t1": "allow by rule"}
    assert calls.read_text().split() == ["heron"]


async def test_the_output_of_a_web_search_is_replaced(live, policy):
    guard = policy(after=lambda call: Replace(output="REDACTED"))
    script = [Turn(ToolCall("WebSearch", {"query": "lilies"}, "t1")), Turn(Text("hunter-48213")), DONE]
    played = await live.play(script, guard, permission=FULL)
    assert "REDACTED" in played.result("t1").content
    assert not played.knows(HIDDEN)
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_the_answer_to_a_question_is_replaced(live, policy):
    asked = {
        "question": "Which key?",
        "header": "Key",
        "multiSelect": False,
        "options": [{"label": "one", "description": "1"}, {"label": "two", "description": "2"}],
    }
    guard = policy(after=lambda call: Replace(output="REDACTED"))
    script = [Turn(ToolCall("AskUserQuestion", {"questions": [asked]}, "t1")), DONE]
    played = await live.play(
        script,
        guard,
        answer=lambda question: Answer(answers={question.items[0].id: ("hunter-48213",)}),
        permission=FULL,
    )
    assert "REDACTED" in played.result("t1").content
    assert not played.knows(HIDDEN)
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_an_image_goes_with_the_prompt(live):
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    played = await live.play([DONE], prompt="see @here", images=[{"media_type": "image/png", "data": pixel}])
    (sent,) = [request for request in played.requests if request.kind == "turn"]
    assert b'"image/png"' in sent.raw
    assert b'"see @here"' in sent.raw
    assert played.outcome.ok


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.mark.parametrize("posture", ["none", "full"])
async def test_the_answer_fits_the_schema_whatever_the_posture(live, policy, posture):
    script = [Turn(ToolCall("StructuredOutput", {"n": 7}, "t1")), DONE]
    played = await live.play(script, policy(), permission={"posture": posture}, output_schema=SCHEMA)
    assert (played.outcome.status, played.outcome.structured) == (Status.COMPLETED, {"n": 7})
    assert played.unguarded() == []


async def test_without_the_structured_answer_the_run_has_failed(live):
    played = await live.play([DONE] * 4, output_schema=SCHEMA)
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.INVALID_OUTPUT)


@BOTH_LOOPS
async def test_a_message_into_the_running_turn_is_read_after_the_next_call(live, policy):
    go_on = anyio.Event()

    class Waits:
        name = "waits"
        deadline = 20.0

        async def before(self, call):
            await go_on.wait()
            return Allow()

    script = [Turn(ToolCall("Bash", {"command": "sleep 0.3; echo x"}, "t1")), DONE]
    with ScriptedModel(script) as model, anyio.fail_after(40):
        client = Client(interceptors=[Waits()], state=live.state)
        async with client.stream(live.request(model, permission=FULL)) as run:
            async for event in run:
                if event.type == "tool_requested":
                    await run.send("mind the @secret.txt heron")
                    go_on.set()
            outcome = await run.outcome()
        sent = [request for request in model.requests if request.kind == "turn"]
    assert outcome.ok
    assert b"heron" not in sent[0].raw
    assert b"mind the @secret.txt heron" in sent[1].raw


@BOTH_LOOPS
async def test_a_conversation_has_several_turns_in_one_process_and_each_is_guarded(live, policy):
    (live.workspace / "secret.txt").write_text("hunter-48213")
    guard = policy(lambda call: DenyCall(reason="no touching") if "touch" in str(call.input) else Allow())
    script = [
        Turn(Text("first")),
        Turn(ToolCall("Bash", {"command": "touch made"}, "t1")),
        Turn(Text("second")),
    ]
    ended = []
    with ScriptedModel(script) as model, anyio.fail_after(40):
        client = Client(interceptors=[guard], state=live.state)
        async with client.stream(live.request(model, permission=FULL), conversation=True) as run:
            async for event in run:
                match event:
                    case TurnFinished(text="first"):
                        ended.append(event.text)
                        await run.send("now @secret.txt")
                    case TurnFinished():
                        ended.append(event.text)
                        await run.finish()
                    case RunFinished():
                        outcome = event.outcome
                    case _:
                        pass
        shown = {one.tool_use_id: one for one in model.shown}
        requests = model.requests
    assert (ended, outcome.status, outcome.text) == (["first", "second"], Status.COMPLETED, "second")
    assert "no touching" in shown["t1"].content
    assert list(live.workspace.iterdir()) == [live.workspace / "secret.txt"]
    assert any(b"now @secret.txt" in request.raw for request in requests)
    assert not any(HIDDEN in request.raw for request in requests)
    assert json.dumps([one.input for one in guard.calls]) == '[{"command": "touch made"}]'
