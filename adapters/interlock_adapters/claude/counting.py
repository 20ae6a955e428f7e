"""Tokens and money, counted once: what the CLI reports of all models so far, less what it had reported before.

`usage` of a result leaves out sub-agents, and in 2.1.197 requests that were repeated without streaming; `modelUsage`
has them all. It counts from the start of the process (2.1.197), or of the session (2.1.332, which therefore also says
what came since the last result). The usage that assistant lines repeat is never added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from interlock.outcome import Usage
from interlock_adapters.claude.wire import ModelUsage, ResultLine, WireUsage

__all__ = ["Counting"]

NAMES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass(slots=True)
class Counting:
    """The tokens and the cost of one process."""

    so_far: Usage = field(default_factory=Usage)
    cost: float | None = None
    """US dollars, as the CLI computes them."""
    _total: Usage = field(default_factory=Usage)

    def turn(self, result: ResultLine) -> Usage:
        """The tokens of the turn that this result ends; unknown where nothing credible is said of them."""
        turn = self._turn(result)
        if result.subtype == "error_during_execution" and not any(turn.model_dump().values()):
            return Usage()  # an interrupted request used some, and 2.1.197 says none
        self.so_far = _more(self.so_far, turn)
        return turn

    def _turn(self, result: ResultLine) -> Usage:
        if result.since_last is not None:
            self.cost = (self.cost or 0.0) + sum(model.cost_usd for model in result.since_last.values())
            return _sum(result.since_last)
        self.cost = result.total_cost_usd
        if not result.model_usage:
            return _of(result.usage)
        before, self._total = self._total, _sum(result.model_usage)
        return _less(self._total, before)


def _sum(models: Mapping[str, ModelUsage]) -> Usage:
    return Usage(**{name: sum(getattr(model, name) for model in models.values()) for name in NAMES})


def _of(usage: WireUsage | None) -> Usage:
    if usage is None:
        return Usage()
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        cache_write_tokens=usage.cache_creation_input_tokens,
    )


def _less(total: Usage, before: Usage) -> Usage:
    return Usage(**{name: max(0, (getattr(total, name) or 0) - (getattr(before, name) or 0)) for name in NAMES})


def _more(before: Usage, turn: Usage) -> Usage:
    counts = {name: (getattr(before, name), getattr(turn, name)) for name in NAMES}
    return Usage(**{name: left if right is None else (left or 0) + right for name, (left, right) in counts.items()})
