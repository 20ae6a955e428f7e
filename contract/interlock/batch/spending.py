"""What was spent and what is reserved, and whether one more run can be paid for. Pure, in whole numbers.

Money is counted in billionths of a dollar: a sum of floats would let a run in, or keep it out, by its rounding.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from interlock.batch.options import Budget
from interlock.errors import ConfigurationError
from interlock.request import Request

__all__ = ["Reserve", "Spending", "reserve_of"]

NANO = 1_000_000_000


class Reserve(NamedTuple):
    """The most that a run may use; None: nobody says."""

    usd: float | None = None
    tokens: int | None = None


def reserve_of(request: Request, budget: Budget) -> Reserve:
    """What a run reserves; raises `ConfigurationError` where there is a total and no bound for the run."""
    reserve = Reserve(
        request.limits.budget_usd if request.limits.budget_usd is not None else budget.run_usd,
        request.limits.budget_tokens if request.limits.budget_tokens is not None else budget.run_tokens,
    )
    for name, total, own in (("usd", budget.usd, reserve.usd), ("tokens", budget.tokens, reserve.tokens)):
        if total is not None and own is None:
            raise ConfigurationError(
                f"budget.{name}",
                f"a run needs a bound of its own: `run_{name}`, or `limits.budget_{name}` of its request",
            )
    return reserve


class Spending:
    """The two totals, and what stands against them."""

    def __init__(self, budget: Budget, *, usd: float = 0.0, tokens: int = 0) -> None:
        """`usd`, `tokens`: what was spent before."""
        self._most_usd = None if budget.usd is None else _down(budget.usd)
        self._most_tokens = budget.tokens
        self._usd = _up(usd)
        self._tokens = tokens
        self._reserved: dict[str, Reserve] = {}
        self._reserved_usd = 0
        self._reserved_tokens = 0

    @property
    def reserved_usd(self) -> float:
        """By all that run."""
        return self._reserved_usd / NANO

    def affords(self, reserve: Reserve) -> bool:
        """Whether one more run that reserves this can be paid for, whatever those that run will use of theirs."""
        usd, tokens = self._usd + self._reserved_usd, self._tokens + self._reserved_tokens
        return (self._most_usd is None or usd + _up(reserve.usd) <= self._most_usd) and (
            self._most_tokens is None or tokens + (reserve.tokens or 0) <= self._most_tokens
        )

    def reserve(self, key: str, reserve: Reserve) -> None:
        """A run is admitted."""
        self._reserved[key] = reserve
        self._reserved_usd += _up(reserve.usd)
        self._reserved_tokens += reserve.tokens or 0

    def count(self, usd: float | None, tokens: int | None) -> None:
        """Something was spent that this driver reserved nothing for."""
        self._usd += _up(usd)
        self._tokens += tokens or 0

    def settle(self, key: str, usd: float | None, tokens: int | None) -> None:
        """It is over, and this is what it used; where that is not known, all that it had reserved counts."""
        reserve = self._reserved.pop(key)
        self._reserved_usd -= _up(reserve.usd)
        self._reserved_tokens -= reserve.tokens or 0
        self._usd += _up(usd if usd is not None else reserve.usd)
        self._tokens += (tokens if tokens is not None else reserve.tokens) or 0


def _up(usd: float | None) -> int:
    return math.ceil((usd or 0.0) * NANO)


def _down(usd: float) -> int:
    return math.floor(usd * NANO)
