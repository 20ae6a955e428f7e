"""Who is measured: each drives the same fake agent, the way its own documentation says.

A contestant is a module with `stream(program, folder)`, an async iterator of whatever it makes of the agent's output,
and where it can, `approve(program, folder)`, a run in which every question is answered with yes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module

__all__ = ["CONTESTANTS", "NAMES", "Contestant"]


@dataclass(frozen=True, slots=True)
class Contestant:
    """One column of the table."""

    name: str
    module: str
    imports: str
    """The statement that somebody who uses it begins with."""

    @property
    def version(self) -> str | None:
        """The version that is installed; None: it is not."""
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  # weighs on what is measured

        try:
            return version("anyio" if self.name == "bare" else self.name)
        except PackageNotFoundError:
            return None

    @property
    def stream(self) -> Callable[[str, str], AsyncGenerator[object]]:
        """Drive a program in a folder."""
        return import_module(f"benchmarks.contestants.{self.module}").stream

    @property
    def approve(self) -> Callable[[str, str], Awaitable[None]] | None:
        """Drive a program that asks; None: the contestant cannot."""
        return getattr(import_module(f"benchmarks.contestants.{self.module}"), "approve", None)


CONTESTANTS = (
    Contestant("interlock", "ours", "from interlock import Request, run"),
    Contestant("bare", "bare", "import anyio, json"),
    Contestant("claude-agent-sdk", "claude_agent_sdk_", "from claude_agent_sdk import query"),
    Contestant("agentabi", "agentabi_", "from agentabi import Session"),
)
NAMES = tuple(contestant.name for contestant in CONTESTANTS)
