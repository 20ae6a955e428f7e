"""The tested range of Codex."""

from __future__ import annotations

import re

from interlock.adapter import VersionRange

__all__ = ["NEWEST", "OLDEST", "TESTED", "version_in"]

OLDEST = "0.171.0"
NEWEST = "0.171.0"
TESTED = VersionRange(OLDEST, NEWEST)

_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def version_in(user_agent: str) -> str | None:
    """The version in what the server says of itself: `NAME/0.171.0 (...) ...`."""
    match = _NUMBERS.search(user_agent)
    return match[0] if match else None
