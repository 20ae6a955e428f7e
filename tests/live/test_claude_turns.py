"""Messages into a running turn, further turns and interrupts, on the real Claude Code through the engine.

A message is folded into the turn that runs if the model is asked once more in it, and else begins a turn of its own.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio
import pytest

from interlock import Client, Outcome, Permission, Run
from interlock.events import Notice, Text, ToolDecided, TurnFinished
from interlock.outcome import Reason, Status, Usage
from interlock_fixtures.scripted_model import HttpError, ScriptedModel, Stall, ToolCall, Turn
from interlock_fixtures.scripted_model import Text as Says
from interlock_fixtures.scripted_model import Usage as Used

pytestmark = [pytest.mark.anyio, pytest.mark.live]
FULL = Permission(posture="full")
LIMIT = 60.0
Reader = Callable[[Run, Any, ScriptedModel], Awaitable[None]]


class Talk:
    """A run that is over: what happened in each turn, and what the model was sent."""

    def __init__(self, events: Sequence[Any], outcome: Outcome, model: ScriptedModel) -> None:
        self.events, self.outcome = events, outcome
        self.requests = [request for request in model.requests if request.kind == "turn"]
        self.unplayed = model.unplayed

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def texts(self) -> list[tuple[int, str]]:
        return [(event.turn, event.text) for event in self.of(Text)]

    def turns(self) -> list[tuple[int, Status, str | None]]:
        return [(event.turn, event.status, event.text) for event in self.of(TurnFinished)]

    def told(self, words: str) -> list[bool]:
        """In which requests the model could read these words."""
        return [words in json.dumps(request.body) for request in self.requests]


async def converse(
    live: Any, script: Sequence[object], read: Reader, *, conversation: bool = False, **fields: object
) -> Talk:
    """A run to its end; `read` is given each event."""
    with ScriptedModel(script) as model, anyio.fail_after(LIMIT):
        events: list[Any] = []
        request = live.request(model, "first words", permission=FULL, **fields)
        async with Client(state=live.state) as client, client.stream(request, conversation=conversation) as run:
            async for event in run:
                events.append(event)
                await read(run, event, model)
            return Talk(events, await run.outcome(), model)


async def stalled(model: ScriptedModel) -> None:
    """The model has begun to answer and waits."""
    await anyio.to_thread.run_sync(partial(model.wait_until, lambda state: state.stalled == 1, LIMIT))


def sleeper(seconds: float) -> Turn:
    return Turn(ToolCall("Bash", {"command": f"sleep {seconds}"}, id="t1"))


def on_call(*texts: str) -> Reader:
    """Send these once the first call may run."""

    async def read(run: Run, event: Any, model: ScriptedModel) -> None:
        del model
        if isinstance(event, ToolDecided) and event.event == "pre_tool_use":
            for text in texts:
                await run.send(text)

    return read


def while_it_answers(*texts: str) -> Reader:
    """Send these while the model gives its last answer of the first turn."""

    async def read(run: Run, event: Any, model: ScriptedModel) -> None:
        if event.type == "run_started":
            await stalled(model)
            for text in texts:
                await run.send(text)
            model.release()

    return read


async def test_a_message_is_folded_into_the_turn_that_runs(live):
    talk = await converse(live, [sleeper(0.5), Turn(Says("done"))], on_call("second words"))
    assert talk.told("second words") == [False, True]
    assert talk.turns() == []
    assert (talk.outcome.status, talk.outcome.text) == (Status.COMPLETED, "done"), talk.outcome.describe()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_message_that_comes_too_late_has_a_turn_of_its_own_with_which_the_run_ends(live):
    script = [Turn(Says("one"), Stall(), usage=Used(100, 10)), Turn(Says("two"), usage=Used(200, 30))]
    talk = await converse(live, script, while_it_answers("second words"))
    assert talk.told("second words") == [False, True]
    assert talk.turns() == [(1, Status.COMPLETED, "one")]
    assert talk.texts() == [(1, "one"), (2, "two")]
    assert (talk.outcome.status, talk.outcome.text) == (Status.COMPLETED, "two")
    assert talk.outcome.usage == Usage(input_tokens=300, output_tokens=40, cache_read_tokens=0, cache_write_tokens=0)


async def test_messages_that_come_too_late_are_all_read_in_one_turn_or_more(live):
    """In one, if the agent has read all of them by then."""
    script = [Turn(Says("one"), Stall()), Turn(Says("two")), Turn(Says("three"))]
    talk = await converse(live, script, while_it_answers("second words", "third words"))
    assert talk.told("second words")[:2] == [False, True]
    assert talk.told("third words")[-1] is True
    assert talk.outcome.text == {2: "two", 3: "three"}[len(talk.requests)]
    assert talk.of(Notice) == []


async def test_a_message_before_the_agent_is_ready_is_not_lost(live):
    async def read(run: Run, event: Any, model: ScriptedModel) -> None:
        del model
        if event.type == "run_started":
            await run.send("second words")

    talk = await converse(live, [Turn(Says("one")), Turn(Says("two"))], read)
    assert any(talk.told("second words"))
    assert talk.outcome.status is Status.COMPLETED


async def test_a_late_message_in_a_conversation_is_its_next_turn(live):
    seen = 0

    async def read(run: Run, event: Any, model: ScriptedModel) -> None:
        nonlocal seen
        await while_it_answers("second words")(run, event, model)
        if isinstance(event, TurnFinished):
            seen += 1
            if seen == 2:
                await run.send("third words")
            if seen == 3:
                await run.finish()

    script = [Turn(Says("one"), Stall()), Turn(Says("two")), Turn(Says("three"))]
    talk = await converse(live, script, read, conversation=True)
    assert talk.turns() == [(1, Status.COMPLETED, "one"), (2, Status.COMPLETED, "two"), (3, Status.COMPLETED, "three")]
    assert talk.told("third words") == [False, False, True]
    assert len({event.run_id for event in talk.events}) == 1


async def test_a_late_message_is_read_even_if_the_conversation_is_finished_meanwhile(live):
    async def read(run: Run, event: Any, model: ScriptedModel) -> None:
        if event.type == "run_started":
            await stalled(model)
            await run.send("second words")
            await run.finish()
            model.release()

    talk = await converse(live, [Turn(Says("one"), Stall()), Turn(Says("two"))], read, conversation=True)
    assert talk.told("second words") == [False, True]
    assert talk.outcome.text == "two"


async def test_a_turn_that_fails_keeps_no_late_message_from_being_read(live):
    errors = [Turn(HttpError(400, "invalid_request_error"), Stall())] + (
        [Turn(HttpError(400, "invalid_request_error"))] * 5 if live.which == "newest" else []
    )
    talk = await converse(live, [*errors, Turn(Says("two"))], while_it_answers("second words"))
    assert [(turn, status) for turn, status, _ in talk.turns()] == [(1, Status.FAILED)]
    assert (talk.outcome.status, talk.outcome.text) == (Status.COMPLETED, "two")


@pytest.mark.sampled
async def test_a_message_that_the_agent_never_reads_is_said_to_be_lost(live):
    """Past its budget the agent ends every further turn at once."""
    script = [Turn(Says("one"), Stall()), Turn(Says("two"))]
    talk = await converse(live, script, while_it_answers("second words"), limits={"budget_usd": 0.00001})
    assert talk.told("second words") == [False]
    assert talk.outcome.reason is Reason.BUDGET
    assert [event.code for event in talk.of(Notice)] == ["message_lost"]


@pytest.mark.behaviour("cancel:interrupt", "cancel:next-turn", "cancel:shell-command")
async def test_an_interrupted_turn_leaves_nothing_to_the_next_and_the_process_goes_on(live):
    """The shell command is gone, and what is sent meanwhile waits for the end of the old turn."""
    mark = live.folder / "late"

    async def read(run: Run, event: Any, model: ScriptedModel) -> None:
        del model
        if isinstance(event, ToolDecided) and event.event == "pre_tool_use":
            await run.interrupt()
            await run.send("second words")
        if isinstance(event, TurnFinished) and event.turn == 2:
            await run.finish()

    first = Turn(ToolCall("Bash", {"command": f"sleep 20; touch {mark}"}, id="t1"))
    talk = await converse(live, [first, Turn(Says("two"))], read, conversation=True)
    assert talk.turns() == [(1, Status.CANCELLED, None), (2, Status.COMPLETED, "two")]
    assert talk.texts() == [(2, "two")]
    assert talk.told("second words") == [False, True]
    assert talk.outcome.status is Status.COMPLETED
    assert not mark.exists()


async def test_a_message_before_an_interrupt_has_the_next_turn(live):
    async def read(run: Run, event: Any, model: ScriptedModel) -> None:
        if event.type == "run_started":
            await stalled(model)
            await run.send("second words")
            await run.interrupt()

    talk = await converse(live, [Turn(Says("one"), Stall()), Turn(Says("two"))], read)
    assert talk.turns() == [(1, Status.CANCELLED, None)]
    assert talk.told("second words") == [False, True]
    assert (talk.outcome.status, talk.outcome.text) == (Status.COMPLETED, "two")


async def test_an_interrupted_run_of_one_turn_is_cancelled(live):
    async def read(run: Run, event: Any, model: ScriptedModel) -> None:
        if event.type == "run_started":
            await stalled(model)
            await run.interrupt()

    talk = await converse(live, [Turn(Says("one"), Stall())], read)
    assert (talk.outcome.status, talk.outcome.reason) == (Status.CANCELLED, None)


async def test_no_call_of_a_late_turn_runs_once_the_run_was_cancelled(live):
    mark = live.folder / "late"

    async def read(run: Run, event: Any, model: ScriptedModel) -> None:
        if event.type == "run_started":
            await stalled(model)
            await run.send("second words")
            await run.cancel()

    second = Turn(ToolCall("Bash", {"command": f"touch {mark}"}, id="t1"))
    talk = await converse(live, [Turn(Says("one"), Stall()), second, Turn(Says("three"))], read)
    assert talk.outcome.status is Status.CANCELLED
    assert not mark.exists()


async def test_the_usage_of_a_conversation_is_that_of_its_turns_once(live):
    async def read(run: Run, event: Any, model: ScriptedModel) -> None:
        del model
        if isinstance(event, TurnFinished):
            await (run.send("again") if event.turn < 3 else run.finish())

    calls = Turn(ToolCall("Bash", {"command": "true"}, id="t1"), usage=Used(10, 1))
    script = [calls, *[Turn(Says(f"{n}"), usage=Used(100 * n, 10 * n)) for n in (1, 2, 3)]]
    talk = await converse(live, script, read, conversation=True)
    assert [(event.usage.input_tokens, event.usage.output_tokens) for event in talk.of(TurnFinished)] == [
        (110, 11), (200, 20), (300, 30),
    ]  # fmt: skip
    assert (talk.outcome.usage.input_tokens, talk.outcome.usage.output_tokens) == (610, 61)
