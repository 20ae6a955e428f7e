"""The coverage table: what one transport does with each class of tools, derived from its capabilities alone.

A cell is a claim: tests show each one on the real CLI. What is not claimed is `Unsupported` at plan time, or the call
is denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from interlock.capabilities import Capabilities, ToolClass
from interlock.permission import Backstop
from interlock.tools import ToolKind

__all__ = ["COLUMNS", "Column", "Row", "ToolClass", "coverage", "kind_of_class"]

Column = Literal["before", "after", "deny", "modify", "replace", "asked", "backstop"]
COLUMNS: tuple[Column, ...] = get_args(Column)

NO, YES = "no", "yes"
_KINDS: Mapping[ToolClass, ToolKind] = {
    ToolClass.BACKGROUND_SHELL: ToolKind.SHELL,
    ToolClass.SUBAGENT_CALL: ToolKind.SHELL,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One class of tools over one transport."""

    tool_class: ToolClass
    cells: Mapping[Column, str]
    """By column: `no`, or what is claimed. Empty where no such call can be made."""
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
    seen_before = can.sees_before if not any(hole.before for hole in holes) else "none"
    seen_after = can.sees_after if not any(hole.after and not hole.closed_by for hole in holes) else "none"
    kind = kind_of_class(tool_class)
    before, after = _sight(seen_before), _sight(seen_after)
    cells: dict[Column, str] = {
        "before": before,
        "after": after,
        "deny": _claim(before != NO and kind in can.deny),
        "modify": _claim(before != NO and kind in can.modify),
        "replace": _replace(can, kind) if after != NO else NO,
        "asked": _claim(before != NO and can.asks),
        "backstop": _backstops(can, tool_class),
    }
    return Row(tool_class, cells, closed="; ".join(hole.closed_by for hole in holes if hole.closed_by))


def _sight(sight: str) -> str:
    return {"all": YES, "asked": "asked calls"}.get(sight, NO)


def _claim(claimed: bool) -> str:
    return YES if claimed else NO


def _replace(can: Capabilities, kind: ToolKind) -> str:
    """An output that is to be replaced and cannot be stops the run before the model is asked again."""
    match kind in can.replace, kind in can.replace_failed:
        case True, True:
            return YES
        case True, False:
            return "yes; a failed call's stops the run"
        case _:
            return "stops the run"


def _backstops(can: Capabilities, tool_class: ToolClass) -> str:
    bare = {one.backstop for one in can.unbacked if tool_class in one.tool_classes}
    return ", ".join(one for one in can.backstops if one is not Backstop.NONE and one not in bare) or NO
