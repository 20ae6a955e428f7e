"""Sessions of the real Claude Code through the engine: their ids, their directory, and who may go on with them."""

import json
import uuid
from functools import partial

import anyio
import pytest

from interlock import Client, Fork, NewSession, Permission, Resume, SessionBusy, Unsupported
from interlock.outcome import Status
from interlock_fixtures.scripted_model import ScriptedModel, Stall, Text, ToolCall, Turn

pytestmark = [pytest.mark.anyio, pytest.mark.live]
DONE = Turn(Text("done"))
MINE = str(uuid.UUID(int=7))


def remembers(request, words):
    return words in json.dumps(request.body)


async def test_a_session_is_resumed_in_its_directory_by_the_id_of_its_outcome(live):
    first = await live.play([Turn(Text("the heron"))], prompt="which bird?")
    session_id = first.outcome.session_id
    assert session_id
    second = await live.play([DONE], session=Resume(id=session_id))
    assert second.outcome.session_id == session_id
    (request,) = [request for request in second.requests if request.kind == "turn"]
    assert remembers(request, "which bird?")
    assert remembers(request, "the heron")


@pytest.mark.behaviour("sessions:directory")
async def test_a_session_of_another_directory_is_not_found_before_anything_is_started(live):
    """The newest would resume it and the oldest not; here neither does."""
    first = await live.play([DONE])
    elsewhere = live.folder / "elsewhere"
    elsewhere.mkdir()
    with ScriptedModel([DONE]) as model:
        request = live.request(model, cwd=str(elsewhere), session=Resume(id=first.outcome.session_id))
        with pytest.raises(Unsupported) as caught:
            await Client(state=live.state).run(request)
        assert [unmet.field for unmet in caught.value.unmet] == ["session.id"]
        assert model.requests == ()
    assert not list((live.state / "runs").glob("*"))


@pytest.mark.parametrize("session", [Resume(id=MINE), Fork(id=MINE)], ids=["resume", "fork"])
@pytest.mark.behaviour("sessions:not-found")
async def test_an_unknown_session_is_never_quietly_a_new_one(live, session):
    with ScriptedModel([DONE]) as model, pytest.raises(Unsupported):
        await Client(state=live.state).run(live.request(model, session=session))


@pytest.mark.slow
async def test_a_directory_of_any_name_keeps_its_sessions(live):
    """The folder of a session is named after its directory, by UTF-16 units; a long name is shortened by the CLI."""
    for name in ("ä b\N{GRINNING FACE}.c_d-e", "x" * 120 + "/" + "y" * 120):
        folder = live.folder / name
        folder.mkdir(parents=True)
        first = await live.play([DONE], cwd=str(folder))
        second = await live.play([DONE], cwd=str(folder), session=Resume(id=first.outcome.session_id))
        assert second.outcome.session_id == first.outcome.session_id


@pytest.mark.behaviour("sessions:taken")
async def test_an_id_of_ours_is_taken_and_cannot_be_taken_twice(live):
    """What is taken is the transcript, so a second run of the id is an error and no second history."""
    first = await live.play([DONE], session=NewSession(id=MINE))
    assert (first.outcome.status, first.outcome.session_id) == (Status.COMPLETED, MINE)
    second = await live.play([DONE], session=NewSession(id=MINE))
    assert second.outcome.status is Status.FAILED
    assert [request for request in second.requests if request.kind == "turn"] == []


@pytest.mark.behaviour("sessions:taken")
async def test_each_run_has_a_fresh_session(live):
    """A run after a failed one reuses nothing of it."""
    ids = [(await live.play([DONE])).outcome.session_id for _ in range(2)]
    assert len({*ids, None}) == 3


async def test_a_fork_leaves_the_session_as_it_was(live):
    await live.play([Turn(Text("the heron"))], prompt="which bird?", session=NewSession(id=MINE))
    forked = await live.play([Turn(Text("the kingfisher"))], session=Fork(id=MINE))
    assert forked.outcome.session_id not in {MINE, None}
    resumed = await live.play([DONE], session=Resume(id=MINE))
    (request,) = [request for request in resumed.requests if request.kind == "turn"]
    assert remembers(request, "the heron")
    assert not remembers(request, "the kingfisher")


@pytest.mark.behaviour("sessions:two-runs")
async def test_two_runs_do_not_go_on_with_one_session_at_once(live):
    """The second gets an error at once, and may go on once the first is over."""
    await live.play([DONE], session=NewSession(id=MINE))
    with ScriptedModel([Turn(Text("one"), Stall()), DONE]) as model, anyio.fail_after(60):
        request = live.request(model, session=Resume(id=MINE))
        async with Client(state=live.state) as client, Client(state=live.state) as other:
            async with client.stream(request) as run:
                await anyio.to_thread.run_sync(partial(model.wait_until, lambda state: state.stalled == 1, 60))
                with pytest.raises(SessionBusy) as caught:
                    await other.run(request)
                assert (caught.value.agent, caught.value.session_id) == ("claude", MINE)
                model.release()
                assert (await run.outcome()).ok
            assert (await other.run(request)).session_id == MINE


@pytest.mark.behaviour("sessions:permission")
async def test_a_resumed_run_has_the_permission_of_its_own_request(live):
    """What the first run was allowed is not what the second one is."""
    write = ToolCall("Bash", {"command": "touch made"}, id="t1")
    first = await live.play([Turn(write), DONE], permission=Permission(posture="full"))
    assert (live.workspace / "made").exists()
    (live.workspace / "made").unlink()
    again = ToolCall("Bash", {"command": "touch made"}, id="t2")
    second = await live.play(
        [Turn(again), DONE], permission=Permission(posture="read"), session=Resume(id=first.outcome.session_id)
    )
    assert second.decisions()["t2"].startswith("deny")
    assert not (live.workspace / "made").exists()
