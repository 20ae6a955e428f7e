"""A driver that is killed at any moment: what was counted stays counted, and nothing runs on."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from tests.batch.conftest import until_gone, until_swept

from interlock import read_batch
from interlock.batch.journal import read_lines, whole_lines


def outcomes(folder: Path) -> list[str]:
    return [line.run or "" for line in read_lines(folder) if line.kind == "outcome"]


def killed_again_and_again(batches: Any, runs: int, kills: int, backend: str) -> None:
    """Kill the driver at random moments, resume it, and at last let it end."""
    chance = random.Random(f"{runs}/{kills}/{backend}")
    tasks, counted_before = batches.tasks(runs), dict[str, int]()
    for kill in range(kills):
        wanted = len(outcomes(batches.folder)) + chance.randint(0, max(1, runs // (kills + 1)))
        with batches.driver(tasks, backend=backend).ending() as driver:
            while driver.process.poll() is None and len(outcomes(batches.folder)) < wanted:
                if (batches.folder / "batch.json").exists():
                    read_batch(batches.folder)  # readable at every moment
                time.sleep(0.005)  # the driver is to have the processor
            time.sleep(chance.uniform(0, 0.1))  # the moment that is random
            driver.kill()
        assert until_gone(batches.bench) == [], f"after kill {kill}"
        executions, counted = batches.executions(), outcomes(batches.folder)
        assert len(counted) == len(set(counted))
        assert {run: executions[run] for run in counted_before} == counted_before, "a counted run ran again"
        counted_before = {run: executions[run] for run in counted}
    with batches.driver(tasks, backend=backend).ending() as driver:
        code, said, complained = driver.wait()
    assert code == 0, complained
    report = json.loads(said)
    assert report["statuses"] == {"completed": runs}
    executions, counted = batches.executions(), outcomes(batches.folder)
    assert sorted(counted) == sorted(f"r{n}" for n in range(1, runs + 1))
    assert {run: executions[run] for run in counted_before} == counted_before
    assert set(executions) == set(counted)
    results = [json.loads(line) for line in whole_lines(batches.folder / "results.jsonl")]
    assert [result["run"] for result in results] == counted
    for result in results:
        assert result["outcome"]["text"] == f"answer {result['run'][1:]}"
    assert until_gone(batches.bench) == []
    assert until_swept(batches.bench) == []


@pytest.mark.behaviour("batch:killed")
def test_a_driver_that_is_killed_five_times_counts_each_of_200_runs_once(batches: Any) -> None:
    killed_again_and_again(batches, 200, 5, "asyncio")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.behaviour("batch:killed")
def test_a_driver_that_is_killed_fifty_times_counts_each_of_200_runs_once(batches: Any, backend: str) -> None:
    killed_again_and_again(batches, 200, 50, backend)


@pytest.mark.behaviour("batch:killed")
def test_a_run_that_must_not_run_again_is_lost_with_its_driver(batches: Any) -> None:
    tasks = [batches.task(batches.ran("once"), batches.bench.sleeper(), id="once", retry_lost=False), *batches.tasks(1)]
    with batches.listen() as heard, batches.driver(tasks).ending() as driver:
        heard.pid_within(30)
        driver.kill()
    assert until_gone(batches.bench) == []
    with batches.driver(tasks).ending() as driver:
        code, said, complained = driver.wait()
    assert code == 0, complained
    assert json.loads(said)["statuses"] == {"completed": 1, "lost": 1}
    assert batches.executions()["once"] == 1
    assert until_swept(batches.bench) == []  # the second driver may have had nothing to run


@pytest.mark.behaviour("batch:forged")
def test_an_outcome_that_the_journal_does_not_name_is_nothing(batches: Any) -> None:
    """The agent of a killed attempt may have written one; the run runs again, and its own outcome counts."""
    tasks = [batches.task(batches.bench.sleeper(), id="r")]
    with batches.listen() as heard, batches.driver(tasks).ending() as driver:
        heard.pid_within(30)
        driver.kill()
    assert until_gone(batches.bench) == []
    (attempt,) = (batches.folder / "runs" / "r").iterdir()
    forged = {"run_id": "x", "agent": "claude", "status": "completed", "text": "forged"}
    (attempt / "outcome.json").write_text(json.dumps(forged), "utf-8")
    (batches.folder / "results.jsonl").write_text(json.dumps({"run": "r", "status": "completed"}) + "\n", "utf-8")
    view = read_batch(batches.folder)
    assert view.result("r") is None
    assert view.run("r").status is None
    binary = batches.program
    Path(binary).with_name("claude.script.json").write_text('[{"text": "true"}]', "utf-8")
    with batches.driver(tasks).ending() as driver:
        code, _, complained = driver.wait()
    assert code == 0, complained
    view = read_batch(batches.folder)
    assert view.result("r").outcome.text == "true"
    assert json.loads((batches.folder / "results.jsonl").read_text("utf-8"))["outcome"]["text"] == "true"
    assert [line.message for line in batches.lines("lost")] == ["the driver was killed"]


@pytest.mark.behaviour("batch:forged")
def test_an_outcome_that_is_changed_after_it_was_counted_is_not_believed(batches: Any) -> None:
    with batches.driver(batches.tasks(1)).ending() as driver:
        assert driver.wait()[0] == 0
    view = read_batch(batches.folder)
    path = view.folder_of("r1", view.run("r1").attempt) / "outcome.json"
    path.write_bytes(path.read_bytes().replace(b"answer 1", b"answer 2"))
    assert view.result("r1").outcome.text == "answer 1"  # the results have it too
    results = batches.folder / "results.jsonl"
    results.write_bytes(results.read_bytes().replace(b"answer 1", b"answer 2"))
    result = view.result("r1")
    assert result.ok
    assert result.outcome.text is None
    assert "is not the one that was written" in result.warnings[0]


@pytest.mark.behaviour("batch:workspaces")
def test_the_copies_of_a_killed_driver_are_removed_by_the_next(batches: Any) -> None:
    tasks = [batches.task(batches.bench.sleeper(), id="r")]
    work = batches.folder.with_name("out.work") / "r"
    with batches.listen() as heard, batches.driver(tasks, workspace={"kind": "copy"}).ending() as driver:
        heard.pid_within(30)
        (killed,) = work.iterdir()
        driver.kill()
    assert until_gone(batches.bench) == []
    with batches.listen() as heard, batches.driver(tasks, workspace={"kind": "copy"}).ending() as driver:
        heard.pid_within(30)
        (second,) = work.iterdir()
        driver.process.terminate()
        driver.wait()
    assert until_gone(batches.bench) == []
    assert second != killed
    assert until_swept(batches.bench) == []
