"""The codec of an agent at whose own screen a person sits: it is called by the agent's hooks, and hears nothing else.

Pure. What is the same for all agents stands here: a hook before a call becomes a consult; of a call that was decided to
run, the agent's own question is answered; of one that nobody decided here, the agent asks the person. What an agent's
hooks look like is its adapter's `Dialect`.

Hooks fail open, so this holds only as long as they are called. It is seen when they are not: an agent that asks about a
call, or has run one, that no hook has shown before, is unguarded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from interlock.actions import (
    Action,
    Consult,
    Defer,
    Emit,
    Ending,
    Key,
    Proceed,
    Ready,
    Refuse,
    Reply,
    RunDone,
    Stage,
    Suspicion,
    Verdict,
    Withdraw,
)
from interlock.adapter import Place
from interlock.approval import Answer
from interlock.events import Notice
from interlock.framing.bounded import Bounded
from interlock.model import JsonValue, same_json
from interlock.outcome import Reason, Status
from interlock.tools import MAIN_AGENT, ToolCall, ToolKind

__all__ = ["AttachedCodec", "Dialect", "Heard"]

FAULT = "the answer about this call could not be given"
TALK = frozenset({ToolKind.QUESTION, ToolKind.PLAN})
"""What is meant for the person at the screen: it is never answered for them."""
INTERRUPTED = frozenset({0, 130})


@dataclass(frozen=True, slots=True)
class Heard:
    """One call of a hook, read. `alive` asks nothing; `permission` is the agent's own question about a call."""

    event: Literal["alive", "before", "permission", "after", "failed"]
    name: str = ""
    """The native name of the tool; of a permission in the agent's words for those."""
    native: JsonValue = None
    agent_id: str = MAIN_AGENT
    call: str = ""
    """The agent's id of the call; empty where its hooks are not told."""
    cwd: str | None = None


class Dialect(Protocol):
    """How the hooks of one agent speak."""

    refusals: Mapping[str, bytes]
    """By channel."""
    nothing: bytes
    """No objection: the agent's own flow goes on."""
    grant: bytes | None
    """Yes to the agent's own question; None: it is never asked for one."""

    def read(self, channel: str, body: bytes) -> Heard:
        """What a hook was called with; raises ValueError."""
        ...

    def describe(self, heard: Heard, call_id: str) -> ToolCall:
        """The call in the shared vocabulary."""
        ...

    def asks_about(self, call: ToolCall, heard: Heard) -> bool:
        """Whether a permission is asked for this call; its input is what the agent was told to run."""
        ...

    def passed(self, call: ToolCall, *, changed: bool) -> tuple[bytes, JsonValue]:
        """No objection to the call, and the input that the agent is told to run; raises for one it cannot be told.

        `changed`: it is another than the one that the agent asked about.
        """
        ...

    def deny(self, reason: str) -> bytes:
        """No before a call."""
        ...


@dataclass(slots=True)
class _Call:
    """A call that a hook has shown."""

    call: ToolCall
    """As the agent was told to run it."""
    channel: str
    request: str
    decided: Literal["open", "run", "agent", "denied"] = "open"


@dataclass(slots=True)
class AttachedCodec:
    """Answers the hooks of one process; of its screen it hears nothing."""

    dialect: Dialect
    heard: bool = False
    """A hook of the agent has called."""
    _calls: Bounded[Key, _Call] = field(default_factory=Bounded[Key, _Call])
    _count: int = 0
    _done: bool = False

    # ---- What the engine says ---------------------------------------------------------------------------------------

    def start(self) -> Sequence[Action]:
        """It is the person's from its first byte on."""
        return (Ready(),)

    def prompt(self, prompt: str) -> Sequence[Action]:
        """The person types it."""
        del prompt
        return ()

    def steer(self, text: str) -> Sequence[Action]:
        """The person types it."""
        del text
        return ()

    def interrupt(self) -> Sequence[Action]:
        """There is no word for it: a signal ends the process."""
        return ()

    def listening(self, places: Mapping[str, Place]) -> None:
        """The agent finds the endpoints in a file."""
        del places

    def received(self, channel: str, data: bytes) -> Sequence[Action]:
        """What is on the screen is the person's."""
        del channel, data
        return ()

    def woke(self, key: str) -> Sequence[Action]:
        """Nothing is waited for."""
        del key
        return ()

    def eof(self, channel: str) -> Sequence[Action]:
        """The exit follows."""
        del channel
        return ()

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        """The person has left it, or it broke down."""
        del files
        if self._done:
            return ()
        self._done = True
        if code in INTERRUPTED:
            return self._last(Ending(Status.COMPLETED, final=True))
        how = f"exit {code}" if signal is None else f"signal {signal}"
        return self._last(Ending(Status.FAILED, Reason.CRASHED, f"the agent ended with {how}", final=True))

    def _last(self, ending: Ending) -> Sequence[Action]:
        if self.heard:
            return (RunDone(ending),)
        message = "no hook of the agent ever called: of this session nothing was decided here, and nothing written down"
        return (Emit([Notice(level="warning", code="no_hook", message=message)]), RunDone(ending))

    # ---- What the agent asks ----------------------------------------------------------------------------------------

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        """A hook was called; what cannot be read is refused."""
        if channel not in self.dialect.refusals:
            return (Suspicion("unknown_answer", f"a request {key!r} came by {channel!r}, which is not ours"),)
        try:
            heard = self.dialect.read(channel, body)
        except ValueError as error:
            refusal = Reply(channel, key, self.dialect.refusals[channel])
            return (refusal, Suspicion("not_confirmed", f"a hook was called with what cannot be read: {error}"))
        self.heard = True
        match heard.event:
            case "alive":
                return (Reply(channel, key, self.dialect.nothing),)
            case "before":
                return tuple(self._before(channel, key, heard))
            case "permission":
                return tuple(self._permission(channel, key, heard))
            case "after" | "failed":
                return tuple(self._over(channel, key, heard))

    def hung_up(self, channel: str, key: str) -> Sequence[Action]:
        """The agent no longer waits for a hook: what it was about does not run for an answer of ours."""
        for place, known in list(self._calls.items()):
            if known.decided == "open" and (known.channel, known.request) == (channel, key):
                del self._calls[place]
                return (Withdraw(place, "before"),)
        return ()

    def _before(self, channel: str, request: str, heard: Heard) -> Iterator[Action]:
        self._count += 1
        place = Key(heard.agent_id, heard.call or f"call-{self._count}")
        if place in self._calls:
            yield Reply(channel, request, self.dialect.refusals[channel])
            yield Suspicion("second_consult", "a second hook came before one call", place, heard.name)
            return
        call = self.dialect.describe(heard, place.call)
        self._calls.remember(place, _Call(call, channel, request))
        yield Consult(place, "before", call)

    def _permission(self, channel: str, request: str, heard: Heard) -> Iterator[Action]:
        """Granted only where every call that it could be about was decided to run; else the person is asked."""
        here = [known for key, known in self._calls.items() if key.agent_id == heard.agent_id and _lives(known)]
        meant = [known for known in here if self.dialect.asks_about(known.call, heard)]
        if not here:
            yield Reply(channel, request, self.dialect.refusals[channel])
            message = "was about to run, and no hook had shown it before: what carries the chain does not work"
            yield Suspicion("no_decision", message, Key(heard.agent_id, heard.call), heard.name)
            return
        grants = bool(meant) and all(known.decided == "run" and known.call.tool_kind not in TALK for known in meant)
        said = self.dialect.grant if grants and self.dialect.grant is not None else self.dialect.nothing
        yield Reply(channel, request, said)

    def _over(self, channel: str, request: str, heard: Heard) -> Iterator[Action]:
        """A call has run, or failed; one that failed by itself may not have been shown before."""
        yield Reply(channel, request, self.dialect.nothing)
        place = Key(heard.agent_id, heard.call) if heard.call else self._matching(heard)
        known = self._calls.pop(place, None) if place is not None else None
        if heard.event == "failed" or (known is not None and _lives(known)):
            return
        kind: Literal["no_decision", "ran_after_deny"] = "no_decision" if known is None else "ran_after_deny"
        message = "ran, and nobody here had let it: what carries the chain does not work"
        yield Suspicion(kind, message, Key(heard.agent_id, heard.call), heard.name)

    def _matching(self, heard: Heard) -> Key | None:
        """The oldest call that a hook without an id could be about, of those that could have run if there is one."""
        found = [
            key
            for key, known in self._calls.items()
            if key.agent_id == heard.agent_id
            and known.call.tool_name == heard.name
            and same_json(known.call.input, heard.native)
        ]
        return next((key for key in found if _lives(self._calls[key])), next(iter(found), None))

    # ---- What we answer ---------------------------------------------------------------------------------------------

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Sequence[Action]:
        """What the hook is told; nothing where it no longer waits."""
        known = self._calls.get(key)
        if known is None or stage != "before" or known.decided != "open":
            return ()
        try:
            data = self._answered(known, verdict)
        except Exception as error:  # noqa: BLE001 -- whatever went wrong here, the call must not run for it
            known.decided = "denied"
            message = f"{known.call.tool_name}: {error}"
            refusal = Reply(known.channel, known.request, self.dialect.refusals[known.channel])
            return (Emit([Notice(level="warning", code="unanswerable", message=message)]), refusal)
        return (Reply(known.channel, known.request, data),)

    def _answered(self, known: _Call, verdict: Verdict | Answer) -> bytes:
        match verdict:
            case Refuse(reason):
                known.decided = "denied"
                return self.dialect.deny(reason if reason.strip() else FAULT)
            case Proceed(native, changed) | Defer(native, changed):
                call = known.call.model_copy(update={"input": native}) if changed else known.call
                data, told = self.dialect.passed(call, changed=changed)
                known.call = call.model_copy(update={"input": told})
                known.decided = "run" if isinstance(verdict, Proceed) else "agent"
                return data
            case _:
                raise TypeError(f"{type(verdict).__name__} is no answer before a call")


def _lives(known: _Call) -> bool:
    return known.decided in {"run", "agent"}
