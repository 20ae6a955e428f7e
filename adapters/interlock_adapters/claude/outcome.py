"""How a run ended, judged from the result line; exit code and signal count only where there is none.

`is_error` is looked at first: an API error arrives as subtype `success` (Claude Code 2.1.197 and 2.1.332).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.actions import Ending
from interlock.outcome import RateLimit, Reason, Status, Usage
from interlock_adapters.claude.wire import ResultLine

__all__ = ["Intent", "Memory", "Used", "ending_of"]


@dataclass(frozen=True, slots=True)
class Used:
    """What a turn used, and what the run has cost so far."""

    turn: Usage
    cost: float | None


@dataclass(slots=True)
class Intent:
    """What we did to end the run, if we did."""

    interrupted: bool = False
    denied: str | None = None
    """The reason of a denial that ends the run."""
    unreplaceable: str | None = None
    """The tool whose output could only be withheld by stopping the run."""


@dataclass(slots=True)
class Memory:
    """What earlier lines said that the result may not repeat."""

    resumes: bool = False
    wants_structure: bool = False
    session_id: str | None = None
    model: str | None = None
    api_error: str | None = None
    """`error` of the last synthetic message about a failed request."""
    retry_error: str | None = None
    rate_limit: RateLimit | None = None


_SUBTYPES: Mapping[str, Reason] = {
    "error_max_turns": Reason.MAX_TURNS,
    "error_max_budget_usd": Reason.BUDGET,
    "error_max_structured_output_retries": Reason.INVALID_OUTPUT,
}
_TERMINAL: Mapping[str, Reason] = {
    "prompt_too_long": Reason.CONTEXT,
    "blocking_limit": Reason.CONTEXT,
    "image_error": Reason.BAD_REQUEST,
    "max_turns": Reason.MAX_TURNS,
    "budget_exhausted": Reason.BUDGET,
}
_ERRORS: Mapping[str, Reason] = {
    "authentication_failed": Reason.AUTH,
    "billing_error": Reason.BILLING,
    "invalid_request": Reason.BAD_REQUEST,
    "max_output_tokens": Reason.MAX_OUTPUT,
    "model_not_found": Reason.MODEL_NOT_FOUND,
    "overloaded": Reason.OVERLOADED,
    "rate_limit": Reason.RATE_LIMIT,
    "server_error": Reason.API,
}
_STATUSES: Mapping[int, Reason] = {
    400: Reason.BAD_REQUEST,
    401: Reason.AUTH,
    402: Reason.BILLING,
    403: Reason.AUTH,
    404: Reason.MODEL_NOT_FOUND,
    413: Reason.BAD_REQUEST,
    429: Reason.RATE_LIMIT,
    529: Reason.OVERLOADED,
}


def ending_of(result: ResultLine, intent: Intent, memory: Memory, used: Used) -> Ending:
    """The ending that the main agent's result line tells."""
    status, reason, message = _judged(result, intent, memory)
    return Ending(
        status=status,
        reason=reason,
        message=message,
        text=result.result if status is Status.COMPLETED else None,
        structured=result.structured_output if status is Status.COMPLETED else None,
        usage=used.turn,
        cost_usd=used.cost,
        session_id=result.session_id or memory.session_id,
        model=memory.model,
        turns=result.num_turns,
        rate_limit=_limit(reason, memory),
        api_status=result.api_error_status,
    )


def _limit(reason: Reason | None, memory: Memory) -> RateLimit | None:
    """The limit that the service told of; without a login it says of one that was hit no more than that."""
    told = memory.rate_limit
    if reason is Reason.RATE_LIMIT and (told is None or not told.blocking):
        return RateLimit(status="rejected", blocking=True)
    return told


def _judged(result: ResultLine, intent: Intent, memory: Memory) -> tuple[Status, Reason | None, str]:
    if intent.unreplaceable is not None:
        message = f"the run was stopped, since the output of {intent.unreplaceable} could not be withheld otherwise"
        return Status.FAILED, Reason.UNREPLACEABLE, message
    if intent.denied is not None:
        return Status.FAILED, Reason.DENIED, intent.denied
    if result.is_error or result.subtype != "success":
        if intent.interrupted and result.subtype == "error_during_execution":
            return Status.CANCELLED, None, ""
        return Status.FAILED, _failure(result, memory), _message(result)
    if result.stop_reason == "refusal":
        return Status.FAILED, Reason.REFUSED, result.result or "the model refused"
    if memory.wants_structure and "structured_output" not in result.model_fields_set:
        return Status.FAILED, Reason.INVALID_OUTPUT, "the model gave no structured output"
    if not (result.result or "").strip():
        return Status.FAILED, Reason.NO_OUTPUT, "the final answer is empty"
    return Status.COMPLETED, None, ""


def _failure(result: ResultLine, memory: Memory) -> Reason:
    if result.subtype in _SUBTYPES:
        return _SUBTYPES[result.subtype]
    if result.subtype == "error_during_execution":
        never_began = memory.resumes and memory.session_id is None and not result.num_turns
        return Reason.SESSION_NOT_FOUND if never_began else Reason.API
    if result.stop_reason == "refusal":
        return Reason.REFUSED
    return _TERMINAL.get(result.terminal_reason or "") or _api_failure(result.api_error_status, memory)


def _api_failure(status: int | None, memory: Memory) -> Reason:
    """The CLI's word beats a status of several meanings (billing is a 400); an overload is told by any of three."""
    if status == 529 or (status is None and memory.retry_error == "overloaded"):
        return Reason.OVERLOADED
    return _ERRORS.get(memory.api_error or "") or _STATUSES.get(status or 0, Reason.API)


def _message(result: ResultLine) -> str:
    errors = "; ".join(str(error) for error in result.errors)
    return result.result or errors or result.subtype
