"""Writes docs/coverage.md: what each transport does with each class of tools, from the adapters' capabilities alone.

`python docs/generate_coverage.py` after a change of capabilities; a test fails while the page is stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from interlock.capabilities import Capabilities
from interlock.coverage import COLUMNS, Row, ToolClass, coverage
from interlock.engine.registry import find_adapter, known_agents

PAGE = Path(__file__).parent / "coverage.md"
OURS = "interlock_adapters."
HEAD = """\
# What is seen, denied, changed and replaced

Generated from the adapters' capabilities by `python docs/generate_coverage.py`. Every cell that claims something is
shown by tests on the real CLIs (`tests/live/coverage_evidence.py` names them), and a test fails where the table and
they disagree, in either direction. `interlock doctor --guard AGENT` shows the same on the program that you have
installed. What agents and their commands have tried against it is in [tampering](tampering.md).

| column | what it says |
| --- | --- |
| before, after | the chain is asked before the call runs, and about its output before the model sees it |
| deny | what the chain denies does not run, and the model reads why |
| modify | what the chain changes is what runs; a change that cannot be made is a denial |
| replace | what replaces the output is all that the model is shown |
| asked | a person or a program can be asked, and the call waits |
| backstop | what can stand behind the chain on the agent's side |

- `no` in the first six columns: a chain, or a permission, that needs it is refused before the agent is started. `no` as
  a backstop: there the chain alone decides.
- `if it succeeded`: where the output of a failed call is to be replaced, the run is stopped before the model sees it.
  `stops the run`: so it is for every call of that class.
- `as a question`: it is put to them as what it is. `asked calls`: only what the agent asks about by itself.
- `closed`: there is nothing to be seen; below the table stands why.
- Calls of a class that is missing from a table cannot be made; why stands below it too.
- `calls of a sub-agent` are of every kind, and shown by its shell.

A newer program than what was tested runs with a warning: prove it with `interlock doctor --guard`, as `.ci/newest` does
for the newest npm package of each agent.
"""
NAMES = {
    ToolClass.SHELL: "shell",
    ToolClass.BACKGROUND_SHELL: "background shell",
    ToolClass.SHELL_INPUT: "typing into a running shell",
    ToolClass.WEB_SEARCH: "web search",
    ToolClass.MCP: "MCP",
    ToolClass.AGENT: "starting a sub-agent",
    ToolClass.SUBAGENT_CALL: "calls of a sub-agent",
    ToolClass.PLAN: "plan tool",
    ToolClass.QUESTION: "question tool",
    ToolClass.UNKNOWN: "tools that our tables lack",
}


def page() -> str:
    """The whole page."""
    return "\n".join((HEAD, *(line for can in _transports() for line in _section(can)))).rstrip() + "\n"


def _transports() -> Iterator[Capabilities]:
    """Those of the adapters that ship with Interlock: others have pages of their own."""
    for name in known_agents():
        adapter = find_adapter(name)
        if type(adapter).__module__.startswith(OURS) and ":" not in name:
            yield from (transport.capabilities for transport in adapter.transports)


def _section(can: Capabilities) -> Iterator[str]:
    yield f"## {can.agent} over {can.transport}"
    yield ""
    yield f"Tested: {can.versions}."
    yield ""
    yield f"| class of tools | {' | '.join(COLUMNS)} |"
    yield "| --- " * (len(COLUMNS) + 1) + "|"
    rows = coverage(can)
    yield from (_line(row) for row in rows if not row.absent)
    yield ""
    notes = [*_absences(rows), *_closings(rows), *_openings(can)]
    if notes:
        yield from notes
        yield ""


def _line(row: Row) -> str:
    return f"| {_name(row)} | {' | '.join(row.cells[column] for column in COLUMNS)} |"


def _absences(rows: tuple[Row, ...]) -> Iterator[str]:
    reasons = dict.fromkeys(row.absent for row in rows if row.absent)
    for reason in reasons:
        yield f"- {', '.join(_name(row) for row in rows if row.absent == reason)}: none, {reason}"


def _closings(rows: tuple[Row, ...]) -> Iterator[str]:
    yield from (f"- {_name(row)}: closed, {row.closed}" for row in rows if row.closed)


def _openings(can: Capabilities) -> Iterator[str]:
    yield from (f"- not seen: {hole.what}" for hole in can.holes if not hole.closed_by)
    if can.tamperable:
        yield "- what carries the chain can be overwritten by what an unsandboxed agent runs"


def _name(row: Row) -> str:
    return NAMES.get(row.tool_class, str(row.tool_class))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
