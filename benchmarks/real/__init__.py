"""The real CLIs, offline against the scripted model: what a run and a call cost beside the bare CLI and the peers.

`python -m benchmarks codex [--quick] [--rounds N] [--json FILE]`, or `copilot`. An agent is a module here with `AGENT`,
an `Agent`.
"""

from __future__ import annotations

from importlib import import_module

from benchmarks.real.contestants import Agent

__all__ = ["AGENTS", "agent"]

AGENTS = ("codex", "copilot")
"""The agents that there is something to measure of."""


def agent(name: str) -> Agent:
    """What is measured of an agent."""
    found: Agent = import_module(f"benchmarks.real.{name}").AGENT
    return found
