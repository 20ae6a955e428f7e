"""A batch on a Dask cluster of two workers: what it can do while nothing goes wrong."""

import hashlib
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.dask.conftest import Cluster

from interlock import Approve, ChainNames, ConfigurationError, Copy, Deny, ExecutorFailed, HookSpec, NotOpen, Permission
from interlock.batch.executor import Reachable, Telling
from interlock.batch.wire import Asked, Happened
from interlock_adapters.dask import Artifacts, DaskExecutor

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]
ASKS = Permission(posture="none", otherwise="ask")
PATIENCE = 120


@pytest.mark.behaviour("dask:cluster")
async def test_a_batch_runs_on_both_workers_and_its_events_come_home(batches: Any, cluster: Cluster) -> None:
    async with cluster.executor() as executor:
        assert isinstance(executor, Telling)
        assert isinstance(executor, Reachable)
        assert await executor.capacity() == 4
        assert executor.refusals == ()
        found = await batches.results(batches.tasks(6), executor=executor)
    assert {run: result.outcome.text for run, result in found.items()} == {f"r{n}": f"answer {n}" for n in range(1, 7)}
    assert batches.executions() == {f"r{n}": 1 for n in range(1, 7)}
    started = batches.lines("started")
    assert {line.pid for line in started} == {worker.pid for worker in cluster.workers.values()}
    assert {line.attempt for line in started} == {result.attempt for result in found.values()}
    for result in found.values():
        events = batches.folder / "runs" / result.run / result.attempt / "events.jsonl"
        assert b'"type":"run_finished"' in events.read_bytes()


@pytest.mark.behaviour("dask:cancel")
async def test_one_run_and_then_all_are_ended_by_message(batches: Any, cluster: Cluster) -> None:
    tasks = [batches.task(batches.bench.sleeper(), id=f"r{n}") for n in range(5)]
    with anyio.fail_after(PATIENCE), batches.listen() as heard:
        async with cluster.executor() as executor, batches.open(tasks, executor=executor) as runs:
            for _ in range(4):
                await heard.pid()
            assert len(batches.bench.survivors()) >= 4
            await runs.cancel("r0")
            results = [await anext(aiter(runs))]
            assert [(result.run, result.status) for result in results] == [("r0", "cancelled")]
            await heard.pid()  # its slot is free again
            await runs.cancel()
            assert batches.bench.survivors() == []
    assert len(batches.lines("ended")) == 4
    assert not batches.lines("lost")


@pytest.mark.behaviour("dask:guard")
async def test_hooks_guard_on_every_worker_and_approvals_are_answered_there(batches: Any, cluster: Cluster) -> None:
    guard = batches.bench.folder / "guard"
    guard.write_text(
        '#!/bin/sh\ncase "$(cat)" in *forbidden*) echo \'{"decision":"deny","reason":"no"}\' ;;'
        ' *) echo \'{"decision":"allow"}\' ;; esac\n',
        "utf-8",
    )
    guard.chmod(0o755)
    chain = ChainNames(hooks=(HookSpec(name="guard", command=(str(guard),)),))
    forbidden = {"tool": "Bash", "input": {"command": f"echo forbidden >> {batches.ledger}"}}
    tasks = [
        batches.task(forbidden, batches.ran(f"r{n}"), {"text": "ok"}, id=f"r{n}", permission=ASKS) for n in range(4)
    ]
    with anyio.fail_after(PATIENCE):
        async with (
            cluster.executor() as executor,
            batches.open(tasks, executor=executor, chain=chain, asking=True) as runs,
        ):
            asked = dict[str, Asked]()
            async for news in runs.events():
                if isinstance(news, Asked):
                    asked[news.key.partition("-")[0]] = news
                if len(asked) == 4:
                    break
            assert not batches.ledger.exists()
            for run, one in asked.items():
                assert one.approval is not None
                assert run in one.approval.display()
                await runs.respond(one.approval.id, Deny(reason="not today") if run == "r0" else Approve())
            with pytest.raises(NotOpen):
                await runs.respond(asked["r1"].approval.id, Approve())
            found = {result.run: result async for result in runs}
    assert batches.executions() == {"r1": 1, "r2": 1, "r3": 1}
    assert [denial.by for denial in found["r0"].outcome.denials] == ["hook", "user"]
    assert all([denial.by for denial in found[f"r{n}"].outcome.denials] == ["hook"] for n in (1, 2, 3))
    assert {line.pid for line in batches.lines("started")} == {worker.pid for worker in cluster.workers.values()}


@pytest.mark.behaviour("dask:guard")
async def test_workers_that_cannot_build_the_chain_are_given_nothing(batches: Any, cluster: Cluster) -> None:
    guard = batches.bench.folder / "guard"
    guard.write_text('#!/bin/sh\necho \'{"decision":"allow"}\'\n', "utf-8")
    guard.chmod(0o755)
    chain = ChainNames(hooks=(HookSpec(name="guard", command=(str(guard),)),))

    class Later(DaskExecutor):
        async def execute(self, spec: bytes, *, key: str) -> bytes:
            guard.write_text('#!/bin/sh\necho \'{"decision": "allow" }\'\n', "utf-8")  # as it is over there
            return await super().execute(spec, key=key)

    with anyio.fail_after(PATIENCE), pytest.raises(ExecutorFailed, match="not what it is for the driver"):
        async with (
            Later(cluster.address, timeout=PATIENCE) as executor,
            batches.open(batches.tasks(1), executor=executor, chain=chain) as runs,
        ):
            await runs.report()
    assert not batches.executions()
    assert not batches.lines("started", "outcome", "lost")


@pytest.mark.behaviour("dask:refused")
async def test_workers_of_another_version_are_given_nothing(
    batches: Any, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock_adapters.dask.cluster.own_version", lambda: "0.0.1")
    with anyio.fail_after(PATIENCE):
        async with cluster.executor() as executor:
            assert await executor.capacity() == 0
            assert len(executor.refusals) == 2
            assert all("and the driver 0.0.1" in refusal for refusal in executor.refusals)


async def test_where_no_scheduler_answers_the_batch_is_not_begun() -> None:
    with anyio.fail_after(PATIENCE), pytest.raises(ConfigurationError, match="does not answer"):
        async with DaskExecutor("tcp://127.0.0.1:1", timeout=0.5):
            pass


@pytest.mark.behaviour("dask:artifacts")
@pytest.mark.parametrize("uploaded", [False, True])
async def test_artifacts_come_home_or_are_uploaded(batches: Any, cluster: Cluster, uploaded: bool) -> None:
    to = batches.bench.folder / "artifacts"
    secret = batches.bench.folder / "secret"
    secret.write_text("secret", "utf-8")
    makes = (
        f"mkdir -p dist; printf made > dist/a.txt; ln -s {secret} dist/b.txt; ln -s {secret.parent} up; printf no > c"
    )
    task = batches.task({"tool": "Bash", "input": {"command": makes}}, {"text": "ok"}, id="r")
    artifacts = Artifacts(files=("dist/*", "up/*", "../*"), to=f"file://{to}" if uploaded else str(to))
    async with cluster.executor(artifacts=artifacts) as executor:
        found = await batches.results([task], executor=executor, workspace=Copy(keep="none"))
    assert found["r"].ok, found["r"].outcome
    folder = to / "r" / found["r"].attempt
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) == [
        "artifacts.json",
        "dist/a.txt",
    ]
    (listed,) = json.loads((folder / "artifacts.json").read_text("utf-8"))
    assert listed == {"path": "dist/a.txt", "size": 4, "sha256": hashlib.sha256(b"made").hexdigest()}
    assert not list((Path(f"{batches.folder}.work") / "r").iterdir())  # removed where it was made


@pytest.mark.behaviour("dask:artifacts")
async def test_artifacts_that_are_too_large_are_said_to_be(batches: Any, cluster: Cluster) -> None:
    task = batches.task({"tool": "Bash", "input": {"command": "printf 12345 > a"}}, {"text": "ok"}, id="r")
    artifacts = Artifacts(files=("a",), to=str(batches.bench.folder / "artifacts"), most=4)
    async with cluster.executor(artifacts=artifacts) as executor:
        found = await batches.results([task], executor=executor)
    assert found["r"].ok
    assert any("larger than 4 bytes" in warning for warning in found["r"].outcome.warnings)


async def test_with_live_every_event_is_told_while_it_runs(batches: Any, cluster: Cluster) -> None:
    with anyio.fail_after(PATIENCE):
        async with (
            cluster.executor(shares_files=True) as executor,
            batches.open([batches.task({"text": "hello"}, id="r")], executor=executor, live=True) as runs,
        ):
            kinds = [str(news.event["type"]) async for news in runs.events() if isinstance(news, Happened)]
            (result,) = [result async for result in runs]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_finished"
    assert (batches.folder / "runs" / "r" / result.attempt / "request.json").exists()
