"""Messages into the running turn: said once no command runs, and followed until the model has read them.

One that comes while a command runs would put it into the background (1.0.102), so it waits for the end of the command.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from interlock.actions import Action
from interlock.framing.jsonrpc import Id
from interlock.model import JsonValue
from interlock.tools import ToolKind
from interlock_adapters.copilot.server.calls import Calls
from interlock_adapters.copilot.server.channel import Channel

__all__ = ["Steering"]


@dataclass(slots=True)
class Steering:
    """The messages of which the agent has not said that the model was shown them."""

    channel: Channel
    calls: Calls
    waiting: list[str] = field(default_factory=list[str])
    """Not said yet."""
    _sent: set[Id] = field(default_factory=set[Id])
    """Said, and the agent has not given them an id yet."""
    _unread: set[str] = field(default_factory=set[str])
    """Taken by the agent, by the id that it gave them."""

    @property
    def on_its_way(self) -> bool:
        """Whether the agent has messages that it has not shown to the model."""
        return bool(self._sent or self._unread)

    def __len__(self) -> int:
        return len(self.waiting) + len(self._sent) + len(self._unread)

    def say_if_quiet(self) -> Iterator[Action]:
        """Say what waits, unless a command runs or is about to."""
        if any(state.may_run and state.kind is ToolKind.SHELL for state in self.calls.unfinished()):
            return
        waiting, self.waiting = self.waiting, []
        for text in waiting:
            params: dict[str, JsonValue] = {"sessionId": self.calls.session, "prompt": text, "mode": "immediate"}
            request, send = self.channel.asked("session.send", params)
            self._sent.add(request)
            yield send

    def is_ours(self, request: Id) -> bool:
        """Whether a request was a message into the turn, and no prompt."""
        return request in self._sent

    def taken(self, request: Id, message: str) -> None:
        """The agent has a message, and has given it an id."""
        self._sent.discard(request)
        self._unread.add(message)

    def refused(self, request: Id) -> None:
        """The agent has not taken a message."""
        self._sent.discard(request)

    def read(self, message: str) -> None:
        """The model is shown a message."""
        self._unread.discard(message)

    def take_waiting(self) -> str:
        """What was never said, as a prompt of its own."""
        waiting, self.waiting = self.waiting, []
        return "\n\n".join(waiting)

    def forget(self) -> None:
        """The turn is over, and no other follows."""
        self.waiting, self._sent, self._unread = [], set(), set()
