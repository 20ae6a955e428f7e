"""The family of terminal agents: `terminal:NAME` is the agent that NAME.toml describes."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.adapter import Adapter
from interlock_adapters.terminal.adapter import TerminalAdapter
from interlock_adapters.terminal.profile import parse

__all__ = ["family"]


@dataclass(frozen=True, slots=True)
class TerminalFamily:
    """Makes an adapter of a profile."""

    package: str = "interlock_adapters.terminal.profiles"
    extension: str = "toml"

    def member(self, text: str, source: str, *, folder: str | None) -> Adapter:
        """The agent that a profile describes; raises `ConfigurationError` with field, value and way out."""
        return TerminalAdapter(parse(text, source), source, folder)


family = TerminalFamily()
