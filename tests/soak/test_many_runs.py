"""Very many runs, twenty at once, most of which go wrong: each has one outcome, and nothing of any of them is left.

`INTERLOCK_LONG=1` makes two thousand of them in each event loop.
"""

import gc
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from interlock import Deny, Request
from interlock.approval import Answer
from interlock.events import ApprovalRequested, QuestionAsked, RunFinished, RunStarted
from interlock.outcome import Status
from interlock_adapters.claude import adapter
from interlock_fixtures.recording import Recording
from interlock_fixtures.replay import Faults, install_replay

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(3600)]

SHORT, LONG, TOGETHER = 60, 2000, 20
GROWTH = 24 * 1024 * 1024
"""Bytes by which the process may be larger after the last run than after the first of them."""
ORPHAN = {"tool": "Bash", "input": {"command": "setsid sleep 600 >/dev/null 2>&1 & echo started"}}
KEY = "ANTHROPIC_API_KEY"

Wrong = Callable[[Random, int], Faults]
WRONG: dict[str, Wrong] = {
    "nothing": lambda _, __: Faults(),
    "in small pieces": lambda _, __: Faults(chunks=97),
    "all at once": lambda _, __: Faults(chunks="whole"),
    "early exit": lambda random, size: Faults(cut_at=random.randrange(size), code=random.choice((0, 1, 3))),
    "killed": lambda random, size: Faults(cut_at=random.randrange(size), signal=9),
    "silence": lambda random, size: Faults(stall_at=random.randrange(size)),
    "deaf": lambda random, size: Faults(stall_at=random.randrange(size), ignore_term=True),
    "stays": lambda _, __: Faults(ignore_term=True),
    "garbage": lambda random, _: Faults(garbage=random.randbytes(3000) + b"\n", garbage_before=random.randrange(9)),
    "two endings": lambda _, __: Faults(duplicate_end=True),
    "noise": lambda _, __: Faults(stderr=400_000),
}


def size() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@dataclass
class Tally:
    """What came of all runs."""

    finished: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    ids: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def add(self, told: str, events: list[Any], outcome: Any, *, whole: bool) -> None:
        """One run; `whole` if its events were read to the end."""
        kinds = Counter(type(event) for event in events)
        if whole and (kinds[RunStarted], kinds[RunFinished], type(events[-1])) != (1, 1, RunFinished):
            self.wrong.append(f"{told}: {kinds}")
        if whole and events[-1].outcome != outcome:
            self.wrong.append(f"{told}: two outcomes")
        if [event.seq for event in events] != list(range(len(events))):
            self.wrong.append(f"{told}: events are missing or doubled")
        if (
            told.endswith(("nothing", "pieces", "once", "endings", "noise"))
            and whole
            and outcome.status is Status.TIMED_OUT
        ):
            self.wrong.append(f"{told}: {outcome.describe()}")
        self.finished[told] += 1
        self.ended[str(outcome.status)] += 1
        self.ids.add(outcome.run_id)


def can_be_replayed(recording: Recording) -> bool:
    """Whether it needs nothing of the machine, and of our side nothing but answers."""
    needs = {"add_dirs", "mcp_servers", "session"} & set(recording.meta.request)
    return recording.meta.agent == adapter.name and not needs and not recording.meta.interjections


async def one_run(bench: Any, client: Any, tally: Tally, given: tuple[Random, int, list[Recording]]) -> None:
    """One run of a random recording with a random fault, that is read, left or cancelled."""
    random, number, recordings = given
    folder = bench.folder / f"run-{number}"
    (folder / "repo").mkdir(parents=True)
    kind = random.choice([*WRONG, "orphan"])
    limits: dict[str, float] = {"start_up": 30, "total": 120}
    if kind == "orphan":
        fields: dict[str, Any] = {"binary": bench.binary([[ORPHAN, {"text": "done"}]])}
    else:
        recording = random.choice(recordings)
        faults = WRONG[kind](random, len(recording.on("stdout")))
        limits |= {"idle": 1.0, "start_up": 5.0} if faults.stall_at is not None else {}
        fields = {**recording.meta.request, "binary": str(install_replay(folder, recording, faults))}
    env = {KEY: "k", **fields.pop("env", {})}
    fields |= {"cwd": str(folder / "repo"), "login": "env", "limits": {**fields.pop("limits", {}), **limits}}
    request: Request = bench.request(**{**fields, "env": env})
    leaves = random.choice((None, None, None, "cancel", "leave"))
    after = random.randrange(6)
    await follow(client, request, tally, f"{number} {kind}", (leaves, after))
    shutil.rmtree(folder)


async def follow(client: Any, request: Request, tally: Tally, told: str, way: tuple[str | None, int]) -> None:
    leaves, after = way
    events: list[Any] = []
    async with client.stream(request) as run:
        async for event in run:
            events.append(event)
            if isinstance(event, ApprovalRequested):
                run.respond(event.approval.id, Deny())
            elif isinstance(event, QuestionAsked):
                run.answer(event.question.id, Answer(declined=True))
            if leaves and len(events) > after:
                break
        if leaves == "cancel":
            await run.cancel()
    tally.add(told, events, await run.outcome(), whole=isinstance(events[-1], RunFinished))


@pytest.mark.behaviour("batch:one-failure")
async def test_very_many_runs_with_every_trouble_leave_nothing(
    bench: Any, recordings: list[Recording], long: bool
) -> None:
    runs = LONG if long else SHORT
    able = [one for one in recordings if can_be_replayed(one)]
    tally, random = Tally(), Random(2)
    marks: list[tuple[int, int]] = []
    limiter = anyio.CapacityLimiter(TOGETHER)
    async with bench.client() as client:

        async def one(number: int, seed: int) -> None:
            async with limiter:
                await one_run(bench, client, tally, (Random(seed), number, able))

        for batch in range(0, runs, TOGETHER):
            async with anyio.create_task_group() as group:
                for number in range(batch, min(batch + TOGETHER, runs)):
                    group.start_soon(one, number, random.getrandbits(32))
            bench.assert_nothing_left()
            marks.append((size(), descriptors()))
    assert tally.wrong == []
    assert (sum(tally.finished.values()), len(tally.ids)) == (runs, runs)
    assert tally.ended["completed"] > runs // 10
    begin = len(marks) // 4
    assert marks[-1][0] - marks[begin][0] < GROWTH, [memory >> 10 for memory, _ in marks]
    assert marks[-1][1] <= marks[begin][1], marks
