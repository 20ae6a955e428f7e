"""A batch with real agents: each run counted once, one trouble harms no other, and every end is in good order."""

import json
from typing import Any

import anyio
import pytest

from interlock import BatchBusy, ConfigurationError, Given, Retries, RunStatus, TasksChanged, read_batch
from interlock.outcome import Reason

pytestmark = pytest.mark.anyio
QUICK = Retries(wait=0.01, longest_wait=0.05)


@pytest.mark.behaviour("batch:counted-once")
async def test_each_run_is_counted_once_with_its_own_answer(batches: Any) -> None:
    found = await batches.results(batches.tasks(6))
    assert {run: result.outcome.text for run, result in found.items()} == {f"r{n}": f"answer {n}" for n in range(1, 7)}
    assert all(result.ok and result.attempts == 1 for result in found.values())
    assert set(batches.executions().values()) == {1}
    assert len(batches.lines("outcome")) == 6
    lines = [json.loads(line) for line in (batches.folder / "results.jsonl").read_text("utf-8").splitlines()]
    assert {line["run"]: line["outcome"]["text"] for line in lines} == {r: x.outcome.text for r, x in found.items()}


async def test_results_come_as_they_are_counted_or_in_the_order_of_the_tasks(batches: Any) -> None:
    fifo = batches.bench.fifo
    slow = {"tool": "Bash", "input": {"command": f"cat {fifo}"}}
    tasks = [batches.task(slow, {"text": "slow"}, id="slow"), batches.task({"text": "fast"}, id="fast")]
    with anyio.fail_after(30):
        async with batches.open(tasks) as runs:
            counted = aiter(runs)
            assert (await anext(counted)).run == "fast"
            await anyio.to_thread.run_sync(fifo.write_text, "go\n")
            assert (await anext(counted)).run == "slow"
            assert [result.run async for result in runs.results(order="submitted")] == ["slow", "fast"]
            assert [result.run async for result in runs] == ["fast", "slow"]


@pytest.mark.behaviour("batch:one-failure")
async def test_one_run_that_fails_or_kills_its_agent_stops_no_other(batches: Any) -> None:
    tasks = [
        batches.task({"exit": 3}, id="crashes"),
        batches.task({"die": "SIGKILL"}, id="dies"),
        batches.task({"error_result": {"api_error_status": 400, "subtype": "success", "result": "bad"}}, id="refused"),
        batches.task(id="unknown-agent", agent="nobody"),
        batches.task(id="no-binary", binary="/nonexistent/claude"),
        *batches.tasks(4),
    ]
    found = await batches.results(tasks, retries=QUICK)
    assert {run for run, result in found.items() if result.ok} == {"r1", "r2", "r3", "r4"}
    assert found["dies"].status is RunStatus.POISON
    assert found["dies"].attempts == 2
    assert found["dies"].outcome.signal == 9
    assert found["crashes"].status is RunStatus.FAILED
    assert found["crashes"].attempts == 3
    assert found["crashes"].outcome.reason is Reason.CRASHED
    assert found["refused"].attempts == 1
    assert "nobody" in found["unknown-agent"].outcome.message
    assert "/nonexistent/claude" in found["no-binary"].outcome.message


@pytest.mark.behaviour("batch:retries")
async def test_a_transient_error_is_tried_again_as_a_new_attempt(batches: Any) -> None:
    binary = batches.first([{"exit": 3}], [{"die": "SIGTERM"}], then=[{"text": "at last"}])
    found = await batches.results([batches.task(id="r", binary=binary)], retries=QUICK)
    assert found["r"].outcome.text == "at last"
    assert found["r"].attempts == 3
    assert [line.kind for line in batches.lines("retried", "lost", "outcome")] == ["retried", "lost", "outcome"]
    assert len({line.attempt for line in batches.lines("started")}) == 3


@pytest.mark.behaviour("batch:retries")
async def test_a_run_that_must_not_run_again_is_counted_as_lost(batches: Any) -> None:
    found = await batches.results([batches.task({"die": "SIGKILL"}, id="r", retry_lost=False)])
    assert found["r"].status is RunStatus.LOST
    assert len(batches.lines("started")) == 1


@pytest.mark.behaviour("batch:throttled")
async def test_a_storm_of_429_shrinks_the_share_burns_no_attempt_and_ends(batches: Any) -> None:
    limited = [{"error_result": {"api_error_status": 429, "subtype": "success", "result": "slow down"}}]
    binary = batches.first(*[limited] * 5, then=[{"text": "ok"}])
    tasks = [batches.task(id=f"r{n}", binary=binary) for n in range(8)]
    with anyio.fail_after(60):
        async with batches.open(tasks, retries=QUICK) as runs:
            seen = [runs.progress().limits.get("claude", 4.0) async for _ in runs]
            report = await runs.report()
    assert report.ok
    assert report.throttled == 5
    assert report.attempts == 8
    assert min(seen) < 4
    assert seen[-1] > min(seen)
    assert report.spent.unknown == 0


@pytest.mark.behaviour("batch:exhausted")
async def test_an_exhausted_quota_pauses_that_agent_alone(batches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other agent is the same program under another name."""
    from interlock.engine import registry  # noqa: PLC0415

    points = dict(registry._installed())
    monkeypatch.setattr(registry, "_installed", lambda: {**points, "other": points["claude"]})
    over = [
        {"rate_limit_event": {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": 4_000_000_000}},
        {"error_result": {"api_error_status": 429, "subtype": "success", "result": "limit reached"}},
    ]
    tasks = [
        batches.task(*over, id="limited"),
        *(batches.task(batches.ran("waits"), id=f"waits{n}") for n in range(3)),
        *(batches.task(id=f"other{n}", agent="other") for n in range(3)),
    ]
    options = {"retries": Retries(longest_pause=60), "agents": {"claude": 1}}
    with anyio.fail_after(60):
        async with batches.open(tasks, **options) as runs:
            found = {result.run async for result in runs}
            report = await runs.report()
    assert found == {"other0", "other1", "other2"}
    assert (report.why, report.unfinished, report.attempts) == ("paused", 4, 3)
    assert [(paused.agent, paused.until) for paused in report.paused] == [("claude", 4_000_000_000)]
    assert not batches.executions()


@pytest.mark.behaviour("batch:exhausted")
async def test_a_quota_that_is_reset_soon_is_waited_for(batches: Any) -> None:
    import time  # noqa: PLC0415

    over = [
        {"rate_limit_event": {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": int(time.time()) + 2}},
        {"error_result": {"api_error_status": 429, "subtype": "success", "result": "limit reached"}},
    ]
    binary = batches.first(over, then=[{"text": "after the reset"}])
    found = await batches.results([batches.task(id="r", binary=binary)])
    assert found["r"].outcome.text == "after the reset"
    assert found["r"].attempts == 1
    assert time.time() >= batches.lines("throttled")[0].until


@pytest.mark.behaviour("batch:cancel")
async def test_cancel_ends_everything_and_what_ran_is_run_when_it_is_resumed(batches: Any) -> None:
    tasks = [batches.task(id="done"), *(batches.task(batches.bench.sleeper(), id=f"s{n}") for n in range(3))]
    with anyio.fail_after(60), batches.listen() as heard:
        async with batches.open(tasks) as runs:
            for _ in range(3):
                await heard.pid()
            assert [result.run async for result in _first(runs, 1)] == ["done"]
            await runs.cancel()
            assert batches.bench.survivors() == []
            report = await runs.report()
    assert (report.why, report.unfinished) == ("cancelled", 3)
    view = read_batch(batches.folder)
    assert [run.run for run in view.runs() if run.status is None] == ["s0", "s1", "s2"]
    assert view.holder is None


@pytest.mark.behaviour("batch:cancel")
async def test_leaving_the_block_early_ends_everything(batches: Any) -> None:
    with anyio.fail_after(60), batches.listen() as heard:
        async with batches.open([batches.task(batches.bench.sleeper())]) as runs:
            await heard.pid()
            assert len(runs.progress().running) == 1
    batches.bench.assert_nothing_left()
    with anyio.fail_after(60), batches.listen() as heard:
        with anyio.CancelScope() as scope:
            async with batches.open(None):
                await heard.pid()
                scope.cancel()
                await anyio.sleep_forever()
    batches.bench.assert_nothing_left()


async def test_one_run_alone_can_be_cancelled(batches: Any) -> None:
    tasks = [batches.task(batches.bench.sleeper(), id="runs"), batches.task(id="waits"), batches.task(id="third")]
    with anyio.fail_after(60), batches.listen() as heard:
        async with batches.open(tasks, concurrency=1) as runs:
            await heard.pid()
            await runs.cancel("waits")
            await runs.cancel("runs")
            found = {result.run: result.status async for result in runs}
            with pytest.raises(KeyError):
                await runs.cancel("nobody")
    assert found == {"runs": "cancelled", "waits": "cancelled", "third": "completed"}


@pytest.mark.behaviour("batch:resume")
async def test_a_resumed_batch_runs_only_what_is_not_counted(batches: Any) -> None:
    tasks = batches.tasks(6)
    with anyio.fail_after(60):
        async with batches.open(tasks, concurrency=1) as runs:
            first = {result.run async for result in _first(runs, 2)}
            await runs.cancel()
    counted = {line.run for line in batches.lines("outcome")}
    before = batches.executions()
    found = await batches.results(tasks)
    assert set(found) == {f"r{n}" for n in range(1, 7)}
    assert {run for run, result in found.items() if result.earlier} == counted
    assert first <= counted
    assert all(batches.executions()[run] == before[run] for run in counted)
    assert len(batches.lines("outcome")) == 6


@pytest.mark.behaviour("batch:resume")
async def test_other_tasks_are_refused(batches: Any) -> None:
    tasks = batches.tasks(3)
    await batches.results(tasks)
    other = [*tasks[:2], batches.task(id="r3")]
    for changed, words in (
        (other, "task 3 \\(r3\\)"),
        (tasks[:2], "3 tasks, and 2"),
        ([*tasks, other[2]], "twice|more"),
    ):
        with pytest.raises((TasksChanged, ConfigurationError), match=words):
            async with batches.open(changed):
                pass
    assert len(batches.lines("opened")) == 1
    assert len(await batches.results(tasks)) == 3
    assert len(await batches.results(None)) == 3


@pytest.mark.behaviour("batch:second-driver")
async def test_a_second_driver_is_refused(batches: Any) -> None:
    with anyio.fail_after(60), batches.listen() as heard:
        async with batches.open([batches.task(batches.bench.sleeper())]):
            await heard.pid()
            with pytest.raises(BatchBusy, match="process"):
                async with batches.open(None):
                    pass
            assert (read_batch(batches.folder).holder or "").startswith("process")
    assert len(batches.lines("opened")) == 1


async def test_only_failed_runs_run_again(batches: Any) -> None:
    binary = batches.first([{"error_result": {"api_error_status": 400, "result": "bad"}}], then=[{"text": "better"}])
    tasks = [batches.task(id="fails", binary=binary), *batches.tasks(2)]
    found = await batches.results(tasks, concurrency=1)
    assert found["fails"].status is RunStatus.FAILED
    again = await batches.results(None, only_failed=True)
    assert {run: result.status for run, result in again.items()} == dict.fromkeys(("fails", "r1", "r2"), "completed")
    assert batches.executions() == {"r1": 1, "r2": 1}
    assert len((batches.folder / "results.jsonl").read_text("utf-8").splitlines()) == 3


@pytest.mark.behaviour("batch:given")
async def test_two_runs_that_may_write_never_share_a_directory(batches: Any) -> None:
    shared = str(batches.workspace())
    step = {"tool": "Bash", "input": {"command": "mkdir alone && sleep 0.05 && rmdir alone && echo ok"}}
    tasks = [batches.task(step, {"text": "ok"}, id=f"r{n}", cwd=shared) for n in range(4)]
    with anyio.fail_after(60):
        async with batches.open(tasks) as runs:
            most = max([len(runs.progress().running) async for _ in runs])
            report = await runs.report()
    assert report.ok
    assert most <= 1
    events = b"".join(path.read_bytes() for path in batches.folder.glob("runs/*/*/events.jsonl"))
    assert b"File exists" not in events


async def test_runs_share_a_directory_where_their_task_says_so(batches: Any) -> None:
    shared, fifo = str(batches.workspace()), batches.bench.fifo
    meet = {"tool": "Bash", "input": {"command": f"echo $$ > {fifo}; sleep 600"}}
    tasks = [batches.task(meet, id=f"r{n}", cwd=shared, workspace=Given(exclusive=False)) for n in range(2)]
    with anyio.fail_after(30), batches.listen() as heard:
        async with batches.open(tasks):
            assert await heard.pid() != await heard.pid()


async def test_the_journal_never_lies_where_an_agent_writes(batches: Any) -> None:
    place = batches.workspace()
    found = await batches.results([batches.task(batches.ran("r"), id="r", cwd=str(place))], folder=place / "out")
    assert found["r"].outcome.reason is Reason.UNSUPPORTED
    assert "would lie inside of" in found["r"].outcome.message
    assert not batches.executions()


async def test_the_whole_batch_has_a_deadline(batches: Any) -> None:
    with anyio.fail_after(60):
        async with batches.open([batches.task(batches.bench.sleeper("exec sleep 600"))], total=0.5) as runs:
            report = await runs.report()
    assert (report.why, report.unfinished) == ("deadline", 1)
    batches.bench.assert_nothing_left()


async def test_one_attempt_has_a_deadline_by_the_wall(batches: Any) -> None:
    found = await batches.results([batches.task({"sleep": 600}, id="r")], attempt_total=0.5)
    assert (found["r"].status, found["r"].outcome.reason) == (RunStatus.TIMED_OUT, Reason.DEADLINE)


async def _first(runs: Any, count: int) -> Any:
    left = count
    async for result in runs:
        yield result
        left -= 1
        if not left:
            return
