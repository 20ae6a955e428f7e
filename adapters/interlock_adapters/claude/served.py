"""Servers of tools in our process: the CLI's MCP client speaks to them over the control channel (`mcp_message`).

A call is passed on only if it is one that was let through: the CLI names it (`_meta`), in 2.1.197 and 2.1.332.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from interlock.actions import Action, Send, Serve, Suspicion
from interlock.framing.bounded import Bounded
from interlock.framing.reports import warning
from interlock.model import JsonValue
from interlock_adapters.claude import wire
from interlock_adapters.claude.calls import Calls
from interlock_adapters.claude.wire import ControlRequest

__all__ = ["Served"]

REFUSED = -32000
Object = dict[str, JsonValue]


@dataclass(slots=True)
class Served:
    """The messages of the CLI to servers of ours, while they wait for an answer."""

    calls: Calls
    servers: tuple[str, ...]
    _open: Bounded[str, None] = field(default_factory=Bounded[str, None])

    def asked(self, message: ControlRequest) -> Iterator[Action]:
        """A message to a server."""
        server, told = message.request.get("server_name"), message.request.get("message")
        if not isinstance(server, str) or server not in self.servers or not isinstance(told, dict):
            yield Send(wire.failure(message.request_id, f"{server!r} is no server of this run"))
            words = f"the agent spoke to an MCP server {server!r}, which is not one of this run"
            yield warning("unknown_request", words)
        elif told.get("method") == "tools/call" and not self._let_through(server, told):
            error = {"code": REFUSED, "message": "nobody has decided about this call"}
            refusal = {"jsonrpc": "2.0", "id": told.get("id"), "error": error}
            yield Send(wire.success(message.request_id, {"mcp_response": refusal}))
            yield Suspicion("no_decision", f"a tool of {server} was called, and nobody had decided about it")
        else:
            self._open.remember(message.request_id, None)
            yield Serve(server, message.request_id, told)

    def answered(self, key: str, reply: JsonValue) -> Iterator[Action]:
        """A server's answer; nothing if the CLI no longer waits for it."""
        if key in self._open:
            del self._open[key]
            yield Send(wire.success(key, {"mcp_response": reply}))

    def cancelled(self, request_id: str) -> None:
        """The CLI no longer waits."""
        self._open.pop(request_id, None)

    def _let_through(self, server: str, told: Object) -> bool:
        match told.get("params"):
            case {"name": str(tool), "_meta": {"claudecode/toolUseId": str(call)}}:
                state = self.calls.get(call)
                named = state is not None and state.name == f"mcp__{server}__{tool}"
                return named and state is not None and state.let_through and state.denied_by is None
            case _:
                return False
