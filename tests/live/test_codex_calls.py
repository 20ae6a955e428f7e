"""What the chain says about a call is what happens on the real Codex, and what the model reads of it."""

import json

import pytest

from interlock import Allow, DenyCall, Modify, Replace
from interlock.events import Text as Said
from interlock.events import TextDelta, ToolDecided, ToolFinished, ToolRequested, UsageUpdated
from interlock_fixtures.scripted_model import Text, ToolCall, Turn, Usage

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
DIRECT, CODE = "gpt-5.5", "gpt-6.2-sol"
BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
BOTH_STYLES = pytest.mark.parametrize("model", [DIRECT, CODE])


def call(model: str, name: str, given: dict, call_id: str) -> ToolCall:
    """A call as a model of either kind makes it: directly, or from JavaScript."""
    if model == DIRECT:
        return ToolCall(name, given, call_id)
    script = f"text(await tools.{name.replace('/', '__')}({json.dumps(given)}))"
    return ToolCall("exec", {"input": script}, call_id)


def shell(model: str, command: str, call_id: str = "c1", **more: object) -> ToolCall:
    return call(model, "exec_command", {"cmd": command, **more}, call_id)


def patch(model: str, text: str, call_id: str = "p1") -> ToolCall:
    if model == DIRECT:
        return ToolCall("apply_patch", {"input": text}, call_id)
    return ToolCall("exec", {"input": f"text(await tools.apply_patch({json.dumps(text)}))"}, call_id)


def adding(name: str, line: str = "x") -> str:
    return f"*** Begin Patch\n*** Add File: {name}\n+{line}\n*** End Patch\n"


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@BOTH_LOOPS
async def test_a_run_ends_with_text_usage_and_session(codex):
    usage = Usage(100, 20, cache_read_tokens=40, cache_write_tokens=7, reasoning_tokens=5)
    played = await codex.play([Turn(Text("hello", chunk=2), usage=usage)])
    outcome = played.outcome
    assert (outcome.status, outcome.text, outcome.version) == ("completed", "hello", "0.171.0"), outcome
    told = outcome.usage
    assert (told.input_tokens, told.cache_read_tokens, told.cache_write_tokens) == (53, 40, 7)
    assert (told.output_tokens, told.reasoning_tokens) == (20, 5)
    assert outcome.session_id
    assert outcome.model == DIRECT
    assert "".join(event.text for event in played.of(TextDelta)) == "hello"
    assert [event.text for event in played.of(Said)] == ["hello"]
    assert played.of(UsageUpdated)
    assert played.unguarded() == []


@BOTH_STYLES
async def test_an_allowed_command_runs_and_is_shown_as_the_model_wrote_it(codex, policy, model):
    guard = policy()
    script = [Turn(shell(model, "echo out; exit 3")), Turn(shell(model, "touch made", "c2")), DONE]
    played = await codex.play(script, guard, model=model, permission=FULL)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert names(codex.workspace) == ["made"]
    assert [asked.input for asked in guard.calls] == [{"command": "echo out; exit 3"}, {"command": "touch made"}]
    assert [event.input for event in played.of(ToolRequested)] == [asked.input for asked in guard.calls]
    assert [event.status for event in played.of(ToolFinished)] == ["error", "ok"]
    assert played.of(ToolFinished)[0].output == "out\n"
    assert "out" in played.result("c1").content


@BOTH_STYLES
async def test_a_denied_command_does_not_run_and_the_model_reads_the_reason(codex, policy, model):
    guard = policy(lambda asked: DenyCall(reason="not on a Friday"))
    played = await codex.play([Turn(shell(model, "touch made")), DONE], guard, model=model, permission=FULL)
    assert names(codex.workspace) == []
    assert "not on a Friday" in played.result("c1").content
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert [(denial.by, denial.tool_name) for denial in played.outcome.denials] == [("hook", "Bash")]
    kinds = [type(event) for event in played.events if getattr(event, "tool_call_id", None)]
    assert kinds == [ToolRequested, ToolDecided, ToolFinished]


@BOTH_STYLES
async def test_a_rewritten_command_is_the_one_that_runs(codex, policy, model):
    guard = policy(lambda asked: Modify(input={"command": "touch other; echo did"}))
    played = await codex.play([Turn(shell(model, "touch made")), DONE], guard, model=model, permission=FULL)
    assert names(codex.workspace) == ["other"]
    assert "did" in played.result("c1").content
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome


@BOTH_STYLES
@pytest.mark.sampled
async def test_a_replaced_output_is_all_that_the_model_is_shown(codex, policy, model):
    def redact(asked):
        assert asked.input == {"command": "echo tiger-$((1+1)); exit 3"}
        assert (asked.output, asked.is_error) == ("tiger-2\n", True)
        return Replace(output="nothing to see")

    guard = policy(after=redact)
    script = [Turn(shell(model, "echo tiger-$((1+1)); exit 3")), DONE]
    played = await codex.play(script, guard, model=model, permission=FULL)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert "nothing to see" in played.result("c1").content
    assert not played.knows(b"tiger-2")
    (over,) = played.of(ToolFinished)
    assert over.output == "nothing to see"


@BOTH_STYLES
async def test_patches_are_denied_and_rewritten_and_their_outputs_replaced(codex, policy, model):
    def before(asked):
        text = asked.input["command"]
        if "no.txt" in text:
            return DenyCall(reason="not this file")
        return Modify(input={"command": text.replace("plain", "changed")}) if "plain" in text else Allow()

    guard = policy(before, lambda asked: Replace(output="patched"))
    script = [Turn(patch(model, adding("no.txt"), "p1")), Turn(patch(model, adding("plain.txt"), "p2")), DONE]
    played = await codex.play(script, guard, model=model, permission={"posture": "edit"})
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert names(codex.workspace) == ["changed.txt"]
    assert "not this file" in played.result("p1").content
    assert "patched" in played.result("p2").content
    assert guard.calls[0].subject.paths == (str(codex.workspace / "no.txt"),)
    assert [event.status for event in played.of(ToolFinished)] == ["denied", "ok"]
