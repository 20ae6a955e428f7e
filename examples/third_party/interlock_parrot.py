"""An adapter that another package brings: `parrot` is told a line of JSON, and answers with lines of JSON."""

import json
from collections.abc import Mapping, Sequence

from interlock.actions import Action, Emit, Ending, Ready, RunDone, Send
from interlock.adapter import Argument, LadderStep, Launch, Order, VersionRange
from interlock.capabilities import Capabilities, Unmet
from interlock.events import Notice, Raw, Text
from interlock.framing.json_objects import NotJson, parse_object
from interlock.framing.lines import LineFramer, Oversized
from interlock.outcome import Reason, Status
from interlock.tools import ToolCall


class ParrotCodec:
    def __init__(self) -> None:
        self.framer, self.text, self.over = LineFramer(), "", False

    def nothing(self, *_: object, **__: object) -> Sequence[Action]:
        return ()

    interrupt = steer = woke = called = decided = eof = nothing  # it has no calls, questions or further turns

    def start(self) -> Sequence[Action]:
        return (Ready(),)

    def prompt(self, prompt: str) -> Sequence[Action]:
        return (Send(json.dumps({"say": prompt}).encode() + b"\n"),)

    def received(self, channel: str, data: bytes) -> Sequence[Action]:
        return [action for line in self.framer.feed(data) for action in self.line(line)] if channel == "stdout" else ()

    def line(self, line: bytes | Oversized) -> Sequence[Action]:
        match NotJson("", line.length, "") if isinstance(line, Oversized) else parse_object(line):
            case NotJson() as noise:
                return (Emit([Notice(code="noise", message=noise.text)]),)
            case {"type": "text", "text": str(text)}:
                self.text += text
                return (Emit([Text(text=text)]),)
            case {"type": "done"}:
                return self.end(Ending(Status.COMPLETED, text=self.text))
            case unknown:
                return (Emit([Raw.model_validate({"data": unknown})]),)

    def end(self, ending: Ending) -> Sequence[Action]:
        over, self.over = self.over, True
        return () if over else (RunDone(ending),)

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        return self.end(Ending(Status.FAILED, Reason.CRASHED, f"parrot ended too early ({code or signal})"))


class Parrot:
    """Adapter and, having only one, its own transport."""

    name, title, programs, install_hint = "parrot", "Parrot", ("parrot",), "hatch one"
    versions, key_variables = VersionRange("1", "1"), ()
    login_folder, login_variable, login_files = ".parrot", None, ()
    capabilities = Capabilities(agent="parrot", transport="parrot", versions="1")

    @property
    def transports(self) -> tuple["Parrot", ...]:
        return (self,)

    def describe(self, call: ToolCall) -> ToolCall:
        return call

    def check(self, order: Order) -> Sequence[Unmet]:
        return ()

    def launch(self, order: Order) -> Launch:
        return Launch(argv=(Argument(order.host.binary),), env={}, ladder=(LadderStep("close_input", 1.0),))

    def codec(self, order: Order) -> ParrotCodec:
        return ParrotCodec()


adapter = Parrot()
