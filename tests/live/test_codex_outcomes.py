"""How runs of the real Codex end, what their requests carry, and what becomes of their sessions."""

import json

import anyio
import pytest

from interlock import Client, DenyCall, Reason, Status
from interlock.events import Retrying, RunFinished, RunStarted, ToolDecided, TurnFinished
from interlock_fixtures.scripted_model import HttpError, ScriptedModel, Stall, StreamError, Text, ToolCall, Turn, Usage

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
ERRORS = {
    "auth": (HttpError(401, "invalid_api_key", "bad key"), Reason.AUTH),
    "limit": (HttpError(429, "usage_limit_reached", "no more"), Reason.RATE_LIMIT),
    "throttled": (HttpError(429, "rate_limited", "slow down"), Reason.RATE_LIMIT),
    "server": (HttpError(500, "server_error", "oops"), Reason.API),
    "overloaded": (HttpError(503, "server_is_overloaded", "busy"), Reason.OVERLOADED),
    "model": (HttpError(404, "model_not_found", "no such model"), Reason.MODEL_NOT_FOUND),
    "context": (StreamError("context_length_exceeded", "too long"), Reason.CONTEXT),
}


def shell(command: str, call_id: str = "c1") -> ToolCall:
    return ToolCall("exec_command", {"cmd": command}, call_id)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.sampled
async def test_an_error_of_the_service_has_its_reason(codex, case):
    trouble, reason = ERRORS[case]
    played = await codex.play([Turn(trouble)] * 4)
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, reason), played.outcome
    assert played.outcome.message


async def test_a_retry_is_told_and_ends_nothing(codex):
    played = await codex.play([Turn(HttpError(500, "server_error", "oops")), DONE])
    assert (played.outcome.ok, played.outcome.text) == (True, "done")
    assert played.of(Retrying)


async def test_an_empty_answer_is_no_output(codex):
    played = await codex.play([Turn(Text(" "))])
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.NO_OUTPUT)


async def test_a_service_that_is_not_there_is_not_waited_for_without_end(codex):
    with ScriptedModel([DONE]) as gone:
        request = codex.request(gone)
    with anyio.fail_after(50):
        async with Client(state=codex.state) as client, client.stream(request) as run:
            outcome = await run.outcome()
    assert outcome.status is Status.FAILED


async def test_silence_ends_at_the_idle_limit(codex):
    played = await codex.play([Turn(Stall(None), Text("x"))], limits={"idle": 1.0})
    assert (played.outcome.status, played.outcome.reason) == (Status.TIMED_OUT, Reason.STALLED)


async def test_a_session_is_resumed_and_forked_with_the_permission_of_its_own_request(codex):
    first = await codex.play([Turn(Text("one"), usage=Usage(100, 20))], prompt="first words", permission=FULL)
    session = first.outcome.session_id
    script = [Turn(shell("touch made")), Turn(Text("two"), usage=Usage(10, 2))]
    resumed = await codex.play(script, session={"kind": "resume", "id": session}, permission={"posture": "read"})
    assert (resumed.outcome.ok, resumed.outcome.session_id, resumed.unguarded()) == (True, session, [])
    assert b"first words" in resumed.requests[0].raw
    assert names(codex.workspace) == []
    assert "Read-only" in resumed.result("c1").content
    assert resumed.outcome.usage.output_tokens == 22
    forked = await codex.play([Turn(shell("touch made")), DONE], session={"kind": "fork", "id": session})
    assert forked.outcome.ok
    assert forked.outcome.session_id != session
    assert b"first words" in forked.requests[0].raw
    assert names(codex.workspace) == []


@pytest.mark.parametrize("kind", ["resume", "fork"])
async def test_an_unknown_session_is_never_quietly_a_new_one(codex, kind):
    session = {"kind": kind, "id": "01a22c3c-3ed8-7953-8da7-c58b85309ef2"}
    played = await codex.play([DONE], session=session)
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.SESSION_NOT_FOUND)
    assert played.requests == ()


async def test_what_a_request_carries_reaches_the_service(codex):
    image = {"media_type": "image/png", "data": PIXEL}
    played = await codex.play([DONE], prompt="see", images=[image], effort="high", instructions="be terse-48213")
    (sent,) = played.requests
    assert played.outcome.ok, played.outcome
    assert b'"input_image"' in sent.raw
    assert b"be terse-48213" in sent.raw
    assert sent.body["reasoning"]["effort"] == "high"


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh"])
@pytest.mark.sampled
async def test_effort_reaches_the_service(codex, effort):
    played = await codex.play([DONE], effort=effort)
    assert played.outcome.ok, played.outcome
    assert played.requests[0].body["reasoning"]["effort"] == effort


async def test_the_answer_fits_the_schema(codex):
    played = await codex.play([Turn(Text('{"n": 7}'))], output_schema=SCHEMA)
    assert (played.outcome.ok, played.outcome.structured) == (True, {"n": 7})
    assert played.requests[0].body["text"]["format"]["schema"] == SCHEMA
    wrong = await codex.play([Turn(Text("seven"))], output_schema=SCHEMA)
    assert (wrong.outcome.status, wrong.outcome.reason) == (Status.FAILED, Reason.INVALID_OUTPUT)


async def test_further_directories_count_as_inside(codex):
    extra = codex.folder / "extra"
    extra.mkdir()
    patch = f"*** Begin Patch\n*** Add File: {extra}/made.txt\n+x\n*** End Patch\n"
    script = [Turn(ToolCall("apply_patch", {"input": patch}, "p1")), Turn(shell(f"touch {extra}/touched")), DONE]
    played = await codex.play(script, permission={"posture": "edit"}, add_dirs=[str(extra)])
    assert (played.outcome.ok, played.unguarded()) == (True, [])
    assert names(extra) == ["made.txt", "touched"]


async def test_a_message_into_the_running_turn_is_read_in_it(codex):
    with ScriptedModel([Turn(shell("sleep 1")), DONE]) as model, anyio.fail_after(40):
        async with (
            Client(state=codex.state) as client,
            client.stream(codex.request(model, permission=FULL)) as run,
        ):
            async for event in run:
                if isinstance(event, ToolDecided):
                    await run.send("and also 48213")
            outcome = await run.outcome()
        assert b"48213" in model.requests[-1].raw
    assert outcome.ok


async def test_a_conversation_has_several_turns_in_one_process_and_each_is_guarded(codex, policy):
    guard = policy(lambda _: DenyCall(reason="no touching"))
    script = [Turn(Text("first"), usage=Usage(10, 1)), Turn(shell("touch made")), Turn(Text("second"))]
    ended = []
    with ScriptedModel(script) as model, anyio.fail_after(40):
        client = Client(interceptors=[guard], state=codex.state)
        async with client.stream(codex.request(model, permission=FULL), conversation=True) as run:
            async for event in run:
                match event:
                    case TurnFinished(text="first"):
                        ended.append((event.text, event.usage.output_tokens))
                        await run.send("go on")
                    case TurnFinished():
                        ended.append((event.text, event.usage.output_tokens))
                        await run.finish()
                    case RunFinished():
                        outcome = event.outcome
                    case _:
                        pass
        shown = {one.tool_use_id: one for one in model.shown}
    assert ended == [("first", 1), ("second", 40)]
    assert (outcome.ok, outcome.text, outcome.usage.output_tokens) == (True, "second", 41)
    assert "no touching" in shown["c1"].content
    assert names(codex.workspace) == []


@BOTH_LOOPS
async def test_an_interrupt_ends_the_command_and_the_run(codex):
    with ScriptedModel([Turn(shell("touch started; sleep 985; touch late")), DONE]) as model, anyio.fail_after(40):
        async with (
            Client(state=codex.state) as client,
            client.stream(codex.request(model, permission=FULL)) as run,
        ):
            async for event in run:
                if isinstance(event, ToolDecided):
                    while not (codex.workspace / "started").exists():  # noqa: ASYNC110  no event tells it
                        await anyio.sleep(0.02)
                    await run.interrupt()
            outcome = await run.outcome()
    assert outcome.status is Status.CANCELLED
    assert names(codex.workspace) == ["started"]


async def test_a_run_says_what_stands_behind_the_chain(codex):
    played = await codex.play([DONE], permission={"posture": "edit"})
    (started,) = played.of(RunStarted)
    assert (started.transport, started.backstop, started.confined) == ("app-server", "sandbox", True)
    assert json.loads(played.plan.to_json())["transport"] == "app-server"
