"""How a turn ended, judged from `turn/completed` of the main agent's thread; the exit code counts only without one.

A turn that failed says why by a word of its own (`codexErrorInfo`), and where the word is `other` by its message alone,
which is passed on and not interpreted (Codex 0.171.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from interlock.actions import Ending
from interlock.framing.bounded import Bounded
from interlock.model import JsonValue
from interlock.outcome import RateLimit, Reason, Status, Usage
from interlock_adapters.codex.app_server.intent import Intent
from interlock_adapters.codex.app_server.wire import TokenUsage, TokenUsages, Turn, TurnError

__all__ = ["Memory", "Tokens", "ending_of", "reason_of", "status_of"]

_WORDS: Mapping[str, Reason] = {
    "badRequest": Reason.BAD_REQUEST,
    "bioPolicy": Reason.REFUSED,
    "contextWindowExceeded": Reason.CONTEXT,
    "cyberPolicy": Reason.REFUSED,
    "inferenceHookDenied": Reason.REFUSED,
    "internalServerError": Reason.API,
    "misalignmentPolicyViolation": Reason.REFUSED,
    "modelNotFound": Reason.MODEL_NOT_FOUND,
    "rateLimitExceeded": Reason.RATE_LIMIT,
    "responseTooManyFailedAttempts": Reason.RATE_LIMIT,
    "sandboxError": Reason.SANDBOX,
    "serverOverloaded": Reason.OVERLOADED,
    "sessionBudgetExceeded": Reason.BUDGET,
    "unauthorized": Reason.AUTH,
    "usageLimitExceeded": Reason.RATE_LIMIT,
}
_STATUSES: Mapping[int, Reason] = {
    400: Reason.BAD_REQUEST,
    401: Reason.AUTH,
    402: Reason.BILLING,
    403: Reason.AUTH,
    404: Reason.MODEL_NOT_FOUND,
    429: Reason.RATE_LIMIT,
    503: Reason.OVERLOADED,
}


def _parts(usage: TokenUsage) -> tuple[int, int, int, int, int]:
    fresh = max(0, usage.input - usage.cached - usage.written)
    return fresh, usage.output, usage.cached, usage.written, usage.reasoning


@dataclass(slots=True)
class Tokens:
    """The tokens of this run alone: a resumed thread counts those of earlier runs in its total."""

    _before: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    _now: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    _turn: tuple[int, ...] = (0, 0, 0, 0, 0)
    """What was used before this turn began."""

    def told(self, thread: str, usage: TokenUsages, *, earlier: bool) -> None:
        """A thread told its total, and what was added last; `earlier`: by a turn of an earlier run."""
        total, last = _parts(usage.total), _parts(usage.last)
        if earlier:
            self._before[thread] = total
        elif thread not in self._before:
            self._before[thread] = tuple(max(0, all_ - new) for all_, new in zip(total, last, strict=True))
        self._now[thread] = total

    def next_turn(self) -> None:
        """What was used so far belongs to earlier turns."""
        self._turn = self._sum()

    def usage(self, *, of_turn: bool) -> Usage:
        """Of the turn, or of the run so far; unknown while nothing was told."""
        if not self._now:
            return Usage()
        base = self._turn if of_turn else (0, 0, 0, 0, 0)
        fresh, out, cached, written, thought = (n - b for n, b in zip(self._sum(), base, strict=True))
        return Usage(
            input_tokens=fresh,
            output_tokens=out,
            cache_read_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=thought,
        )

    def _sum(self) -> tuple[int, ...]:
        rows = [
            tuple(max(0, now - old) for now, old in zip(total, self._before[thread], strict=True))
            for thread, total in self._now.items()
        ]
        return tuple(sum(column) for column in zip(*rows, strict=True)) if rows else (0, 0, 0, 0, 0)


@dataclass(slots=True)
class Memory:
    """What earlier messages said that the end of the turn does not repeat."""

    session_id: str | None = None
    model: str | None = None
    text: str | None = None
    """The last message of the main agent in this turn."""
    turns: Bounded[str, None] = field(default_factory=Bounded[str, None])
    """The turns of this run that the server has named."""
    rate_limit: RateLimit | None = None
    tokens: Tokens = field(default_factory=Tokens)


def ending_of(turn: Turn, intent: Intent, memory: Memory, *, structured: JsonValue, wants_structure: bool) -> Ending:
    """The ending that the main agent's turn tells."""
    status, reason, message = _judged(turn, intent, memory)
    done = status is Status.COMPLETED
    if done and wants_structure and structured is None:
        status, reason, message = Status.FAILED, Reason.INVALID_OUTPUT, "the final answer is no JSON"
    return Ending(
        status=status,
        reason=reason,
        message=message,
        text=memory.text if done else None,
        structured=structured if done else None,
        usage=memory.tokens.usage(of_turn=True),
        session_id=memory.session_id,
        model=memory.model,
        rate_limit=memory.rate_limit,
        api_status=status_of(turn.error),
    )


def _judged(turn: Turn, intent: Intent, memory: Memory) -> tuple[Status, Reason | None, str]:
    if intent.unreplaceable is not None:
        message = f"the run was stopped, since the output of {intent.unreplaceable} could not be withheld otherwise"
        return Status.FAILED, Reason.UNREPLACEABLE, message
    if intent.denied is not None:
        return Status.FAILED, Reason.DENIED, intent.denied
    match turn.status:
        case "completed" if (memory.text or "").strip():
            return Status.COMPLETED, None, ""
        case "completed":
            return Status.FAILED, Reason.NO_OUTPUT, "the final answer is empty"
        case "interrupted" if intent.interrupted:
            return Status.CANCELLED, None, ""
        case "failed" if turn.error is not None:
            return Status.FAILED, reason_of(turn.error), turn.error.message
        case other:
            return Status.FAILED, Reason.PROTOCOL, f"the turn ended as {other!r}, and nobody had asked for that"


def reason_of(error: TurnError) -> Reason:
    """The status of the service beats a word of several meanings."""
    by_status = _STATUSES.get(status_of(error) or 0)
    if by_status is not None:
        return by_status
    return _WORDS.get(_word(error.info) or "", Reason.API)


def status_of(error: TurnError | None) -> int | None:
    """The HTTP status of the model's service, where the error has one."""
    info = None if error is None else error.info
    for details in info.values() if isinstance(info, dict) else ():
        found = details.get("httpStatusCode") if isinstance(details, dict) else None
        if isinstance(found, int):
            return found
    return None


def _word(info: JsonValue) -> str | None:
    if isinstance(info, dict):
        return next(iter(info), None)
    return info if isinstance(info, str) else None
