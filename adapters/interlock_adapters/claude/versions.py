"""The tested range of Claude Code."""

from __future__ import annotations

from interlock.adapter import VersionRange

__all__ = ["NEWEST", "OLDEST", "TESTED"]

OLDEST = "2.1.197"
NEWEST = "2.1.332"
TESTED = VersionRange(OLDEST, NEWEST)
