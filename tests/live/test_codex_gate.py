"""The gate of the real Codex: its own question about every call is answered only for what was decided."""

import json
import runpy
from pathlib import Path

import pytest

from interlock import Allow, Approve, Deny, DenyCall, Modify
from interlock.events import ApprovalRequested, ToolFinished
from interlock_adapters.codex.app_server import hook_calls
from interlock_adapters.codex.app_server.answers import HookAnswer, answer_hook
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
DIRECT, CODE = "gpt-5.5", "gpt-6.2-sol"
BOTH_STYLES = pytest.mark.parametrize("model", [DIRECT, CODE])
GATE = {"posture": "full", "backstop": "gate"}
PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"
echo = runpy.run_path(str(Path(__file__).parent / "mcp_servers.py"))["echo"]


def call(model: str, name: str, given: object, call_id: str) -> ToolCall:
    if model == DIRECT:
        return ToolCall(name, {"input": given} if isinstance(given, str) else given, call_id)
    return ToolCall("exec", {"input": f"text(await tools.{name.replace('/', '__')}({json.dumps(given)}))"}, call_id)


def shell(model: str, command: str, call_id: str, **more: object) -> ToolCall:
    return call(model, "exec_command", {"cmd": command, **more}, call_id)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def guard(asked):
    text = json.dumps(asked.input)
    if "no" in text:
        return DenyCall(reason="not that")
    if "plain" in text:
        return Modify(input=json.loads(text.replace("plain", "changed")))
    return Allow()


@BOTH_STYLES
async def test_what_the_chain_decides_is_what_the_gate_lets_through(codex, policy, model):
    servers = echo()
    script = [
        Turn(shell(model, "touch yes", "c1")),
        Turn(shell(model, "touch no", "c2")),
        Turn(shell(model, "touch plain", "c3")),
        Turn(call(model, "apply_patch", PATCH.format("yes.txt"), "p1")),
        Turn(call(model, "apply_patch", PATCH.format("no.txt"), "p2")),
        Turn(call(model, "apply_patch", PATCH.format("plain.txt"), "p3")),
        Turn(call(model, "mcp__e/echo", {"x": "yes"}, "m1")),
        Turn(call(model, "mcp__e/echo", {"x": "no"}, "m2")),
        Turn(call(model, "mcp__e/echo", {"x": "plain"}, "m3")),
        DONE,
    ]
    played = await codex.play(script, policy(guard), model=model, permission=GATE, mcp_servers=servers)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert names(codex.workspace) == ["changed", "changed.txt", "yes", "yes.txt"]
    assert [event.status for event in played.of(ToolFinished)] == ["ok", "denied", "ok"] * 3
    assert "changed" in played.result("m3").content
    assert (played.plan.backstop, played.plan.confined) == ("gate", False)
    assert played.of(ApprovalRequested) == []


@pytest.mark.parametrize("garbage", [b"garbage", b"null", b'{"decision": "deny"}', b'{"hookSpecificOutput": 5}'])
@BOTH_STYLES
async def test_a_hook_that_fails_open_lets_nothing_run(codex, policy, model, garbage, monkeypatch):
    def broken(asked, verdict, wrapping):
        right = answer_hook(asked, verdict, wrapping)
        return HookAnswer(garbage, right.passed, right.reason, right.shown, right.decided, right.told)

    monkeypatch.setattr(hook_calls, "answer_hook", broken)
    script = [Turn(shell(model, "touch made", "c1")), DONE]
    played = await codex.play(script, policy(), model=model, permission=GATE)
    assert names(codex.workspace) == []
    assert played.unguarded()
    assert not played.outcome.ok


@BOTH_STYLES
async def test_a_command_that_the_sandbox_stops_is_not_run_again_without_it(codex, policy, model):
    outside = codex.folder / "outside"
    outside.mkdir()
    permission = {"posture": "edit", "allow": ["shell"], "backstop": "gate"}
    script = [Turn(shell(model, f"echo x >> twice; touch {outside}/made", "c1")), DONE]
    played = await codex.play(script, policy(), model=model, permission=permission)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert names(outside) == []
    assert (codex.workspace / "twice").read_text() == "x\n"


async def test_asking_works_under_the_gate_too(codex):
    permission = {"posture": "read", "otherwise": "ask", "backstop": "gate"}

    def respond(approval):
        return Deny(reason="not that") if "no" in json.dumps(approval.call.input) else Approve()

    script = [Turn(shell(DIRECT, "touch yes", "c1"), shell(DIRECT, "touch no", "c2")), DONE]
    played = await codex.play(script, permission=permission, respond=respond)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert names(codex.workspace) == ["yes"]
    assert len(played.of(ApprovalRequested)) == 2
