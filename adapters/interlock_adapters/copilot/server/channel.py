"""Our side of the conversation as actions: requests, and answers to those of the server."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.actions import Action, Send, Suspicion
from interlock.framing.jsonrpc import Id, Peer, UnknownId
from interlock.model import JsonValue

__all__ = ["Channel", "framed"]


def framed(body: bytes) -> bytes:
    """A message with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@dataclass(slots=True)
class Channel:
    """The two tables of requests, and the bytes of what is said."""

    peer: Peer = field(default_factory=Peer)

    def ask(self, method: str, params: JsonValue) -> Send:
        """A request of ours."""
        return self.asked(method, params)[1]

    def asked(self, method: str, params: JsonValue) -> tuple[Id, Send]:
        """The same, with its id."""
        request, body = self.peer.request(method, params)
        return request, Send(framed(body))

    def answer(self, request: Id, result: JsonValue) -> Action:
        """The answer to a request of the server, once."""
        return self._said(request, self.peer.respond(request, result))

    def refuse(self, request: Id, code: int, message: str) -> Action:
        """The error in answer to a request of the server, once."""
        return self._said(request, self.peer.fail(request, code, message))

    def _said(self, request: Id, body: bytes | UnknownId) -> Action:
        if isinstance(body, UnknownId):
            return Suspicion("unknown_answer", f"the request {request!r} was answered already")
        return Send(framed(body))
