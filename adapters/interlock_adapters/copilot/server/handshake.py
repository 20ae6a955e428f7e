"""What the server confirms before the prompt goes out: its version, that no other hooks are in force, the session.

That our own hooks are, it confirms with the first prompt alone: `sessionStart` comes before the model is asked, and
what the agent does before it came stops the run (1.0.102).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from interlock.actions import Action, Ready, Send, Stop
from interlock.adapter import Order
from interlock.capabilities import Unmet
from interlock.framing.jsonrpc import Failure, Reply
from interlock.framing.reports import warning
from interlock.model import JsonValue
from interlock.outcome import Reason
from interlock.request import Fork, NewSession, Resume
from interlock_adapters.copilot.login import provider
from interlock_adapters.copilot.server.channel import Channel
from interlock_adapters.copilot.server.session import session_params
from interlock_adapters.copilot.server.wire import Connected, SessionAnswer
from interlock_adapters.copilot.versions import NEWEST, OLDEST, TESTED

__all__ = ["Handshake"]

PROTOCOL = 3
Object = Mapping[str, JsonValue]
_METHODS = frozenset({
    "connect", "hooks.discover", "session.create", "session.gitHubAuth.getStatus", "session.permissions.getMode",
    "session.resume", "sessions.fork", "sessions.getMetadata",
})  # fmt: skip


@dataclass(slots=True)
class Handshake:
    """The requests that go out before the prompt, each after the answer to the one before."""

    order: Order
    channel: Channel
    version: str | None = None
    session: str | None = None
    model: str | None = None
    ready: bool = False
    _answers: dict[str, Object] = field(default_factory=dict[str, Object])

    def start(self) -> Iterator[Action]:
        """`connect` comes first."""
        yield self.channel.ask("connect", {})

    def expects(self, method: str) -> bool:
        """Whether the answer to such a request belongs to the handshake."""
        return method in _METHODS

    def failed(self, failure: Failure) -> Iterator[Action]:
        """The server says no to one of the requests."""
        named = not isinstance(self.order.request.session, NewSession)
        if named and failure.method in {"session.resume", "sessions.fork"} and "not found" in failure.message.lower():
            yield Stop(Reason.SESSION_NOT_FOUND, failure.message)
        else:
            yield _stop("transport", failure.method, f"the agent refused {failure.method}: {failure.message}")

    def answered(self, reply: Reply) -> Iterator[Action]:
        """The answer to one of them; `Ready` comes with the last, if nothing is wrong."""
        told = reply.result
        result: Object = cast("Object", told) if isinstance(told, dict) else {}
        match reply.method:
            case "connect":
                yield from self._connected(Connected.model_validate(result))
            case "hooks.discover":
                yield from self._hooks(result)
            case "sessions.getMetadata":
                yield from self._known(result)
            case "sessions.fork":
                yield self._begin(str(result["sessionId"]))
            case "session.create" | "session.resume":
                yield from self._begun(SessionAnswer.model_validate(result))
            case "session.permissions.getMode":
                yield from self._mode(result)
            case _:
                yield from self._account(result)

    def _connected(self, told: Connected) -> Iterator[Action]:
        self.version = told.version
        match TESTED.judge(told.version):
            case "older" | "unknown":
                reason = f"Copilot {told.version} is older than {OLDEST}, the oldest that was tested"
                yield _stop("binary", told.version, reason)
                return
            case "newer":
                message = f"Copilot {told.version} is newer than {NEWEST}, the newest that was tested"
                yield warning("untested_version", message)
            case "tested":
                pass
        if told.protocol != PROTOCOL:
            yield _stop("transport", str(told.protocol), f"the agent speaks protocol {told.protocol}, not {PROTOCOL}")
            return
        yield self.channel.ask("hooks.discover", {})

    def _hooks(self, result: Object) -> Iterator[Action]:
        """File hooks of the config home or of an administrator: one that allows would skip the permission request."""
        if result.get("hooks") != []:
            yield _stop("hooks", str(result.get("hooks")), "hooks are in force that are not ours")
            return
        match self.order.request.session:
            case NewSession(id=None):
                yield self._begin(None)
            case NewSession(id=chosen):
                yield self.channel.ask("sessions.getMetadata", {"sessionId": chosen})
            case Resume(id=chosen):
                yield self._begin(chosen)
            case Fork(id=chosen):
                yield self.channel.ask("sessions.fork", {"sessionId": chosen})

    def _known(self, result: Object) -> Iterator[Action]:
        """An id that exists would be taken, and its history replaced by an empty one."""
        chosen = self.order.request.session.id
        if result.get("session") is not None:
            yield _stop("session.id", str(chosen), "a session of this id exists: resume it, or choose another")
        else:
            yield self._begin(chosen)

    def _begin(self, session: str | None) -> Send:
        new = isinstance(self.order.request.session, NewSession)
        return self.channel.ask("session.create" if new else "session.resume", session_params(self.order, session))

    def _begun(self, answer: SessionAnswer) -> Iterator[Action]:
        request = self.order.request
        self.session, self.model = answer.session, answer.state.model
        chosen = None if isinstance(request.session, Fork) else request.session.id
        if chosen not in {None, answer.session}:
            yield _stop("session.id", str(chosen), f"the agent names the session {answer.session}")
        elif answer.mode != "interactive":
            yield _stop("mode", "interactive", f"the agent says that its mode is {answer.mode!r}")
        else:
            yield self.channel.ask("session.permissions.getMode", {"sessionId": answer.session})

    def _mode(self, result: Object) -> Iterator[Action]:
        if result.get("mode") != "manual":
            yield _stop("permission", "manual", f"the agent asks for leave in mode {result.get('mode')!r}")
        elif provider(self.order) is None:
            yield self.channel.ask("session.gitHubAuth.getStatus", {"sessionId": self.session})
        else:
            yield self._ready()

    def _account(self, result: Object) -> Iterator[Action]:
        if result.get("isAuthenticated") is not True:
            yield Stop(Reason.AUTH, "nobody is logged in: run `copilot login` once, or set COPILOT_PROVIDER_BASE_URL")
        else:
            yield self._ready()

    def _ready(self) -> Ready:
        self.ready = True
        return Ready(version=self.version, session_id=self.session, model=self.model)


def _stop(name: str, value: str, reason: str) -> Stop:
    return Stop(Reason.UNSUPPORTED, reason, (Unmet(field=name, value=value, reason=reason),))
