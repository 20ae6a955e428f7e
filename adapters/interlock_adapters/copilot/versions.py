"""The tested range of Copilot CLI."""

from __future__ import annotations

from interlock.adapter import VersionRange

__all__ = ["NEWEST", "OLDEST", "TESTED"]

OLDEST = "1.0.102"
NEWEST = "1.0.102"
TESTED = VersionRange(OLDEST, NEWEST)
