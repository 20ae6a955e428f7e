"""What a run of the real Claude Code used, counted once, and what is said of limits, retries and wrong keys."""

import json
import time

import anyio
import pytest

from interlock import Client, Permission, Resume
from interlock.events import RateLimited, Retrying, UsageUpdated
from interlock.outcome import RateLimit, Reason, Status
from interlock_fixtures.scripted_model import CutStream, HttpError, ScriptedModel, Stall, Text, ToolCall, Turn, Usage

pytestmark = [pytest.mark.anyio, pytest.mark.live]
FULL = Permission(posture="full")
DONE = Turn(Text("done"), usage=Usage(7, 1))
RESET = 1_900_000_000
PREFIX = "anthropic-ratelimit-unified"
LIMITED = {
    f"{PREFIX}-status": "rejected",
    f"{PREFIX}-reset": str(RESET),
    f"{PREFIX}-representative-claim": "five_hour",
    f"{PREFIX}-5h-status": "rejected",
    f"{PREFIX}-5h-reset": str(RESET),
    f"{PREFIX}-5h-utilization": "1.0",
    f"{PREFIX}-overage-status": "rejected",
}


def bash(call_id):
    return ToolCall("Bash", {"command": "true"}, call_id)


def counted(usage):
    return usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens


async def test_parallel_calls_and_several_requests_are_counted_once(live):
    """F12: an answer comes as one line a block, and each line repeats its usage."""
    first = Turn(Text("I look"), bash("t1"), bash("t2"), usage=Usage(100, 10, 5, 3))
    played = await live.play([first, DONE], permission=FULL)
    assert counted(played.outcome.usage) == (107, 11, 5, 3)
    assert played.of(UsageUpdated)[-1].usage == played.outcome.usage


async def test_what_sub_agents_use_is_counted_and_once(live, inner):
    def turns(outer, nested):
        pools = {False: list(outer), True: list(nested)}
        return [lambda request: pools[inner(request)].pop(0)] * 4

    agent = ToolCall("Agent", {"description": "d", "prompt": "INNER", "subagent_type": "general-purpose"}, "a1")
    outer = [Turn(agent, usage=Usage(100, 10)), Turn(Text("done"), usage=Usage(300, 30))]
    nested = [Turn(bash("t1"), usage=Usage(1000, 100)), Turn(Text("inner"), usage=Usage(2000, 200))]
    played = await live.play(turns(outer, nested), permission=FULL)
    assert counted(played.outcome.usage) == (3400, 340, 0, 0)


async def test_an_answer_that_was_cut_and_asked_for_again_is_counted(live):
    cut = Turn(Text("abcdef", chunk=2), CutStream(after="first_delta"), usage=Usage(100, 10))
    played = await live.play([cut, DONE])
    assert played.outcome.status is Status.COMPLETED
    # The CLI counts the answer that was cut if it had read its beginning (100 tokens, the first of 1) before the cut.
    assert counted(played.outcome.usage) in {(7, 1, 0, 0), (107, 2, 0, 0)}


async def test_a_resumed_run_counts_what_it_used_itself(live):
    first = await live.play([Turn(Text("one"), usage=Usage(1000, 100))])
    second = await live.play([DONE], session=Resume(id=first.outcome.session_id))
    assert counted(second.outcome.usage) == (7, 1, 0, 0)
    assert second.outcome.cost_usd < first.outcome.cost_usd


async def test_what_an_interrupted_request_used_is_not_said_to_be_nothing(live):
    with ScriptedModel([Turn(Text("abcdef", chunk=2), Stall(after="first_delta"), usage=Usage(100, 10))]) as model:
        async with Client(state=live.state) as client, client.stream(live.request(model)) as run:
            async for event in run:
                if event.type == "text_delta":
                    await run.interrupt()
            outcome = await run.outcome()
    assert outcome.status is Status.CANCELLED
    assert outcome.usage.input_tokens in {None, 100}


async def test_a_limit_of_the_login_says_when_it_is_reset(live):
    """O11: the outcome carries the time, and the limit is not asked again and again."""
    token = {"accessToken": "token", "refreshToken": "r", "expiresAt": int(time.time() * 1000) + 30_000_000}
    login = live.folder / "login"
    login.mkdir()
    told = {"claudeAiOauth": {**token, "scopes": ["user:inference"], "subscriptionType": "max"}}
    (login / ".credentials.json").write_text(json.dumps(told))
    with ScriptedModel([Turn(HttpError(429, "rate_limit_error", headers=LIMITED))] * 3) as model:
        env = {name: value for name, value in live.service(model).items() if name != "ANTHROPIC_API_KEY"}
        request = live.request(model, login=str(login), env=env)
        events = []
        async with Client(state=live.state) as client, client.stream(request) as run:
            events = [event async for event in run]
            outcome = await run.outcome()
        assert len([request for request in model.requests if request.kind == "turn"]) == 1
    limit = RateLimit(status="rejected", window="five_hour", resets_at=RESET, blocking=True)
    assert (outcome.status, outcome.reason, outcome.rate_limit) == (Status.FAILED, Reason.RATE_LIMIT, limit)
    assert [event.limit for event in events if isinstance(event, RateLimited)] == [limit]


async def test_a_limit_of_a_key_is_blocking_and_its_end_unknown(live):
    played = await live.play([Turn(HttpError(429, "rate_limit_error", headers={"retry-after": "0"}))] * 12)
    assert played.outcome.reason is Reason.RATE_LIMIT
    assert played.outcome.rate_limit == RateLimit(status="rejected", blocking=True)


async def test_retries_are_notices_and_a_run_that_gets_through_has_completed(live):
    """O4."""
    error = Turn(HttpError(529, "overloaded_error", headers={"retry-after": "0"}))
    played = await live.play([error, error, DONE])
    assert [(event.attempt, event.status) for event in played.of(Retrying)] == [(1, 529), (2, 529)]
    assert (played.outcome.status, played.outcome.text) == (Status.COMPLETED, "done")
    assert played.outcome.rate_limit is None


async def test_a_wrong_key_is_not_tried_for_minutes(live):
    with anyio.fail_after(20):
        played = await live.play([Turn(HttpError(401, "authentication_error"))] * 12)
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.AUTH)
    assert len([request for request in played.requests if request.kind == "turn"]) <= 3


async def test_one_prompt_has_one_result_even_if_the_model_asks_for_background_work(live, inner):
    """Work in the background is off: the sub-agent's report is in the one answer that there is."""
    asked = {"description": "d", "prompt": "INNER", "subagent_type": "general-purpose"}
    pools = {False: [Turn(ToolCall("Agent", asked, "a1")), Turn(Text("done"))], True: [Turn(Text("inner report"))]}
    played = await live.play([lambda request: pools[inner(request)].pop(0)] * 3, permission=FULL)
    assert "inner report" in played.result("a1").content
    assert [event.type for event in played.events].count("turn_finished") == 0
    assert played.outcome.text == "done"
