"""Troubles that were met in the field, on the real Claude Code, where no other file has them; see docs/cases.md."""

import json
import os
from functools import partial

import anyio
import pytest

from interlock import Approve, Client, Deny, Permission
from interlock.events import ApprovalRequested, TurnFinished
from interlock.outcome import Status
from interlock_fixtures.clis import cli_version
from interlock_fixtures.scripted_model import ScriptedModel, Stall, Text, ToolCall, Turn

pytestmark = [pytest.mark.anyio, pytest.mark.live]
DONE = Turn(Text("done"))
ASK = Permission(posture="none", otherwise="ask")


def touch(name, call_id="t1"):
    return ToolCall("Bash", {"command": f"touch {name}"}, call_id)


async def test_approvals_are_still_heard_after_a_first_result(live):
    """P9: the channel stays open until the run is over, whatever was said to be a result before."""
    script = [Turn(Text("one"), Stall()), Turn(touch("first")), Turn(touch("second", "t2")), DONE]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        asked = []
        async with Client(state=live.state) as client, client.stream(live.request(model, permission=ASK)) as run:
            async for event in run:
                match event:
                    case ApprovalRequested():
                        asked.append((event.turn, event.approval.call.tool_call_id))
                        run.respond(event.approval.id, Approve())
                    case TurnFinished():
                        assert (live.workspace / "first").exists() is False
                    case _ if event.type == "run_started":
                        await anyio.to_thread.run_sync(partial(model.wait_until, lambda state: state.stalled == 1, 60))
                        await run.send("and now the files")
                        model.release()
            outcome = await run.outcome()
    assert asked == [(2, "t1"), (2, "t2")]
    assert outcome.status is Status.COMPLETED
    assert sorted(path.name for path in live.workspace.iterdir()) == ["first", "second"]


async def test_a_plain_denial_leaves_the_next_call_to_be_asked_about(live):
    """C9: no to one call is not no to the rest."""

    def respond(approval):
        return Deny(reason="not that") if approval.call.tool_call_id == "t1" else Approve()

    played = await live.play([Turn(touch("a"), touch("b", "t2")), DONE], permission=ASK, respond=respond)
    assert played.decisions() == {"t1": "deny by user", "t2": "allow by user"}
    assert [path.name for path in live.workspace.iterdir()] == ["b"]
    assert played.outcome.status is Status.COMPLETED


async def test_nothing_long_stands_on_the_command_line(live):
    """L1: a single argument ends at 128 KiB."""
    properties = {f"p{number}": {"type": "string", "description": "x" * 90} for number in range(2000)}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, **properties}}
    script = [Turn(ToolCall("StructuredOutput", {"n": 7}, "t1")), DONE]
    played = await live.play(script, instructions="say heron " * 20_000, output_schema=schema)
    assert (played.outcome.status, played.outcome.structured) == (Status.COMPLETED, {"n": 7})
    assert any("say heron say heron" in json.dumps(request.body) for request in played.requests)
    assert max(len(argument.text) for argument in played.plan.argv) < 4096


async def test_a_run_says_which_program_of_which_version_it_was(live):
    """E5."""
    played = await live.play([DONE])
    assert played.outcome.version == cli_version("claude", live.which)
    (started,) = [event for event in played.events if event.type == "run_started"]
    assert started.binary == str(live.cli)
    assert started.binary.startswith("/")


async def test_an_open_stdin_of_the_host_keeps_no_agent_waiting(live):
    """P1: every agent has a stdin of its own."""
    read, write = os.pipe()
    kept = os.dup(0)
    try:
        os.dup2(read, 0)
        played = await live.play([DONE])
    finally:
        os.dup2(kept, 0)
        for descriptor in (read, write, kept):
            os.close(descriptor)
    assert played.outcome.status is Status.COMPLETED


async def test_the_permission_of_an_agent_that_acts_in_turns_is_the_same_in_each(live):
    """M6: mode and permission are said once and hold for every turn of the process."""
    script = [Turn(touch("a")), Turn(Text("one")), Turn(touch("b", "t2")), Turn(Text("two"))]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        request = live.request(model, permission=Permission(posture="read"))
        async with Client(state=live.state) as client, client.stream(request, conversation=True) as run:
            async for event in run:
                if isinstance(event, TurnFinished):
                    await (run.send("again") if event.turn == 1 else run.finish())
            outcome = await run.outcome()
    assert [denial.tool_call_id for denial in outcome.denials] == ["t1", "t2"]
    assert list(live.workspace.iterdir()) == []
