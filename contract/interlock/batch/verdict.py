"""What an attempt's end means for its run: counted, or what else. Pure: an outcome in, a verdict out."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from interlock.outcome import Outcome, Reason, Status

__all__ = ["RECORD_FAILED", "Fate", "Verdict", "judge"]

RECORD_FAILED = "RecordFailed"
"""The `problem` of an attempt that could not record, or could not make its workspace for want of space."""

CENTURY = 100 * 365.25 * 86_400
"""Seconds after which a reset is none: milliseconds that were taken for seconds, or nonsense."""

_BLOCKING = frozenset({Reason.AUTH, Reason.MODEL_NOT_FOUND, Reason.SANDBOX})
_BLOCKING_PROBLEMS = frozenset({"NotInstalled", "UnknownAgent"})
_TRANSIENT = frozenset({Reason.API, Reason.CRASHED, Reason.PROTOCOL, Reason.STALLED, Reason.INTERNAL})
_TRANSIENT_PROBLEMS = frozenset({"StartFailed", "SessionBusy"})
_DEATHS = frozenset({Reason.CRASHED, Reason.PROTOCOL})
_DEADLY_CODES = frozenset({129, 130, 137, 139, 143})
"""128 and the number of HUP, INT, KILL, SEGV, TERM: what a launcher says of a child that a signal ended."""


class Fate(StrEnum):
    """What becomes of the run."""

    COUNTED = "counted"
    BLOCKED = "blocked"
    """Counted; and the next of this agent will fail alike."""
    THROTTLED = "throttled"
    """No attempt: too much at once."""
    EXHAUSTED = "exhausted"
    """No attempt: a quota is used up."""
    TRANSIENT = "transient"
    LOST = "lost"
    CANCELLED = "cancelled"
    BROKEN = "broken"
    """The machine cannot record any more."""


class Verdict(NamedTuple):
    """A fate; `until` is when a quota is reset, in seconds since the epoch, if that is known."""

    fate: Fate
    until: float | None = None


def judge(outcome: Outcome, problem: str | None, *, now: float) -> Verdict:
    """The verdict on one attempt; `problem` is what kept it from starting, `now` in seconds since the epoch."""
    if problem is not None:
        return Verdict(_of_problem(problem))
    match outcome.status, outcome.reason:
        case Status.COMPLETED, _:
            return Verdict(Fate.COUNTED)
        case Status.CANCELLED, None:
            return Verdict(Fate.CANCELLED)
        case _, Reason.RATE_LIMIT | Reason.OVERLOADED | Reason.BILLING:
            return _limited(outcome, now)
        case _, reason if reason in _DEATHS and _died(outcome):
            return Verdict(Fate.LOST)
        case _, reason if reason in _TRANSIENT:
            return Verdict(Fate.TRANSIENT)
        case _, reason if reason in _BLOCKING:
            return Verdict(Fate.BLOCKED)
        case _:
            return Verdict(Fate.COUNTED)


def _of_problem(problem: str) -> Fate:
    if problem == RECORD_FAILED:
        return Fate.BROKEN
    if problem in _BLOCKING_PROBLEMS:
        return Fate.BLOCKED
    return Fate.TRANSIENT if problem in _TRANSIENT_PROBLEMS else Fate.COUNTED


def _limited(outcome: Outcome, now: float) -> Verdict:
    """A limit with a reset is a quota; one without is too much at once, as an overloaded service is."""
    if outcome.reason is Reason.BILLING:
        return Verdict(Fate.EXHAUSTED)
    limit = outcome.rate_limit
    until = limit.resets_at if limit is not None and outcome.reason is Reason.RATE_LIMIT else None
    if until is None or not until > now:
        return Verdict(Fate.THROTTLED)
    return Verdict(Fate.EXHAUSTED, until if until < now + CENTURY else None)


def _died(outcome: Outcome) -> bool:
    """Whether a signal ended the agent; ours never come before its end is settled, which has then another reason."""
    return outcome.signal is not None or outcome.exit_code in _DEADLY_CODES
