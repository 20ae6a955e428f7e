"""What a check of the doctor says, and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "Verdict", "ok", "problem", "warning"]

Verdict = Literal["ok", "warning", "problem"]
"""`problem`: a run would be refused, or fail. `warning`: it would begin, and there is something to know."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    verdict: Verdict
    says: str
    way_out: str = ""
    """What to do about it; only where it is not well."""
    agent: str = ""
    """Whose check it is; empty: the machine's."""


def ok(name: str, says: str, agent: str = "") -> Check:
    """All is well."""
    return Check(name, "ok", says, agent=agent)


def warning(name: str, says: str, way_out: str, agent: str = "") -> Check:
    """A run would begin."""
    return Check(name, "warning", says, way_out, agent)


def problem(name: str, says: str, way_out: str, agent: str = "") -> Check:
    """A run would be refused, or fail."""
    return Check(name, "problem", says, way_out, agent)
