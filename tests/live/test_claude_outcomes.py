"""How a run of the real CLI ends, and why, for each thing that can go wrong with the model's service or a bound."""

import anyio
import pytest

from interlock import Client, Reason, RunFailed, Status, Unsupported
from interlock.events import RunFinished, RunStarted
from interlock_fixtures.scripted_model import (
    CutStream,
    HttpError,
    ScriptedModel,
    Stall,
    StreamError,
    Text,
    ToolCall,
    Turn,
    Usage,
)

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
NOW = {"retry-after": "0"}
LONG = "prompt is too long: 250000 tokens > 200000 maximum"

ERRORS = {
    "401": (HttpError(401, "authentication_error"), Reason.AUTH),
    "403": (HttpError(403, "permission_error"), Reason.AUTH),
    "400": (HttpError(400, "invalid_request_error"), Reason.BAD_REQUEST),
    "404": (HttpError(404, "not_found_error"), Reason.MODEL_NOT_FOUND),
    "429": (HttpError(429, "rate_limit_error", headers=NOW), Reason.RATE_LIMIT),
    "529": (HttpError(529, "overloaded_error", headers=NOW), Reason.OVERLOADED),
    "500": (HttpError(500, "api_error", headers=NOW), Reason.API),
    "credit": (HttpError(400, "invalid_request_error", "Your credit balance is too low"), Reason.BILLING),
    "too long": (HttpError(400, "invalid_request_error", LONG), Reason.CONTEXT),
}


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.sampled
async def test_an_error_of_the_service_has_its_reason(live, case):
    error, reason = ERRORS[case]
    with ScriptedModel([Turn(error)] * 16) as model, anyio.fail_after(60):
        env = {**live.service(model), "CLAUDE_CODE_MAX_RETRIES": "1"}
        outcome = await Client(state=live.state).run(live.request(model, env=env), check=False)
    assert (outcome.status, outcome.reason) == (Status.FAILED, reason)
    assert outcome.message
    assert outcome.text is None


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_failed_run_raises_with_its_outcome(live):
    error = HttpError(403, "permission_error", "not for you")
    with ScriptedModel([Turn(error)]) as model, anyio.fail_after(30), pytest.raises(RunFailed) as failed:
        await Client(state=live.state).run(live.request(model))
    assert failed.value.outcome.reason is Reason.AUTH
    assert "not for you" in str(failed.value)


@pytest.mark.parametrize("trouble", [CutStream(after="first_delta"), StreamError("overloaded_error", "busy")])
async def test_an_answer_that_breaks_off_is_asked_for_again(live, trouble):
    played = await live.play([Turn(Text("lost"), trouble), DONE])
    assert (played.outcome.status, played.outcome.text) == (Status.COMPLETED, "done")


async def test_silence_in_the_middle_of_an_answer_ends_at_the_idle_limit(live):
    script = [Turn(Text("begun"), Stall(after="first_delta"))]
    played = await live.play(script, limits={"idle": 1.0})
    assert (played.outcome.status, played.outcome.reason) == (Status.TIMED_OUT, Reason.STALLED)
    assert played.outcome.duration < 15


async def test_the_total_limit_ends_a_run(live):
    script = [Turn(ToolCall("Bash", {"command": "sleep 60"}, "t1")), DONE]
    played = await live.play(script, permission=FULL, limits={"total": 3.0})
    assert (played.outcome.status, played.outcome.reason) == (Status.TIMED_OUT, Reason.DEADLINE)
    assert played.outcome.duration < 15


async def test_turns_are_bounded(live):
    calls = [Turn(ToolCall("Bash", {"command": f"echo {number}"})) for number in range(4)]
    played = await live.play([*calls, DONE], permission=FULL, limits={"max_turns": 2})
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.MAX_TURNS)
    assert len([request for request in played.requests if request.kind == "turn"]) == 2


async def test_money_is_bounded(live):
    spent = Usage(1_000_000, 100_000)
    calls = [Turn(ToolCall("Bash", {"command": "echo x"}), usage=spent) for _ in range(4)]
    played = await live.play([*calls, DONE], permission=FULL, limits={"budget_usd": 0.01})
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.BUDGET)
    assert len([request for request in played.requests if request.kind == "turn"]) == 1


async def test_an_answer_that_never_ends_is_cut_off(live):
    cut = Turn(Text("on and on"), stop_reason="max_tokens")
    played = await live.play([cut] * 8)
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.MAX_OUTPUT)


async def test_a_refusal_is_no_answer(live):
    played = await live.play([Turn(Text("no"), stop_reason="refusal")] * 3)
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.REFUSED)


async def test_an_empty_answer_is_no_output(live):
    played = await live.play([Turn(Text(""))] * 6)
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.NO_OUTPUT)


async def test_a_session_that_is_not_there_is_said_to_be_missing(live):
    session = {"kind": "resume", "id": "00000000-0000-4000-8000-000000000000"}
    with pytest.raises(Unsupported, match=r"session\.id"):
        await live.play([DONE], session=session)


async def test_usage_is_counted_once_and_the_run_says_what_it_was(live):
    script = [
        Turn(ToolCall("Bash", {"command": "echo x"}), usage=Usage(100, 10)),
        Turn(Text("done"), usage=Usage(200, 40)),
    ]
    played = await live.play(script, permission=FULL)
    usage = played.outcome.usage
    assert (usage.input_tokens, usage.output_tokens) == (300, 50)
    assert (played.outcome.tool_calls, played.outcome.turns, played.outcome.exit_code) == (1, 2, 0)
    assert [type(event) for event in (played.events[0], played.events[-1])] == [RunStarted, RunFinished]
    assert [event.seq for event in played.events] == list(range(len(played.events)))


# ---- fields of a request --------------------------------------------------------------------------------------------


async def test_a_session_takes_our_id_and_is_resumed_and_forked(live):
    own = "11111111-1111-4111-8111-111111111111"
    first = await live.play([Turn(Text("tiger"))], session={"kind": "new", "id": own})
    again = await live.play([DONE], session={"kind": "resume", "id": own})
    fork = await live.play([DONE], session={"kind": "fork", "id": own})
    assert [first.outcome.session_id, again.outcome.session_id] == [own, own]
    assert fork.outcome.session_id not in {own, None}
    assert again.knows(b"tiger")
    assert fork.knows(b"tiger")


async def test_a_resumed_run_carries_the_whole_permission_anew(live):
    first = await live.play([DONE], permission=FULL)
    script = [Turn(ToolCall("Bash", {"command": "touch made"}, "t1")), DONE]
    session = {"kind": "resume", "id": first.outcome.session_id}
    played = await live.play(script, permission={"posture": "read"}, session=session)
    assert list(live.workspace.iterdir()) == []
    assert played.decisions() == {"t1": "deny by policy"}


@pytest.mark.parametrize("effort", ["low", "medium", "high", "xhigh", "max"])
@pytest.mark.sampled
async def test_effort_reaches_the_service(live, effort):
    played = await live.play([DONE], effort=effort)
    (sent,) = [request.body for request in played.requests if request.kind == "turn"]
    assert sent["output_config"]["effort"] == effort


async def test_model_and_instructions_reach_the_service(live):
    played = await live.play([DONE], model="claude-opus-4-6", instructions="speak of zebras")
    (sent,) = [request.body for request in played.requests if request.kind == "turn"]
    assert sent["model"] == "claude-opus-4-6"
    assert "speak of zebras" in str(sent["system"])
    assert not any("speak of zebras" in argument.text for argument in played.plan.argv)


async def test_further_directories_count_as_inside(live):
    other = live.folder / "other"
    other.mkdir()
    (other / "b.txt").write_text("content of b")
    script = [
        Turn(ToolCall("Read", {"file_path": str(other / "b.txt")}, "t1")),
        Turn(ToolCall("Write", {"file_path": str(other / "c.txt"), "content": "c"}, "t2")),
        DONE,
    ]
    played = await live.play(script, permission={"posture": "edit"}, add_dirs=[str(other)])
    assert "content of b" in played.result("t1").content
    assert (other / "c.txt").read_text() == "c"
