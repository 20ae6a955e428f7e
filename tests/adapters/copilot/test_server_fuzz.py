"""Messages of the server, mangled while they are still JSON, and bytes that are none: the codec does not raise.

Whatever comes, a hook is answered by nothing that lets a call run which was not let through.
"""

import json
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from interlock.actions import Ask, Consult, Keep, Proceed, Refuse, Substitute, Wake
from interlock.approval import Answer
from interlock_adapters.copilot.server.channel import framed

COMMAND = {"command": "touch f", "description": "x"}
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**63, 10**400, "", "x", "\u2028", [], [[]], {}, {"": None}, [1, "a"], "main", "c1", "s1",
)  # fmt: skip


def spoken(server) -> list[dict[str, Any]]:
    """What a server says in a run with a bit of everything."""
    said: list[dict[str, Any]] = []
    real = server.say

    def say(**message: Any):
        said.append({"jsonrpc": "2.0", **message})
        return real(**message)

    server.say = say
    server.ready()
    told = server.let()
    server.permission()
    server.decide(Proceed(COMMAND))
    server.after(told)
    server.keep()
    server.ends()
    server.let("c2", "view", {"path": "a"}, agent="sub")
    server.failed({"path": "a"})
    server.event("subagent.started", "sub", toolCallId="c1", agentName="x")
    server.let("q1", "ask_user", {"question": "Which?"})
    server.event("user_input.requested", requestId="q", question="Which?", toolCallId="q1")
    server.ask("userInput.request", question="Which?", choices=["a"])
    server.hook("preMcpToolCall", toolCallId="c1", serverName="s", arguments={})
    server.event("assistant.usage", model="m", inputTokens=1, outputTokens=1)
    server.event("model.call_failure", statusCode=500, retryAttempt=0)
    server.event("session.error", errorType="query", message="x", statusCode=500)
    server.event("permission.completed", requestId="p1", result={"kind": "approved"})
    server.event("abort", reason="x")
    server.text()
    server.idle()
    return said


def changed(random: Random, value: Any) -> Any:
    """One thing somewhere inside is another, or gone."""
    top = value = deepcopy(value)
    while isinstance(value, dict | list) and value:
        key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        inner = value[key]
        if isinstance(inner, dict | list) and inner and random.random() < 0.8:
            value = inner
            continue
        if random.random() < 0.7:
            value[key] = deepcopy(random.choice(ODD))
        else:
            del value[key]
        break
    return top


def react(server, actions, random: Random) -> None:
    for action in actions:
        match action:
            case Consult(key, stage) if random.random() < 0.8:
                before = (Refuse("no"), Refuse("no", interrupt=True), Keep())
                after = (Keep(), Refuse("no"), Substitute("x"), Substitute({"a": 1}, is_error=True))
                verdict = random.choice(after if stage == "after" else before)
                react(server, server.done(server.codec.decided(key, stage, verdict)), random)
            case Ask(key):
                react(server, server.done(server.codec.decided(key, None, Answer(answers={"1": ("a",)}))), random)
            case Wake(key) if random.random() < 0.3:
                react(server, server.done(server.codec.woke(key)), random)
            case _:
                pass


@pytest.mark.parametrize("seed", range(6))
def test_no_message_makes_the_codec_raise_or_a_call_run_that_was_denied(fresh, seed):
    random = Random(seed)
    said = spoken(fresh())
    for _ in range(25):
        server = fresh()
        server = server.ready() if random.random() < 0.7 else server.confirmed()
        first: dict[Any, Any] = {}
        for message in random.choices(said, k=40):
            told = changed(random, message) if random.random() < 0.7 else message
            body = json.dumps(told).encode()
            if random.random() < 0.9:
                data = framed(body)
                if isinstance(told, dict) and isinstance(told.get("id"), int | str) and "method" in told:
                    first.setdefault(repr(told["id"]), told)
            else:
                data = body[: random.randrange(len(body))] + b"\r\n"
            react(server, server.done(server.codec.received("stdout", data)), random)
        server.done(server.codec.eof("stdout"))
        server.done(server.codec.exited(1, None, {}))
        assert len([one for one in server.endings() if not one.more]) == 1
        assert "approve-once" not in json.dumps(server.sent())
        assert '"allow"' not in json.dumps(server.sent())
        answers: dict[Any, Any] = {}
        for answer in (one for one in server.sent() if "method" not in one):
            answers.setdefault(repr(answer["id"]), answer.get("result"))
        for id_, asked in first.items():
            params = asked.get("params")
            if isinstance(params, dict) and params.get("hookType") == "preToolUse":
                assert answers.get(id_) != {}, asked
