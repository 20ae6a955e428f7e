"""The coverage table: what one transport does with each class of tools, derived from its capabilities alone.

A cell is a claim: tests show each one on the real CLI. What is not claimed is `Unsupported` at plan time, or the call
is denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from interlock.capabilities import Capabilities, Hole, ToolClass
from interlock.permission import Backstop
from interlock.tools import ToolKind

__all__ = ["CLOSED", "COLUMNS", "NO", "Column", "Row", "ToolClass", "coverage", "kind_of_class"]

Column = Literal["before", "after", "deny", "modify", "replace", "asked", "backstop"]
COLUMNS: tuple[Column, ...] = get_args(Column)

NO, YES, CLOSED, ASKED = "no", "yes", "closed", "asked calls"
QUESTION = "as a question"
_KINDS: Mapping[ToolClass, ToolKind] = {
    ToolClass.BACKGROUND_SHELL: ToolKind.SHELL,
    ToolClass.SUBAGENT_CALL: ToolKind.SHELL,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One class of tools over one transport."""

    tool_class: ToolClass
    cells: Mapping[Column, str]
    """By column: `no`, or what is claimed; `closed` where a hole is closed so that there is nothing to be seen. Empty
    where no such call can be made."""
    absent: str = ""
    """Why no such call can be made."""
    closed: str = ""
    """How a hole of this class is closed."""

    def claimed(self) -> frozenset[Column]:
        """The columns of which something is claimed."""
        return frozenset(column for column, text in self.cells.items() if text != NO)


def kind_of_class(tool_class: ToolClass) -> ToolKind:
    """The kind that the calls of a class are of; those of a sub-agent stand for all by its shell."""
    return _KINDS.get(tool_class) or ToolKind(tool_class.value)


def coverage(can: Capabilities) -> tuple[Row, ...]:
    """A row for every class of tools, in order."""
    return tuple(_row(can, tool_class) for tool_class in ToolClass)


def _row(can: Capabilities, tool_class: ToolClass) -> Row:
    absent = next((one.why for one in can.absent if one.tool_class is tool_class), "")
    if absent:
        return Row(tool_class, {}, absent=absent)
    holes = [hole for hole in can.holes if hole.tool_class is tool_class]
    kind = kind_of_class(tool_class)
    before = _sight(can.sees_before, [hole for hole in holes if hole.before])
    after = _sight(can.sees_after, [hole for hole in holes if hole.after])
    cells: dict[Column, str] = {
        "before": before,
        "after": after,
        "deny": _claim(before, kind in can.deny),
        "modify": _claim(before, kind in can.modify),
        "replace": _replace(can, kind) if after in {YES, ASKED} else after,
        "asked": _asked(can, tool_class, before),
        "backstop": _backstops(can, tool_class),
    }
    return Row(tool_class, cells, closed="; ".join(hole.closed_by for hole in holes if hole.closed_by))


def _sight(sight: str, holes: list[Hole]) -> str:
    if holes:
        return CLOSED if all(hole.closed_by for hole in holes) else NO
    return {"all": YES, "asked": ASKED}.get(sight, NO)


def _claim(before: str, claimed: bool) -> str:
    """What is not seen can be neither denied nor changed."""
    if before == CLOSED:
        return CLOSED
    return YES if claimed and before != NO else NO


def _asked(can: Capabilities, tool_class: ToolClass, before: str) -> str:
    """A question is put to somebody as itself, not as an approval."""
    if tool_class is ToolClass.QUESTION:
        return QUESTION if can.questions else NO
    return _claim(before, can.asks)


def _replace(can: Capabilities, kind: ToolKind) -> str:
    """What is to be replaced and cannot be stops the run before the model sees it."""
    match kind in can.replace, kind in can.replace_failed:
        case True, True:
            return YES
        case True, False:
            return "if it succeeded"
        case _:
            return "stops the run"


def _backstops(can: Capabilities, tool_class: ToolClass) -> str:
    bare = {one.backstop for one in can.unbacked if tool_class in one.tool_classes}
    return ", ".join(one for one in can.backstops if one is not Backstop.NONE and one not in bare) or NO
