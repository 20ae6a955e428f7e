"""Executors: anything that takes bytes and gives bytes; what it loses, or does twice, changes no count."""

import json
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from pydantic import ValidationError
from tests.engine.conftest import MARK

from interlock import (
    Approve,
    AttemptLost,
    BatchError,
    Budget,
    ChainNames,
    Client,
    ConfigurationError,
    Deny,
    HookSpec,
    NotOpen,
    Permission,
    Request,
    Retries,
    RunStatus,
    Task,
    execute_attempt,
    read_batch,
)
from interlock.batch.inbox import deliver, running_keys
from interlock.batch.wire import Asked, AttemptResult, AttemptSpec, Started, news_adapter
from interlock.outcome import Outcome, Reason, Status
from interlock_fixtures.recording import load_recording
from interlock_fixtures.replay import Faults, install_replay, moved

pytestmark = pytest.mark.anyio
RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"
ASKS = Permission(posture="none", otherwise="ask")


class Threads:
    """Attempts in threads, each with a loop of its own, as a worker of a cluster would make them."""

    shares_files = False

    def __init__(self, workers: int = 2) -> None:
        self._pool = ThreadPoolExecutor(workers)
        self._workers = workers
        self._news: list[bytes] = []
        self._told = threading.Condition()

    async def capacity(self) -> int:
        return self._workers

    async def execute(self, spec: bytes, *, key: str) -> bytes:
        try:
            return await anyio.to_thread.run_sync(self._make, spec, abandon_on_cancel=False)
        except ValidationError as error:
            raise AttemptLost(str(error)) from error

    def _make(self, spec: bytes) -> bytes:
        return self._pool.submit(execute_attempt, spec, self._tell).result()

    def _tell(self, news: bytes) -> None:
        with self._told:
            self._news.append(news)
            self._told.notify_all()

    async def send(self, key: str, message: bytes) -> bool:
        return deliver(key, message)

    async def events(self) -> AsyncIterator[bytes]:
        at = 0
        while True:
            while at < len(self._news):
                yield self._news[at]
                at += 1
            await anyio.sleep(0.01)


@pytest.fixture(autouse=True)
def _state(batches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers make clients of their own, with the default state."""
    batches.bench.state = batches.bench.folder / "default-state" / "interlock"


class Fake:
    """Says what it is told to say, without any agent."""

    shares_files = True

    begun: anyio.Event

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.specs: list[AttemptSpec] = []

    async def capacity(self) -> int:
        return 4

    async def execute(self, spec: bytes, *, key: str) -> bytes:
        parsed = AttemptSpec.parse_json(spec)
        assert parsed.key == key
        self.specs.append(parsed)
        answer = self.answers.pop(0) if self.answers else "done"
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, bytes):
            return answer
        outcome = Outcome(run_id="x", agent="claude", status=Status.COMPLETED, text=answer)
        return AttemptResult(key=key, attempt="01-fake", started=True, outcome=outcome).to_json().encode()


@pytest.mark.behaviour("batch:executor")
async def test_attempts_in_threads_of_another_loop_are_counted_and_their_events_come_home(batches: Any) -> None:
    found = await batches.results(batches.tasks(4), executor=Threads())
    assert {run: result.outcome.text for run, result in found.items()} == {f"r{n}": f"answer {n}" for n in range(1, 5)}
    assert batches.executions() == {f"r{n}": 1 for n in range(1, 5)}
    for result in found.values():
        events = batches.folder / "runs" / result.run / result.attempt / "events.jsonl"
        assert b'"type":"run_finished"' in events.read_bytes()
    assert running_keys() == ()


@pytest.mark.behaviour("batch:executor")
async def test_a_batch_in_threads_is_cancelled_by_message(batches: Any) -> None:
    with anyio.fail_after(60), batches.listen() as heard:
        async with batches.open([batches.task(batches.bench.sleeper()) for _ in range(2)], executor=Threads()) as runs:
            await heard.pid()
            await heard.pid()
            await runs.cancel()
            assert batches.bench.survivors() == []
            assert (await runs.report()).unfinished == 2
    assert len(batches.lines("ended")) == 2


@pytest.mark.behaviour("batch:executor")
@pytest.mark.parametrize("answer", [AttemptLost("worker gone"), RuntimeError("bug"), b"{}", b"\x80"])
async def test_whatever_an_executor_raises_or_gives_is_a_loss_that_is_made_good(batches: Any, answer: Any) -> None:
    fake = Fake(answer)
    found = await batches.results([batches.task(id="r")], executor=fake)
    assert found["r"].ok
    assert found["r"].attempts == 2
    assert [spec.number for spec in fake.specs] == [1, 2]
    assert len({spec.key for spec in fake.specs}) == 2
    assert len(batches.lines("lost")) == 1


@pytest.mark.behaviour("batch:executor")
async def test_a_run_that_kills_its_worker_again_and_again_is_poison_and_others_go_on(batches: Any) -> None:
    class Killed(Fake):
        async def execute(self, spec: bytes, *, key: str) -> bytes:
            if AttemptSpec.parse_json(spec).run == "bad":
                raise AttemptLost("worker gone")
            return await super().execute(spec, key=key)

    tasks = [batches.task(id="bad"), batches.task(id="good")]
    found = await batches.results(tasks, executor=Killed(), retries=Retries(lost=3))
    assert (found["bad"].status, found["good"].status) == (RunStatus.POISON, RunStatus.COMPLETED)
    assert found["bad"].outcome.message == "worker gone"
    assert found["bad"].attempts == 3


@pytest.mark.behaviour("batch:executor")
async def test_an_executor_that_makes_an_attempt_twice_is_seen_and_counted_once(batches: Any) -> None:
    class Twice(Threads):
        def _make(self, spec: bytes) -> bytes:
            super()._make(spec)
            return super()._make(spec)

    found = await batches.results([batches.task(batches.ran("r"), {"text": "ok"}, id="r")], executor=Twice())
    assert found["r"].attempts == 1
    started = [line.attempt for line in batches.lines("started")]
    assert len(started) == 2
    assert [line.attempt for line in batches.lines("superseded")] == started[:1]
    assert found["r"].attempt == started[1]
    assert len(batches.lines("outcome")) == 1


@pytest.mark.behaviour("batch:executor")
async def test_an_executor_of_which_the_batch_hears_nothing_still_counts_and_is_still_cancelled(batches: Any) -> None:
    class Deaf(Fake):
        async def execute(self, spec: bytes, *, key: str) -> bytes:
            if AttemptSpec.parse_json(spec).run == "sleeps":
                await anyio.sleep_forever()
            return await super().execute(spec, key=key)

    with anyio.fail_after(30):
        async with batches.open([batches.task(id="sleeps"), batches.task(id="r")], executor=Deaf()) as runs:
            assert (await anext(aiter(runs))).run == "r"
            await runs.cancel()
            assert (await runs.report()).unfinished == 1


@pytest.mark.behaviour("batch:cancel")
async def test_one_run_that_no_message_reaches_is_cut_off_and_counted(batches: Any) -> None:
    class Deaf(Fake):
        async def execute(self, spec: bytes, *, key: str) -> bytes:
            self.begun.set()
            await anyio.sleep_forever()
            return b""

    deaf = Deaf()
    deaf.begun = anyio.Event()
    with anyio.fail_after(30):
        async with batches.open([batches.task(id="r")], executor=deaf) as runs:
            await deaf.begun.wait()
            await runs.cancel("r")
            assert [result.status async for result in runs] == ["cancelled"]
            assert (await runs.report()).why == "done"


@pytest.mark.behaviour("batch:executor")
@pytest.mark.parametrize("attempt", ["../../../escaped", "01/x", "", "x"])
async def test_a_result_whose_name_would_lead_out_of_the_folder_is_none(batches: Any, attempt: str) -> None:
    outcome = Outcome(run_id="x", agent="claude", status=Status.COMPLETED, text="forged")
    forged = AttemptResult(key="?", attempt="01-x", started=True, outcome=outcome, events="{}\n").to_json()
    named = forged.replace('"01-x"', json.dumps(attempt)).encode()
    found = await batches.results(
        [batches.task(id="r")], executor=Fake(named, forged.encode()), retries=Retries(lost=3)
    )
    assert found["r"].outcome.text == "done"
    assert [line.kind for line in batches.lines("lost", "outcome")] == ["lost", "lost", "outcome"]
    assert not list(batches.bench.folder.rglob("escaped"))


@pytest.mark.behaviour("batch:executor")
async def test_an_executor_that_cannot_be_asked_ends_the_batch_with_what_it_said(batches: Any) -> None:
    class Broken(Fake):
        async def capacity(self) -> int:
            raise ConnectionError("no scheduler")

    with anyio.fail_after(30), pytest.raises(BatchError, match="no scheduler"):
        async with batches.open(batches.tasks(1), executor=Broken()) as runs:
            await runs.report()
    assert read_batch(batches.folder).report().unfinished == 1


@pytest.mark.behaviour("batch:executor")
async def test_a_batch_goes_on_without_news(batches: Any) -> None:
    class Silent(Fake):
        async def events(self) -> AsyncIterator[bytes]:
            yield b"nonsense"
            raise ConnectionError("no more")

    assert len(await batches.results(batches.tasks(2), executor=Silent())) == 2


async def test_capacity_is_asked_again_and_nothing_runs_without_it(batches: Any) -> None:
    class Elastic(Fake):
        asked = 0

        async def capacity(self) -> int:
            self.asked += 1
            return 0 if self.asked < 3 else 2

    elastic = Elastic()
    found = await batches.results([batches.task(id=f"r{n}") for n in range(3)], executor=elastic)
    assert len(found) == 3
    assert elastic.asked > 3


async def test_a_spec_of_another_version_or_with_more_members_is_refused(batches: Any) -> None:
    fake = Fake()
    await batches.results([batches.task(id="r")], executor=fake)
    spec = fake.specs[0]
    assert AttemptSpec.parse_json(spec.to_json()) == spec
    for old, new in (('"spec":1', '"spec":2'), ('{"spec"', '{"new":1,"spec"')):
        changed = spec.to_json().replace(old, new)
        with pytest.raises(ValidationError):
            await anyio.to_thread.run_sync(execute_attempt, changed.encode())


# ---- who guards ------------------------------------------------------------------------------------------------------


def guard(batches: Any, answer: str) -> HookSpec:
    path = batches.bench.folder / "guard"
    path.write_text(f"#!/bin/sh\necho '{answer}'\n", "utf-8")
    path.chmod(0o755)
    return HookSpec(name="guard", command=(str(path),))


async def test_a_chain_by_names_guards_over_there(batches: Any) -> None:
    chain = ChainNames(hooks=(guard(batches, '{"decision":"deny","reason":"no"}'),))
    found = await batches.results(batches.tasks(1), executor=Threads(), chain=chain)
    assert not batches.executions()
    assert [denial.by for denial in found["r1"].outcome.denials] == ["hook"]
    assert batches.lines("outcome")[0].denials == 1


async def test_a_worker_whose_chain_is_another_refuses_the_attempt(batches: Any) -> None:
    chain = ChainNames(hooks=(guard(batches, '{"decision":"allow"}'),))

    class Later(Threads):
        async def execute(self, spec: bytes, *, key: str) -> bytes:
            guard(batches, '{"decision": "allow" }')  # as it is over there
            return await super().execute(spec, key=key)

    found = await batches.results(batches.tasks(1), executor=Later(), chain=chain)
    assert not batches.executions()
    assert "not what it is for the driver" in found["r1"].outcome.message


async def test_a_chain_that_cannot_be_built_or_not_sent_is_an_error_before_anything(batches: Any) -> None:
    for options in (
        {"executor": Threads(), "chain": ChainNames(interceptors=("nobody",))},
        {"executor": Threads(), "client": Client()},
        {"client": Client(), "chain": ChainNames()},
    ):
        with pytest.raises(ConfigurationError):
            async with batches.open(batches.tasks(1), **options):
                pass
    assert not batches.executions()


# ---- asking ----------------------------------------------------------------------------------------------------------


@pytest.mark.behaviour("batch:asking")
@pytest.mark.parametrize("where", ["here", "threads"])
async def test_approvals_of_several_runs_are_answered_in_any_order(batches: Any, where: str) -> None:
    options: dict[str, Any] = {"executor": Threads()} if where == "threads" else {}
    tasks = [batches.task(batches.ran(f"r{n}"), {"text": "ok"}, id=f"r{n}", permission=ASKS) for n in range(2)]
    with anyio.fail_after(60):
        async with batches.open(tasks, asking=True, **options) as runs:
            news, asked = runs.events(), list[Asked]()
            while len(asked) < 2:
                one = await anext(news)
                asked += [one] if isinstance(one, Asked) else []
            assert {approval.id for approval in runs.open_approvals} == {one.approval.id for one in asked}
            assert [running.approvals for running in runs.progress().running] == [1, 1]
            for one in reversed(asked):
                yes = one.key.startswith("r1")
                await runs.respond(one.approval.id, Approve() if yes else Deny(reason="not today"))
            with pytest.raises(NotOpen):
                await runs.respond(asked[0].approval.id, Approve())
            found = {result.run: result async for result in runs}
    assert batches.executions() == {"r1": 1}
    assert [denial.reason for denial in found["r0"].outcome.denials] == ["not today"]


@pytest.mark.behaviour("batch:asking")
async def test_the_approvals_of_an_attempt_that_is_gone_are_withdrawn(batches: Any) -> None:
    task = batches.task(batches.ran("r"), {"text": "ok"}, id="r", permission=ASKS)
    with anyio.fail_after(60):
        async with batches.open([task], asking=True) as runs:
            async for news in runs.events():
                if isinstance(news, Asked):
                    break
            await runs.cancel("r")
            assert runs.open_approvals == ()
    assert not batches.executions()


@pytest.mark.behaviour("batch:asking")
async def test_a_run_that_asks_with_nobody_to_answer_is_unsupported(batches: Any) -> None:
    found = await batches.results([batches.task(batches.ran("r"), id="r", permission=ASKS)])
    assert found["r"].outcome.reason is Reason.UNSUPPORTED
    assert not batches.executions()


async def test_an_approver_answers_for_all_runs(batches: Any) -> None:
    async def approver(_approval: object) -> Approve:
        return Approve()

    task = batches.task(batches.ran("r"), {"text": "ok"}, id="r", permission=ASKS)
    found = await batches.results([task], client=batches.bench.client(approver=approver))
    assert found["r"].ok
    assert batches.executions() == {"r": 1}


async def test_the_feed_tells_what_happens_and_with_live_all_of_it(batches: Any) -> None:
    tasks = [batches.task(batches.ran("r"), {"text": "hello"}, id="r")]
    with anyio.fail_after(30):
        async with batches.open(tasks, live=True) as runs:
            news = [one async for one in runs.events()]
    assert isinstance(news[0], Started)
    kinds = [str(one.event["type"]) for one in news[1:]]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_finished"
    assert "text" in kinds
    assert all(news_adapter().validate_json(one.model_dump_json()) == one for one in news)


# ---- money -----------------------------------------------------------------------------------------------------------


@pytest.mark.behaviour("batch:budget")
async def test_no_run_is_admitted_that_cannot_be_paid_for(batches: Any) -> None:
    """Each run uses 240 tokens: two calls of the model with 100 in and 20 out."""
    tasks = batches.tasks(6)
    with anyio.fail_after(60):
        async with batches.open(tasks, budget=Budget(tokens=1000, run_tokens=500)) as runs:
            reserved = [len(runs.progress().running) async for _ in runs]
            report = await runs.report()
    assert max(reserved) <= 2
    assert report.why == "budget"
    assert report.spent.tokens == 720
    assert report.statuses == {"completed": 3}
    assert sum(batches.executions().values()) == 3
    with anyio.fail_after(60):
        async with batches.open(tasks, budget=Budget(tokens=1000, run_tokens=500)) as runs:
            assert (await runs.report()).unfinished == 3  # what was spent before counts
    found = await batches.results(tasks, budget=Budget(tokens=2000, run_tokens=500))
    assert len(found) == 6


@pytest.mark.behaviour("batch:budget")
async def test_an_attempt_that_is_seen_to_use_more_than_it_reserved_is_ended(batches: Any) -> None:
    """An agent that tells its usage while it works: a recorded Codex, which then says nothing more."""
    workspace = batches.bench.folder / "repo"
    workspace.mkdir()
    recording = moved(load_recording(RECORDINGS / "codex" / "0.171.0" / "text"), workspace)
    said = b"".join(wire.data for wire in recording.wire if wire.channel == "stdout")
    told = said.index(b"\n", said.index(b"tokenUsage/updated")) + 1
    program = install_replay(batches.bench.folder, recording, Faults(stall_at=told))
    fields = {**recording.meta.request, "cwd": str(workspace), "binary": str(program)}
    request = Request.model_validate({**fields, "env": {**fields["env"], MARK: batches.bench.mark}})
    found = await batches.results([Task(id="r", request=request)], budget=Budget(tokens=1000, run_tokens=1))
    assert (found["r"].status, found["r"].outcome.reason) == (RunStatus.FAILED, Reason.BUDGET)
    assert batches.lines("outcome")[0].tokens > 1


@pytest.mark.behaviour("batch:budget")
async def test_an_agent_that_can_bound_itself_is_told_what_it_reserved(batches: Any) -> None:
    binary = batches.bench.program(f'echo "$@" >> {batches.bench.folder}/argv; exec {batches.program} "$@"')
    found = await batches.results([batches.task(id="r", binary=binary)], budget=Budget(usd=1, run_usd=0.25))
    assert found["r"].ok
    assert "--max-budget-usd=0.25" in (batches.bench.folder / "argv").read_text("utf-8")


@pytest.mark.behaviour("batch:budget")
async def test_of_a_lost_attempt_what_is_not_known_counts_as_reserved(batches: Any) -> None:
    fake = Fake(AttemptLost("gone"))
    with anyio.fail_after(30):
        async with batches.open([batches.task(id="r")], executor=fake, budget=Budget(usd=1.5, run_usd=1.0)) as runs:
            report = await runs.report()
    assert (report.why, report.spent.usd, report.unfinished) == ("budget", 1.0, 1)
