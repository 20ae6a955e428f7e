"""Many runs at once, in one loop, in several, and one loop after another."""

import threading
from typing import Any

import anyio
import pytest
import trio

from interlock import Client, run, run_sync, stream
from interlock.errors import RunFailed
from interlock.outcome import Outcome, Status

pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("batch:one-failure")
async def test_thirty_runs_at_once_end_each_with_its_own_answer(bench: Any) -> None:
    """One failure harms no other."""
    outcomes: dict[int, Outcome] = {}
    with anyio.fail_after(60):
        async with bench.client() as client:

            async def one(number: int) -> None:
                end = {"exit": 1} if number % 10 == 0 else {"text": f"answer {number}"}
                touch = {"tool": "Bash", "input": {"command": f"echo {number} > made-{number}"}}
                outcomes[number] = await client.run(bench.request([touch, end]), check=False)

            async with anyio.create_task_group() as group:
                for number in range(30):
                    group.start_soon(one, number)
        bench.assert_nothing_left()
    assert {number for number, outcome in outcomes.items() if not outcome.ok} == {0, 10, 20}
    assert all(outcome.text == f"answer {number}" for number, outcome in outcomes.items() if outcome.ok)
    assert len({outcome.run_id for outcome in outcomes.values()}) == 30
    assert len(list(bench.workspace.iterdir())) == 30


async def test_one_cancelled_run_leaves_its_neighbours_alone(bench: Any) -> None:
    with anyio.fail_after(20), bench.listen() as heard:
        async with bench.client() as client:
            async with client.stream(bench.request([bench.sleeper()])) as first:
                await heard.pid()
                async with client.stream(bench.request([{"sleep": 0.5}, {"text": "done"}])) as second:
                    await first.cancel()
                    outcome = await second.outcome(check=True)
            assert (await first.outcome()).status is Status.CANCELLED
    assert outcome.text == "done"


@pytest.mark.parametrize("backend", ["asyncio", "trio", "both"])
def test_runs_in_threads_with_loops_of_their_own(bench: Any, backend: str) -> None:
    requests = [bench.request([{"text": f"answer {number}"}]) for number in range(4)]
    texts: dict[int, str | None] = {}

    def work(number: int) -> None:
        async def main() -> None:
            with anyio.fail_after(30):
                async with bench.client() as client:
                    for _ in range(2):
                        texts[number] = (await client.run(requests[number])).text

        loop = ("asyncio", "trio")[number % 2] if backend == "both" else backend
        anyio.run(main, backend=loop)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert texts == {number: f"answer {number}" for number in range(4)}


@pytest.mark.behaviour("process:leaving")
def test_one_client_serves_one_loop_after_another(bench: Any) -> None:
    client: Client = bench.client()
    request = bench.request([{"text": "done"}])

    async def main() -> str | None:
        with anyio.fail_after(10):
            async with client:
                return (await client.run(request)).text

    assert [anyio.run(main, backend=backend) for backend in ("asyncio", "trio", "asyncio")] == ["done"] * 3


def test_a_script_needs_no_loop(bench: Any) -> None:
    assert run_sync(bench.request([{"text": "done"}]), state=bench.state).text == "done"
    with pytest.raises(RunFailed):
        run_sync(bench.request([{"exit": 3}]), state=bench.state)
    assert run_sync(bench.request([{"exit": 3}]), check=False, state=bench.state).exit_code == 3


async def test_the_module_functions_use_a_client_without_a_chain(bench: Any) -> None:
    with anyio.fail_after(10):
        assert (await run(bench.request([{"text": "done"}]))).text == "done"
        async with stream(bench.request([{"text": "again"}])) as opened:
            assert opened.plan.chain == ()
            assert (await opened.outcome(check=True)).text == "again"


def test_a_run_beside_a_foreign_trio_nursery_outlives_none_of_it(bench: Any) -> None:
    outcomes: list[Outcome] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            opened = await bench.client().stream(bench.request([{"text": "on"}, {"sleep": 600}])).__aenter__()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await opened.cancel()
                outcomes.append(await opened.outcome())

    trio.run(main)
    assert [outcome.status for outcome in outcomes] == [Status.CANCELLED]
