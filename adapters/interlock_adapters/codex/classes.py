"""Which classes of tools Codex lacks, and which its sandbox does not confine (0.171.0)."""

from __future__ import annotations

from interlock.capabilities import Absent, ToolClass

__all__ = ["ABSENT", "UNCONFINED"]

ABSENT = (
    Absent(tool_class=ToolClass.SEARCH, why="commands do that"),
    Absent(tool_class=ToolClass.EDIT, why="patches do that"),
    Absent(tool_class=ToolClass.WRITE, why="patches do that"),
    Absent(tool_class=ToolClass.FETCH, why="the agent has no such tool"),
    Absent(tool_class=ToolClass.WEB_SEARCH, why="it is switched off"),
    Absent(tool_class=ToolClass.PLAN, why="the agent has no such tool"),
)
UNCONFINED = frozenset({ToolClass.READ, ToolClass.MCP, ToolClass.AGENT, ToolClass.QUESTION, ToolClass.UNKNOWN})
"""What runs in Codex itself, or in the program of a server."""
