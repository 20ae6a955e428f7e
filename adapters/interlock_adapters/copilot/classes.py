"""Which classes of tools Copilot lacks, and about which it never asks by itself (1.0.102)."""

from __future__ import annotations

from interlock.capabilities import Absent, ToolClass

__all__ = ["NEVER_ASKED", "NO_PLAN", "NO_QUESTION"]

NO_PLAN = Absent(tool_class=ToolClass.PLAN, why="it is not offered")
NO_QUESTION = Absent(tool_class=ToolClass.QUESTION, why="it is not offered where nobody can be asked")
NEVER_ASKED = frozenset({ToolClass.SHELL_INPUT, ToolClass.AGENT, ToolClass.QUESTION, ToolClass.UNKNOWN})
"""Only hooks see these."""
