"""Runs of an agent that calls us as its hook: a small program and an adapter made for it."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest

from interlock.actions import Action, Consult, Emit, Ending, Key, Proceed, Ready, Reply, RunDone, Send
from interlock.adapter import Argument, Endpoint, LadderStep, Launch, LaunchFile, Order, Place, VersionRange
from interlock.capabilities import EVERY_KIND, Capabilities, Unmet
from interlock.errors import StartFailed
from interlock.events import Notice, ToolDecided, ToolFinished, ToolRequested
from interlock.framing.lines import LineFramer
from interlock.hooks import Allow, DenyCall, HookCall, HookOutcome
from interlock.outcome import Reason, Status
from interlock.tools import MAIN_AGENT, ToolCall

pytestmark = pytest.mark.anyio

AGENT = """
import http.client, json, os, sys

config = json.load(open(os.path.join(sys.argv[1], "config.json")))
place = config if config["by"] == "file" else json.loads(sys.stdin.readline())
host = place["url"].split("/")[2]

def call(id, token):
    connection = http.client.HTTPConnection(host)
    body = json.dumps({"id": id, "command": "touch " + id})
    connection.request("POST", "/hook", body, {"Authorization": "Bearer " + token})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()

def say(**message):
    print(json.dumps(message), flush=True)

for name in ("MINE", "THEIRS") if "THEIRS" in os.environ else ():
    say(told=os.environ[name], words=sys.argv[2:])
for step in config["steps"]:
    token = "wrong" if step == "stranger" else place["token"]
    status, answer = call(step, token)
    open(step, "w").write(answer)
    say(id=step, status=status, answer=answer, environ=place["token"] in str(os.environ) + str(sys.argv))
say(done=True)
sys.stdin.read()
"""


class Codec:
    def __init__(self, by: str) -> None:
        self.framer, self.by, self.waiting, self.gone = LineFramer(), by, dict[Key, tuple[str, str]](), list[str]()
        self.places: Mapping[str, Place] = {}

    def nothing(self, *_: object, **__: object) -> Sequence[Action]:
        return ()

    interrupt = steer = woke = eof = prompt = nothing

    def listening(self, places: Mapping[str, Place]) -> None:
        self.places = places

    def hung_up(self, channel: str, key: str) -> Sequence[Action]:
        return (Emit([Notice(code="gone", message=key)]),)

    def start(self) -> Sequence[Action]:
        place = self.places["hook"]
        told = json.dumps({"url": place.url, "token": place.token}).encode() + b"\n"
        return (Ready(), *([Send(told)] if self.by == "stdin" else []))

    def received(self, channel: str, data: bytes) -> Sequence[Action]:
        return [action for line in self.framer.feed(data) for action in self.line(json.loads(bytes(line)))]

    def line(self, message: dict[str, Any]) -> Sequence[Action]:
        if "told" in message:
            return (Emit([Notice(code="told", message=" ".join([message["told"], *message["words"]]))]),)
        if "done" in message:
            return (RunDone(Ending(Status.COMPLETED, text="done")),)
        assert not message["environ"]
        status = "ok" if message["answer"] == "yes" else "denied"
        if message["status"] == 401:
            return ()
        end = {"tool_call_id": message["id"], "tool_name": "run", "tool_kind": "unknown", "output": message["answer"]}
        return (Emit([ToolFinished.model_validate({**end, "status": status})]),)

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        asked = json.loads(body)
        if asked["id"] == "bug":
            raise RuntimeError("a bug")
        call = ToolCall(tool_call_id=asked["id"], tool_name="run", input={"command": asked["command"]})
        ours = Key(MAIN_AGENT, asked["id"])
        self.waiting[ours] = channel, key
        begin = ToolRequested(
            tool_call_id=call.tool_call_id, tool_name="run", tool_kind=call.tool_kind, input=call.input
        )
        return (Emit([begin]), Consult(ours, "before", call))

    def decided(self, key: Key, stage: object, verdict: object) -> Sequence[Action]:
        channel, request = self.waiting.pop(key)
        return (Reply(channel, request, b"yes" if isinstance(verdict, Proceed) else b"no"),)

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        return (RunDone(Ending(Status.FAILED, Reason.CRASHED)),)


class Toy:
    """Adapter and, having only one, its own transport."""

    name, title, programs, install_hint = "toy", "Toy", ("toy",), "make one"
    versions, key_variables = VersionRange("1", "1"), ()
    login_folder, login_variable, login_files = ".toy", None, ()
    capabilities = Capabilities(agent="toy", transport="toy", versions="1", sees_before="all", deny=EVERY_KIND)

    def __init__(self, steps: Sequence[str], by: str = "stdin") -> None:
        self.steps, self.by = steps, by

    @property
    def transports(self) -> tuple["Toy", ...]:
        return (self,)

    def describe(self, call: ToolCall) -> ToolCall:
        return call

    def check(self, order: Order) -> Sequence[Unmet]:
        return ()

    def launch(self, order: Order) -> Launch:
        config = {"by": self.by, "steps": list(self.steps), "url": "{endpoint:hook}", "token": "{token:hook}"}
        return Launch(
            argv=(Argument(order.host.binary), Argument("{home}", template=True), Argument("{home}")),
            env={"MINE": "{endpoint:hook}"},
            files=(LaunchFile("config.json", json.dumps(config), "secret", template=True),),
            endpoints=(Endpoint("hook", "http"),),
            refusals={"hook": b"refused"},
            ladder=(LadderStep("close_input", 2.0),),
        )

    def codec(self, order: Order) -> Codec:
        return Codec(self.by)


class Guard:
    name = "guard"
    events = ("pre_tool_use",)
    may, deadline = ("deny",), 30.0

    def __init__(self, *denied: str, waits: str = "") -> None:
        self.denied, self.waits, self.asked = denied, waits, anyio.Event()

    async def before(self, call: HookCall) -> HookOutcome:
        if call.tool_call_id == self.waits:
            self.asked.set()
            await anyio.sleep_forever()
        return DenyCall("no") if call.tool_call_id in self.denied else Allow()

    async def after(self, call: HookCall) -> HookOutcome:
        return Allow()


@pytest.fixture
def play(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A block in which an agent with these steps runs."""

    def play(toy: Toy, guard: Guard, **fields: Any) -> Any:
        monkeypatch.setattr("interlock.engine.client.find_adapter", lambda name: toy)
        program = bench.program(AGENT, shell=sys.executable)
        return bench.client(interceptors=[guard]).stream(bench.request(agent="toy", binary=program, **fields))

    return play


@pytest.mark.parametrize("by", ["stdin", "file"])
async def test_calls_that_come_by_an_endpoint_are_decided_as_any_other(bench: Any, play: Any, by: str) -> None:
    with anyio.fail_after(15):
        async with play(Toy(["one", "two"], by), Guard("two")) as run:
            events = await bench.events(run)
            outcome = await run.outcome()
    decisions = [(event.tool_call_id, event.decision) for event in events if isinstance(event, ToolDecided)]
    assert outcome.message == ""
    assert decisions == [("one", "allow"), ("two", "deny")]
    assert (outcome.status, [denial.tool_call_id for denial in outcome.denials]) == (Status.COMPLETED, ["two"])
    assert (bench.workspace / "one").read_text(encoding="utf-8") == "yes"


async def test_nothing_but_what_the_adapter_says_is_filled_in(bench: Any, play: Any) -> None:
    with anyio.fail_after(15):
        async with play(Toy([]), Guard(), env={"THEIRS": "{home} {endpoint:hook} {token:hook}"}) as run:
            events = await bench.events(run)
    mine, theirs = (event.message for event in events if isinstance(event, Notice) and event.code == "told")
    assert mine.startswith("http://127.0.0.1:")
    assert mine.endswith(" {home}")
    assert theirs == "{home} {endpoint:hook} {token:hook} {home}"


async def test_a_stranger_is_turned_away_and_the_run_goes_on(bench: Any, play: Any) -> None:
    with anyio.fail_after(15):
        async with play(Toy(["stranger", "one"]), Guard()) as run:
            events = await bench.events(run)
            outcome = await run.outcome()
    assert [event.code for event in events if isinstance(event, Notice)] == ["stranger"]
    assert outcome.status is Status.COMPLETED
    assert (bench.workspace / "stranger").read_text(encoding="utf-8") == ""


async def test_the_same_call_a_second_time_stops_the_run(bench: Any, play: Any) -> None:
    with anyio.fail_after(15):
        async with play(Toy(["one", "one", "two"]), Guard()) as run:
            outcome = await run.outcome()
    assert outcome.reason is Reason.UNGUARDED
    answers = {path.name: path.read_text(encoding="utf-8") for path in bench.workspace.iterdir()}
    assert answers["one"] == "no"
    assert answers.get("two") != "yes"


async def test_a_bug_of_a_codec_is_refused_and_ends_the_run(bench: Any, play: Any) -> None:
    with anyio.fail_after(15):
        async with play(Toy(["bug"]), Guard()) as run:
            outcome = await run.outcome()
    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.INTERNAL)
    assert "a bug" in outcome.message
    assert (bench.workspace / "bug").read_text(encoding="utf-8") == "refused"


async def test_a_call_that_is_open_when_the_run_ends_is_answered_with_no(bench: Any, play: Any) -> None:
    guard = Guard(waits="one")
    with anyio.fail_after(15):
        async with play(Toy(["one"]), guard) as run:
            await guard.asked.wait()
            await run.cancel()
            outcome = await run.outcome()
    assert outcome.status is Status.CANCELLED
    assert (bench.workspace / "one").read_text(encoding="utf-8") == "no"


async def test_a_launch_without_a_refusal_starts_nothing(
    bench: Any, play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = Toy([])
    launch = toy.launch
    monkeypatch.setattr(toy, "launch", lambda order: _without_refusals(launch(order)))
    with anyio.fail_after(5), pytest.raises(StartFailed, match="no refusal"):
        async with play(toy, Guard()):
            pass


def _without_refusals(launch: Launch) -> Launch:
    return Launch(argv=launch.argv, env={}, endpoints=launch.endpoints)
