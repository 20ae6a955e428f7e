"""The tested range of Codex, and how its versions compare."""

from __future__ import annotations

import re
from typing import Literal

__all__ = ["NEWEST", "OLDEST", "judge", "version_in"]

OLDEST = "0.171.0"
NEWEST = "0.171.0"

_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def version_in(user_agent: str) -> str | None:
    """The version in what the server says of itself: `NAME/0.171.0 (...) ...`."""
    match = _NUMBERS.search(user_agent)
    return match[0] if match else None


def judge(version: str) -> Literal["older", "tested", "newer", "unknown"]:
    """Where a version stands to the tested range."""
    found = _parts(version)
    oldest, newest = _parts(OLDEST), _parts(NEWEST)
    if found is None or oldest is None or newest is None:
        return "unknown"
    if found < oldest:
        return "older"
    return "newer" if found > newest else "tested"


def _parts(version: str) -> tuple[int, ...] | None:
    match = _NUMBERS.match(version)
    return tuple(int(number) for number in match.groups()) if match else None
