"""Whatever of a cluster is killed: no agent outlives it, each run is counted once, and what was lost is made again."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.batch.conftest import until_gone
from tests.dask.conftest import Cluster, driver, kill, remove_private_folders

from interlock import Copy, ExecutorFailed, Retries, RunStatus, read_batch
from interlock.batch.wire import Asked
from interlock.permission import Permission

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]
ASKS = Permission(posture="none", otherwise="ask")
PATIENCE = 120
ONCE = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""Where the driver is not in this process, or its loop makes no difference."""


def sleeps_once(batches: Any, **more: Any) -> Any:
    """A task whose first attempt sleeps, and whose next answers."""
    binary = batches.first([batches.bench.sleeper()], then=[{"text": "ok"}])
    return batches.task(binary=binary, **more)


def agents_of(batches: Any, worker: int) -> tuple[set[str], set[str]]:
    """The living processes of all runs, and those among them that descend from a worker; each as `pid command`."""
    living = batches.bench.survivors()
    return set(living), {one for one in living if worker in ancestors(int(one.split()[0]))}


def ancestors(pid: int) -> Iterator[int]:
    """The parents of a process, nearest first."""
    while pid > 1:
        with suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text("utf-8")
            pid = int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))
            yield pid
            continue
        return


async def only_gone(batches: Any, before: set[str], doomed: set[str]) -> None:
    """Within two seconds those have gone, and no others."""
    with anyio.fail_after(2):
        while doomed & set(batches.bench.survivors()):  # noqa: ASYNC110  # other processes tell nothing
            await anyio.sleep(0.01)
    assert before - doomed <= set(batches.bench.survivors())


@pytest.mark.behaviour("dask:worker-killed")
async def test_a_worker_that_is_killed_loses_exactly_its_attempts(
    batches: Any, cluster: Cluster, anyio_backend: str
) -> None:
    """Of four on two workers; the other's go on, and what was lost runs anew, unless it must not."""
    tasks = [sleeps_once(batches, id=f"r{n}") for n in range(3)]
    once = batches.task(batches.ran("once"), batches.bench.sleeper(), id="once", retry_lost=False)
    with anyio.fail_after(PATIENCE), batches.listen() as heard:
        async with (
            cluster.executor(shares_files=True) as executor,
            batches.open([once, *tasks], executor=executor, workspace=Copy(keep="all")) as runs,
        ):
            for _ in range(4):
                await heard.pid()
            on = {line.run: line.pid for line in batches.lines("started")}
            victim = next(worker for worker in cluster.workers.values() if worker.pid == on["once"])
            theirs = {run for run, pid in on.items() if pid == victim.pid}
            before, doomed = agents_of(batches, victim.pid)
            assert doomed
            assert doomed < before
            kill(victim)
            await only_gone(batches, before, doomed)
            results = aiter(runs)
            counted = {"once": await anext(results)}
            assert counted["once"].run == "once"
            for run in set(on) - theirs:
                await runs.cancel(run)
            counted |= {result.run: result async for result in results}
    assert len(theirs) == 2
    again = next(run for run in theirs if run != "once")
    assert (counted["once"].status, counted[again].status) == (RunStatus.LOST, RunStatus.COMPLETED)
    assert batches.executions() == {"once": 1}
    assert [line.run for line in batches.lines("lost")] == [again]
    first, second = (line for line in batches.lines("started") if line.run == again)
    assert first.attempt != second.attempt
    assert first.workspace != second.workspace
    assert os.path.exists(str(first.workspace))  # noqa: PTH110, ASYNC240
    assert (batches.folder / "runs" / again / str(first.attempt) / "events.jsonl").stat().st_size
    assert len(batches.lines("outcome")) == 4
    assert not batches.lines("superseded")
    remove_private_folders(batches.bench)


@ONCE
@pytest.mark.behaviour("dask:worker-killed")
async def test_the_approvals_of_a_killed_worker_are_withdrawn(batches: Any, cluster: Cluster) -> None:
    task = batches.task(batches.ran("r"), {"text": "ok"}, id="r", permission=ASKS, retry_lost=False)
    with anyio.fail_after(PATIENCE):
        async with cluster.executor() as executor, batches.open([task], executor=executor, asking=True) as runs:
            async for news in runs.events():
                if isinstance(news, Asked):
                    break
            assert len(runs.open_approvals) == 1
            (line,) = batches.lines("started")
            kill(next(worker for worker in cluster.workers.values() if worker.pid == line.pid))
            (result,) = [result async for result in runs]
            assert runs.open_approvals == ()
    assert result.status is RunStatus.LOST
    assert not batches.executions()
    assert until_gone(batches.bench) == []
    remove_private_folders(batches.bench)


@ONCE
@pytest.mark.behaviour("dask:poison")
async def test_a_run_that_kills_its_workers_is_given_up_and_others_go_on(batches: Any, cluster: Cluster) -> None:
    killer = (
        "p=$$; until tr '\\0' ' ' < /proc/$p/cmdline | grep -q [d]ask_worker; do "
        "p=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$p/status); done; kill -KILL $p; sleep 600"
    )
    bad = batches.task({"tool": "Bash", "input": {"command": killer}}, id="bad")
    cluster.add()
    cluster.until_there()
    with anyio.fail_after(PATIENCE):
        async with cluster.executor() as executor:
            # One at a time: whatever shares a worker with such a run is lost with it, and may be so twice.
            found = await batches.results(
                [bad, *batches.tasks(3)], executor=executor, retries=Retries(lost=2, transient=5), concurrency=1
            )
    assert found["bad"].status is RunStatus.POISON, found["bad"].outcome
    assert found["bad"].attempts == 2
    assert all(found[f"r{n}"].ok for n in (1, 2, 3))
    assert sum(worker.poll() is not None for worker in cluster.workers.values()) == 2
    assert until_gone(batches.bench) == []
    remove_private_folders(batches.bench)


@ONCE
@pytest.mark.behaviour("dask:elastic")
async def test_workers_that_come_and_go_are_used_while_they_are_there(batches: Any, cluster: Cluster) -> None:
    tasks = [sleeps_once(batches, id=f"r{n}") for n in range(6)]
    with anyio.fail_after(PATIENCE), batches.listen() as heard:
        async with cluster.executor() as executor, batches.open(tasks, executor=executor, concurrency=9) as runs:
            for _ in range(4):
                await heard.pid()
            assert len(runs.progress().running) == 4
            added = cluster.add()
            for _ in range(2):
                await heard.pid()
            assert len(runs.progress().running) == 6
            assert [line.pid for line in batches.lines("started")].count(added.pid) == 2
            added.terminate()  # in good order: its attempts are ended, and made again where there is room
            counted = set[str]()
            await anyio.to_thread.run_sync(added.wait, PATIENCE)
            for run in [line.run for line in batches.lines("started") if line.pid != added.pid][:2]:
                await runs.cancel(run)
            async for result in runs:
                counted.add(result.run)
                if sum(found.run in counted for found in batches.lines("lost")) == 2:
                    break
            await runs.cancel()
    lost = {line.run for line in batches.lines("lost")}
    assert lost == {line.run for line in batches.lines("started") if line.pid == added.pid}
    assert lost <= counted


@ONCE
@pytest.mark.behaviour("dask:driver-killed")
async def test_a_driver_that_is_killed_leaves_no_agent_and_is_gone_on_with(batches: Any, cluster: Cluster) -> None:
    tasks = [*batches.tasks(2), *(sleeps_once(batches, id=f"s{n}") for n in range(4))]
    with batches.listen() as heard, driver(cluster, batches, tasks).ending() as running:
        for _ in range(4):
            heard.pid_within(PATIENCE)
        running.kill()
    assert until_gone(batches.bench) == []
    counted = [line.run for line in batches.lines("outcome")]
    with driver(cluster, batches, tasks, "trio").ending() as running:
        code, said, complained = running.wait(PATIENCE)
    assert code == 0, complained
    assert json.loads(said)["statuses"] == {"completed": 6}
    assert {run: batches.executions()[run] for run in counted} == dict.fromkeys(counted, 1)
    outcomes = [line.run for line in batches.lines("outcome")]
    assert sorted(str(run) for run in outcomes) == ["r1", "r2", "s0", "s1", "s2", "s3"]


@ONCE
@pytest.mark.behaviour("dask:scheduler-killed")
async def test_a_scheduler_that_is_killed_ends_the_batch_to_be_resumed(
    batches: Any, own_cluster: Cluster, cluster: Cluster
) -> None:
    tasks = [sleeps_once(batches, id=f"r{n}") for n in range(2)]
    batches.bench.state, batches.bench.expected_log = own_cluster.state, True
    with anyio.fail_after(PATIENCE), batches.listen() as heard:
        async with own_cluster.executor() as executor, batches.open(tasks, executor=executor) as runs:
            await heard.pid()
            await heard.pid()
            kill(own_cluster.scheduler)
            with pytest.raises(ExecutorFailed):
                await runs.report()
    assert until_gone(batches.bench) == []
    assert not batches.lines("lost", "outcome")
    assert read_batch(batches.folder).report().unfinished == 2
    remove_private_folders(batches.bench)
    batches.bench.state = cluster.state
    with anyio.fail_after(PATIENCE):
        async with cluster.executor() as executor:
            found = await batches.results(tasks, executor=executor)
    assert all(result.ok for result in found.values())
    assert not [line for line in batches.lines("lost") if line.counts]
    assert len(batches.lines("outcome")) == 2


@ONCE
@pytest.mark.behaviour("dask:cluster")
async def test_agents_are_told_nothing_of_the_cluster(batches: Any, cluster: Cluster) -> None:
    """No address of the scheduler, and nothing of the worker's environment."""
    dump = {"tool": "Bash", "input": {"command": f"env > {batches.ledger}"}}
    async with cluster.executor() as executor:
        assert (await batches.results([batches.task(dump, {"text": "ok"})], executor=executor))["1"].ok
    told = batches.ledger.read_text("utf-8")
    assert cluster.address.rpartition(":")[2] not in told
    assert "DASK" not in told
