"""One side of a JSON-RPC 2.0 conversation, without its transport.

A `Peer` builds the messages that we send and tells what the received ones are. Each side numbers its own
requests, so there are two tables: `ours` (asked by us, matched to the answers that come) and `theirs`
(asked of us, and whether we answered). A message with `method` and `id` asks, with `method` alone tells,
without `method` answers.

What does not fit is a value and never an exception: the peer decides what it sends, and a wrong id must
not end a run. Ids are integers or strings and `1` is not `"1"`. The `jsonrpc` member is not demanded;
Codex app-server leaves it out. Output is ASCII JSON without a newline, so no reader can cut it at an
exotic line separator.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from interlock.framing.json_objects import NotJson, parse_object, readable

Id: TypeAlias = int | str

MAX_OPEN = 10_000
MAX_ANSWERED = 10_000

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Call:
    """The peer asks us and waits for `respond` or `fail` with this id."""

    id: Id
    method: str
    params: object


@dataclass(frozen=True, slots=True)
class Note:
    """The peer tells us something and waits for nothing."""

    method: str
    params: object


@dataclass(frozen=True, slots=True)
class Reply:
    """The peer's answer to the request that we sent as `id`."""

    id: Id
    method: str
    result: object


@dataclass(frozen=True, slots=True)
class Failure:
    """The peer's error in answer to our request `id`; `code` is 0 where it sent no integer."""

    id: Id
    method: str
    code: int
    message: str
    data: object


@dataclass(frozen=True, slots=True)
class UnknownId:
    """An answer to nothing that is open; `answered` tells that an earlier one was taken."""

    id: Id | None
    answered: bool


@dataclass(frozen=True, slots=True)
class Rejected:
    """A request of the peer that was not taken: its id is open already, or too many are."""

    id: Id
    method: str
    reason: Literal["duplicate", "too many"]


@dataclass(frozen=True, slots=True)
class Malformed:
    """Bytes that are not a JSON-RPC message: the first 512 as text, and why."""

    text: str
    reason: str


Incoming: TypeAlias = Call | Note | Reply | Failure | UnknownId | Rejected | Malformed


@dataclass(slots=True)
class Table:
    """The requests of one side: those open, by id with their method, and the latest that were answered."""

    open: dict[Id, str] = field(default_factory=dict[Id, str])
    _answered: dict[Id, None] = field(default_factory=dict[Id, None])

    def answered(self, request: Id) -> bool:
        """Tell whether the request was answered; only the latest 10,000 are remembered."""
        return request in self._answered

    def add(self, request: Id, method: str) -> None:
        """Note a request as asked."""
        self._answered.pop(request, None)
        self.open[request] = method

    def settle(self, request: Id) -> str | UnknownId:
        """Note a request as answered and return its method."""
        method = self.open.pop(request, None)
        if method is None:
            return UnknownId(request, self.answered(request))
        self._answered[request] = None
        if len(self._answered) > MAX_ANSWERED:
            del self._answered[next(iter(self._answered))]
        return method


class Peer:
    """Our side of one conversation; `version` says whether messages carry `"jsonrpc": "2.0"`."""

    def __init__(self, *, version: bool = True, first_id: int = 1) -> None:
        self.ours = Table()
        self.theirs = Table()
        self._envelope: dict[str, object] = {"jsonrpc": "2.0"} if version else {}
        self._next = first_id

    def request(self, method: str, params: object = None) -> tuple[Id, bytes]:
        """Build a request under the next free id, now open; params None leaves the member out."""
        request, self._next = self._next, self._next + 1
        self.ours.add(request, method)
        return request, self._message({"id": request, "method": method}, params)

    def notify(self, method: str, params: object = None) -> bytes:
        """Build a notification."""
        return self._message({"method": method}, params)

    def respond(self, request: Id, result: object) -> bytes | UnknownId:
        """Build the answer to an open request of the peer, once."""
        settled = self.theirs.settle(request)
        return settled if isinstance(settled, UnknownId) else self._message({"id": request, "result": result})

    def fail(self, request: Id, code: int, message: str, data: object = None) -> bytes | UnknownId:
        """Build the error answer to an open request of the peer, once."""
        settled = self.theirs.settle(request)
        if isinstance(settled, UnknownId):
            return settled
        error: dict[str, object] = {"code": code, "message": message}
        return self._message({"id": request, "error": error if data is None else error | {"data": data}})

    def receive(self, message: bytes) -> Incoming:
        """Tell what one whole message of the peer is."""
        found = parse_object(message)
        if isinstance(found, NotJson):
            return Malformed(found.text, found.reason)
        method = found.get("method")
        if "method" not in found:
            return self._answer(found, message)
        if not isinstance(method, str):
            return Malformed(readable(message), "method is not a string")
        if "id" not in found:
            return Note(method, found.get("params"))
        request = _id(found["id"])
        if request is None:
            return Malformed(readable(message), "id is neither an integer nor a string")
        return self._asked(request, method, found.get("params"))

    def _asked(self, request: Id, method: str, params: object) -> Call | Rejected:
        if request in self.theirs.open:
            return Rejected(request, method, "duplicate")
        if len(self.theirs.open) >= MAX_OPEN:
            return Rejected(request, method, "too many")
        self.theirs.add(request, method)
        return Call(request, method, params)

    def _answer(self, found: Mapping[str, object], message: bytes) -> Reply | Failure | UnknownId | Malformed:
        error = found.get("error")
        if ("result" in found) == (error is not None):
            return Malformed(readable(message), "neither a request nor an answer")
        request = _id(found.get("id"))
        if request is None:
            return UnknownId(None, answered=False)
        method = self.ours.settle(request)
        if isinstance(method, UnknownId):
            return method
        return Reply(request, method, found["result"]) if error is None else _failure(request, method, error)

    def _message(self, body: Mapping[str, object], params: object = None) -> bytes:
        members = {**self._envelope, **body}
        return _encode(members if params is None else members | {"params": params}).encode("ascii")


def _id(value: object) -> Id | None:
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _failure(request: Id, method: str, error: object) -> Failure:
    """Read an error leniently: whatever its shape, the request that it answers is over."""
    if not isinstance(error, dict):
        return Failure(request, method, 0, "", error)
    members = cast("dict[str, object]", error)
    code, message = members.get("code"), members.get("message")
    return Failure(
        id=request,
        method=method,
        code=code if isinstance(code, int) and not isinstance(code, bool) else 0,
        message=message if isinstance(message, str) else "",
        data=members.get("data"),
    )
