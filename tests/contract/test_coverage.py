"""The coverage table says of a transport what its capabilities say, class by class."""

from typing import Any

import pytest

from interlock.capabilities import EVERY_KIND, Absent, Capabilities, Hole, ToolClass, Unbacked
from interlock.coverage import COLUMNS, Row, coverage, kind_of_class
from interlock.permission import Backstop
from interlock.tools import ToolKind

SEEING: dict[str, Any] = {
    "agent": "able", "transport": "pipe", "versions": "1", "asks": True, "questions": True, "sees_before": "all",
    "sees_after": "all", "deny": EVERY_KIND, "modify": EVERY_KIND, "replace": frozenset({ToolKind.SHELL}),
    "backstops": (Backstop.SANDBOX, Backstop.NONE),
}  # fmt: skip


def row(tool_class: ToolClass, **changes: Any) -> Row:
    found = {one.tool_class: one for one in coverage(Capabilities.model_validate({**SEEING, **changes}))}
    assert list(found) == list(ToolClass)
    return found[tool_class]


def test_a_transport_that_claims_nothing_has_no_claim_in_any_cell() -> None:
    rows = coverage(Capabilities(agent="meek", transport="pipe", versions="1"))
    assert [set(one.cells.values()) for one in rows] == [{"no"}] * len(ToolClass)
    assert all(one.claimed() == frozenset() for one in rows)


def test_what_is_claimed_of_a_kind_is_claimed_of_its_class() -> None:
    assert row(ToolClass.SHELL).cells == {
        "before": "yes", "after": "yes", "deny": "yes", "modify": "yes", "replace": "if it succeeded", "asked": "yes",
        "backstop": "sandbox",
    }  # fmt: skip
    assert row(ToolClass.SHELL).claimed() == frozenset(COLUMNS)
    assert row(ToolClass.SHELL, replace_failed=[ToolKind.SHELL]).cells["replace"] == "yes"
    assert row(ToolClass.READ).cells["replace"] == "stops the run"
    assert row(ToolClass.READ, deny=[ToolKind.SHELL]).cells["deny"] == "no"
    assert row(ToolClass.QUESTION).cells["asked"] == "as a question"
    assert row(ToolClass.QUESTION, questions=False).cells["asked"] == "no"
    assert row(ToolClass.READ, sees_before="asked").cells["before"] == "asked calls"


def test_what_is_not_seen_is_neither_denied_nor_changed_nor_replaced() -> None:
    cells = row(ToolClass.SHELL, sees_before="none", sees_after="none", asks=False).cells
    assert set(cells.items()) - {("backstop", "sandbox")} == {(column, "no") for column in COLUMNS[:-1]}


@pytest.mark.parametrize(("closed_by", "word"), [("nothing is typed", "closed"), ("", "no")])
def test_a_hole_of_a_class_is_in_its_row_alone(closed_by: str, word: str) -> None:
    before = Hole(what="typing", after=False, closed_by=closed_by, tool_class=ToolClass.SHELL_INPUT)
    found = row(ToolClass.SHELL_INPUT, holes=(before,))
    assert {found.cells[column] for column in ("before", "deny", "modify", "asked")} == {word}
    assert (found.cells["after"], found.closed) == ("yes", closed_by)
    assert row(ToolClass.SHELL, holes=(before,)).cells["before"] == "yes"
    after = Hole(what="typing", before=False, closed_by=closed_by, tool_class=ToolClass.SHELL)
    assert {row(ToolClass.SHELL, holes=(after,)).cells[one] for one in ("after", "replace")} == {word}


def test_a_class_that_is_absent_has_its_reason_and_no_cells() -> None:
    found = row(ToolClass.PATCH, absent=(Absent(tool_class=ToolClass.PATCH, why="no such tool"),))
    assert (found.cells, found.absent, found.claimed()) == ({}, "no such tool", frozenset())


def test_a_backstop_stands_behind_every_class_but_those_that_it_is_said_not_to() -> None:
    unbacked = Unbacked(backstop=Backstop.SANDBOX, tool_classes=frozenset({ToolClass.MCP}))
    behind = {"backstops": (Backstop.GATE, Backstop.SANDBOX), "unbacked": (unbacked,)}
    assert row(ToolClass.MCP, **behind).cells["backstop"] == "gate"
    assert row(ToolClass.SHELL, **behind).cells["backstop"] == "gate, sandbox"


def test_every_class_is_of_a_kind() -> None:
    assert {kind_of_class(one) for one in ToolClass} == EVERY_KIND - {ToolKind.INTERNAL}
