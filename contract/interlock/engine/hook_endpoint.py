"""Addresses on loopback that an agent calls as its hook, for one run.

Native hooks fail open: whatever goes wrong between the agent and us must end in the codec's refusal, never in an error
or a connection that breaks. So every call of the agent ends in one of three ways: the codec's reply; the refusal that
was prepared beforehand, as soon as the run winds down or a fault of ours shows; or, where not even that can be said (a
body without end, words that make no sense), no answer until the agent is gone, and the run is stopped.

Each endpoint has a bearer token, made for the run. A command that the agent runs unsandboxed may find address and
token: with them it may ask, and it learns what would be decided. It answers nothing, and decides nothing. Who does not
know the token gets a 401; the run hears of it once, and goes on.

An agent may keep its connection and send one request after the other: setting one up costs more than a call. We close
none that has shown its token before the agent is gone, so none breaks under the agent; and should we die, the guardian
keeps them open until the agent is gone.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, Protocol

import anyio
from anyio.abc import SocketAttribute
from pydantic_core import from_json

from interlock.adapter import Endpoint, Place
from interlock.engine.guardian import held
from interlock.engine.mcp_hook import HookCalled, NotMcp, Said, answer, read

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from interlock.engine.http_exchange import Exchange

__all__ = ["HookDesk", "HookEndpoints"]

HOST = "127.0.0.1"
LONGEST_BODY = 64 * 1024 * 1024
"""Bytes of one request."""
HELD_AT_MOST = 4 * LONGEST_BODY
"""Bytes of all requests that are not answered yet."""
HEAD_WITHIN = 10.0
"""Seconds that a caller has until it has shown its token."""
BODY_WITHIN = 60.0
DOORMEN = 64
"""Callers whose token is looked at at a time; the others wait."""
CALLERS_HELD = 64
"""Connections of one run that outlive us until the agent is gone; each is a descriptor of the guardian."""
BACKLOG = 1024


class HookDesk(Protocol):
    """What the run does with what comes by an endpoint."""

    def called(self, channel: str, key: str, body: bytes) -> None:
        """The agent calls; `HookEndpoints.reply` answers, at once or later. Whatever it raises ends in the refusal."""
        ...

    def hung_up(self, channel: str, key: str) -> None:
        """The agent no longer waits for the answer to this call."""
        ...

    def repeated(self, channel: str, message: str) -> None:
        """The same call came twice at a time; the second was refused."""
        ...

    def stranger(self, message: str) -> None:
        """Somebody called who does not know the token; said once."""
        ...

    def trouble(self, message: str, error: Exception | None = None) -> None:
        """A call could not be understood, or a fault of ours kept it from being answered."""
        ...


@dataclass(slots=True)
class _Call:
    """A call of the agent that waits for its answer."""

    body: bytes
    waiting: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    data: bytes | None = None

    def answer(self, data: bytes) -> None:
        if self.data is None:
            self.data = data
            self.waiting.cancel()

    async def wait(self, exchange: Exchange) -> None:
        """Wait for the answer, or until the caller closes the connection."""
        with self.waiting:
            await exchange.closed()


class HookEndpoints:
    """The endpoints of one run, behind one port; `open` before the agent starts, `close` when it is gone.

    ValueError for an endpoint without a refusal, for two of one name, and for a name that is not of a URL.
    """

    def __init__(self, endpoints: Sequence[Endpoint], refusals: Mapping[str, bytes], desk: HookDesk) -> None:
        self.places: dict[str, Place] = {}
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self._refusals = refusals
        self._desk = desk
        self._listener: anyio.abc.Listener[anyio.abc.SocketStream] | None = None
        self._calls: dict[tuple[str, str], _Call] = {}
        self._number = 0
        self._held = 0
        self._refusing = False
        self._strangers = 0
        self._callers = 0
        self._doormen: anyio.CapacityLimiter
        self._exchange: type[Exchange]
        self._gone: tuple[type[Exception], ...]
        if len(self._endpoints) != len(endpoints) or any(not name.isidentifier() for name in self._endpoints):
            raise ValueError("endpoints need names of their own, made of letters, digits and `_`")
        if missing := self._endpoints.keys() - refusals.keys():
            raise ValueError(f"no refusal was prepared for {', '.join(sorted(missing))}")

    async def open(self) -> None:
        """Take a port, from which moment on callers may come, and make the tokens; raises OSError."""
        if not self._endpoints:
            return
        # most runs have no endpoint, and once the agent runs nothing is loaded any more
        from interlock.engine.http_exchange import GONE, Exchange  # noqa: PLC0415

        self._exchange, self._gone = Exchange, GONE
        self._doormen = anyio.CapacityLimiter(DOORMEN)
        self._listener = await anyio.create_tcp_listener(
            local_host=HOST, local_port=0, backlog=BACKLOG, reuse_port=False
        )
        port = self._listener.extra(SocketAttribute.local_port)  # noqa: S610  a socket attribute
        for name in self._endpoints:
            self.places[name] = Place(f"http://{HOST}:{port}/{name}", secrets.token_urlsafe(32))

    async def serve(self) -> None:
        """Answer until cancelled."""
        if self._listener is not None:
            await self._listener.serve(self._converse)

    def reply(self, channel: str, key: str, data: bytes) -> bool:
        """Answer a call; False for a channel that is no endpoint. A call that is over already is left alone."""
        call = self._calls.get((channel, key))
        if call is not None:
            call.answer(data)
        return channel in self._endpoints

    def refuse(self) -> None:
        """The run winds down: everything that is open, and everything that still comes, is refused."""
        self._refusing = True
        for (channel, _), call in self._calls.items():
            if not self._cannot_be_refused(channel, call.body):
                call.answer(self._refusals[channel])

    def _cannot_be_refused(self, channel: str, body: bytes) -> bool:
        endpoint = self._endpoints[channel]
        if endpoint.style == "http":
            return channel in endpoint.unrefused
        return bool(endpoint.unrefused) and from_json(body).get("name") in endpoint.unrefused

    async def close(self) -> None:
        """Give the port back; not before the agent is gone, which would take a broken connection for a yes."""
        with anyio.CancelScope(shield=True):
            if self._listener is not None:
                await self._listener.aclose()

    # ---- one connection ----------------------------------------------------------------------------------------------

    async def _converse(self, stream: ByteStream) -> None:
        exchange = self._exchange(stream)
        try:
            async with stream:
                endpoint = await self._admit(exchange)
                if endpoint is not None:
                    await self._known(stream, endpoint, exchange)
        except self._gone:
            return  # nobody is left to be answered
        except Exception as error:  # noqa: BLE001  # one call that we fail ends the run, as a decision
            self._desk.trouble("a call of the agent could not be answered", error)
        finally:
            self._held -= exchange.held

    async def _known(self, stream: ByteStream, endpoint: Endpoint | None, exchange: Exchange) -> None:
        """All requests of a caller that has shown its token; of so many at a time, no more are held for."""
        async with AsyncExitStack() as stack:
            if self._callers < CALLERS_HELD:
                self._callers += 1
                stack.callback(self._forget)
                socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610  a socket attribute
                await stack.enter_async_context(held(socket.fileno()))
            while endpoint is not None:
                await self._serve(endpoint, exchange)
                self._held -= exchange.held
                exchange.held = 0
                endpoint = await self._called(exchange) if await exchange.next() else None

    def _forget(self) -> None:
        self._callers -= 1

    async def _admit(self, exchange: Exchange) -> Endpoint | None:
        """As `_called`, of a caller that is not known yet and gets `HEAD_WITHIN` seconds."""
        async with self._doormen:
            with anyio.move_on_after(HEAD_WITHIN):
                return await self._called(exchange)
        return None

    async def _called(self, exchange: Exchange) -> Endpoint | None:
        """The endpoint that was called by somebody who knows its token; anybody else is sent away."""
        head = await exchange.head()
        name = head.target.decode("latin-1").partition("?")[0].removeprefix("/")
        place = self.places.get(name)
        shown = dict(head.headers).get(b"authorization", b"")
        if place is not None and hmac.compare_digest(shown, f"Bearer {place.token}".encode()):
            return self._endpoints[name]
        self._turn_away(name if place else "")
        await exchange.send(401, b"")
        return None

    def _turn_away(self, name: str) -> None:
        self._strangers += 1
        if self._strangers == 1:
            what = f"the endpoint {name!r}" if name else "no endpoint of ours"
            self._desk.stranger(f"somebody who does not know its token called {what} and was turned away")

    async def _serve(self, endpoint: Endpoint, exchange: Exchange) -> None:
        if exchange.method != b"POST":
            await exchange.send(405, b"")
            return
        body = await self._body(exchange)
        if body is None:
            await self._hold(f"a call of the endpoint {endpoint.name!r} has no end after {exchange.held} bytes")
        if endpoint.style == "http":
            await exchange.send(200, await self._decision(endpoint.name, body, exchange))
            return
        match read(body, endpoint.tools):
            case Said(status, said):
                await exchange.send(status, said)
            case NotMcp(reason):
                await self._hold(f"a message to the endpoint {endpoint.name!r} makes no sense: {reason}")
            case HookCalled(id_, call):
                decision = await self._decision(endpoint.name, call, exchange, once=True)
                await exchange.send(200, answer(id_, self._text(endpoint.name, decision)))

    async def _body(self, exchange: Exchange) -> bytes | None:
        """The whole body; None where it does not come to an end."""
        body = bytearray()
        with anyio.move_on_after(BODY_WITHIN):
            while (piece := await exchange.piece()) is not None:
                exchange.held += len(piece)
                self._held += len(piece)
                body += piece
                if len(body) > LONGEST_BODY or self._held > HELD_AT_MOST:
                    break
            else:
                return bytes(body)
        return None

    async def _hold(self, message: str) -> NoReturn:
        """Say that the run cannot go on, and keep the caller waiting until it is gone."""
        self._desk.trouble(message)
        await anyio.sleep_forever()
        raise AssertionError("for ever is over")

    def _text(self, channel: str, decision: bytes) -> str:
        try:
            return decision.decode()
        except UnicodeDecodeError as error:
            self._desk.trouble("an answer is no text", error)
            return self._refusals[channel].decode("utf-8", "replace")

    async def _decision(self, channel: str, body: bytes, exchange: Exchange, *, once: bool = False) -> bytes:
        """What the codec replies, or the refusal; the caller may hang up meanwhile."""
        refusal = self._refusals[channel]
        if self._refusing and self._cannot_be_refused(channel, body):
            await anyio.sleep_forever()
        if self._refusing:
            return refusal
        if once and any(call.body == body for (other, _), call in self._calls.items() if other == channel):
            self._desk.repeated(channel, "the same call came again while the first was open")
            return refusal
        self._number += 1
        key, call = f"{channel}-{self._number}", _Call(body)
        self._calls[channel, key] = call
        try:
            self._desk.called(channel, key, body)
            if call.data is None:
                await call.wait(exchange)
        except Exception as error:  # noqa: BLE001  # a fault of ours must not let a call through
            self._desk.trouble("a call of the agent could not be answered", error)
            return refusal
        finally:
            del self._calls[channel, key]
        if call.data is None:
            self._desk.hung_up(channel, key)
            return refusal
        return call.data
