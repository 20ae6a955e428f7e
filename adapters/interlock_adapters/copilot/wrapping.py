"""What an input becomes before the agent runs it, after it was decided and shown; and which sub-agents are foreign.

Everything here is of Copilot CLI 1.0.102.
"""

from __future__ import annotations

from interlock.model import JsonValue
from interlock_adapters.copilot.tools import SHELL

__all__ = ["foreign_agent", "wrapped"]

LONGEST_WAIT = 86_400
"""Seconds for which a command is waited for. The agent makes 600 of it, and then goes on without its output."""
TASK = "task"
BUILT_IN = "general-purpose"
"""The one type of sub-agent that a file of the workspace does not redefine."""


def wrapped(name: str, native: JsonValue, *, at_once: bool) -> JsonValue:
    """The input that the agent is told to run. `at_once`: its whole output is there when it ends.

    A command of a named shell would run where the last one of that shell ended, and not where it was judged. What runs
    in the background is reported to the model past every hook: so nothing does where outputs are judged.
    """
    if not isinstance(native, dict):
        return native
    if name == SHELL:
        told = {key: value for key, value in native.items() if key != "shellId"}
        return {**told, "mode": "sync", "detach": False, "initial_wait": LONGEST_WAIT} if at_once else told
    if name == TASK and at_once:
        return {**native, "mode": "sync"}
    return native


def foreign_agent(name: str, native: JsonValue) -> str | None:
    """Why a call may not start this type of sub-agent in a workspace that is not trusted.

    `.github/agents/NAME.agent.md` of the workspace defines a sub-agent, or redefines a built-in one such as `explore`,
    and names programs as its MCP servers: they are started with it, and nobody is asked.
    """
    if name != TASK or not isinstance(native, dict) or native.get("agent_type") == BUILT_IN:
        return None
    return (
        f"a sub-agent of the type {native.get('agent_type')!r} may be one that the workspace defines, with programs "
        f"that run unasked; in a workspace that is not trusted only {BUILT_IN!r} is started"
    )
