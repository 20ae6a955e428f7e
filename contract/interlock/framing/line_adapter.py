"""A start for adapters of agents that speak lines of JSON: what is the same for all of them, so that little is left.

`LineCodec` frames, keeps noise apart, passes on unknown messages as `Raw` and ends once; `LineAdapter` is an adapter
with one transport. For an agent that asks about its calls, override `called`, `decided` and the like, and claim it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from interlock.actions import Action, Emit, Ending, Key, Ready, RunDone, Stage, Verdict
from interlock.adapter import Codec, LadderStep, Launch, Order, VersionRange
from interlock.approval import Answer
from interlock.capabilities import Capabilities, Unmet
from interlock.events import Raw
from interlock.framing.json_objects import NotJson, parse_object
from interlock.framing.lines import LineFramer, Oversized
from interlock.framing.reports import how_ended, not_ours, too_long, warning
from interlock.model import JsonValue
from interlock.outcome import Reason, Status
from interlock.tools import ToolCall

__all__ = ["DESCENT", "LineAdapter", "LineCodec"]

DESCENT = (LadderStep("close_input", 1.0), LadderStep("signal", 1.0, "TERM"))
"""A ladder for an agent of which nothing is known: its input is closed, then it is told to end."""


class LineCodec:
    """A codec whose agent answers with one JSON object a line; `prompt` and `message` are all that must be written."""

    def __init__(self) -> None:
        self._framer = LineFramer()
        self._over = False

    def message(self, message: Mapping[str, JsonValue], /) -> Sequence[Action] | None:
        """The actions that a message stands for; None for one that is not known."""
        del message
        return None

    def finish(self, ending: Ending) -> Sequence[Action]:
        """The agent's terminal message; what comes after the first changes nothing."""
        over, self._over = self._over, True
        return () if over else (RunDone(ending),)

    def start(self) -> Sequence[Action]:
        """Nothing is agreed on before the prompt."""
        return (Ready(),)

    def prompt(self, prompt: str) -> Sequence[Action]:
        """The one turn."""
        del prompt
        return ()

    def steer(self, text: str) -> Sequence[Action]:
        """Takes no message mid-turn."""
        del text
        return ()

    def interrupt(self) -> Sequence[Action]:
        """Has no word for it."""
        return ()

    def received(self, channel: str, data: bytes) -> Sequence[Action]:
        """Line by line."""
        if channel != "stdout":
            return ()
        return [action for line in self._framer.feed(data) for action in self._line(line)]

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        """Opens no endpoint."""
        del body
        return (not_ours(channel, key),)

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Sequence[Action]:
        """Asks nothing."""
        del key, stage, verdict
        return ()

    def woke(self, key: str) -> Sequence[Action]:
        """Waits for nothing."""
        del key
        return ()

    def eof(self, channel: str) -> Sequence[Action]:
        """An unterminated rest is a line of its own."""
        if channel != "stdout":
            return ()
        return [action for line in self._framer.close() for action in self._line(line)]

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        """Without a terminal message it crashed."""
        del files
        message = f"the agent ended without a result ({how_ended(code, signal)})"
        return self.finish(Ending(Status.FAILED, Reason.CRASHED, message))

    def _line(self, line: bytes | Oversized) -> Sequence[Action]:
        if isinstance(line, Oversized):
            return (too_long(line),)
        if not line.strip():
            return ()
        message = parse_object(line)
        if isinstance(message, NotJson):
            return (warning("stdout_noise", message.text),)
        known = cast("dict[str, JsonValue]", message)
        actions = self.message(known)
        return (Emit([Raw(data=known)]),) if actions is None else actions


@dataclass(frozen=True, slots=True)
class LineAdapter:
    """An adapter that is its own, only transport. Without further words it claims nothing."""

    name: str
    make_codec: Callable[[], Codec]
    make_launch: Callable[[Order], Launch]
    title: str = ""
    programs: tuple[str, ...] = ()
    """By default, the name."""
    install_hint: str = ""
    versions: VersionRange = field(default_factory=lambda: VersionRange("0", "0"))
    key_variables: tuple[str, ...] = ()
    login_folder: str = ""
    login_variable: str | None = None
    login_files: tuple[str, ...] = ()
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(agent="", transport="", versions=""))

    def __post_init__(self) -> None:
        can = self.capabilities if self.capabilities.agent else None
        claims = can or Capabilities(agent=self.name, transport=self.name, versions=self.versions.newest)
        object.__setattr__(self, "capabilities", claims)
        object.__setattr__(self, "title", self.title or self.name)
        object.__setattr__(self, "programs", self.programs or (self.name,))

    @property
    def transports(self) -> tuple[LineAdapter, ...]:
        """Itself."""
        return (self,)

    def describe(self, call: ToolCall) -> ToolCall:
        """A tool of which nothing is known."""
        return call

    def check(self, order: Order) -> Sequence[Unmet]:
        """Nothing beyond the capabilities; further arguments are refused, since nothing is known of them."""
        if not order.request.extra_args:
            return ()
        reason = f"nothing is known of the options of {self.name}"
        return (Unmet(field="extra_args", value=" ".join(order.request.extra_args), reason=reason),)

    def launch(self, order: Order) -> Launch:
        """The process for this order."""
        return self.make_launch(order)

    def codec(self, order: Order) -> Codec:
        """A fresh translator."""
        del order
        return self.make_codec()
