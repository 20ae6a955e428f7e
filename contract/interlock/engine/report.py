"""What becomes the outcome: the first word about how the run ended, and everything that was heard beside it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from interlock.actions import Ending, Ready
from interlock.engine.ledger import Ledger
from interlock.events import BaseEvent, Notice, RateLimited
from interlock.outcome import Outcome, RateLimit, Status, Usage

__all__ = ["Report"]

MOST_WARNINGS = 100


class Report:
    """Collects; the first `settle` decides, and what the agent reports beside it fills the gaps."""

    def __init__(self, run_id: str, agent: str, warnings: tuple[str, ...], labels: Mapping[str, str]) -> None:
        self.agent = agent
        self.final: Outcome | None = None
        self._run_id = run_id
        self._labels = labels
        self._warnings = list(warnings)
        self._settled: Ending | None = None
        self._heard: Ending | None = None
        self._ready: Ready | None = None
        self._rate_limit: RateLimit | None = None
        self._noise = ""
        self._began = time.monotonic()

    def settle(self, ending: Ending) -> None:
        """How the run ended; the first word counts."""
        self._settled = self._settled or ending

    def heard(self, ending: Ending) -> None:
        """The agent's own terminal message; of several turns the last counts, and their usage is added up."""
        before = self._heard
        self._heard = ending if before is None else replace(ending, usage=_sum(before.usage, ending.usage))

    def ready(self, ready: Ready) -> None:
        """What the agent said of itself at the start."""
        self._ready = ready

    def noted(self, event: BaseEvent) -> None:
        """Keep what belongs into the outcome."""
        if isinstance(event, RateLimited):
            self._rate_limit = event.limit
        elif isinstance(event, Notice):
            if event.code == "stdout_noise":
                self._noise = (self._noise + event.message + "\n")[-4096:]
            elif event.level != "info" and len(self._warnings) < MOST_WARNINGS:
                self._warnings.append(event.message)

    def outcome(self, ledger: Ledger, *, code: int | None, signal: int | None, stderr: str) -> Outcome:
        """The outcome, from all that is known."""
        settled = self._settled or Ending(Status.CANCELLED)
        told = self._heard or settled
        ready = self._ready or Ready()
        return Outcome(
            run_id=self._run_id,
            agent=self.agent,
            status=settled.status,
            reason=settled.reason,
            message=settled.message,
            text=told.text,
            structured=told.structured,
            usage=told.usage,
            cost_usd=told.cost_usd,
            session_id=told.session_id or ready.session_id,
            model=told.model or ready.model,
            version=told.version or ready.version,
            turns=told.turns,
            tool_calls=len(ledger.entries),
            denials=ledger.denials(),
            warnings=tuple(self._warnings),
            rate_limit=told.rate_limit or self._rate_limit,
            api_status=told.api_status,
            exit_code=code,
            signal=signal,
            stderr_tail=stderr,
            stdout_noise=self._noise,
            duration=time.monotonic() - self._began,
            labels=self._labels,
        )


def _sum(left: Usage, right: Usage) -> Usage:
    """Both together; what only one of them knows is that one's."""
    totals: dict[str, int | None] = {}
    for name in Usage.model_fields:
        known = [count for count in (getattr(left, name), getattr(right, name)) if count is not None]
        totals[name] = sum(known) if known else None
    return Usage(**totals)
