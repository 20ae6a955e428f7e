"""What a run does with what comes by its endpoints: calls go to the codec, the rest is said or ends the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from interlock.actions import Action, Key
from interlock.adapter import Codec, Listening
from interlock.engine.desk import RunDesk
from interlock.engine.ledger import Finding
from interlock.events import Notice
from interlock.outcome import Reason

__all__ = ["HookCalls"]


@dataclass(frozen=True, slots=True)
class HookCalls:
    """The desk of one run for its `HookEndpoints`."""

    run: RunDesk
    codec: Codec
    perform: Callable[[Sequence[Action]], None]

    def called(self, channel: str, key: str, body: bytes) -> None:
        """The codec says what the call is."""
        self.perform(self.codec.called(channel, key, body))

    def hung_up(self, channel: str, key: str) -> None:
        """A codec that wants to know is told."""
        if isinstance(self.codec, Listening):
            self.perform(self.codec.hung_up(channel, key))

    def repeated(self, channel: str, message: str) -> None:
        """An honest agent asks once."""
        self.run.found(Finding("second_consult", Key("", ""), "", f"{channel}: {message}"))

    def stranger(self, message: str) -> None:
        """Whoever does not know the token achieved nothing, and any program on this machine may try."""
        self.run.publish(Notice(level="warning", code="stranger", message=message))

    def trouble(self, message: str, error: Exception | None = None) -> None:
        """The run cannot go on."""
        if error is None:
            self.run.stop(Reason.PROTOCOL, message)
        else:
            self.run.stop(Reason.INTERNAL, f"{message}: {error!r}")
