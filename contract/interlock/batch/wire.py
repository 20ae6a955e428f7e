"""What crosses between driver and attempt, as UTF-8 JSON: the spec, the result, news on the way, and messages to it.

Everything is versioned and nothing is pickled: another version on a worker is a validation error, never a crash inside
of an unpickler. Unknown members are refused in a spec, since a guard could hide in one.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import Discriminator, Field, TypeAdapter

from interlock.approval import Answer, Approval, Approve, Deny, Question
from interlock.batch.options import ChainNames
from interlock.batch.tasks import Workspace
from interlock.model import JsonValue, Map, Model
from interlock.outcome import Outcome
from interlock.request import Request

__all__ = [
    "AnswerQuestion",
    "Asked",
    "AttemptResult",
    "AttemptSpec",
    "Cancel",
    "Happened",
    "Message",
    "News",
    "Place",
    "Resolved",
    "Respond",
    "Started",
    "message_adapter",
    "news_adapter",
]


AttemptId = Annotated[str, Field(pattern=r"^[0-9]+-[A-Za-z0-9-]{1,100}$")]
"""The name of an attempt, and of its folder."""


class Place(Model):
    """Where an attempt works and records; each attempt makes a folder of its own name inside of both."""

    workspace: Workspace
    work: str
    """The folder for copies and worktrees of this run."""
    record: str | None
    """The folder for `events.jsonl` and `stderr.txt` of this run; None: the result carries the events."""


class AttemptSpec(Model):
    """All that is needed to make one attempt at a run, anywhere."""

    spec: Literal[1] = 1
    batch: str
    """The batch's id."""
    run: str
    number: int = Field(ge=1)
    """Which try at this run this is."""
    key: str
    """Names this attempt for `Executor.execute` and `send`; the attempt's own id is made where it runs."""
    request: Request
    place: Place
    chain: ChainNames | None = None
    """None: the client of the process it runs in, which only an executor in the driver's process has."""
    chain_digest: str | None = None
    """Of the resolved chain; who cannot build the same refuses the attempt."""
    asking: bool = False
    live: bool = False
    deltas: bool = False
    wall: float | None = None
    """Seconds for the attempt by the wall."""
    most_usd: float | None = None
    most_tokens: int | None = None
    """Past these it is ended as `budget`."""


class AttemptResult(Model):
    """How an attempt ended."""

    result: Literal[1] = 1
    key: str
    attempt: AttemptId
    started: bool
    """Whether the agent was started; if not, `problem` says why."""
    outcome: Outcome
    problem: str | None = None
    """The class of the error that kept it from starting, as `Unsupported`; None if there was none."""
    workspace: str | None = None
    branch: str | None = None
    events: str | None = None
    """The lines of `events.jsonl`, where there was no folder to record in; cut at 4 MiB."""


# ---- News: from an attempt to the driver, for display and answers; the last may be missing ---------------------------


class Started(Model):
    """An attempt has begun; a second one under the same key means that the executor ran it again by itself."""

    news: Literal["started"] = "started"
    key: str
    attempt: AttemptId
    host: str
    """Of the machine."""
    pid: int
    """Of the process that made the attempt."""
    workspace: str | None = None
    branch: str | None = None
    time: float


class Happened(Model):
    """Something happened in the run: with `live` every event, else those that tell of cost, limits or calls."""

    news: Literal["event"] = "event"
    key: str
    attempt: str
    event: Map[JsonValue]
    """The event as JSON; `event_adapter` reads it."""


class Asked(Model):
    """An approval or question that waits for an answer."""

    news: Literal["asked"] = "asked"
    key: str
    attempt: str
    approval: Approval | None = None
    question: Question | None = None


class Resolved(Model):
    """An approval or question no longer waits, whoever answered it."""

    news: Literal["resolved"] = "resolved"
    key: str
    attempt: str
    id: str


News = Annotated[Started | Happened | Asked | Resolved, Discriminator("news")]
"""What an attempt tells while it runs; as JSON, `news` tells which."""


@cache
def news_adapter() -> TypeAdapter[Started | Happened | Asked | Resolved]:
    """A validator of news that came as JSON."""
    return TypeAdapter(News)


# ---- Messages: from the driver to a running attempt ------------------------------------------------------------------


class Cancel(Model):
    """End the attempt and everything that it started."""

    message: Literal["cancel"] = "cancel"
    reason: str = "cancelled by the batch"


class Respond(Model):
    """Answer an approval."""

    message: Literal["respond"] = "respond"
    id: str
    decision: Annotated[Approve | Deny, Discriminator("decision")]


class AnswerQuestion(Model):
    """Answer a question."""

    message: Literal["answer"] = "answer"
    id: str
    answer: Answer


Message = Annotated[Cancel | Respond | AnswerQuestion, Discriminator("message")]
"""What a running attempt can be told; as JSON, `message` tells which."""


@cache
def message_adapter() -> TypeAdapter[Cancel | Respond | AnswerQuestion]:
    """A validator of messages that came as JSON."""
    return TypeAdapter(Message)
