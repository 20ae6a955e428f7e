"""What a codec remembers, within bounds."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

__all__ = ["REMEMBERED", "Bounded"]

REMEMBERED = 4096
"""Calls, sub-agents and request ids that are remembered; the oldest are forgotten first."""

K = TypeVar("K")
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """A table that forgets its oldest entry past `REMEMBERED`."""

    def remember(self, key: K, value: V) -> V:
        """Add an entry."""
        self[key] = value
        if len(self) > REMEMBERED:
            self.popitem(last=False)
        return value
