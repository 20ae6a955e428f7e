"""The plainest transport of the real Codex: one turn, nothing asked; and what it leaves to the other."""

import json
import sys

import anyio
import pytest

from interlock import Client, Deny, Reason, Status, Unsupported
from interlock.events import FilesChanged, Retrying, ToolFinished, ToolRequested
from interlock_fixtures.scripted_model import (
    HttpError,
    ScriptedModel,
    StreamError,
    Text,
    Thinking,
    ToolCall,
    Turn,
    Usage,
)

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
EXEC = {"transport": "exec"}
DIRECT, CODE = "gpt-5.5", "gpt-6.2-sol"
BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch\n"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def shell(model: str, command: str, call_id: str = "c1") -> ToolCall:
    if model == DIRECT:
        return ToolCall("exec_command", {"cmd": command}, call_id)
    return ToolCall("exec", {"input": f"text(await tools.exec_command({json.dumps({'cmd': command})}))"}, call_id)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@BOTH_LOOPS
async def test_a_run_ends_with_text_usage_and_session(codex):
    usage = Usage(100, 20, cache_read_tokens=40, cache_write_tokens=7, reasoning_tokens=5)
    played = await codex.play([Turn(Thinking("hm"), Text("hello"), usage=usage)], **EXEC)
    outcome = played.outcome
    assert (outcome.status, outcome.text, outcome.exit_code) == ("completed", "hello", 0), outcome
    assert (outcome.usage.input_tokens, outcome.usage.cache_read_tokens, outcome.usage.output_tokens) == (53, 40, 20)
    assert outcome.session_id


@pytest.mark.parametrize("model", [DIRECT, CODE])
@pytest.mark.parametrize("posture", ["read", "edit", "full"])
async def test_the_sandbox_is_that_of_the_posture(codex, model, posture):
    outside = codex.folder / "outside"
    outside.mkdir()
    script = [
        Turn(shell(model, "sleep 0.3; touch made; echo out", "c1")),
        Turn(shell(model, f"sleep 0.3; touch {outside}/made", "c2")),
        DONE,
    ]
    played = await codex.play(script, model=model, permission={"posture": posture}, **EXEC)
    assert played.outcome.ok, played.outcome
    assert names(codex.workspace) == ([] if posture == "read" else ["made"])
    assert names(outside) == (["made"] if posture == "full" else [])
    assert played.of(ToolRequested)[0].subject.command.endswith("touch made; echo out")
    assert played.of(ToolFinished)[0].output.endswith("out\n")


async def test_a_patch_is_told_with_its_files(codex):
    script = [Turn(ToolCall("apply_patch", {"input": PATCH}, "p1")), DONE]
    played = await codex.play(script, permission={"posture": "edit"}, **EXEC)
    (changed,) = played.of(FilesChanged)
    assert [(change.path, change.change) for change in changed.changes] == [(str(codex.workspace / "made.txt"), "add")]
    assert played.unguarded() == []


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (HttpError(401, "invalid_api_key", "bad"), Reason.AUTH),
        (HttpError(429, "usage_limit_reached", "no more"), Reason.RATE_LIMIT),
        (HttpError(429, "rate_limited", "slow"), Reason.RATE_LIMIT),
        (HttpError(503, "server_is_overloaded", "busy"), Reason.OVERLOADED),
        (StreamError("context_length_exceeded", "too long"), Reason.CONTEXT),
    ],
    ids=["auth", "limit", "throttled", "overloaded", "context"],
)
@pytest.mark.sampled
async def test_an_error_of_the_service_has_its_reason(codex, trouble, reason):
    played = await codex.play([Turn(trouble)] * 4, **EXEC)
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, reason), played.outcome


async def test_a_retry_is_told_and_ends_nothing(codex):
    played = await codex.play([Turn(HttpError(500, "server_error", "oops")), DONE], **EXEC)
    assert (played.outcome.ok, played.outcome.text) == (True, "done")
    assert played.of(Retrying)


async def test_a_session_is_resumed_and_forked_with_the_permission_of_its_own_request(codex):
    first = await codex.play([Turn(Text("one"))], prompt="first words", permission=FULL, **EXEC)
    session = first.outcome.session_id
    for kind in ("resume", "fork"):
        script = [Turn(shell(DIRECT, "touch made")), DONE]
        played = await codex.play(script, session={"kind": kind, "id": session}, permission={"posture": "read"}, **EXEC)
        assert played.outcome.ok, played.outcome
        assert (played.outcome.session_id == session) == (kind == "resume")
        assert b"first words" in played.requests[0].raw
        assert names(codex.workspace) == []
        assert played.outcome.usage.output_tokens is None
    other = await codex.play([DONE], session={"kind": "resume", "id": session})
    assert (other.outcome.ok, other.outcome.session_id) == (True, session)


@pytest.mark.parametrize("kind", ["resume", "fork"])
async def test_an_unknown_session_is_never_quietly_a_new_one(codex, kind):
    session = {"kind": kind, "id": "01a22c3c-3ed8-7953-8da7-c58b85309ef2"}
    played = await codex.play([DONE], session=session, **EXEC)
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.SESSION_NOT_FOUND)
    assert played.requests == ()


async def test_what_a_request_carries_reaches_the_service(codex):
    extra = codex.folder / "extra"
    extra.mkdir()
    script = [Turn(shell(DIRECT, f"touch {extra}/made")), Turn(Text('{"n": 7}'))]
    played = await codex.play(
        script,
        prompt="--see `this` \u2028 \U0001f600",
        effort="high",
        instructions='be "terse"\n48213',
        output_schema=SCHEMA,
        add_dirs=[str(extra)],
        permission={"posture": "edit"},
        **EXEC,
    )
    assert (played.outcome.ok, played.outcome.structured) == (True, {"n": 7}), played.outcome
    sent = played.requests[0]
    said = json.dumps(sent.body, ensure_ascii=False)
    assert "--see `this` \u2028 \U0001f600" in said
    assert 'be \\"terse\\"\\n48213' in said
    assert sent.body["reasoning"]["effort"] == "high"
    assert names(extra) == ["made"]
    assert "48213" not in " ".join(argument.text for argument in played.plan.argv)


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh"])
@pytest.mark.sampled
async def test_effort_reaches_the_service(codex, effort):
    played = await codex.play([DONE], effort=effort, **EXEC)
    assert played.outcome.ok, played.outcome
    assert played.requests[0].body["reasoning"]["effort"] == effort


@pytest.mark.slow
async def test_an_interrupt_ends_the_run_and_its_command(codex):
    with ScriptedModel([Turn(shell(DIRECT, "touch started; sleep 985; touch late")), DONE]) as model:
        request = codex.request(model, permission=FULL, **EXEC)
        with anyio.fail_after(40):
            async with Client(state=codex.state) as client, client.stream(request) as run:
                while not (codex.workspace / "started").exists():  # noqa: ASYNC110  no event tells it
                    await anyio.sleep(0.02)
                await run.interrupt()
                outcome = await run.outcome()
    assert outcome.status is Status.CANCELLED
    assert names(codex.workspace) == ["started"]


async def test_auto_takes_the_plainest_transport_that_can_do_all_that_is_asked(codex, policy):
    async def chosen(*chain, **fields) -> str:
        with ScriptedModel([DONE]) as model:
            async with Client(interceptors=chain, state=codex.state) as client:
                return client.plan(codex.request(model, transport="auto", **fields)).transport

    stdio = {"type": "stdio", "command": sys.executable}
    assert await chosen() == "exec"
    assert await chosen(permission=FULL) == "exec"
    assert await chosen(permission={"posture": "edit"}) == "app-server"
    assert await chosen(permission={"posture": "read", "deny": ["read(x)"]}) == "app-server"
    assert await chosen(mcp_servers={"s": stdio}) == "app-server"
    assert await chosen(policy()) == "app-server"


async def test_exec_cannot_ask_and_names_the_transport_that_can(codex):
    with ScriptedModel([DONE]) as model:
        request = codex.request(model, permission={"otherwise": "ask"}, **EXEC)
        with pytest.raises(Unsupported) as caught:
            await Client(state=codex.state, approver=lambda _: Deny()).run(request)
    assert "transport=app-server" in str(caught.value)
