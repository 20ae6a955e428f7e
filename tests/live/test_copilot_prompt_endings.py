"""How runs of the real Copilot end with its prompt on stdin, and what of a request reaches the service."""

import json
import os
import runpy
import signal
from functools import partial
from pathlib import Path

import anyio
import pytest

from interlock import Client, RunEnded, Unsupported
from interlock.events import Retrying, ToolRequested
from interlock_fixtures.scripted_model import (
    CutStream,
    HttpError,
    ScriptedModel,
    Stall,
    Text,
    Thinking,
    ToolCall,
    Turn,
)

pytestmark = [pytest.mark.live, pytest.mark.anyio]

HOSTS = runpy.run_path(str(Path(__file__).parent / "hosts.py"))
killed_host_leaves_nothing, until = HOSTS["killed_host_leaves_nothing"], HOSTS["until"]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
SLEEP = "setsid sleep 987 & sleep 986 & touch started; sleep 985"


def bash(command: str, call_id: str = "c1", **more: object) -> ToolCall:
    return ToolCall("bash", {"command": command, "description": "x", **more}, call_id)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def play(copilot):
    """Runs the CLI over this transport."""
    return partial(copilot.play, transport="prompt")


# ---- How it ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "reason", "status"),
    [
        (HttpError(401, "authentication_error", "no such key"), "auth", 401),
        (HttpError(400, "invalid_request_error", "bad"), "bad_request", 400),
    ],
    ids=["401", "400"],
)
@pytest.mark.sampled
async def test_an_error_of_the_service_has_its_reason(play, trouble, reason, status):
    played = await play([Turn(trouble)] * 4)
    outcome = played.outcome
    assert (outcome.status, outcome.reason, outcome.api_status) == ("failed", reason, status), outcome
    assert outcome.text is None


async def test_a_retry_is_told_and_ends_nothing(play):
    played = await play([Turn(HttpError(503)), Turn(Text("do"), CutStream("first_delta")), Turn(Text("done"))])
    assert (played.outcome.ok, played.outcome.text) == (True, "done")
    assert [event.status for event in played.of(Retrying)][:1] == [503]


async def test_thinking_is_told(play):
    played = await play([Turn(Thinking("hm"), Text("done"))])
    assert [event.text for event in played.events if event.type == "thinking"] == ["hm"]


async def test_an_empty_answer_is_no_output(play):
    played = await play([Turn(bash("true")), Turn(Text(" "))], permission=FULL)
    assert (played.outcome.status, played.outcome.reason) == ("failed", "no_output")


@pytest.mark.slow
async def test_a_model_that_is_unknown_or_no_login_says_so_and_sends_nothing(copilot, play):
    played = await play([DONE], env={"PATH": os.defpath}, login="user")
    assert (played.outcome.status, played.outcome.reason, played.outcome.exit_code) == ("failed", "crashed", 1)
    assert (played.requests, bool(played.outcome.stderr_tail)) == ((), True)
    assert played.of(ToolRequested) == []


@pytest.mark.slow
async def test_silence_ends_at_the_idle_limit(play):
    played = await play([Turn(Text("do"), Stall(after="first_delta"))], limits={"idle": 2})
    assert (played.outcome.status, played.outcome.reason) == ("timed_out", "stalled")


async def test_turns_are_bounded(copilot, play):
    script = [Turn(bash("touch one")), Turn(bash("touch two", "c2")), Turn(bash("touch three", "c3")), DONE]
    played = await play(script, permission=FULL, limits={"max_turns": 2})
    assert (played.outcome.status, played.outcome.reason, played.outcome.turns) == ("failed", "max_turns", 2)
    assert names(copilot.workspace) == ["one", "two"]


# ---- What is left ---------------------------------------------------------------------------------------------------


def marked(copilot, model, **fields):
    env = {**copilot.service(model), "TEST_MARK": str(copilot.folder)}
    return copilot.request(model, transport="prompt", permission=FULL, env=env, **fields)


@pytest.mark.parametrize("moment", ["command", "hook", "model"])
@pytest.mark.slow
async def test_cancelling_leaves_no_process(copilot, policy, moment):
    entered, over = anyio.Event(), anyio.Event()

    class Waiting(policy):
        async def before(self, call):
            entered.set()
            if moment == "hook":
                await over.wait()
            return await super().before(call)

    script = [Turn(bash(SLEEP)), DONE] if moment != "model" else [Turn(Stall())]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        client = Client(state=copilot.state, interceptors=[Waiting(deadline=50.0)])
        async with client.stream(marked(copilot, model)) as run:
            match moment:
                case "command":
                    await until(lambda: copilot.alive().count("sleep") == 3)
                case "hook":
                    await entered.wait()
                case _:
                    await until(lambda: model.requests)
            await run.cancel()
            outcome = await run.outcome()
        over.set()
    assert outcome.status == "cancelled"
    assert copilot.alive() == []
    assert names(copilot.workspace) == (["started"] if moment == "command" else [])
    assert names(copilot.state / "runs") == []


async def test_an_agent_that_is_killed_is_a_failed_run_and_leaves_nothing(copilot):
    with ScriptedModel([Turn(bash(f"echo $PPID > pid; {SLEEP}")), DONE]) as model, anyio.fail_after(60):
        async with Client(state=copilot.state).stream(marked(copilot, model)) as run:
            await until((copilot.workspace / "started").exists)
            os.kill(int((copilot.workspace / "pid").read_text()), signal.SIGKILL)
            outcome = await run.outcome()
    assert (outcome.status, outcome.reason, outcome.signal) == ("failed", "crashed", signal.SIGKILL)
    assert copilot.alive() == []


async def test_the_death_of_the_host_leaves_no_process(copilot):
    with ScriptedModel([Turn(bash(SLEEP)), DONE]) as model, anyio.fail_after(60):
        await killed_host_leaves_nothing(copilot, marked(copilot, model))


async def test_a_turn_takes_no_message_and_its_run_no_second_one(copilot):
    with ScriptedModel([DONE]) as model, anyio.fail_after(60):
        async with Client(state=copilot.state).stream(marked(copilot, model)) as run:
            with pytest.raises(Unsupported):
                await run.send("more")
            assert (await run.outcome()).ok
        with pytest.raises(RunEnded):
            await run.send("more")


# ---- Sessions, and what a request carries ---------------------------------------------------------------------------


async def test_a_session_takes_our_id_and_is_resumed_where_the_request_says(copilot, play):
    chosen = "6f1a3b52-5d0c-4d7e-9a0e-2f8f5f0c9a11"
    first = await play([DONE], prompt="the first prompt", session={"kind": "new", "id": chosen})
    assert (first.outcome.ok, first.outcome.session_id) == (True, chosen)
    other = copilot.folder / "other"
    other.mkdir()
    script = [Turn(bash("pwd"), bash("touch made", "c2")), Turn(Text("again"))]
    permission = {"posture": "full", "deny": ["shell(touch:*)"]}
    session = {"kind": "resume", "id": chosen}
    second = await play(script, prompt="the second", session=session, cwd=str(other), permission=permission)
    assert (second.outcome.ok, second.outcome.session_id) == (True, chosen), second.outcome
    assert str(other) in second.result("c1").content
    assert (names(other), second.decisions()["c2"]) == ([], "deny by rule")
    told = second.requests[0].raw
    assert b"the first prompt" in told
    assert b"the second" in told
    assert second.outcome.usage.model_requests is None


async def test_an_unknown_session_is_never_quietly_a_new_one(copilot, play):
    session = {"kind": "resume", "id": "6f1a3b52-5d0c-4d7e-9a0e-2f8f5f0c9a12"}
    with pytest.raises(Unsupported) as caught:
        await play([DONE], session=session)
    assert caught.value.unmet[0].field == "session.id"
    with pytest.raises(Unsupported):
        await play([DONE], session={"kind": "new", "id": "no-uuid"})
    with pytest.raises(Unsupported):
        await play([DONE], session={"kind": "fork", "id": session["id"]})


async def test_what_a_request_carries_reaches_the_service(copilot, play):
    skills = copilot.workspace / ".github" / "skills" / "evil"
    skills.mkdir(parents=True)
    (skills / "SKILL.md").write_text("---\nname: evil\ndescription: tiger-lily\n---\nx")
    (copilot.workspace / "AGENTS.md").write_text("tiger-lily")
    (copilot.workspace / "notes.txt").write_text("tiger-lily")
    prompt = "/help @notes.txt \u2028 ${HOME} 'a' \"b\" -- {home} " + "x" * 200_000
    instructions = 'Be "brief": {{x}} {home} {endpoint:before} {token:before} ---\n# now'
    played = await play([DONE], prompt=prompt, instructions=instructions)
    told = json.dumps(played.requests[0].body, ensure_ascii=False)
    assert json.dumps(prompt, ensure_ascii=False)[1:-1] in told
    assert json.dumps(instructions)[1:-1] in told
    assert not played.knows(b"tiger-lily")
    assert played.outcome.ok
    assert not any("brief" in argument.text or "/help" in argument.text for argument in played.plan.argv)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "effort",
    ["minimal", *(pytest.param(word, marks=SLOW) for word in ("low", "medium", "high", "xhigh")), "max"],
)
@pytest.mark.sampled
async def test_effort_reaches_the_service(play, effort):
    played = await play([DONE], model="gpt-5.4", effort=effort)
    body = played.requests[0].body
    assert (body["model"], body["reasoning_effort"]) == ("gpt-5.4", effort)
