"""Approvals of a running batch, answered by other processes through its folder."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock import Approve, Deny, JournalFailed, NotOpen, Permission
from interlock.batch.approval_queue import OpenApproval, Queue

pytestmark = pytest.mark.anyio
ASKS = Permission(posture="none", otherwise="ask")


@asynccontextmanager
async def asking(batches: Any, count: int, **more: Any) -> AsyncIterator[tuple[Any, Queue]]:
    """A batch whose runs ask, with its queue."""
    tasks = [batches.task(batches.ran(f"r{n}"), {"text": "ok"}, id=f"r{n}", permission=ASKS) for n in range(count)]
    with anyio.fail_after(60):
        async with batches.open(tasks, asking=True, **more) as runs, anyio.create_task_group() as group:
            group.start_soon(runs.queue_approvals)
            yield runs, Queue(batches.folder)


async def waiting(queue: Queue, count: int) -> tuple[OpenApproval, ...]:
    """What waits, once so many do."""
    while len(found := queue.open()) < count:  # noqa: ASYNC110  # files tell nothing
        await anyio.sleep(0.01)
    return found


@pytest.mark.behaviour("batch:approval-queue")
async def test_what_waits_is_listed_exactly_and_answered_in_any_order(batches: Any) -> None:
    async with asking(batches, 3) as (runs, queue):
        listed = {one.run: one for one in await waiting(queue, 3)}
        assert [approval.id for approval in runs.open_approvals] == [one.id for one in queue.open()]
        for run, one in listed.items():
            assert f"echo {run} >> {batches.ledger}" in one.approval.display()
        queue.answer(listed["r2"], Approve())
        queue.answer(listed["r0"], Deny(reason="not today"))
        assert (await queue.taken(listed["r2"].id)).taken
        assert (await queue.taken(listed["r0"].id)).taken
        assert [one.run for one in queue.open()] == ["r1"]
        queue.answer(listed["r1"], Approve())
        found = {result.run: result async for result in runs}
    assert batches.executions() == {"r1": 1, "r2": 1}
    assert [denial.reason for denial in found["r0"].outcome.denials] == ["not today"]
    assert queue.open() == ()


@pytest.mark.behaviour("batch:approval-queue")
async def test_a_second_answer_an_unknown_one_and_one_that_comes_too_late_are_errors(batches: Any) -> None:
    async with asking(batches, 2) as (runs, queue):
        first, second = await waiting(queue, 2)
        unknown = second.model_copy(update={"approval": second.approval.model_copy(update={"id": "approval-0"})})
        with pytest.raises(NotOpen, match="no approval of this id"):
            queue.answer(unknown, Approve())
        outside = second.model_copy(update={"approval": second.approval.model_copy(update={"id": "../x"})})
        with pytest.raises(NotOpen, match="no id"):
            queue.answer(outside, Approve())
        queue.answer(first, Deny())
        with pytest.raises(NotOpen):
            queue.answer(first, Approve())
        assert (await queue.taken(first.id)).taken
        with pytest.raises(NotOpen, match="it was answered"):
            queue.answer(first, Approve())
        await runs.cancel(second.run)
        assert not (await queue.taken(second.id)).taken
        with pytest.raises(NotOpen, match="withdrawn"):
            queue.answer(second, Approve())
        await runs.report()
    assert not batches.executions()
    with pytest.raises(NotOpen, match="does not run any more"):
        queue.answer(unknown, Approve())


@pytest.mark.behaviour("batch:approval-queue")
async def test_an_answer_to_something_else_than_what_waits_is_not_taken(batches: Any) -> None:
    """Somebody changes the file, so that a person approves what looks harmless: nothing runs."""
    async with asking(batches, 1) as (runs, queue):
        (one,) = await waiting(queue, 1)
        path = batches.folder / "approvals" / f"{one.id}.json"
        path.write_bytes(path.read_bytes().replace(str(batches.ledger).encode(), b"/dev/null"))
        (shown,) = queue.open()
        assert "/dev/null" in shown.approval.display()
        queue.answer(shown, Approve())
        assert not (await queue.taken(one.id, seconds=0.5)).taken
        assert [approval.id for approval in runs.open_approvals] == [one.id]
        queue.answer(one, Deny())  # what truly waits can still be answered
        await runs.report()
    assert not batches.executions()


@pytest.mark.behaviour("batch:approval-queue")
@pytest.mark.parametrize("how", ["others may write", "a link", "nonsense"])
async def test_an_answer_that_others_can_have_written_is_not_taken(batches: Any, how: str) -> None:
    async with asking(batches, 1) as (runs, queue):
        (one,) = await waiting(queue, 1)
        path = batches.folder / "approvals" / f"{one.id}.answer"
        answer = json.dumps({"queue": 1, "shown": one.digest(), "decision": {"decision": "approve"}})
        made = batches.bench.folder / "made"
        made.write_text("nonsense" if how == "nonsense" else answer, "utf-8")
        made.chmod(0o666 if how == "others may write" else 0o600)
        if how == "a link":
            path.symlink_to(made)
        else:
            made.rename(path)
        while path.is_symlink() or path.exists():  # noqa: ASYNC110  # until it is looked at
            await anyio.sleep(0.01)
        assert [approval.id for approval in runs.open_approvals] == [one.id]
        queue.answer(one, Deny())
        await runs.report()
    assert not batches.executions()


@pytest.mark.behaviour("batch:approval-queue")
async def test_a_folder_that_others_can_use_serves_no_queue(batches: Any) -> None:
    with anyio.fail_after(30):
        async with batches.open(batches.tasks(1), asking=True) as runs:
            folder = Path(batches.folder) / "approvals"
            folder.mkdir()
            folder.chmod(0o755)
            with pytest.raises(JournalFailed, match="this user alone"):
                await runs.queue_approvals()
