"""Mailbox, docket, people and stopwatch: who waits for whom, and for how long."""

import gc

import anyio
import pytest

from interlock.approval import Answer, Approval, Approve, Deny, Question, QuestionItem
from interlock.engine.docket import Docket
from interlock.engine.mailbox import MOST_UNREAD, MOST_WEIGHT, Mailbox
from interlock.engine.people import People
from interlock.engine.stopwatch import Stopwatch
from interlock.errors import NotOpen
from interlock.events import ApprovalRequested, ApprovalResolved, BaseEvent, Notice, TextDelta
from interlock.tools import ToolCall

pytestmark = pytest.mark.anyio


def approval(name: str = "a1") -> Approval:
    call = ToolCall(tool_call_id="t1", tool_name="Bash", input={"command": "touch x"})
    return Approval(id=name, run_id="r", agent="claude", call=call)


def question() -> Question:
    return Question(id="q1", run_id="r", agent="claude", items=(QuestionItem(id="color", text="Which?"),))


def people(events: list[BaseEvent], wait: float | None = None, **handlers: object) -> People:
    return People(publish=events.append, clock=lambda: 100.0, wait=wait, streamed=True, **handlers)  # type: ignore[arg-type]


async def test_events_are_taken_in_order_and_none_comes_after_the_last() -> None:
    box = Mailbox()
    box.put([TextDelta(text="a"), TextDelta(text="b")])
    box.close()
    with anyio.fail_after(5):
        taken = [await box.take(), await box.take(), await box.take()]
    assert [event and event.text for event in taken] == ["a", "b", None]  # type: ignore[attr-defined]


async def test_the_writer_waits_for_a_slow_reader_and_goes_on_once_there_is_room() -> None:
    box = Mailbox(limit=2)
    box.put([TextDelta(text="a"), TextDelta(text="b")])
    assert box.full
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(box.room)
            await anyio.lowlevel.checkpoint()
            await box.take()
    assert not box.full


async def test_without_a_reader_a_relaxed_mailbox_keeps_nothing() -> None:
    box = Mailbox(limit=1)
    box.put([TextDelta(text="a")])
    box.relax(keep=0)
    box.put([TextDelta(text="b")])
    box.close()
    assert not box.full
    with anyio.fail_after(5):
        assert await box.take() is None


async def test_a_reader_that_shares_with_a_waiter_loses_nothing_within_the_bound() -> None:
    box = Mailbox(limit=1)
    box.put([TextDelta(text="first")])
    with anyio.fail_after(5):
        await box.take()
        box.relax()
        box.put([TextDelta(text=str(number)) for number in range(MOST_UNREAD + 1)])
        event = await box.take()
    assert isinstance(event, TextDelta)
    assert event.text == "1"


async def test_a_relaxed_mailbox_keeps_what_a_later_reader_finds() -> None:
    box = Mailbox(limit=1)
    box.put([TextDelta(text="a")])
    box.relax()
    box.put([TextDelta(text="b")])
    assert not box.full
    with anyio.fail_after(5):
        taken = [await box.take(), await box.take()]
    assert [event and event.text for event in taken] == ["a", "b"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("relaxed", [False, True])
async def test_unread_events_are_bounded_by_their_weight_too(relaxed: bool) -> None:
    box = Mailbox()
    for number in range(2):
        text = str(number) * (MOST_WEIGHT // 2 + 1)
        box.weigh(len(text))
        box.put([TextDelta(text=text)])
    assert box.full
    if relaxed:
        box.relax()
    assert not box.full or not relaxed
    with anyio.fail_after(5):
        first = await box.take()
        assert box.full is False
    assert isinstance(first, TextDelta)
    assert first.text[0] == ("1" if relaxed else "0")


async def test_what_is_said_of_a_dropped_line_weighs_what_it_holds_and_stays() -> None:
    box = Mailbox()
    box.weigh(4 * MOST_WEIGHT)
    box.put([Notice(code="line_too_long", message="dropped")])
    box.put([TextDelta(text="small")])
    assert not box.full
    box.relax()
    box.close()
    with anyio.fail_after(5):
        assert isinstance(await box.take(), Notice)


async def test_a_docket_answers_each_case_once() -> None:
    docket: Docket[str, int] = Docket("approval")
    docket.enter("a", "subject")
    docket.answer("a", 1, "user")
    with pytest.raises(NotOpen, match="no longer open"):
        docket.answer("a", 2, "user")
    docket.leave("a")
    with pytest.raises(NotOpen, match="no longer open"):
        docket.answer("a", 3, "user")
    with pytest.raises(NotOpen, match="no such approval") as caught:
        docket.answer("b", 3, "user")
    assert caught.value.id == "b"


async def test_whoever_answers_first_decides() -> None:
    events: list[BaseEvent] = []
    asked = people(events)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:

            async def answer() -> None:
                asked.approvals.answer("a1", Approve(), "user")

            group.start_soon(answer)
            resolution = await asked.decide(approval(), lambda: False)
    assert (resolution.answer, resolution.by) == (Approve(), "user")
    assert [type(event) for event in events] == [ApprovalRequested, ApprovalResolved]


async def test_an_approver_answers_for_a_client() -> None:
    async def approver(asked: Approval) -> Deny:
        return Deny(reason=f"not {asked.call.tool_name}")

    events: list[BaseEvent] = []
    with anyio.fail_after(5):
        resolution = await people(events, approver=approver).decide(approval(), lambda: False)
    assert (resolution.answer, resolution.by) == (Deny(reason="not Bash"), "approver")


async def test_a_deadline_denies_as_expired() -> None:
    events: list[BaseEvent] = []
    with anyio.fail_after(5):
        resolution = await people(events, wait=0.01).decide(approval(), lambda: False)
    assert resolution.by == "expired"
    assert isinstance(resolution.answer, Deny)
    resolved = events[-1]
    assert isinstance(resolved, ApprovalResolved)
    assert resolved.by == "expired"


class _Raises:
    async def __call__(self, asked: Approval) -> Approve:
        raise ValueError("broken on purpose")


class _Nothing:
    async def __call__(self, asked: Approval) -> None:
        return None


class _Wrong:
    async def __call__(self, asked: Approval) -> dict[str, str]:
        return {"decision": "approve"}


class _Hangs:
    async def __call__(self, asked: Approval) -> None:
        await anyio.sleep_forever()


@pytest.mark.parametrize("broken", [_Raises(), _Nothing(), _Wrong()])
async def test_a_broken_approver_denies_and_is_reported_once(broken: object) -> None:
    events: list[BaseEvent] = []
    with anyio.fail_after(5):
        resolution = await people(events, approver=broken).decide(approval(), lambda: False)
    assert resolution.answer == Deny(reason="approval handler failed")
    notices = [event for event in events if isinstance(event, Notice)]
    assert [notice.code for notice in notices] == ["approver_broken"]


async def test_an_approver_that_never_answers_is_cut_off_by_the_deadline() -> None:
    events: list[BaseEvent] = []
    with anyio.fail_after(5):
        resolution = await people(events, wait=0.01, approver=_Hangs()).decide(approval(), lambda: False)
    assert resolution.by == "expired"


async def test_a_cancelled_approval_is_resolved_as_denied_by_cancellation() -> None:
    events: list[BaseEvent] = []
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(people(events).decide, approval(), lambda: False)
            while not events:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    resolved = events[-1]
    assert isinstance(resolved, ApprovalResolved)
    assert (resolved.decision, resolved.by) == ("deny", "cancelled")


async def test_questions_are_answered_declined_or_expire() -> None:
    async def answerer(asked: Question) -> Answer:
        return Answer.model_validate({"answers": {asked.items[0].id: ["red"]}})

    events: list[BaseEvent] = []
    with anyio.fail_after(5):
        answer = await people(events, answerer=answerer).answer(question(), lambda: False)
        late = await people(events, wait=0.01).answer(question(), lambda: False)
    assert answer.answers == {"color": ("red",)}
    assert late.declined


async def test_a_stopwatch_stands_still_while_paused_and_counts_nested_pauses_once() -> None:
    now = 0.0
    watch = Stopwatch(lambda: now)
    now = 1.0
    with watch.paused():
        now = 5.0
        with watch.paused():
            now = 8.0
        assert watch.elapsed() == 1.0
    now = 10.0
    assert watch.elapsed() == 3.0


async def test_dropping_everything_leaves_no_noise() -> None:
    box = Mailbox()
    del box
    gc.collect()
