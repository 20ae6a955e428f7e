"""What the real Copilot takes over its server: sessions, turns, models, images, servers, bounds."""

import json
import runpy
import sys
from pathlib import Path

import anyio
import pytest

from interlock import Allow, Client, DenyCall, Reason, Replace, Status, Unsupported
from interlock.events import Retrying, ToolRequested, TurnFinished
from interlock_fixtures.scripted_model import HttpError, ScriptedModel, Text, Thinking, ToolCall, Turn, Usage

pytestmark = [pytest.mark.live, pytest.mark.anyio]

birds_over = runpy.run_path(str(Path(__file__).parent / "mcp_servers.py"))["birds_over"]
DONE = Turn(Text("done"))
FULL = {"posture": "full"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="


def bash(command: str, call_id: str = "c1", **more: object) -> ToolCall:
    return ToolCall("bash", {"command": command, "description": "x", **more}, call_id)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def said(request) -> list[str]:
    """What users said in a request to the model."""
    return [json.dumps(one["content"]) for one in request.body["messages"] if one["role"] == "user"]


# ---- sessions --------------------------------------------------------------------------------------------------------


async def test_a_session_takes_our_id_and_is_resumed_and_forked(copilot):
    new = {"kind": "new", "id": "our-own_id-1"}
    first = await copilot.play([DONE], prompt="remember the heron", session=new)
    assert (first.outcome.ok, first.outcome.session_id) == (True, "our-own_id-1")
    resumed = await copilot.play([DONE], prompt="again", session={"kind": "resume", "id": "our-own_id-1"})
    assert resumed.outcome.session_id == "our-own_id-1"
    forked = await copilot.play([DONE], prompt="elsewhere", session={"kind": "fork", "id": "our-own_id-1"})
    assert forked.outcome.session_id not in {None, "our-own_id-1"}
    assert ["heron" in "".join(said(played.requests[0])) for played in (resumed, forked)] == [True, True]
    assert len(said(forked.requests[0])) == 3
    after = await copilot.play([DONE], prompt="once more", session={"kind": "resume", "id": "our-own_id-1"})
    assert len(said(after.requests[0])) == 3
    assert "elsewhere" not in "".join(said(after.requests[0]))


async def test_an_id_that_exists_is_not_begun_anew(copilot):
    new = {"kind": "new", "id": "mine"}
    await copilot.play([DONE], prompt="remember the heron", session=new)
    refused = await copilot.play([], session=new)
    assert (refused.outcome.reason, refused.requests) == (Reason.UNSUPPORTED, ())
    kept = await copilot.play([DONE], session={"kind": "resume", "id": "mine"})
    assert "heron" in "".join(said(kept.requests[0]))


async def test_a_session_that_is_not_there_is_refused_before_the_start(copilot):
    with pytest.raises(Unsupported) as refused:
        await copilot.play([], session={"kind": "resume", "id": "nowhere"})
    assert [one.field for one in refused.value.unmet] == ["session.id"]


async def test_a_resumed_run_carries_the_whole_permission_anew(copilot, policy):
    first = await copilot.play([Turn(bash("touch one")), DONE], permission=FULL)
    again = {"kind": "resume", "id": first.outcome.session_id}
    script = [Turn(bash("touch two", "c2")), DONE]
    second = await copilot.play(script, permission={"posture": "read"}, session=again)
    assert second.decisions() == {"c2": "deny by policy"}
    assert names(copilot.workspace) == ["one"]
    guard = policy()
    third = await copilot.play([Turn(bash("touch three", "c3")), DONE], guard, permission=FULL, session=again)
    assert [call.tool_call_id for call in guard.calls] == ["c3"]
    assert (third.outcome.ok, third.unguarded()) == (True, [])


# ---- turns -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_conversation_has_several_turns_in_one_process_and_each_is_guarded(copilot, policy):
    guard = policy()
    script = [Turn(Text("one"), usage=Usage(10, 1)), Turn(bash("touch made")), Turn(Text("two"), usage=Usage(20, 2))]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        request = copilot.request(model, permission=FULL)
        async with (
            Client(state=copilot.state, interceptors=[guard]) as interlock,
            interlock.stream(request, conversation=True) as run,
        ):
            turns = []
            async for event in run:
                if isinstance(event, TurnFinished):
                    turns.append((event.text, event.usage.input_tokens))
                    if len(turns) == 1:
                        await run.send("and now")
                    else:
                        await run.finish()
            outcome = await run.outcome()
    assert (outcome.status, outcome.text) == (Status.COMPLETED, "two")
    assert turns[0] == ("one", 10)
    assert [call.tool_call_id for call in guard.calls] == ["c1"]
    assert names(copilot.workspace) == ["made"]


async def test_a_message_into_the_running_turn_is_read_after_the_next_call(copilot):
    script = [Turn(bash("while [ ! -e go ]; do sleep 0.05; done; echo over")), DONE]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        async with (
            Client(state=copilot.state) as interlock,
            interlock.stream(copilot.request(model, permission=FULL)) as run,
        ):
            async for event in run:
                if isinstance(event, ToolRequested):
                    await run.send("hurry up")
                    (copilot.workspace / "go").touch()
            outcome = await run.outcome()
        assert "over" in model.shown[0].content
        assert "background" not in model.shown[0].content
        assert "hurry up" in said(model.requests[1])[-1]
        assert (outcome.status, len(model.requests)) == (Status.COMPLETED, 2)


async def test_a_message_that_comes_too_late_has_a_turn_of_its_own_with_which_the_run_ends(copilot):
    script = [Turn(Text("first")), Turn(Text("second"))]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        async with (
            Client(state=copilot.state) as interlock,
            interlock.stream(copilot.request(model, permission=FULL)) as run,
        ):
            sent = False
            async for event in run:
                if event.type == "text" and not sent:
                    sent = True
                    await run.send("and then?")
            outcome = await run.outcome()
        assert (outcome.status, outcome.text) == (Status.COMPLETED, "second")
        assert "and then?" in said(model.requests[1])[-1]


async def test_turns_are_bounded(copilot):
    script = [Turn(bash("touch one", "c1")), Turn(bash("touch two", "c2")), DONE]
    played = await copilot.play(script, permission=FULL, limits={"max_turns": 1})
    assert (played.outcome.reason, played.outcome.turns) == (Reason.MAX_TURNS, 1)
    assert names(copilot.workspace) == ["one"]


# ---- what goes with a prompt -----------------------------------------------------------------------------------------


async def test_model_and_instructions_reach_the_service(copilot):
    played = await copilot.play([DONE], model="gpt-5.4", instructions="speak of herons")
    body = played.requests[0].body
    assert body["model"] == "gpt-5.4"
    assert "speak of herons" in body["messages"][0]["content"]
    assert played.outcome.model == "gpt-5.4"


@pytest.mark.sampled
async def test_effort_reaches_the_service(copilot):
    for effort in ("minimal", "low", "medium", "high", "xhigh", "max"):
        played = await copilot.play([DONE], model="gpt-5.4", effort=effort)
        assert (played.outcome.ok, played.requests[0].body.get("reasoning_effort")) == (True, effort)


async def test_an_image_goes_with_the_prompt(copilot):
    image = {"media_type": "image/png", "data": PIXEL}
    played = await copilot.play([DONE], images=[image])
    assert f"data:image/png;base64,{PIXEL}" in said(played.requests[0])[0]


@pytest.mark.slow
async def test_the_words_of_a_prompt_are_words_and_nothing_is_inlined(copilot):
    (copilot.workspace / "secret.txt").write_text("tiger-lily")
    for prompt in ("@secret.txt", "!touch made", "/clear", "/yolo", "--allow-all-tools", "-", "ünïcödé \u2028 \x1b[0m"):
        played = await copilot.play([DONE], prompt=prompt)
        assert json.loads(said(played.requests[0])[0]).endswith(prompt)
        assert (played.outcome.ok, played.knows(b"tiger-lily")) == (True, False)
    assert names(copilot.workspace) == ["secret.txt"]


async def test_the_answer_fits_the_schema(copilot):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    played = await copilot.play([Turn(Text('{"n": 3}'))], output_schema=schema)
    assert (played.outcome.structured, played.outcome.ok) == ({"n": 3}, True)
    assert played.requests[0].body["response_format"]["json_schema"]["schema"] == schema
    played = await copilot.play([Turn(Text('{"n": "x"}'))], output_schema=schema)
    assert played.outcome.reason is Reason.INVALID_OUTPUT


async def test_further_directories_count_as_inside(copilot):
    beside = copilot.folder / "beside"
    beside.mkdir()
    (beside / "a.txt").write_text("heron\n")
    script = [Turn(ToolCall("view", {"path": str(beside / "a.txt")}, "c1")), DONE]
    found = []
    for folders in ((), (str(beside),)):
        played = await copilot.play(script, permission={"posture": "read"}, add_dirs=folders)
        found.append((played.decisions()["c1"], "heron" in played.result("c1").content))
    assert found == [("deny by policy", False), ("allow by posture", True)]


async def test_usage_is_counted_once_and_thoughts_are_told(copilot):
    usage = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=40)
    script = [Turn(Thinking("hmm"), bash("echo hi"), usage=usage), Turn(Text("done"), usage=usage)]
    played = await copilot.play(script, permission=FULL)
    found = played.outcome.usage
    assert (found.input_tokens, found.cache_read_tokens, found.output_tokens) == (120, 80, 40)
    assert (found.model_requests, played.outcome.turns) == (2, 2)


@pytest.mark.slow
async def test_a_request_that_is_repeated_is_told_and_the_run_goes_on(copilot):
    played = await copilot.play([Turn(HttpError(503, headers={"retry-after": "0"})), DONE])
    assert (played.outcome.ok, played.outcome.text) == (True, "done")
    assert played.of(Retrying)[0].status == 503


# ---- servers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_behind_a_url_serves_and_its_calls_are_judged(copilot, policy, kind):
    guard = policy(
        lambda call: DenyCall(reason="no crows") if call.input["text"] == "crow" else Allow(),
        lambda call: Replace(output="REDACTED"),
    )
    calls = [Turn(ToolCall("birds-say", {"text": bird}, bird)) for bird in ("crow", "wren")]
    with birds_over(kind, "heron") as (birds, servers):
        played = await copilot.play([*calls, DONE], guard, permission=FULL, mcp_servers=servers)
    assert birds.calls == ["wren"]
    assert "no crows" in played.result("crow").content
    assert played.result("wren").content == "REDACTED"
    assert (played.outcome.status, played.unguarded()) == (Status.COMPLETED, [])
    assert birds.keys == {"heron"}


@pytest.mark.parametrize("plain", ["${HOME}", "$HOME"])
async def test_a_value_that_the_agent_would_replace_is_refused(copilot, plain):
    for more in ({"args": [plain]}, {"env": {"BIRD": plain}}):
        server = {"type": "stdio", "command": sys.executable, **more}
        with pytest.raises(Unsupported) as refused:
            await copilot.play([], mcp_servers={"birds": server})
        assert [one.field for one in refused.value.unmet] == [f"mcp_servers.birds.{next(iter(more))}"]
