"""Messages sent while a turn runs: whether the agent took each of them up, and into which turn.

The CLI repeats a message when the model is about to see it (`--replay-user-messages`): before the turn's result if it
was folded into that turn, after it if it came too late. All that it has read by then are the one next turn, which it
begins by itself (Claude Code 2.1.197 and 2.1.332). A name that a session has had before is dropped without a word, so
no name comes twice.
"""

from __future__ import annotations

import uuid
from typing import Literal

from interlock.framing.bounded import Bounded

__all__ = ["Messages"]

_NAMES = uuid.UUID("6e5d0c57-6b0e-4f5e-9d5a-0a4c0a1a7f11")


class Messages:
    """The messages of one run; the prompts of its turns are none of them."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._count = 0
        self._sent: Bounded[str, bool] = Bounded()
        """Those not taken up, and whether a turn has ended since they were sent."""
        self._heard = False
        """Whether this turn took one up."""

    def name(self) -> str:
        """A name for the next message, which is now on its way."""
        self._count += 1
        name = str(uuid.uuid5(_NAMES, f"{self._run_id}/{self._count}"))
        self._sent.remember(name, False)
        return name

    def repeated(self, name: str) -> None:
        """The agent took a message up."""
        self._heard = self._sent.pop(name, None) is not None or self._heard

    @property
    def waiting(self) -> int:
        """How many were not taken up."""
        return len(self._sent)

    def turn_over(self) -> Literal["none", "due", "doubtful"]:
        """Whether the agent begins a further turn for what it has not taken up.

        Doubtful: the turn was such a one and took nothing up, as where a budget is used up.
        """
        fresh = self._heard or not all(self._sent.values())
        self._sent = Bounded(dict.fromkeys(self._sent, True))
        self._heard = False
        if not self._sent:
            return "none"
        return "due" if fresh else "doubtful"
