"""How a turn ended, judged from what came before `session.idle`, which alone does not say; the exit code counts last.

An idle session that was aborted, by nobody here, has not done what it was asked for (1.0.102).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.actions import Ending
from interlock.outcome import Reason, Status, Usage
from interlock_adapters.copilot.failures import reason_of
from interlock_adapters.copilot.server.intent import Intent
from interlock_adapters.copilot.wire import ErrorTold, UsageTold

__all__ = ["Memory", "Tokens", "ending_of", "stopped"]

_NOTHING: tuple[int, ...] = (0, 0, 0, 0, 0, 0)


@dataclass(slots=True)
class Tokens:
    """The tokens of this run, and of this turn."""

    _run: tuple[int, ...] = _NOTHING
    _earlier: tuple[int, ...] = _NOTHING
    """Of earlier turns."""
    _known: bool = False

    def told(self, told: UsageTold) -> None:
        """One request to the model; the cached tokens are a part of its input."""
        if told.input is None and told.output is None:
            return
        read, written = told.cache_read or 0, told.cache_write or 0
        fresh = max(0, (told.input or 0) - read - written)
        row = (fresh, told.output or 0, read, written, told.reasoning or 0, 1)
        self._run = tuple(so_far + more for so_far, more in zip(self._run, row, strict=True))
        self._known = True

    def next_turn(self) -> None:
        """What was used so far belongs to earlier turns."""
        self._earlier, self._known = self._run, False

    def usage(self, *, of_turn: bool) -> Usage:
        """Of the turn, or of the run so far; unknown while nothing was told."""
        if not self._known:
            return Usage()
        base = self._earlier if of_turn else _NOTHING
        fresh, out, read, written, thought, asked = (now - old for now, old in zip(self._run, base, strict=True))
        return Usage(
            input_tokens=fresh,
            output_tokens=out,
            cache_read_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=thought,
            model_requests=asked,
        )


@dataclass(slots=True)
class Memory:
    """What earlier messages said that the end of the turn does not repeat."""

    session_id: str | None = None
    model: str | None = None
    text: str | None = None
    """The last message of the main agent that asks for no call."""
    error: ErrorTold | None = None
    turns: int = 0
    """Requests of the main agent to the model, in this turn."""
    message: str = ""
    """The id of the last event in which the main agent asks for calls."""
    tokens: Tokens = field(default_factory=Tokens)

    def next_turn(self) -> None:
        """A new turn begins."""
        self.text, self.error, self.turns, self.message = None, None, 0, ""
        self.tokens.next_turn()


def ending_of(memory: Memory, intent: Intent, *, aborted: bool) -> Ending:
    """The ending that an idle session tells."""
    status, reason, message = _judged(memory, intent, aborted=aborted)
    return Ending(
        status=status,
        reason=reason,
        message=message,
        text=memory.text if status is Status.COMPLETED else None,
        usage=memory.tokens.usage(of_turn=True),
        session_id=memory.session_id,
        model=memory.model,
        turns=memory.turns,
        api_status=None if memory.error is None else memory.error.status,
    )


def stopped(intent: Intent) -> tuple[Status, Reason | None, str] | None:
    """How a turn ended that we told to end; None for any other."""
    if intent.unreplaceable is not None:
        message = f"the run was stopped, since the output of {intent.unreplaceable} could not be withheld otherwise"
        return Status.FAILED, Reason.UNREPLACEABLE, message
    if intent.denied is not None:
        return Status.FAILED, Reason.DENIED, intent.denied
    if intent.turns_over:
        return Status.FAILED, Reason.MAX_TURNS, "the model was asked as often as it may be"
    if intent.interrupted:
        return Status.CANCELLED, None, ""
    return None


def _judged(memory: Memory, intent: Intent, *, aborted: bool) -> tuple[Status, Reason | None, str]:
    told = stopped(intent)
    if told is not None:
        return told
    if memory.error is not None:
        return Status.FAILED, reason_of(memory.error), memory.error.message
    if aborted:
        return Status.FAILED, Reason.PROTOCOL, "the turn was aborted, and nobody had asked for that"
    if not (memory.text or "").strip():
        return Status.FAILED, Reason.NO_OUTPUT, "the final answer is empty"
    return Status.COMPLETED, None, ""
