"""An agent that calls an endpoint of ours by plain HTTP, and its adapter; address and token stand in a file of the run.

It is told of two calls at once and asks about both before it waits for either, so that their answers may come in any
order; then it says what it was answered.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock.actions import Action, Consult, Emit, Ending, Key, Proceed, Reply, Send, Stage, Verdict
from interlock.adapter import Argument, Endpoint, Launch, LaunchFile, Order
from interlock.approval import Answer
from interlock.capabilities import EVERY_KIND, Capabilities
from interlock.events import ToolFinished, ToolRequested
from interlock.framing.line_adapter import DESCENT, LineAdapter, LineCodec
from interlock.model import JsonValue
from interlock.outcome import Status
from interlock.tools import ToolCall, ToolKind

FILE = "jackdaw/hooks.json"
AGENT = """
import http.client, json, sys, threading
from urllib.parse import urlsplit

told = json.load(open(sys.argv[2]))
url = urlsplit(told["url"])

def ask(call, answers):
    connection = http.client.HTTPConnection(url.hostname, url.port)
    connection.request("POST", url.path, json.dumps(call), told["headers"])
    answers[call["id"]] = json.loads(connection.getresponse().read())["may"]

sys.stdin.readline()
answers = {}
calls = [{"id": name, "take": name} for name in ("spoon", "ring")]
print(json.dumps({"type": "looks", "at": sys.argv[2]}), flush=True)
asking = [threading.Thread(target=ask, args=(call, answers)) for call in calls]
for thread in asking:
    thread.start()
for thread in asking:
    thread.join()
for call in calls:
    print(json.dumps({"type": "over", "id": call["id"], "taken": answers[call["id"]]}), flush=True)
print(json.dumps({"type": "done", "taken": [name for name, taken in answers.items() if taken]}), flush=True)
"""


class JackdawCodec(LineCodec):
    """Asks about each thing that is to be taken."""

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[Key, str] = {}

    def prompt(self, prompt: str) -> Sequence[Action]:
        return (Send(json.dumps({"say": prompt}).encode() + b"\n"),)

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        told = json.loads(body)
        call = ToolCall(tool_call_id=told["id"], tool_name="take", input={"thing": told["take"]})
        self._open[Key("main", told["id"])] = key
        requested = ToolRequested(
            tool_call_id=told["id"], tool_name="take", tool_kind=call.tool_kind, input=call.input, subject=call.subject
        )
        return (Emit([requested]), Consult(Key("main", told["id"]), "before", call))

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Sequence[Action]:
        request = self._open.pop(key, None)
        if request is None or stage is None:
            return ()
        may = isinstance(verdict, Proceed) and not verdict.changed
        return (Reply("asks", request, json.dumps({"may": may}).encode()),)

    def message(self, message: Mapping[str, JsonValue], /) -> Sequence[Action] | None:
        match message:
            case {"type": "over", "id": str(call), "taken": bool(taken)}:
                status: Any = "ok" if taken else "denied"
                return (
                    Emit(
                        [ToolFinished(tool_call_id=call, tool_name="take", tool_kind=ToolKind.UNKNOWN, status=status)]
                    ),
                )
            case {"type": "done", "taken": [*taken]}:
                return self.finish(Ending(Status.COMPLETED, text=",".join(sorted(map(str, taken)))))
            case _:
                return None


def launch(order: Order) -> Launch:
    """The token stands in a secret file, the way to it in argv."""
    told = {"url": "{endpoint:asks}", "headers": {"Authorization": "Bearer {token:asks}"}}
    return Launch(
        argv=(Argument(order.host.binary), Argument("--hooks"), Argument(f"{{home}}/{FILE}", template=True)),
        env={},
        files=(LaunchFile(FILE, json.dumps(told), "secret", template=True),),
        endpoints=(Endpoint("asks", "http"),),
        refusals={"asks": b'{"may":false}'},
        ladder=DESCENT,
    )


adapter = LineAdapter(
    "jackdaw",
    JackdawCodec,
    launch,
    install_hint="hatch one",
    capabilities=Capabilities(
        agent="jackdaw", transport="jackdaw", versions="0", asks=True, sees_before="all", deny=EVERY_KIND
    ),
)


def hatch(folder: Path) -> Path:
    """The agent as a program in a folder."""
    program = folder / "jackdaw"
    program.write_text(f"#!{sys.executable} -IS\n{AGENT}", "utf-8")
    program.chmod(0o755)
    return program
