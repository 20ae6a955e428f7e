"""Errors in the words of the command line, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.capabilities import Unmet
from interlock.errors import ConfigurationError, InterlockError, NotInstalled, UnknownAgent, Unsupported
from interlock.outcome import Outcome, Reason, Status
from interlock_adapters.cli.options import FLAGS, UsageProblem, option_of
from interlock_adapters.cli.output import safe_line

__all__ = [
    "BOUND",
    "BOUNDS",
    "COMPLETED",
    "FAILED",
    "INTERRUPTED",
    "UNGUARDED",
    "USAGE",
    "code_of",
    "exit_code",
    "explain",
]

COMPLETED, FAILED, USAGE, BOUND, UNGUARDED, INTERRUPTED = 0, 1, 2, 3, 4, 130

BOUNDS = frozenset({Reason.MAX_TURNS, Reason.BUDGET, Reason.DEADLINE})
"""Reasons that say that a bound tripped."""


def exit_code(outcome: Outcome) -> int:
    """The exit code that says how a run ended."""
    if outcome.reason is Reason.UNGUARDED:
        return UNGUARDED
    if outcome.reason is Reason.UNSUPPORTED:
        return USAGE
    if outcome.reason in BOUNDS or outcome.status is Status.TIMED_OUT:
        return BOUND
    if outcome.status is Status.CANCELLED:
        return INTERRUPTED
    return COMPLETED if outcome.ok else FAILED


def code_of(error: UsageProblem | InterlockError) -> int:
    """The exit code of a run that was never started: 2 where the command line or a configuration is to blame."""
    usage = UsageProblem | Unsupported | UnknownAgent | NotInstalled | ConfigurationError
    return USAGE if isinstance(error, usage) else FAILED


def explain(error: UsageProblem | InterlockError, *, unanswered: bool = False) -> list[str]:
    """The lines that say what is wrong and what would work; safe for a terminal.

    `unanswered`: approvals were asked for, and nobody is there to answer them.
    """
    return [safe_line(line) for line in _lines(error, unanswered=unanswered)]


def _lines(error: UsageProblem | InterlockError, *, unanswered: bool) -> Iterator[str]:
    if isinstance(error, Unsupported):
        yield f"interlock: {error.agent} cannot do what is asked for:"
        yield from (f"  - {_spoken(unmet)}" for unmet in error.unmet)
        if unanswered:
            yield "  Approvals are answered by a person at a terminal (stdin and stderr), or by --approve-with PROGRAM."
        return
    first, *rest = str(error).split("\n")
    yield f"interlock: {first}"
    yield from (f"  {line}" for line in rest)
    if isinstance(error, NotInstalled):
        yield "  Or name its program with --binary PATH."


def _spoken(unmet: Unmet) -> str:
    ways = "; or ".join(_way_out(way) for way in unmet.alternatives)
    option = option_of(unmet.field)
    asked = f"no {option}" if option in FLAGS and unmet.value == "False" else option
    shown = asked if option in FLAGS else f"{option} {unmet.value}"
    return f"{shown}: {unmet.reason}" + (f" ({ways})" if ways else "")


def _way_out(way: str) -> str:
    """`field=value` as the option that says it; other words as they are."""
    field, separator, value = way.partition("=")
    option = option_of(field)
    if option in FLAGS and separator:
        return option if value == "True" else f"no {option}"
    return f"{option} {value}" if separator and option.startswith("-") else way
