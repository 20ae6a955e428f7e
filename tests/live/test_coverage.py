"""The coverage table and its evidence agree both ways: no cell is claimed that nothing shows, and nothing else shown.

What the evidence names must be a test that runs on a real CLI in the ordinary run of the tests.
"""

import ast
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock import Request
from interlock.adapter import Transport
from interlock.capabilities import Absent, Capabilities, Needs, ToolClass, check
from interlock.coverage import COLUMNS, NO, Row, coverage
from interlock.engine.registry import find_adapter, known_agents
from interlock_fixtures.proving import dialects_of

HERE = Path(__file__).parent
TESTS, ROOT = HERE.parent, HERE.parents[1]
_EVIDENCE = runpy.run_path(str(HERE / "coverage_evidence.py"))
COVERAGE, ABSENT, MEASURED = (_EVIDENCE[name] for name in ("COVERAGE", "ABSENT", "MEASURED"))
GENERATOR = runpy.run_path(str(ROOT / "docs" / "generate_coverage.py"))
OURS = "interlock_adapters."
JUDGED = {"before", "after", "deny", "modify", "replace", "asked"}
REAL = {"live", "claude", "codex", "copilot", "which"}
"""Arguments by which a test is given a real CLI."""
LEFT_OUT = {"slow", "skip", "skipif", "xfail"}

Evidence = Mapping[ToolClass, Mapping[str, tuple[str, ...]]]


def transports() -> list[Any]:
    """Every transport of an adapter that ships with Interlock and drives a CLI that the tests pin."""
    return [
        pytest.param((name, transport.name), transport, id=f"{name} over {transport.name}")
        for name in known_agents()
        if type(find_adapter(name)).__module__.startswith(OURS) and ":" not in name
        for transport in find_adapter(name).transports
    ]


TRANSPORTS = transports()
EACH = pytest.mark.parametrize(("key", "transport"), TRANSPORTS)


def problems(can: Capabilities, shown: Evidence, absent: Mapping[ToolClass, tuple[str, ...]]) -> Iterator[str]:
    """Where the table and the evidence disagree."""
    rows = {row.tool_class: row for row in coverage(can)}
    for tool_class, row in rows.items():
        cells = {column for column, tests in shown.get(tool_class, {}).items() if tests}
        yield from (f"{tool_class}.{one} is claimed, and nothing shows it" for one in row.claimed() - cells)
        yield from (f"{tool_class}.{one} is shown, and is not claimed" for one in cells - row.claimed())
        yield from (f"{tool_class}.{one}: the session does not judge it" for one in _unmeasured(can, row, shown))
        if row.absent and not absent.get(tool_class):
            yield f"{tool_class} is said to be absent, and nothing shows it"
        if not row.absent and tool_class in absent:
            yield f"{tool_class} is shown to be absent, and is not said to be"


def _unmeasured(can: Capabilities, row: Row, shown: Evidence) -> Iterator[str]:
    """Cells for which the session is named, although it cannot show them."""
    judged = any(row.tool_class in dialect.thorough().calls for dialect in dialects_of(can.agent))
    for column, tests in shown.get(row.tool_class, {}).items():
        stops = row.cells.get(column, "").startswith("stops")  # type: ignore[call-overload]
        if MEASURED in tests and (not judged or column not in JUDGED or stops):
            yield column


@EACH
def test_every_claimed_cell_has_evidence_and_nothing_else_has(key, transport: Transport):
    found = list(problems(transport.capabilities, COVERAGE.get(key, {}), ABSENT.get(key, {})))
    assert found == []


def test_no_evidence_is_about_a_transport_that_is_not_there():
    there = {param.values[0] for param in TRANSPORTS}
    assert {*COVERAGE, *ABSENT} <= there


def named() -> list[str]:
    """Every test that is evidence."""
    cells = (tests for table in COVERAGE.values() for row in table.values() for tests in row.values())
    absences = (tests for table in ABSENT.values() for tests in table.values())
    return sorted({one for tests in (*cells, *absences) for one in tests})


@pytest.mark.parametrize("shown_by", named())
def test_the_evidence_is_a_test_that_runs_on_a_real_cli(shown_by):
    file, _, name = shown_by.partition("::")
    module = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = [one for one in functions if one.name == name]
    assert len(found) == 1, shown_by
    assert "live" in _marks(*(node for node in module.body if _is_mark(node))), f"{file} is not live"
    assert _marks(*found[0].decorator_list).isdisjoint(LEFT_OUT), f"{shown_by} does not always run"
    given = {argument.arg for argument in found[0].args.args}
    fixtures = {one.name: one for one in functions}
    drives = given & REAL or any(
        {argument.arg for argument in fixtures[one].args.args} & REAL for one in given & set(fixtures)
    )
    fixed = "place" in {node.id for node in ast.walk(found[0]) if isinstance(node, ast.Name)}
    assert drives or fixed, f"{shown_by} drives no real CLI"


def _is_mark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
    )


def _marks(*nodes: ast.AST) -> set[str]:
    return {one.attr for node in nodes for one in ast.walk(node) if isinstance(one, ast.Attribute)}


# ---- What is not claimed is refused before anything is started -------------------------------------------------------

ASK: dict[str, Any] = {"permission": {"otherwise": "ask"}}
NEEDS: Mapping[str, tuple[dict[str, Any], Needs, str]] = {
    "before": ({}, Needs(chain_before=True), "hooks"),
    "deny": ({}, Needs(chain_before=True), "hooks"),
    "after": ({}, Needs(chain_after=True), "hooks"),
    "modify": ({}, Needs(chain_before=True, modify=True), "hooks"),
    "replace": ({}, Needs(chain_after=True, replace=True), "hooks"),
    "asked": (ASK, Needs(answered=True), "permission.otherwise"),
}


@EACH
@pytest.mark.parametrize("column", NEEDS)
def test_what_no_cell_of_a_column_claims_is_unsupported(key, transport: Transport, column):
    rows = [row for row in coverage(transport.capabilities) if not row.absent]
    unclaimed = [row for row in rows if column not in row.claimed()]
    fields, needs, field = NEEDS[column]
    request = Request.model_validate({"agent": key[0], "prompt": "go", **fields})
    unmet = {one.field for one in check(request, needs, transport.capabilities)}
    if column == "asked":
        unclaimed = [row for row in unclaimed if row.tool_class is not ToolClass.QUESTION]
    assert (field in unmet) is bool(unclaimed), unclaimed


@EACH
def test_a_backstop_that_no_cell_claims_is_unsupported(key, transport: Transport):
    offered = {word for row in coverage(transport.capabilities) for word in row.cells.get("backstop", NO).split(", ")}
    for backstop in {"gate", "sandbox", "flags"} - offered:
        request = Request.model_validate({"agent": key[0], "prompt": "go", "permission": {"backstop": backstop}})
        assert "permission.backstop" in {one.field for one in check(request, Needs(), transport.capabilities)}


# ---- The check itself notices ----------------------------------------------------------------------------------------

CLAUDE = ("claude", "stream-json")


def doctored(**changes: Any) -> list[str]:
    """What is found of Claude with something else claimed or shown."""
    (transport,) = find_adapter("claude").transports
    can = transport.capabilities.model_copy(update=changes.pop("claims", {}))
    shown = {one: dict(cells) for one, cells in COVERAGE[CLAUDE].items()}
    for tool_class, cells in changes.pop("shown", {}).items():
        shown.setdefault(tool_class, {}).update(cells)
    return list(problems(can, shown, changes.pop("absent", ABSENT[CLAUDE])))


def test_a_cell_that_loses_its_evidence_or_its_claim_is_found():
    assert doctored() == []
    assert doctored(shown={ToolClass.SHELL: {"deny": ()}}) == ["shell.deny is claimed, and nothing shows it"]
    assert doctored(shown={ToolClass.PATCH: {"deny": ("x",)}}) == ["patch.deny is shown, and is not claimed"]
    assert doctored(claims={"asks": False}) == [
        f"{row.tool_class}.asked is shown, and is not claimed"
        for row in coverage(find_adapter("claude").transports[0].capabilities)
        if not row.absent and row.tool_class is not ToolClass.QUESTION
    ]
    patches = {"absent": (Absent(tool_class=ToolClass.SHELL, why="x"),)}
    assert "shell is said to be absent, and nothing shows it" in doctored(claims=patches)
    assert doctored(absent={**ABSENT[CLAUDE], ToolClass.MCP: ("x",)}) == [
        "mcp is shown to be absent, and is not said to be"
    ]


def test_the_session_is_no_evidence_of_what_it_does_not_judge():
    assert doctored(shown={ToolClass.PLAN: {"deny": (MEASURED,)}, ToolClass.FETCH: {"replace": (MEASURED,)}}) == [
        "fetch.replace: the session does not judge it",
        "plan.deny: the session does not judge it",
    ]


# ---- The page --------------------------------------------------------------------------------------------------------


def test_the_page_of_the_table_is_up_to_date():
    written = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert written == GENERATOR["page"](), "run: python docs/generate_coverage.py"


@EACH
def test_the_page_has_a_row_of_every_class_that_can_be_called(key, transport: Transport):
    text = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    _, _, section = text.partition(f"\n## {key[0]} over {key[1]}\n")
    section = section.partition("\n## ")[0]
    lines = [
        line for line in section.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| class"))
    ]
    assert len(lines) == sum(not row.absent for row in coverage(transport.capabilities))
    assert all(line.count("|") == len(COLUMNS) + 2 for line in lines)
