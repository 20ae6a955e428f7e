"""How a turn of `exec` ended: by its last line, and where there is none by the exit of the process.

A failed turn has a message and nothing else; of it only the HTTP status is read, which the service gave, and a few
sentences that Codex 0.171.0 always writes in the same words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from interlock.outcome import Reason, Usage
from interlock_adapters.codex.exec import wire

__all__ = ["api_status", "reason_of", "usage_of"]

_STATUS = re.compile(r"status:? (\d{3})\b")
_STATUSES: Mapping[int, Reason] = {
    400: Reason.BAD_REQUEST,
    401: Reason.AUTH,
    402: Reason.BILLING,
    403: Reason.AUTH,
    404: Reason.MODEL_NOT_FOUND,
    429: Reason.RATE_LIMIT,
    503: Reason.OVERLOADED,
}
_SENTENCES: Mapping[str, Reason] = {
    "Codex ran out of room in the model's context window": Reason.CONTEXT,
    "Incomplete response returned, reason: max_output_tokens": Reason.MAX_OUTPUT,
    "Missing environment variable": Reason.AUTH,
    "Quota exceeded": Reason.BILLING,
    "Selected model is at capacity": Reason.OVERLOADED,
    "You\u2019ve hit your usage limit": Reason.RATE_LIMIT,
}


def api_status(message: str) -> int | None:
    """The HTTP status of the model's service that a message names."""
    found = _STATUS.search(message)
    return int(found[1]) if found else None


def reason_of(message: str) -> Reason:
    """Why a turn failed."""
    for sentence, reason in _SENTENCES.items():
        if message.startswith(sentence):
            return reason
    return _STATUSES.get(api_status(message) or 0, Reason.API)


def usage_of(told: wire.Usage | None, *, fresh: bool) -> Usage:
    """The tokens of this run: a thread that goes on counts those of earlier runs, which nobody here knows."""
    if told is None or not fresh:
        return Usage()
    return Usage(
        input_tokens=max(0, told.input - told.cached - told.written),
        output_tokens=told.output,
        cache_read_tokens=told.cached,
        cache_write_tokens=told.written,
        reasoning_tokens=told.reasoning,
    )
