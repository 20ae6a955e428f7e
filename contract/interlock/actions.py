"""What a codec and the engine say to each other.

A codec asks for actions: bytes to write, events to publish, calls to be decided. The engine performs them and hands the
verdicts back. Both unions are closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from interlock.approval import QuestionItem
from interlock.capabilities import Unmet
from interlock.events import BaseEvent
from interlock.model import JsonValue
from interlock.outcome import RateLimit, Reason, Status, Usage
from interlock.tools import ToolCall

__all__ = [
    "Action",
    "Ask",
    "CloseInput",
    "Consult",
    "Defer",
    "Emit",
    "Ending",
    "Keep",
    "Key",
    "Proceed",
    "Ready",
    "Refuse",
    "Reply",
    "RunDone",
    "Send",
    "Serve",
    "Stage",
    "Stop",
    "Substitute",
    "Suspicion",
    "SuspicionKind",
    "Verdict",
    "Wake",
    "Withdraw",
]


class Key(NamedTuple):
    """Names one call of one (sub-)agent."""

    agent_id: str
    call: str


# ---- Actions: what a codec asks the engine to do --------------------------------------------------------------------

SuspicionKind = Literal[
    "no_decision", "ran_after_deny", "other_input", "second_consult", "unknown_answer", "not_confirmed"
]
"""How the promise broke."""

Stage = Literal["before", "confirm", "after"]
"""`before` and `after` a call run the chain; `confirm` is the agent's own question about a call decided before."""


@dataclass(frozen=True, slots=True)
class Emit:
    """Publish events, in order."""

    events: Sequence[BaseEvent]


@dataclass(frozen=True, slots=True)
class Send:
    """Write bytes to a channel: `stdin`, or another that the launch opened."""

    data: bytes
    channel: str = "stdin"
    answers: bool = False
    """These keys answer what an agent on a terminal has asked and waits to read; if it goes on without reading them, it
    had asked nothing, and the next question would get them."""


@dataclass(frozen=True, slots=True)
class Serve:
    """The agent's MCP client speaks to a server of the application; the answer comes back by `Serving.served`."""

    server: str
    key: str
    message: JsonValue


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request that came by an endpoint or a shim."""

    channel: str
    key: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Consult:
    """Somebody must decide about a call; the verdict comes back by `Codec.decided`.

    After the call, `output` and `is_error` are what the model would be shown, and `call.input` is what truly ran.
    `replaceable` False: an output that may not be shown can only be withheld by interrupting the run.
    """

    key: Key
    stage: Stage
    call: ToolCall
    output: JsonValue = None
    is_error: bool = False
    replaceable: bool = True
    description: str = ""
    """The agent's own words about the call."""
    leaves_sandbox: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """The agent asks the user something; the answer comes back by `Codec.decided`."""

    key: Key
    items: tuple[QuestionItem, ...]


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The agent no longer waits for the open consult or question of this key."""

    key: Key
    stage: Stage | None = None
    """None: every stage."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Call `Codec.woke(key)` after so many seconds."""

    key: str
    after: float


@dataclass(frozen=True, slots=True)
class Ready:
    """The agent confirmed what was planned; the start-up deadline ends and the prompt may go out."""

    version: str | None = None
    session_id: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class CloseInput:
    """Close the agent's stdin."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What the codec knows of how the run ended; the engine adds the rest of the outcome."""

    status: Status
    reason: Reason | None = None
    message: str = ""
    text: str | None = None
    structured: JsonValue = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    session_id: str | None = None
    model: str | None = None
    turns: int | None = None
    rate_limit: RateLimit | None = None
    api_status: int | None = None
    version: str | None = None
    """What the agent says of its own version."""
    final: bool = False
    """The process takes no further turn."""
    more: bool = False
    """The agent begins a further turn by itself, for a message that came too late for this one."""


@dataclass(frozen=True, slots=True)
class RunDone:
    """The terminal message of the main agent came: the end of a turn, and of a run that has only one."""

    ending: Ending


@dataclass(frozen=True, slots=True)
class Stop:
    """The run cannot go on as planned: it is brought down at once, and this is why."""

    reason: Reason
    message: str
    unmet: tuple[Unmet, ...] = ()


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The agent's own words show that the promise broke; the engine makes it `Unguarded`."""

    kind: SuspicionKind
    message: str
    key: Key | None = None
    tool_name: str | None = None


Action = Emit | Send | Serve | Reply | Consult | Ask | Withdraw | Wake | Ready | CloseInput | RunDone | Stop | Suspicion
"""The closed union of what a codec may ask for."""


# ---- Verdicts: what the engine answers ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proceed:
    """The call runs; with another input if `changed`."""

    input: JsonValue = None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Defer:
    """Nobody here objects: the agent's own flow decides."""

    input: JsonValue = None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call does not run; after it ran, the reason is shown as an error in place of the output."""

    reason: str
    interrupt: bool = False
    """The run ends with it."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The model sees the output as it is."""


@dataclass(frozen=True, slots=True)
class Substitute:
    """The model sees this instead; `is_error` None keeps the tool's verdict."""

    output: JsonValue
    is_error: bool | None = None


Verdict = Proceed | Defer | Refuse | Keep | Substitute
"""The closed union of what the engine answers: before a call one of the first three, after it one of the last three."""
