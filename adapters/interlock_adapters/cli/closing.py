"""The last lines of a run: warnings that were not said yet, then what was denied and which option allows it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from interlock.events import BaseEvent, ToolRequested
from interlock.outcome import Denial, Outcome
from interlock.tools import ToolKind
from interlock_adapters.cli.lines import call_words
from interlock_adapters.cli.output import safe_line

__all__ = ["Closing"]

REMEMBERED = 2000
"""Calls and warnings that are kept in mind; the oldest go first."""
SHOWN = 20
"""Denials that are listed, equal ones counted as one."""
_EDITS = frozenset({ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH})


class Closing:
    """Keeps in mind what the last lines need."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], str] = {}
        self._said: dict[str, None] = {}

    def see(self, event: BaseEvent) -> None:
        """Note the words of a call, in case it is denied."""
        if isinstance(event, ToolRequested):
            self._calls[event.agent_id, event.tool_call_id] = call_words(event.input, event.subject)
            if len(self._calls) > REMEMBERED:
                del self._calls[next(iter(self._calls))]

    def first_time(self, warning: str) -> bool:
        """Whether this warning was not said before."""
        if warning in self._said:
            return False
        self._said[warning] = None
        if len(self._said) > REMEMBERED:
            del self._said[next(iter(self._said))]
        return True

    def lines(self, outcome: Outcome) -> Iterator[str]:
        """The last lines, safe for a terminal."""
        for warning in outcome.warnings:
            if self.first_time(warning):
                yield f"warning: {safe_line(warning)}"
        denied = Counter(self._denied(denial) for denial in outcome.denials)
        for line, times in list(denied.items())[:SHOWN]:
            yield line + (f" ({times} times)" if times > 1 else "")
        if len(denied) > SHOWN:
            yield f"denied: {len(denied) - SHOWN} more calls"

    def _denied(self, denial: Denial) -> str:
        words = self._calls.get((denial.agent_id, denial.tool_call_id))
        what = safe_line(denial.tool_name, 60) + (f' "{words}"' if words else "")
        return f"denied: {what} ({denial.by}): {_way_out(denial)}"


def _way_out(denial: Denial) -> str:
    match denial.by:
        case "policy":
            return f"allow it with {_allowing(denial)}"
        case "expired":
            return f"nobody answered in time; allow it with {_allowing(denial)}"
        case "rule":
            return f"{safe_line(denial.reason, 160)}; leave that rule out (of --deny, or a policy) to allow it"
        case _:
            return safe_line(denial.reason, 160)


def _allowing(denial: Denial) -> str:
    ways: list[str] = []
    if denial.allow_rule is not None:
        ways.append(f"--allow {safe_line(shlex.quote(denial.allow_rule))}")
    if denial.tool_kind in _EDITS:
        ways.append("--posture edit")
    return " or ".join(ways) or "--posture full, or be asked with --otherwise ask"
