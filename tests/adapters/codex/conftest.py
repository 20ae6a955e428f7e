"""A driver for the codecs without a process: lines and hooks in, actions out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from interlock.actions import Action, Consult, Emit, Keep, Proceed, Reply, RunDone, Send, Stop, Suspicion
from interlock.adapter import Host, Order, Place
from interlock.capabilities import Needs
from interlock.permission import Backstop
from interlock.request import Request
from interlock_adapters.codex import hooks, sandbox
from interlock_adapters.codex.app_server.codec import AppServerCodec

OURS: tuple[dict[str, Any], ...] = (
    {"name": {"type": "sessionFlags"}, "config": {"features": {}}},
    {"name": {"type": "project"}, "config": {"mcp_servers": {}}, "disabledReason": "untrusted"},
    {"name": {"type": "user"}, "config": {}, "disabledReason": None},
    {"name": {"type": "system"}, "config": {"model_provider": "own", "model_providers": {}}},
)
MAIN, TURN, CWD = "thread-main", "turn-1", "/repo"
CHAIN = Needs(chain_before=True, chain_after=True, modify=True, replace=True, answered=True)


def an_order(
    *,
    needs: Needs = CHAIN,
    environ: dict[str, str] | None = None,
    login_files: frozenset[str] = frozenset(),
    backstop: Backstop = Backstop.SANDBOX,
    **fields: object,
) -> Order:
    """An order as the engine makes it."""
    host = Host(
        home="/home/user",
        environ=environ or {},
        binary="/usr/bin/codex",
        binary_folder="/usr/bin",
        platform="linux",
        root=False,
        login_files=login_files,
        login_folder="/home/user/.codex",
    )
    given: dict[str, object] = {"agent": "codex", "prompt": "go", "cwd": CWD}
    request = Request.model_validate(given | fields)
    return Order("run-1", request, needs, host, backstop, hook_timeout=60.0, hooks=True)


@dataclass
class Server:
    """Plays the server to a codec: what it says is spelled out by the test, what it hears is kept."""

    order: Order = field(default_factory=an_order)
    codec: AppServerCodec = field(init=False)
    actions: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.codec = AppServerCodec(self.order)
        self.codec.listening({hooks.ENDPOINT: Place("http://127.0.0.1:1/hooks", "the-token")})

    # ---- in --------------------------------------------------------------------------------------------------------

    def done(self, actions: Sequence[Action]) -> list[Action]:
        self.actions += actions
        return list(actions)

    def say(self, **message: Any) -> list[Action]:
        return self.done(self.codec.received("stdout", json.dumps(message).encode() + b"\n"))

    def note(self, method: str, **params: Any) -> list[Action]:
        return self.say(method=method, params={"threadId": MAIN, "turnId": TURN, **params})

    def answer(self, method: str, result: Any = None, error: str | None = None) -> list[Action]:
        """Answers our last request of this method."""
        asked = next(one for one in reversed(self.sent()) if one.get("method") == method)
        body = {"result": result} if error is None else {"error": {"code": -32600, "message": error}}
        return self.say(id=asked["id"], **body)

    def hook(self, tool: str, call: str = "c1", thread: str = MAIN, key: str = "h1", **more: Any) -> list[Action]:
        event = next(name for name, known in hooks.EVENTS.items() if known.tool == tool)
        told = {"event": event, "session": MAIN, "cwd": CWD, "id": call, "name": "Bash", **more}
        body = {"name": tool, "arguments": told, "_meta": {"threadId": thread}}
        return self.done(self.codec.called(hooks.ENDPOINT, key, json.dumps(body).encode()))

    def decide(self, verdict: Any, call: Consult | None = None) -> list[Action]:
        """The verdict on the last consult, or on one that is given."""
        asked = call or next(one for one in reversed(self.actions) if isinstance(one, Consult))
        return self.done(self.codec.decided(asked.key, asked.stage, verdict))

    def item(self, when: str, **item: Any) -> list[Action]:
        thread = item.pop("thread", MAIN)
        return self.note(f"item/{when}", threadId=thread, item={"id": "c1", "type": "commandExecution", **item})

    def ran(self, when: str, event: str, call: str = "c1", status: str = "completed") -> list[Action]:
        run = {"id": f"x:0:/<session-flags>/config.toml:{call}", "eventName": event, "status": status, "entries": []}
        return self.note(f"hook/{when}", run=run)

    # ---- out -------------------------------------------------------------------------------------------------------

    def sent(self) -> list[dict[str, Any]]:
        data = b"".join(action.data for action in self.actions if isinstance(action, Send))
        return [json.loads(line) for line in data.split(b"\n") if line]

    def of(self, kind: type) -> list[Any]:
        return [action for action in self.actions if isinstance(action, kind)]

    def events(self, kind: type) -> list[Any]:
        return [event for emit in self.of(Emit) for event in emit.events if isinstance(event, kind)]

    def replies(self) -> list[bytes]:
        return [reply.data for reply in self.of(Reply)]

    def suspicions(self) -> list[str]:
        return [found.kind for found in self.of(Suspicion)]

    def stops(self) -> list[Stop]:
        return self.of(Stop)

    def endings(self) -> list[Any]:
        return [done.ending for done in self.of(RunDone)]

    # ---- the usual way ---------------------------------------------------------------------------------------------

    def hello(self, version: str = "0.171.0") -> None:
        self.done(self.codec.start())
        self.answer("initialize", {"userAgent": f"interlock/{version} (Linux)"})

    def hooked(self, *skills: str, layers: Sequence[dict[str, Any]] = OURS) -> None:
        """Our hooks are confirmed, and settings and skills told."""
        self.answer("hooks/list", {"data": [{"hooks": self.listed()}]})
        self.answer("config/read", {"layers": [*layers]})
        self.answer("skills/list", {"data": [{"skills": [{"name": "x", "path": path} for path in skills]}]})

    def listed(self, **changed: Any) -> list[dict[str, Any]]:
        """Our hooks as the server lists them."""
        return [
            {
                "eventName": known.camel,
                "source": "sessionFlags",
                "server": hooks.SERVER,
                "tool": known.tool,
                "trustStatus": "trusted",
                "currentHash": hooks.hash_of(event),
                "enabled": True,
                **changed,
            }
            for event, known in hooks.EVENTS.items()
        ]

    def thread(self, **changed: Any) -> dict[str, Any]:
        """What the server says is in force."""
        return {
            "thread": {"id": MAIN},
            "model": "gpt-5.5",
            "cwd": CWD,
            "approvalPolicy": sandbox.approval_policy(self.order),
            "approvalsReviewer": "user",
            "sandbox": sandbox.policy(self.order),
            **changed,
        }

    def ready(self) -> Server:
        """Confirmed, and prompted."""
        self.hello()
        self.hooked()
        self.answer("account/read", {"account": None, "requiresOpenaiAuth": False})
        self.answer("thread/start", self.thread())
        self.done(self.codec.prompt("go"))
        self.answer("turn/start", {"turn": {"id": TURN, "status": "inProgress"}})
        self.hook("start", call="")
        return self

    def let(self, command: str, call: str = "c1") -> str:
        """A command was let run; gives what the agent was told to run."""
        self.hook("before", call, input={"command": command}, key=f"before-{call}")
        self.decide(Proceed(input={"command": command}))
        self.ran("completed", "preToolUse", call)
        return json.loads(self.replies()[-1])["hookSpecificOutput"]["updatedInput"]["command"]

    def over(self, status: str = "completed", **turn: Any) -> list[Action]:
        return self.note("turn/completed", turn={"id": TURN, "status": status, **turn})

    def text(self, text: str) -> None:
        self.item("completed", type="agentMessage", id="m1", text=text)

    def keep(self) -> list[Action]:
        return self.decide(Keep())


@pytest.fixture
def server() -> Server:
    """A server that has confirmed everything and runs a turn."""
    return Server().ready()


@pytest.fixture
def fresh() -> type[Server]:
    """Makes a server that has said nothing."""
    return Server


@pytest.fixture
def order() -> Any:
    """Makes an order."""
    return an_order
