"""A driver for the codecs without a process: messages in, actions out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from interlock.actions import Action, Consult, Emit, Keep, Proceed, RunDone, Send, Stop, Suspicion
from interlock.adapter import Host, Order
from interlock.capabilities import Needs
from interlock.framing.content_length import ContentLengthFramer
from interlock.permission import Backstop
from interlock.request import Request
from interlock_adapters.copilot.server.channel import framed
from interlock_adapters.copilot.server.codec import ServerCodec

SESSION, CWD = "s1", "/repo"
CHAIN = Needs(chain_before=True, chain_after=True, modify=True, replace=True, answered=True)
PROVIDER = {"COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:1/v1", "COPILOT_PROVIDER_API_KEY": "the-key"}
COMMAND = {"command": "touch f", "description": "x"}


def an_order(
    *,
    needs: Needs = CHAIN,
    environ: dict[str, str] | None = None,
    login_files: frozenset[str] = frozenset(),
    **fields: object,
) -> Order:
    """An order as the engine makes it."""
    host = Host(
        home="/home/user",
        environ=environ or {},
        binary="/usr/bin/copilot",
        binary_folder="/usr/bin",
        platform="linux",
        root=False,
        login_files=login_files,
        login_folder="/home/user/.copilot",
    )
    given: dict[str, object] = {"agent": "copilot", "prompt": "go", "cwd": CWD, "model": "gpt-4.1", "env": PROVIDER}
    request = Request.model_validate(given | fields)
    return Order("run-1", request, needs, host, Backstop.GATE, hook_timeout=60.0, hooks=True)


@dataclass
class Server:
    """Plays the server to a codec: what it says is spelled out by the test, what it hears is kept."""

    order: Order = field(default_factory=an_order)
    codec: ServerCodec = field(init=False)
    actions: list[Action] = field(default_factory=list)
    asked: int = 0
    """How many requests the server has made."""

    def __post_init__(self) -> None:
        self.codec = ServerCodec(self.order)

    # ---- in --------------------------------------------------------------------------------------------------------

    def done(self, actions: Sequence[Action]) -> list[Action]:
        self.actions += actions
        return list(actions)

    def say(self, **message: Any) -> list[Action]:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        return self.done(self.codec.received("stdout", framed(body)))

    def event(self, type_: str, agent: str | None = None, id_: str = "e1", **data: Any) -> list[Action]:
        told = {"type": type_, "id": id_, "data": data} | ({} if agent is None else {"agentId": agent})
        return self.say(method="session.event", params={"sessionId": SESSION, "event": told})

    def answer(self, method: str, result: Any = None, error: str | None = None) -> list[Action]:
        """Answers our last request of this method."""
        asked = next(one for one in reversed(self.sent()) if one.get("method") == method)
        body = {"result": result} if error is None else {"error": {"code": -32603, "message": error}}
        return self.say(id=asked["id"], **body)

    def ask(self, method: str, **params: Any) -> int:
        """A request of the server; gives its id."""
        self.asked += 1
        self.say(id=self.asked, method=method, params={"sessionId": SESSION, **params})
        return self.asked

    def hook(self, type_: str, agent: str | None = None, **told: Any) -> int:
        own = {"sessionId": agent or SESSION, "cwd": CWD} | ({} if agent is None else {"agentId": agent})
        return self.ask("hooks.invoke", hookType=type_, input={**own, **told})

    def decide(self, verdict: Any, call: Consult | None = None) -> list[Action]:
        """The verdict on the last consult, or on one that is given."""
        asked = call or next(one for one in reversed(self.actions) if isinstance(one, Consult))
        return self.done(self.codec.decided(asked.key, asked.stage, verdict))

    # ---- out -------------------------------------------------------------------------------------------------------

    def sent(self) -> list[dict[str, Any]]:
        data = b"".join(action.data for action in self.actions if isinstance(action, Send))
        return [json.loads(frame) for frame in ContentLengthFramer().feed(data) if isinstance(frame, bytes)]

    def said(self, request: int) -> Any:
        """Our answer to a request of the server; None while there is none."""
        found = [one for one in self.sent() if one.get("id") == request and "method" not in one]
        assert len(found) < 2
        return found[0].get("result", found[0].get("error")) if found else None

    def asks(self, method: str) -> list[dict[str, Any]]:
        """The params of our requests of this method."""
        return [one["params"] for one in self.sent() if one.get("method") == method]

    def of(self, kind: type) -> list[Any]:
        return [action for action in self.actions if isinstance(action, kind)]

    def events(self, kind: type) -> list[Any]:
        return [event for emit in self.of(Emit) for event in emit.events if isinstance(event, kind)]

    def suspicions(self) -> list[str]:
        return [found.kind for found in self.of(Suspicion)]

    def stops(self) -> list[Stop]:
        return self.of(Stop)

    def endings(self) -> list[Any]:
        return [done.ending for done in self.of(RunDone)]

    # ---- the usual way ---------------------------------------------------------------------------------------------

    def hello(self, **changed: Any) -> None:
        self.done(self.codec.start())
        self.answer("connect", {"ok": True, "protocolVersion": 3, "version": "1.0.102", **changed})

    def begun(self, method: str = "session.create", **changed: Any) -> None:
        """Up to the last thing that is read back."""
        self.answer("hooks.discover", {"hooks": [], "warnings": [], "errors": []})
        told = {"sessionId": SESSION, "mode": "interactive", "modelState": {"modelId": "gpt-4.1"}, **changed}
        self.answer(method, told)

    def confirmed(self) -> Server:
        self.hello()
        self.begun()
        self.answer("session.permissions.getMode", {"mode": "manual"})
        return self

    def ready(self) -> Server:
        """Confirmed, prompted, and the hooks have been heard of."""
        self.confirmed()
        self.done(self.codec.prompt("go"))
        self.answer("session.send", {"messageId": "m0"})
        self.hook("sessionStart", source="new")
        self.event("assistant.turn_start", turnId="0")
        return self

    def starts(self, call: str = "c1", name: str = "bash", args: Any = None, agent: str | None = None) -> None:
        given = COMMAND if args is None else args
        self.event("tool.execution_start", agent, toolCallId=call, toolName=name, arguments=given, turnId="0")

    def lists(self, *calls: tuple[str, str, Any], agent: str | None = None, batch: str = "b1") -> list[Action]:
        listed = [{"id": call, "name": name, "args": args} for call, name, args in calls]
        return self.event(
            "hook.start", agent, hookInvocationId=batch, hookType="preToolUse", input={"toolCalls": listed}
        )

    def before(self, call: str = "c1", name: str = "bash", args: Any = None, agent: str | None = None) -> int:
        """One call up to the hook before it; gives the id of the request."""
        given = COMMAND if args is None else args
        self.starts(call, name, given, agent)
        self.lists((call, name, given), agent=agent, batch=f"b-{call}")
        return self.hook("preToolUse", agent, toolName=name, toolArgs=given)

    def let(self, call: str = "c1", name: str = "bash", args: Any = None, agent: str | None = None) -> Any:
        """A call that was let run; gives what the agent was told to run."""
        given = COMMAND if args is None else args
        request = self.before(call, name, given, agent)
        self.decide(Proceed(input=given))
        said = self.said(request)
        return said["output"]["modifiedArgs"] if said else given

    def permission(self, call: str = "c1", request: str = "p1", agent: str | None = None, **asked: Any) -> list[Action]:
        wanted = {"kind": "shell", "toolCallId": call, "fullCommandText": COMMAND["command"], **asked}
        return self.event("permission.requested", agent, requestId=request, permissionRequest=wanted)

    def permissions(self) -> list[tuple[str, str]]:
        """What was answered to each permission request."""
        method = "session.permissions.handlePendingPermissionRequest"
        return [(one["requestId"], one["result"]["kind"]) for one in self.asks(method)]

    def after(self, told: Any, name: str = "bash", text: str = "out", agent: str | None = None, **result: Any) -> int:
        ended = [{"type": "shell_exit", "shellId": "0", "exitCode": 0}] if name == "bash" else []
        output = {"resultType": "success", "textResultForLlm": text, "contents": ended, **result}
        return self.hook("postToolUse", agent, toolName=name, toolArgs=told, toolResult=output)

    def failed(self, told: Any, name: str = "view", error: str = "no such file") -> int:
        return self.hook("postToolUseFailure", toolName=name, toolArgs=told, error=error)

    def ends(self, call: str = "c1", text: str = "out", agent: str | None = None, **told: Any) -> list[Action]:
        given = {"toolCallId": call, "success": True, "turnId": "0", "result": {"content": text}, **told}
        return self.event("tool.execution_complete", agent, **given)

    def keep(self) -> list[Action]:
        return self.decide(Keep())

    def text(self, text: str = "done") -> None:
        self.event("assistant.message", messageId="m1", content=text, toolRequests=[], turnId="0")

    def idle(self, *, aborted: bool = False) -> list[Action]:
        return self.event("session.idle", mode="interactive", **({"aborted": True} if aborted else {}))


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
