"""How a run ended: by what the stream said of it, by the exit of the process only where the stream said nothing.

The process exits with 0 after a signal, after calls that were denied and after an answer alike (1.0.102).
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from interlock.actions import Ending
from interlock.outcome import Reason, Status, Usage
from interlock_adapters.copilot.failures import reason_of
from interlock_adapters.copilot.prompt.wire import UsageFile
from interlock_adapters.copilot.wire import ErrorTold

__all__ = ["Told", "ending", "usage_in"]


@dataclass(slots=True)
class Told:
    """All that the stream says of the end."""

    text: str | None = None
    """The last message of the main agent that asks for no call."""
    error: ErrorTold | None = None
    aborted: bool = False
    code: int | None = None
    """What the last line says of the exit; None without one."""
    spoken: bool = False
    """Whether any line came."""
    session: str | None = None
    model: str | None = None
    turns: int = 0


def ending(told: Told, *, resumed: bool, how: str, code: int | None) -> Ending:
    """The end of the run; `how` and `code` are of the process, which may still run: None."""
    if told.error is not None:
        status, reason, message = Status.FAILED, reason_of(told.error), told.error.message
    elif told.aborted:
        status, reason, message = Status.CANCELLED, None, "the agent was told to end"
    elif told.code is None:
        status, (reason, message) = Status.FAILED, _silent(told, resumed=resumed, how=how, code=code)
    elif told.code != 0:
        status, reason, message = Status.FAILED, Reason.CRASHED, f"the agent says that it failed ({told.code})"
    elif not (told.text or "").strip():
        status, reason, message = Status.FAILED, Reason.NO_OUTPUT, "the final answer is empty"
    else:
        status, reason, message = Status.COMPLETED, None, ""
    return Ending(
        status,
        reason,
        message,
        text=told.text if status is Status.COMPLETED else None,
        session_id=told.session,
        model=told.model,
        turns=told.turns,
        api_status=None if told.error is None else told.error.status,
        final=True,
    )


def _silent(told: Told, *, resumed: bool, how: str, code: int | None) -> tuple[Reason, str]:
    """The process ended without its last line."""
    if told.spoken:
        return Reason.CRASHED, f"the agent ended without a result ({how})"
    if code == 0:
        return Reason.NO_OUTPUT, "the agent said nothing"
    if code == 1 and resumed:
        return Reason.SESSION_NOT_FOUND, f"the agent ended before it went on with the session ({how})"
    return Reason.CRASHED, f"the agent ended before it began ({how})"


def usage_in(file: bytes | None) -> Usage:
    """The tokens of the process; unknown where the file is missing, or the service told nothing."""
    try:
        models = UsageFile.model_validate_json(file or b"").models.values()
    except ValidationError:
        return Usage()
    requests = sum(model.requests.count for model in models)
    used = [model.usage for model in models]
    total = sum(one.input for one in used)
    output = sum(one.output for one in used)
    if not total and not output:
        return Usage(model_requests=requests)
    read, written = sum(one.cache_read for one in used), sum(one.cache_write for one in used)
    reasoning = [one.reasoning for one in used if one.reasoning is not None]
    return Usage(
        input_tokens=max(0, total - read - written),
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=sum(reasoning) if reasoning else None,
        model_requests=requests,
    )
