"""Requests for permission: the agent's own question about a call, the gate behind the hook before it.

Each is answered for what was decided about that very call, and only if what it asks about is what the agent was told to
run. A call may be asked about several times: once for each path, and again for one outside of the workspace (1.0.102).
A refusal always has words, since one without would end the turn.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from interlock.actions import Action, Consult, Emit, Key, Proceed, Refuse, Suspicion, Verdict, Withdraw
from interlock.events import Notice
from interlock.framing.bounded import Bounded
from interlock.framing.jsonrpc import Id
from interlock.model import JsonValue
from interlock_adapters.copilot.server.alike import alike
from interlock_adapters.copilot.server.answers import FAULT
from interlock_adapters.copilot.server.calls import Calls, CallState
from interlock_adapters.copilot.server.channel import Channel
from interlock_adapters.copilot.server.wire import PermissionOver, PermissionTold, Requested
from interlock_adapters.copilot.tools import PATCH, SHELL

__all__ = ["METHOD", "Permissions"]

METHOD = "session.permissions.handlePendingPermissionRequest"
READING = frozenset({"view", "grep", "rg", "glob"})
WRITING = frozenset({"create", "edit", PATCH})
YES: JsonValue = {"kind": "approve-once"}


@dataclass(slots=True)
class Permissions:
    """The requests of one process, open and answered."""

    channel: Channel
    calls: Calls
    home: str
    _open: dict[Key, PermissionTold] = field(default_factory=dict[Key, PermissionTold])
    _next: dict[Key, deque[PermissionTold]] = field(default_factory=dict[Key, deque[PermissionTold]])
    _answers: Bounded[str, bool] = field(default_factory=Bounded[str, bool])
    """By request: whether we said yes."""
    _cancelled: Bounded[str, None] = field(default_factory=Bounded[str, None])
    _sent: dict[Id, str] = field(default_factory=dict[Id, str])
    """Answers of which the agent has not said yet that it took them, and to what."""

    def asked(self, agent: str | None, told: PermissionTold) -> Iterator[Action]:
        """`permission.requested`."""
        key = Key(self.calls.agent_of(agent), told.request.call)
        state = self.calls.get(*key)
        if told.by_hook:
            yield Suspicion("unknown_answer", "a hook that is not ours answered for a call", key, None)
        elif state is None or not state.let_through or state.finished:
            yield from self._say(told, FAULT)
            if state is None or not state.denied:
                yield Suspicion("no_decision", "the agent asked about a call that nobody had let through", key)
        elif not self._fits(state, told.request):
            yield from self._say(told, "this is not what was decided about")
            words = f"{state.name}: asked for {told.request.kind} about something else than was decided; refused"
            yield Emit([Notice(agent_id=key.agent_id, level="warning", code="permission_mismatch", message=words)])
        elif key in self._open:
            self._next.setdefault(key, deque()).append(told)
        else:
            yield from self._consult(state, told)

    def _consult(self, state: CallState, told: PermissionTold) -> Iterator[Action]:
        self._open[state.key] = told
        yield Consult(state.key, "confirm", self.calls.describe(state, state.decided), description=told.request.words)

    def is_open(self, key: Key) -> bool:
        """Whether a request about this call waits."""
        return key in self._open

    def decided(self, key: Key, verdict: Verdict) -> Iterator[Action]:
        """The answer; a changed input cannot be given here, and so is no yes."""
        told = self._open.pop(key, None)
        if told is None:
            return
        match verdict:
            case Proceed(changed=False):
                yield from self._say(told, None)
            case Refuse(reason):
                yield from self._say(told, reason or FAULT)
            case _:
                yield from self._say(told, FAULT)
        state, waiting = self.calls.get(*key), self._next.get(key)
        if waiting and state is not None:
            yield from self._consult(state, waiting.popleft())

    def over(self, told: PermissionOver) -> Iterator[Action]:
        """`permission.completed`: one that was approved must have been so by us."""
        if told.result.kind == "cancelled":
            self._cancelled.remember(told.id, None)
        elif told.result.kind.startswith("approved") and not self._answers.get(told.id):
            yield Suspicion("unknown_answer", f"the request {told.id} was approved, and not by us")
        for key, asked in list(self._open.items()):
            if asked.id == told.id:
                del self._open[key]
                yield Withdraw(key, "confirm")

    def taken(self, request: Id, result: object) -> Iterator[Action]:
        """The agent's word on an answer of ours: it takes the first one alone."""
        told = self._sent.pop(request, "")
        if result != {"success": True} and told not in self._cancelled:
            yield Suspicion("unknown_answer", f"our answer to the request {told} was not taken: another came first")

    def settle(self) -> Iterator[Action]:
        """The turn was aborted, which cancels them all."""
        for key, told in list(self._open.items()):
            del self._open[key]
            self._cancelled.remember(told.id, None)
            yield Withdraw(key, "confirm")
        for waiting in self._next.values():
            for told in waiting:
                self._cancelled.remember(told.id, None)
        self._next.clear()

    def _say(self, told: PermissionTold, refusal: str | None) -> Iterator[Action]:
        self._answers.remember(told.id, refusal is None)
        result: JsonValue = YES if refusal is None else {"kind": "reject", "feedback": refusal}
        params: dict[str, JsonValue] = {"sessionId": self.calls.session, "requestId": told.id, "result": result}
        request, send = self.channel.asked(METHOD, params)
        self._sent[request] = told.id
        yield send

    # ---- Is it that very call? --------------------------------------------------------------------------------------

    def _fits(self, state: CallState, asked: Requested) -> bool:
        native = state.told if isinstance(state.told, dict) else {}
        match asked.kind:
            case "shell":
                return state.name == SHELL and asked.command is not None and asked.command == native.get("command")
            case "mcp":
                mcp = self.calls.tools.mcp(state.name)
                named = mcp is not None and mcp.startswith(f"{asked.server}/") and asked.tool == state.name
                return named and alike(asked.arguments, state.told)
            case "write":
                return state.name in WRITING and self._names(state, self._written(asked))
            case "read":
                return state.name in READING and self._names(state, [asked.path or ""])
            case "url":
                return asked.url is not None and asked.url == native.get("url")
            case _:
                return False

    def _written(self, asked: Requested) -> list[str]:
        edited = [path for one in asked.edits if isinstance(path := one.get("path"), str)]
        return edited or [asked.file or ""]

    def _names(self, state: CallState, paths: list[str]) -> bool:
        """Whether all paths are ones that the call names; a pattern is asked about by the folder it begins in."""
        subject = self.calls.tools.subject_of(state.name, state.told)
        named = {one for path in subject.paths for one in self._readings(path, state.cwd)}
        found = [posixpath.normpath(posixpath.join(state.cwd or "/", path)) for path in paths if path]
        if state.name == "glob":
            return bool(found) and all(any(_below(one, path) for one in named) for path in found)
        return bool(found) and named.issuperset(found)

    def _readings(self, path: str, cwd: str | None) -> Iterator[str]:
        yield posixpath.normpath(posixpath.join(cwd or "/", path))
        if path == "~" or path.startswith("~/"):
            yield posixpath.normpath(self.home + path[1:])


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
