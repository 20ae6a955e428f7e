"""Lines of agents, mangled in every way, into each codec: none raises, and each is an event, a notice or Raw.

The lines come from recordings where there are some, and are written by hand for the rest. `INTERLOCK_LONG=1` makes a
hundred thousand of them for each codec, instead of five.
"""

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from pydantic import TypeAdapter

from interlock.actions import (
    Ask,
    CloseInput,
    Consult,
    Emit,
    Keep,
    Proceed,
    Ready,
    Refuse,
    Reply,
    RunDone,
    Send,
    Serve,
    Stop,
    Substitute,
    Suspicion,
    Wake,
    Withdraw,
)  # fmt: skip
from interlock.adapter import Adapter, Host, Listening, Order, Place
from interlock.approval import Answer
from interlock.capabilities import Needs
from interlock.engine.registry import find_adapter
from interlock.events import Event, Notice, Raw
from interlock.request import Request
from interlock_adapters.codex import hooks, sandbox
from interlock_fixtures.recording import Recording

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

SHORT, LONG, SITTING = 5_000, 100_000, 50
ACTIONS = (
    Emit, Send, Serve, Reply, Consult, Ask, Withdraw, Wake, Ready, CloseInput, RunDone, Stop, Suspicion,
)  # fmt: skip
EVENTS: TypeAdapter[Any] = TypeAdapter(Event)
ODD: Sequence[Any] = (
    None, True, 0, -1, 1.5, 2**63, 10**400, "", "x", "\u2028\ud800", [], [[]], {}, {"": None}, {"type": "x"}, [1, "a"],
    "main", "t1", 1e308,
)  # fmt: skip
CODEX = (
    {"id": 1, "result": {"userAgent": "interlock/0.171.0 (x) y"}},
    {"id": 2, "result": {"data": [{"hooks": [{"eventName": "preToolUse", "enabled": True}]}]}},
    {"id": 3, "result": {"account": {"type": "apiKey"}, "requiresOpenaiAuth": True}},
    {"id": 4, "result": {"thread": {"id": "th"}, "model": "m", "cwd": "/repo", "approvalPolicy": "never",
                         "approvalsReviewer": "user", "sandbox": {"type": "readOnly"}}},
    {"id": 5, "error": {"code": -32600, "message": "no"}},
    {"id": 9, "method": "item/commandExecution/requestApproval",
     "params": {"threadId": "th", "turnId": "tu", "itemId": "i1", "command": "ls", "cwd": "/repo"}},
    {"id": 10, "method": "item/fileChange/requestApproval", "params": {"threadId": "th", "itemId": "i2"}},
    {"id": 11, "method": "item/tool/requestUserInput",
     "params": {"threadId": "th", "turnId": "tu", "itemId": "i3", "questions": [{"id": "q", "question": "which?"}]}},
    {"method": "turn/started", "params": {"threadId": "th", "turn": {"id": "tu", "status": "inProgress", "items": []}}},
    {"method": "turn/completed", "params": {"threadId": "th", "turn": {"id": "tu", "status": "completed"}}},
    {"method": "item/started", "params": {"threadId": "th", "turnId": "tu", "item": {
        "type": "commandExecution", "id": "i1", "command": "ls", "cwd": "/repo", "status": "inProgress"}}},
    {"method": "item/completed", "params": {"threadId": "th", "turnId": "tu", "item": {
        "type": "commandExecution", "id": "i1", "command": "ls", "cwd": "/repo", "status": "completed",
        "aggregatedOutput": "a", "exitCode": 0}}},
    {"method": "item/completed", "params": {"threadId": "th", "turnId": "tu", "item": {
        "type": "agentMessage", "id": "i4", "text": "done"}}},
    {"method": "item/completed", "params": {"threadId": "th", "turnId": "tu", "item": {
        "type": "fileChange", "id": "i2", "status": "completed",
        "changes": [{"path": "a", "kind": "add", "diff": "+a"}]}}},
    {"method": "item/agentMessage/delta", "params": {"threadId": "th", "turnId": "tu", "itemId": "i4", "delta": "do"}},
    {"method": "item/commandExecution/outputDelta", "params": {"threadId": "th", "itemId": "i1", "delta": "a"}},
    {"method": "thread/tokenUsage/updated", "params": {"threadId": "th", "turnId": "tu", "tokenUsage": {
        "last": {"inputTokens": 1, "outputTokens": 1}, "total": {"inputTokens": 1, "outputTokens": 1}}}},
    {"method": "account/rateLimits/updated", "params": {"rateLimits": {"primary": {"usedPercent": 50}}}},
    {"method": "error", "params": {"threadId": "th", "turnId": "tu", "error": {"message": "x"}, "willRetry": True}},
    {"method": "warning", "params": {"message": "careful"}},
)  # fmt: skip
CODEX_EXEC = (
    {"type": "thread.started", "thread_id": "th"},
    {"type": "turn.started"},
    {"type": "item.started", "item": {"id": "i1", "type": "command_execution", "command": "ls",
                                      "status": "in_progress"}},
    {"type": "item.completed", "item": {"id": "i1", "type": "command_execution", "command": "ls",
                                        "aggregated_output": "a", "exit_code": 0, "status": "completed"}},
    {"type": "item.completed", "item": {"id": "i2", "type": "agent_message", "text": "done"}},
    {"type": "item.completed", "item": {"id": "i3", "type": "reasoning", "text": "hm"}},
    {"type": "item.completed", "item": {"id": "i4", "type": "file_change", "status": "completed",
                                        "changes": [{"path": "a", "kind": "add"}]}},
    {"type": "item.updated", "item": {"id": "i5", "type": "todo_list", "items": [{"text": "a", "completed": False}]}},
    {"type": "item.completed", "item": {"id": "i6", "type": "mcp_tool_call", "server": "s", "tool": "t",
                                        "arguments": {}, "status": "failed", "error": {"message": "no"}}},
    {"type": "item.completed", "item": {"id": "i7", "type": "web_search", "query": "q"}},
    {"type": "item.completed", "item": {"id": "i8", "type": "error", "message": "m"}},
    {"type": "turn.completed", "usage": {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1}},
    {"type": "turn.failed", "error": {"message": "m"}},
    {"type": "error", "message": "m"},
)  # fmt: skip
WRITTEN = {"app-server": CODEX, "exec": CODEX_EXEC}


def lines_of(transport: str, recordings: list[Recording]) -> list[bytes]:
    """The lines that an agent says, each once, with its end."""
    kept = {line for one in recordings if one.meta.transport == transport for line in one.messages("stdout")}
    return [*sorted(kept), *(json.dumps(one).encode() + b"\n" for one in WRITTEN.get(transport, ()))]


# ---- Mangling -------------------------------------------------------------------------------------------------------


def flipped(random: Random, line: bytes) -> bytes:
    data = bytearray(line)
    for _ in range(random.randint(1, 8)):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)


def cut(random: Random, line: bytes) -> bytes:
    start, end = sorted((random.randrange(len(line)), random.randrange(len(line) + 1)))
    return line[:start] + line[end:]


def spliced(random: Random, line: bytes) -> bytes:
    place = random.randrange(len(line))
    return line[:place] + random.choice((b"{", b"}", b'"', b"\\", b"[" * 3000, b"\0", b"\xff", b"1e999")) + line[place:]


def rewritten(random: Random, line: bytes) -> bytes:
    """Still JSON: a value is another, is gone, or stands twice."""
    try:
        value = json.loads(line)
    except ValueError:
        return line
    for _ in range(random.randint(1, 3)):
        changed(random, value)
    return json.dumps(value).encode() + b"\n"


def changed(random: Random, value: Any) -> None:
    """Somewhere inside, at random depth."""
    while isinstance(value, dict | list) and value:
        key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        inner = value[key]
        if isinstance(inner, dict | list) and inner and random.random() < 0.8:
            value = inner
            continue
        match random.randrange(3):
            case 0:
                value[key] = deepcopy(random.choice(ODD))
            case 1:
                del value[key]
            case _ if isinstance(value, dict):
                value[random.choice(("type", "id", "method", "extra", "subtype"))] = deepcopy(random.choice(ODD))
            case _:
                value.append(deepcopy(random.choice(ODD)))
        return


MANGLE: Sequence[Callable[[Random, bytes], bytes]] = (
    flipped, cut, spliced, rewritten, rewritten, rewritten, lambda _, line: line,
)  # fmt: skip


# ---- Into a codec ---------------------------------------------------------------------------------------------------


@dataclass
class Sitting:
    """One codec and what it says; questions and hooks are answered at random."""

    codec: Any
    random: Random
    done: int = 0

    def take(self, actions: Sequence[Any]) -> list[Any]:
        """The events; everything is of the closed unions, and says the same as JSON."""
        events: list[Any] = []
        for action in actions:
            assert isinstance(action, ACTIONS), action
            self.done += isinstance(action, RunDone)
            if isinstance(action, Emit):
                events += action.events
        for event in events:
            told = event.model_dump_json(exclude_unset=False)
            assert EVENTS.validate_json(told).model_dump_json() == told, told
        for action in actions:
            self.answer(action, events)
        return events

    def answer(self, action: Any, events: list[Any]) -> None:
        match action:
            case Consult(key, stage) if self.random.random() < 0.8:
                before = (
                    Proceed(),
                    Proceed({"command": "x"}, changed=True),
                    Refuse("no"),
                    Refuse("no", interrupt=True),
                )
                after = (Keep(), Refuse("no"), Substitute("x"), Substitute({"a": 1}, is_error=True))
                verdict = self.random.choice(after if stage == "after" else before)
                events += self.take(self.codec.decided(key, stage, verdict))
            case Ask(key) if self.random.random() < 0.8:
                said = Answer(answers={"1": ("a",)}) if self.random.random() < 0.5 else Answer(declined=True)
                events += self.take(self.codec.decided(key, None, said))
            case Wake(key) if self.random.random() < 0.3:
                events += self.take(self.codec.woke(key))
            case _:
                return


def order_for(adapter: Adapter, transport: Any, random: Random) -> Order:
    """An order of some kind."""
    permission = {"posture": random.choice(("none", "full")), "otherwise": random.choice(("ask", "deny"))}
    request = Request.model_validate(
        {"agent": adapter.name, "prompt": "go", "cwd": "/repo", "permission": permission, "env": {"X": "1"}}
    )
    host = Host("/home/user", {}, "/usr/bin/agent", "/usr/bin", "linux", root=False)
    needs = Needs(chain_before=True, chain_after=True, replace=random.random() < 0.5, answered=True)
    return Order("run-fuzz", request, needs, host, transport.capabilities.backstops[0], 60.0, hooks=True)


def begin(adapter: Adapter, transport: Any, random: Random) -> Sitting:
    codec = transport.codec(order_for(adapter, transport, random))
    sitting = Sitting(codec, random)
    if isinstance(codec, Listening):
        places = {one.name: Place("http://127.0.0.1:9", "t") for one in transport.launch(codec._order).endpoints}
        codec.listening(places)
    if transport.name == "app-server" and random.random() < 0.8:
        confirm(sitting)
    else:
        sitting.take(codec.start())
        sitting.take(codec.prompt("go"))
    return sitting


def confirm(sitting: Sitting) -> None:
    """Answer the handshake of Codex as the server does, so that what follows meets a codec with a running turn."""
    order = sitting.codec._order
    permission = {"approvalPolicy": sandbox.approval_policy(order), "approvalsReviewer": "user"}
    results: dict[str, Any] = {
        "initialize": {"userAgent": f"interlock/{find_adapter('codex').versions.oldest} (x)"},
        "hooks/list": {"data": [{"hooks": [
            {"eventName": known.camel, "source": "sessionFlags", "server": hooks.SERVER, "tool": known.tool,
             "trustStatus": "trusted", "currentHash": hooks.hash_of(event), "enabled": True}
            for event, known in hooks.EVENTS.items()
        ]}]},
        "config/read": {"layers": [{"name": {"type": "sessionFlags"}, "config": {"hooks": {}}}]},
        "skills/list": {"data": [{"skills": []}]},
        "account/read": {"account": {"type": "apiKey"}},
        "thread/start": {"thread": {"id": "th"}, "model": "m", "cwd": "/repo", "sandbox": sandbox.policy(order),
                         **permission},
        "turn/start": {"turn": {"id": "tu", "status": "inProgress", "items": []}},
    }  # fmt: skip
    actions = [*sitting.codec.start(), *sitting.codec.prompt("go")]
    ready = 0
    for _ in results:
        asked = [json.loads(line) for one in actions if isinstance(one, Send) for line in one.data.splitlines()]
        for message in [one for one in asked if "id" in one]:
            said = json.dumps({"id": message["id"], "result": results[message["method"]]}).encode()
            actions = list(sitting.codec.received("stdout", said + b"\n"))
            ready += sum(isinstance(one, Ready) for one in actions)
    assert ready == 1


def is_no_message(line: bytes) -> bool:
    """Whether it is no JSON object, blank lines apart."""
    try:
        return bool(line.strip()) and not isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return True


def all_transports() -> list[tuple[str, str]]:
    return [(name, one.name) for name in ("claude", "codex") for one in find_adapter(name).transports]


@pytest.mark.behaviour("framing:noise")
@pytest.mark.behaviour("framing:unknown-message")
@pytest.mark.parametrize(("name", "transport"), all_transports())
def test_no_line_makes_a_codec_raise_or_say_what_is_no_event(
    recordings: list[Recording], long: bool, name: str, transport: str
) -> None:
    adapter = find_adapter(name)
    chosen = next(one for one in adapter.transports if one.name == transport)
    lines = lines_of(transport, recordings)
    random = Random(7)
    for _ in range((LONG if long else SHORT) // SITTING):
        sitting = begin(adapter, chosen, random)
        start = random.randrange(len(lines))
        for number in range(SITTING):
            said = lines[(start + number) % len(lines)] if random.random() < 0.5 else random.choice(lines)
            line = random.choice(MANGLE)(random, said).replace(b"\n", b"") + b"\n"
            events = sitting.take(sitting.codec.received("stdout", line))
            if is_no_message(line):
                assert any(isinstance(event, Raw | Notice) for event in events), line[:300]
        sitting.take(sitting.codec.eof("stdout"))
        sitting.take(sitting.codec.exited(1, None, {}))
        assert sitting.done >= 1


@pytest.mark.parametrize(("name", "transport"), all_transports())
def test_a_message_of_the_future_is_raw(name: str, transport: str) -> None:
    adapter = find_adapter(name)
    chosen = next(one for one in adapter.transports if one.name == transport)
    sitting = begin(adapter, chosen, Random(1))
    told = {"method": "from/the/future", "params": {"x": 1}}
    told = told if transport == "app-server" else {"type": "from_the_future", "x": 1}
    events = sitting.take(sitting.codec.received("stdout", json.dumps(told).encode() + b"\n"))
    assert [event.data for event in events if isinstance(event, Raw)] == [told]
