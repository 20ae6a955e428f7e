"""Agents that are only to be had on a terminal, each described by a profile: `terminal:aider`."""

from interlock_adapters.terminal.family import family

__all__ = ["family"]
