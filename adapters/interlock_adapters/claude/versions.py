"""The tested range of Claude Code, and how its versions compare."""

from __future__ import annotations

import re
from typing import Literal

__all__ = ["NEWEST", "OLDEST", "judge"]

OLDEST = "2.1.197"
NEWEST = "2.1.332"

_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")


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
