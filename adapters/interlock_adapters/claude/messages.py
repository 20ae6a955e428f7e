"""Messages sent while a turn runs: whether the agent took each of them up, and into which turn.

The CLI repeats a message when the model is about to see it (`--replay-user-messages`): before the turn's result if it
was folded into that turn, after it if it came too late. All that came too late are the one next turn, which the CLI
begins by itself (Claude Code 2.1.197 and 2.1.332). A name that a session has had before is dropped without a word, so
no name comes twice.
"""

from __future__ import annotations

import uuid

from interlock_adapters.claude.calls import Bounded

__all__ = ["Messages"]

_NAMES = uuid.UUID("6e5d0c57-6b0e-4f5e-9d5a-0a4c0a1a7f11")


class Messages:
    """The messages of one run; the prompts of its turns are none of them."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._count = 0
        self._sent: Bounded[None] = Bounded()
        self._carried: Bounded[None] = Bounded()

    def name(self) -> str:
        """A name for the next message, which is now on its way."""
        self._count += 1
        name = str(uuid.uuid5(_NAMES, f"{self._run_id}/{self._count}"))
        self._sent.remember(name, None)
        return name

    def repeated(self, name: str) -> None:
        """The agent took a message up."""
        self._sent.pop(name, None)
        self._carried.pop(name, None)

    def turn_over(self) -> tuple[bool, int]:
        """Whether a further turn begins by itself, and how many messages of this turn were never taken up."""
        lost = len(self._carried)
        self._carried, self._sent = self._sent, Bounded()
        return bool(self._carried), lost
