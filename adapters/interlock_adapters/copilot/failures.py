"""Why the service of the model failed, by `session.error` (1.0.102): the HTTP status beats its kind, a rough word."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.outcome import Reason
from interlock_adapters.copilot.wire import ErrorTold

__all__ = ["reason_of"]

_STATUSES: Mapping[int, Reason] = {
    400: Reason.BAD_REQUEST,
    401: Reason.AUTH,
    402: Reason.BILLING,
    403: Reason.AUTH,
    404: Reason.MODEL_NOT_FOUND,
    413: Reason.CONTEXT,
    429: Reason.RATE_LIMIT,
    503: Reason.OVERLOADED,
    529: Reason.OVERLOADED,
}
_WORDS: Mapping[str, Reason] = {
    "authentication": Reason.AUTH,
    "authorization": Reason.AUTH,
    "context_limit": Reason.CONTEXT,
    "policy_blocked": Reason.REFUSED,
    "quota": Reason.BILLING,
    "rate_limit": Reason.RATE_LIMIT,
}
_TOO_LONG = "exceeds the model's prompt budget"
"""What a prompt that is too long is told by: its error has no kind of its own."""


def reason_of(error: ErrorTold) -> Reason:
    """The status of the service beats a word of several meanings."""
    if _TOO_LONG in error.message:
        return Reason.CONTEXT
    return _STATUSES.get(error.status or 0) or _WORDS.get(error.kind, Reason.API)
