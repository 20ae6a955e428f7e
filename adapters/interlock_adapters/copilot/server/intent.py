"""What we did to end a turn, if we did."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Intent"]


@dataclass(slots=True)
class Intent:
    """Set when the turn is told to end, and read when it has."""

    interrupted: bool = False
    denied: str | None = None
    """The reason of a denial that ends the run."""
    unreplaceable: str | None = None
    """The tool whose output could only be withheld by stopping the run."""
    turns_over: bool = False
    """The model was asked as often as it may be."""

    @property
    def ends(self) -> bool:
        """Whether the turn was told to end."""
        return self != Intent()

    def clear(self) -> None:
        """A new turn begins."""
        self.interrupted, self.denied, self.unreplaceable, self.turns_over = False, None, None, False
