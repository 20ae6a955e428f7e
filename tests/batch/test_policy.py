"""Pace, money and verdicts: what the driver decides by, without any agent."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock import Budget, ConfigurationError, Given, Limits, Outcome, RateLimit, Reason, Request, Status, Task
from interlock.batch.admission import Admission, Turn
from interlock.batch.lanes import Lane
from interlock.batch.options import Options
from interlock.batch.pace import Pace
from interlock.batch.running import Places
from interlock.batch.spending import Reserve, Spending, reserve_of
from interlock.batch.verdict import RECORD_FAILED, Fate, judge

NOW = 1_000_000.0


def outcome(status: Status, reason: Reason | None = None, **more: object) -> Outcome:
    return Outcome.model_validate({"run_id": "r", "agent": "a", "status": status, "reason": reason, **more})


def limited(resets_at: float | None) -> Outcome:
    limit = RateLimit(status="rejected", resets_at=resets_at, blocking=True)
    return outcome(Status.FAILED, Reason.RATE_LIMIT, rate_limit=limit)


TABLE = [
    (outcome(Status.COMPLETED), None, Fate.COUNTED, None),
    (outcome(Status.COMPLETED, signal=15), None, Fate.COUNTED, None),
    (outcome(Status.CANCELLED), None, Fate.CANCELLED, None),
    (outcome(Status.CANCELLED, Reason.DENIED), None, Fate.COUNTED, None),
    (outcome(Status.FAILED, Reason.RATE_LIMIT), None, Fate.THROTTLED, None),
    (outcome(Status.FAILED, Reason.OVERLOADED), None, Fate.THROTTLED, None),
    (limited(None), None, Fate.THROTTLED, None),
    (limited(NOW - 1), None, Fate.THROTTLED, None),
    (limited(NOW + 3600), None, Fate.EXHAUSTED, NOW + 3600),
    (outcome(Status.FAILED, Reason.BILLING), None, Fate.EXHAUSTED, None),
    (outcome(Status.FAILED, Reason.CRASHED, exit_code=3), None, Fate.TRANSIENT, None),
    (outcome(Status.FAILED, Reason.CRASHED, signal=9), None, Fate.LOST, None),
    (outcome(Status.FAILED, Reason.CRASHED, exit_code=137), None, Fate.LOST, None),
    (outcome(Status.FAILED, Reason.PROTOCOL, signal=11), None, Fate.LOST, None),
    (outcome(Status.FAILED, Reason.API, signal=15), None, Fate.TRANSIENT, None),
    (outcome(Status.TIMED_OUT, Reason.STALLED), None, Fate.TRANSIENT, None),
    (outcome(Status.TIMED_OUT, Reason.DEADLINE), None, Fate.COUNTED, None),
    (outcome(Status.FAILED, Reason.AUTH), None, Fate.BLOCKED, None),
    (outcome(Status.FAILED, Reason.SANDBOX), None, Fate.BLOCKED, None),
    (outcome(Status.FAILED, Reason.UNSUPPORTED), "NotInstalled", Fate.BLOCKED, None),
    (outcome(Status.FAILED, Reason.UNSUPPORTED), "Unsupported", Fate.COUNTED, None),
    (outcome(Status.FAILED, Reason.INTERNAL), "StartFailed", Fate.TRANSIENT, None),
    (outcome(Status.FAILED, Reason.INTERNAL), RECORD_FAILED, Fate.BROKEN, None),
]


@pytest.mark.parametrize(("ended", "problem", "fate", "until"), TABLE)
def test_the_end_of_an_attempt_has_one_meaning(
    ended: Outcome, problem: str | None, fate: Fate, until: float | None
) -> None:
    assert judge(ended, problem, now=NOW) == (fate, until)


@pytest.mark.parametrize("reason", [r for r in Reason if r not in {
    Reason.RATE_LIMIT, Reason.OVERLOADED, Reason.BILLING, Reason.API, Reason.CRASHED, Reason.PROTOCOL, Reason.STALLED,
    Reason.INTERNAL, Reason.AUTH, Reason.MODEL_NOT_FOUND, Reason.SANDBOX,
}])  # fmt: skip
def test_every_other_reason_counts(reason: Reason) -> None:
    assert judge(outcome(Status.FAILED, reason), None, now=NOW).fate is Fate.COUNTED


# ---- pace ----------------------------------------------------------------------------------------


def test_a_storm_halves_once_holds_starts_and_is_recovered_from() -> None:
    pace = Pace(most=8, wait=1.0, longest_wait=60.0)
    began = [pace.started(0.0) for _ in range(8)]
    for storm in began:
        pace.throttled(10.0, storm)
        pace.ended()
    assert pace.limit == 4
    assert pace.delay(10.0) == 1.0
    assert pace.delay(11.0) == 0.0
    for _ in range(30):
        pace.started(20.0)
        pace.went_through()
        pace.ended()
    assert pace.limit == 8
    assert pace.throttled_since is None


def test_each_further_storm_waits_twice_as_long_up_to_a_bound() -> None:
    pace, now, waits = Pace(most=4, wait=1.0, longest_wait=8.0), 0.0, []
    for _ in range(6):
        began = pace.started(now)
        pace.throttled(now, began)
        pace.ended()
        waits.append(pace.delay(now))
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 8, 8]
    assert pace.limit == 1
    assert pace.throttled_since == 0.0


def test_starts_are_staggered_and_bounded() -> None:
    pace = Pace(most=2, stagger=0.5)
    assert pace.delay(0.0) == 0.0
    pace.started(0.0)
    assert pace.delay(0.2) == pytest.approx(0.3)
    pace.started(0.5)
    assert pace.delay(9.0) == math.inf
    pace.ended()
    assert pace.delay(9.0) == 0.0


def test_a_pace_that_does_not_adapt_only_waits() -> None:
    pace = Pace(most=4, adaptive=False)
    pace.throttled(0.0, pace.started(0.0))
    assert (pace.limit, pace.delay(0.0)) == (4, 1.0)


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(st.sampled_from(["start", "ok", "throttled", "failed"]), max_size=200), most=st.integers(1, 9))
def test_whatever_happens_at_least_one_and_at_most_all_may_run(steps: list[str], most: int) -> None:
    pace, running, now = Pace(most=most, stagger=0.1), list[int](), 0.0
    for step in steps:
        if step == "start":
            delay = pace.delay(now)
            if delay < math.inf:
                now += delay
                assert pace.delay(now) == 0
                running.append(pace.started(now))
        elif running:
            began = running.pop()
            if step == "ok":
                pace.went_through()
            elif step == "throttled":
                pace.throttled(now, began)
            pace.ended()
        assert 1 <= pace.limit <= most
        assert pace.running == len(running) <= most
        assert running or pace.delay(now) < math.inf


# ---- lanes ---------------------------------------------------------------------------------------


def test_who_waits_for_another_try_comes_first_once_it_is_time() -> None:
    lane = Lane("a", Pace(most=1))
    for index in (0, 1, 2):
        lane.add(index)
    lane.again(7, 5.0)
    assert lane.take(0.0) == 0
    assert lane.take(5.0) == 7
    assert [lane.take(6.0), lane.take(6.0)] == [1, 2]
    assert (len(lane), lane.ready_at(6.0), lane.first(6.0)) == (0, None, None)
    lane.again(3, 9.0)
    assert (lane.ready_at(6.0), lane.first(6.0), lane.first(9.0)) == (9.0, None, 3)


# ---- admission ------------------------------------------------------------------------------------------------------


class Tasks:
    """As much of a file of tasks as admission needs."""

    def __init__(self, *tasks: Task) -> None:
        self.agents = [task.request.agent for task in tasks]
        self._tasks = tasks

    def read(self, index: int) -> Task:
        return self._tasks[index]


def admission(*tasks: Task, **options: Any) -> tuple[Admission, Lane]:
    given = Options(stagger=0, concurrency=9, **options)
    found = Admission(given, Places.of(Path("/out"), given), Tasks(*tasks), Spending(given.budget))  # type: ignore[arg-type]
    for index in range(len(tasks)):
        found.add(index)
    return found, found.lanes["a"]


def turns(found: Admission, lane: Lane, *, idle: bool = False) -> list[int]:
    """Who may start now."""
    started = list[int]()
    while (turn := found.next(lane, 1.0, idle=idle)) is None or isinstance(turn, Turn):
        if turn is not None:
            lane.pace.started(1.0)
            started.append(turn.index)
    return started


def work(cwd: str, *, exclusive: bool) -> Task:
    return Task(request=Request(agent="a", prompt="p", cwd=cwd), workspace=Given(exclusive=exclusive))


def test_a_directory_has_one_run_that_wants_it_alone_or_several_that_share() -> None:
    tasks = [work("/x", exclusive=alone) for alone in (True, False, False, True)] + [work("/y", exclusive=True)]
    found, lane = admission(*tasks)
    assert turns(found, lane) == [0, 4]
    found.vacate(tasks[0])
    assert turns(found, lane) == [1, 2]
    found.vacate(tasks[1])
    assert turns(found, lane) == []
    found.vacate(tasks[2])
    assert turns(found, lane) == [3]
    assert not found.waiting


def test_a_run_that_cannot_be_paid_for_waits_while_others_run_and_is_then_given_up() -> None:
    task = Task(request=Request(agent="a", prompt="p"))
    found, lane = admission(task, task, budget=Budget(usd=1, run_usd=0.7))
    assert isinstance(found.next(lane, 1.0, idle=True), Turn)
    found.spending.reserve("k", Reserve(0.7))
    assert found.next(lane, 1.0, idle=False) == math.inf
    assert found.unaffordable == 0
    found.spending.settle("k", 0.5, None)
    assert turns(found, lane, idle=True) == []
    assert (found.unaffordable, found.waiting, found.stuck) == (1, False, False)


# ---- money ---------------------------------------------------------------------------------------


CENTS = st.integers(1, 500).map(lambda cents: cents / 100)


@settings(max_examples=300, deadline=None)
@given(
    total=CENTS,
    runs=st.lists(st.tuples(CENTS, st.floats(0, 1), st.booleans()), max_size=30),
    together=st.integers(1, 5),
)
def test_no_run_is_admitted_that_cannot_be_paid_for(
    total: float, runs: list[tuple[float, float, bool]], together: int
) -> None:
    """As long as each stays within what it reserved, the total is never passed, whatever is known of the cost."""
    spending, spent, open_runs = Spending(Budget(usd=total)), 0.0, list[tuple[str, float, float, bool]]()
    for number, (reserve, share, known) in enumerate(runs):
        if spending.affords(Reserve(usd=reserve)):
            spending.reserve(str(number), Reserve(usd=reserve))
            open_runs.append((str(number), reserve, reserve * share, known))
        if len(open_runs) >= together:
            key, reserved, used, told = open_runs.pop(0)
            spending.settle(key, used if told else None, None)
            spent += used if told else reserved
        assert spent + sum(run[1] for run in open_runs) <= total + 1e-6
    for key, reserved, used, told in open_runs:
        spending.settle(key, used if told else None, None)
        spent += used if told else reserved
    assert spent <= total + 1e-6
    assert spending.reserved_usd == 0


def test_exactly_what_is_left_can_be_spent() -> None:
    spending = Spending(Budget(usd=0.3, tokens=100))
    for number in range(3):
        assert spending.affords(Reserve(0.1, 33))
        spending.reserve(str(number), Reserve(0.1, 33))
        spending.settle(str(number), 0.1, 33)
    assert not spending.affords(Reserve(0.01, 1))
    assert Spending(Budget(tokens=100), tokens=99).affords(Reserve(tokens=1))
    assert not Spending(Budget(tokens=100), tokens=99).affords(Reserve(tokens=2))


def test_a_total_needs_a_bound_for_each_run() -> None:
    request = Request(agent="a", prompt="p")
    with pytest.raises(ConfigurationError, match=r"budget\.usd"):
        reserve_of(request, Budget(usd=5))
    with pytest.raises(ConfigurationError, match=r"budget\.tokens"):
        reserve_of(request, Budget(usd=5, run_usd=1, tokens=7))
    bounded = request.model_copy(update={"limits": Limits(budget_usd=2.5)})
    assert reserve_of(bounded, Budget(usd=5, run_usd=1)) == Reserve(2.5, None)
    assert reserve_of(request, Budget()) == Reserve(None, None)
