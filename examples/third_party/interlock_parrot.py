"""An adapter that another package brings: `parrot` is told a line of JSON, and answers with lines of JSON."""

import json
from collections.abc import Mapping, Sequence

from interlock.actions import Action, Emit, Ending, Send
from interlock.adapter import Argument, Launch, Order
from interlock.events import Text
from interlock.framing.line_adapter import DESCENT, LineAdapter, LineCodec
from interlock.model import JsonValue
from interlock.outcome import Status


class ParrotCodec(LineCodec):
    text = ""

    def prompt(self, prompt: str) -> Sequence[Action]:
        return (Send(json.dumps({"say": prompt}).encode() + b"\n"),)

    def message(self, message: Mapping[str, JsonValue]) -> Sequence[Action] | None:
        match message:
            case {"type": "text", "text": str(text)}:
                self.text += text
                return (Emit([Text(text=text)]),)
            case {"type": "done"}:
                return self.finish(Ending(Status.COMPLETED, text=self.text))
            case _:
                return None


def launch(order: Order) -> Launch:
    return Launch(argv=(Argument(order.host.binary),), env={}, ladder=DESCENT)


adapter = LineAdapter("parrot", ParrotCodec, launch, install_hint="hatch one")
