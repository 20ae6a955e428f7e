"""Which call a hook before a call is about: it is not told (1.0.102).

`hook.start` lists the calls of a batch, and the hooks of one agent come in that order, one after the other. Of the main
agent the list comes at about the same time as the first hook, of a sub-agent up to 40 ms later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from interlock.framing.jsonrpc import Id
from interlock_adapters.copilot.server.wire import AnnouncedCall, HookInput

__all__ = ["Announced", "Asking"]


@dataclass(frozen=True, slots=True)
class Asking:
    """A hook before a call that waits to be told which."""

    request: Id
    input: HookInput


@dataclass(slots=True)
class Announced:
    """The lists and the hooks of one agent, as far as the one waits for the other."""

    _listed: deque[tuple[str, AnnouncedCall]] = field(default_factory=deque[tuple[str, AnnouncedCall]])
    _asking: deque[Asking] = field(default_factory=deque[Asking])

    def lists(self, batch: str, calls: list[AnnouncedCall]) -> None:
        """The calls of a batch."""
        self._listed.extend((batch, call) for call in calls)

    def asks(self, asking: Asking) -> None:
        """A hook came."""
        self._asking.append(asking)

    def matched(self) -> Iterator[tuple[Asking, AnnouncedCall]]:
        """What belongs together, each pair once."""
        while self._asking and self._listed:
            yield self._asking.popleft(), self._listed.popleft()[1]

    def over(self, batch: str) -> None:
        """No more hooks come about this batch; an abort leaves some of its calls out."""
        self._listed = deque(pair for pair in self._listed if pair[0] != batch)

    def unanswered(self, request: str | None = None) -> list[Asking]:
        """Takes back the hooks that still wait: one of them, by its id as text, or all."""
        taken = [one for one in self._asking if request in {None, str(one.request)}]
        self._asking = deque(one for one in self._asking if one not in taken)
        return taken
