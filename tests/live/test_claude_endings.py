"""However a run of the real CLI is ended, nothing that it started is left, in bounded time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from interlock import Approve, Client, RunEnded, Status
from interlock.events import ApprovalRequested, RunFinished, ToolDecided
from interlock_fixtures.scripted_model import ScriptedModel, Stall, Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def of_the_test(live, *, guardian: bool = False) -> set[int]:
    """The agent and all that it started, told by a variable that it was given; and the guardian of another host."""
    given = f"HOME={live.home}" if guardian else f"TEST_MARK={live.folder}"
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if given.encode() in variables and state != "Z":
            found.add(int(entry.name))
    return found


def marked(live, model, **fields):
    """A request whose processes can be told from those of other tests."""
    return live.request(model, env={**live.service(model), "TEST_MARK": str(live.folder)}, **fields)


def words(hint: Path | None) -> str:
    return "it did not come to that" if hint is None else hint.read_text()


async def until(holds, seconds: float = 20.0, hint: Path | None = None) -> None:
    """Wait for a state of other processes, which announce nothing."""
    with anyio.move_on_after(seconds) as scope:
        while not holds():  # noqa: ASYNC110  what other processes do sets no event of ours
            await anyio.sleep(0.02)
    assert not scope.cancelled_caught, words(hint)


def sleeper(live) -> ToolCall:
    """A command that starts two further processes, one in a session of its own, and waits."""
    started = live.workspace / "started"
    command = f"setsid sleep 987 & sleep 986 & touch {started}; sleep 985"
    return ToolCall("Bash", {"command": command}, "t1")


async def running(live) -> set[int]:
    await until((live.workspace / "started").exists)
    await until(lambda: len(of_the_test(live)) >= 4)
    return of_the_test(live)


@BOTH_LOOPS
async def test_cancelling_while_a_command_runs_leaves_no_process(live):
    with ScriptedModel([Turn(sleeper(live)), DONE]) as model, anyio.fail_after(40):
        async with Client(state=live.state).stream(marked(live, model, permission=FULL)) as run:
            await running(live)
            begun = time.monotonic()
            await run.cancel()
            took = time.monotonic() - begun
            assert of_the_test(live) == set()
            outcome = await run.outcome()
            with pytest.raises(RunEnded):
                await run.interrupt()
    assert outcome.status is Status.CANCELLED
    assert took < 8


@BOTH_LOOPS
@pytest.mark.slow
async def test_leaving_the_block_while_a_command_runs_leaves_no_process(live):
    with ScriptedModel([Turn(sleeper(live)), DONE]) as model, anyio.fail_after(40):
        async with Client(state=live.state).stream(marked(live, model, permission=FULL)) as run:
            async for event in run:
                if isinstance(event, ToolDecided):
                    break
            await running(live)
        assert of_the_test(live) == set()
        assert (await run.outcome()).status is Status.CANCELLED


async def test_cancelling_the_task_that_reads_leaves_no_process(live):
    with ScriptedModel([Turn(sleeper(live)), DONE]) as model, anyio.fail_after(40):

        async def read() -> None:
            async with Client(state=live.state).stream(marked(live, model, permission=FULL)) as run:
                async for _ in run:
                    pass

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await running(live)
            group.cancel_scope.cancel()
        assert of_the_test(live) == set()


async def test_an_interrupt_ends_the_command_and_the_run(live):
    with ScriptedModel([Turn(sleeper(live)), DONE]) as model, anyio.fail_after(40):
        async with Client(state=live.state).stream(marked(live, model, permission=FULL)) as run:
            await running(live)
            await run.interrupt()
            outcome = await run.outcome()
        assert of_the_test(live) == set()
        assert len([request for request in model.requests if request.kind == "turn"]) == 1
    assert outcome.status is Status.CANCELLED


async def test_cancelling_while_an_approval_is_open_answers_it_with_no(live):
    with ScriptedModel([Turn(ToolCall("Bash", {"command": "touch made"})), DONE]) as model, anyio.fail_after(40):
        permission = {"posture": "none", "otherwise": "ask"}
        events = []
        async with Client(state=live.state).stream(marked(live, model, permission=permission)) as run:
            async for event in run:
                events.append(event)
                if isinstance(event, ApprovalRequested):
                    await run.cancel()
        assert isinstance(events[-1], RunFinished)
        assert events[-1].outcome.status is Status.CANCELLED
    assert not (live.workspace / "made").exists()
    assert of_the_test(live) == set()


async def test_cancelling_right_after_the_start_runs_nothing(live):
    with ScriptedModel([Turn(ToolCall("Bash", {"command": "touch made"})), DONE]) as model, anyio.fail_after(40):
        async with Client(state=live.state).stream(marked(live, model, permission=FULL)) as run:
            await run.cancel()
            outcome = await run.outcome()
    assert outcome.status is Status.CANCELLED
    assert not (live.workspace / "made").exists()
    assert of_the_test(live) == set()


async def test_cancelling_while_the_model_is_silent_is_quick(live):
    with ScriptedModel([Turn(Text("begun"), Stall(after="first_delta"))]) as model, anyio.fail_after(40):
        async with Client(state=live.state).stream(marked(live, model)) as run:
            async for event in run:
                if event.type == "text_delta":
                    break
            begun = time.monotonic()
            await run.cancel()
            took = time.monotonic() - begun
    assert took < 4
    assert of_the_test(live) == set()


HOST = """
import asyncio, json, signal, sys
from interlock import Client, Request

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have had it ignored

async def main():
    async with Client(state=sys.argv[2]).stream(Request.model_validate(json.loads(sys.argv[1]))) as run:
        await run.outcome()

asyncio.run(main())
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=["KILL", "TERM", "INT"])
async def test_the_death_of_the_host_leaves_no_process(live, how):
    with ScriptedModel([Turn(sleeper(live)), DONE]) as model:
        request = marked(live, model, permission=FULL).model_dump_json()
        argv = [sys.executable, "-c", HOST, request, str(live.state)]
        said = live.folder / "stderr"
        with said.open("wb") as stderr, subprocess.Popen(argv, stderr=stderr) as host:  # noqa: ASYNC220  returns at once
            try:
                await until((live.workspace / "started").exists, hint=said)
                await running(live)
                assert len(of_the_test(live, guardian=True)) > len(of_the_test(live))
                os.kill(host.pid, how)
                begun = time.monotonic()
                await until(lambda: not of_the_test(live), 10.0)
                took = time.monotonic() - begun
            finally:
                host.kill()
    assert took < 8
    await until(lambda: not of_the_test(live, guardian=True), 5.0)


async def test_a_person_who_approves_too_late_is_told_so(live):
    with ScriptedModel([DONE]) as model, anyio.fail_after(40):
        async with Client(state=live.state).stream(marked(live, model)) as run:
            outcome = await run.outcome()
            with pytest.raises(Exception, match="cannot be answered"):
                run.respond("approval-none", Approve())
    assert outcome.ok
