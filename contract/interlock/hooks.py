"""The hook chain's types: what a participant is asked, what it may answer, and how it takes part.

One contract, two bindings: an `Interceptor` runs in this process, a `HookSpec` names a program. Both are asked before
and after every tool call of every agent, and both answer with the same four outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import ConfigDict, Discriminator, Field, StrictBool, TypeAdapter, model_validator

from interlock.model import FrozenMap, JsonValue, Map, Model
from interlock.permission import Binding
from interlock.tools import Subject, ToolKind

__all__ = [
    "ALL_POWERS",
    "Allow",
    "AuditRecord",
    "DenyCall",
    "HookCall",
    "HookEvent",
    "HookOutcome",
    "HookSpec",
    "HooksFile",
    "Interceptor",
    "Modify",
    "Power",
    "Replace",
    "outcome_adapter",
]

HookEvent = Literal["pre_tool_use", "post_tool_use"]
"""When a participant is asked: before a call runs, or after it ran and before the model sees the output."""
Power = Literal["deny", "modify", "replace", "grant"]
"""What a participant may answer beside `allow`; `grant` makes its `allow` one that `Otherwise.CHAIN` asks for."""

DEFAULT_POWERS: tuple[Power, ...] = ("deny", "modify", "replace")
ALL_POWERS: tuple[Power, ...] = (*DEFAULT_POWERS, "grant")
"""Every power; without `grant`, which must be given, they are the default."""


class HookCall(Model):
    """What a participant is asked about: one tool call, before or after it ran."""

    hook_schema: Literal[1] = 1
    event: HookEvent
    workspace: str
    """The run's working directory."""
    agent_id: str
    tool_call_id: str
    tool_name: str
    """The native name."""
    input: JsonValue
    """Before the call: as the predecessors in the chain left it. After it: what truly ran."""
    agent: str
    run_id: str
    round: int = 1
    """2 where the whole chain sees a rewritten input once more; a rewriter then allows or gives the same input."""
    cwd: str
    """The directory the call runs in."""
    hidden: tuple[str, ...] = ()
    """Parameters that this agent does not show."""
    tool_kind: ToolKind
    subject: Subject
    """Paths are absolute here, with `..` and links resolved."""
    output: JsonValue = None
    """After the call only: what the tool answered, structured as itself, text as a string."""
    is_error: bool | None = None
    """After the call only: the tool's own verdict."""

    def wire(self) -> bytes:
        """The JSON that a program reads on stdin: `output` and `is_error` are absent before the call, not null."""
        before = {"output", "is_error"} if self.event == "pre_tool_use" else None
        return self.model_dump_json(exclude=before).encode()


class _FromOutside(Model):
    """An answer that a program may have written for a later version: fields that are unknown here say nothing."""

    model_config = ConfigDict(extra="ignore")


class Allow(_FromOutside):
    """No objection. It grants only if the participant has the power `grant`."""

    decision: Literal["allow"] = "allow"
    reason: str = ""


class DenyCall(_FromOutside):
    """The call does not run; after it ran, the reason stands in place of the output. The model reads `reason`."""

    decision: Literal["deny"] = "deny"
    reason: str


class Modify(_FromOutside):
    """The call runs with another input; before the call only. `reason` goes to the audit, not to the model."""

    decision: Literal["modify"] = "modify"
    input: JsonValue
    reason: str = ""


class Replace(_FromOutside):
    """The model sees another output; after the call only. `is_error` None keeps the tool's verdict."""

    decision: Literal["replace"] = "replace"
    output: JsonValue
    is_error: StrictBool | None = None
    reason: str = ""


HookOutcome = Allow | DenyCall | Modify | Replace
"""The four answers of a participant."""


def outcome_adapter() -> TypeAdapter[HookOutcome]:
    """A validator of answers that came as JSON, tagged by `decision`; extra fields are ignored."""
    return TypeAdapter(Annotated[HookOutcome, Discriminator("decision")])


@runtime_checkable
class Interceptor(Protocol):
    """A participant in this process.

    Optional attributes: `may` (tuple of powers; default deny, modify, replace), `deadline` (seconds; default 5),
    `tools` (globs over kind or native name; default all), `events` (of those it has methods for; default all).
    Without `before` or `after` it is not asked there.
    """

    @property
    def name(self) -> str:
        """The name in reasons and in the audit."""
        ...


class HookSpec(Model):
    """A program that takes part in the chain: one JSON object on stdin, one JSON object on stdout, exit 0."""

    name: str = Field(min_length=1)
    command: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    """The argv; never a shell. A name without `/` is looked up in the system's folders, a relative path from the
    folder of the hooks file."""
    events: tuple[HookEvent, ...] = Field(default=("pre_tool_use",), min_length=1)
    tools: tuple[Annotated[str, Field(min_length=1)], ...] | None = None
    """Globs over kind or native name; None: every call."""
    may: tuple[Power, ...] = DEFAULT_POWERS
    timeout: float = Field(default=5.0, gt=0, le=86_400)
    """Seconds for spawning, running and reading; past it the process group is killed and the answer is broken."""
    on_failure: Literal["deny", "allow"] = "deny"
    """What a broken answer means. `allow` lets pass; it never grants."""
    resident: bool = False
    """One process for the whole run, one JSON object a line with an `id`."""
    in_workspace: bool = False
    """Says that the program is meant to lie inside the workspace; refused otherwise."""
    env: Map[str] = Field(default_factory=FrozenMap[str])
    """Variables beside the baseline; credentials are never passed by themselves."""

    @model_validator(mode="after")
    def _has_powers(self) -> HookSpec:
        if not self.may:
            message = "`may` is empty: a participant that may do nothing is none; leave it out for the default"
            raise ValueError(message)
        return self


class HooksFile(Model):
    """A hooks file: `{"schema": 1, "hooks": [...]}`."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_: Literal[1] = Field(alias="schema")
    hooks: tuple[HookSpec, ...] = ()


class AuditRecord(Model):
    """What one participant, rule, policy or person decided about one call."""

    run_id: str
    agent: str
    agent_id: str
    tool_call_id: str
    tool_name: str
    event: HookEvent
    round: int = 1
    participant: str
    """The participant's name; for a rule its text; else `policy`, `user`, `approver`."""
    binding: Binding | Literal["rule", "policy", "approval"]
    decision: str
    """allow, deny, modify, replace, grant, ask, or broken."""
    reason: str = ""
    broken: bool = False
    """The participant could not answer; the decision is what its `on_failure` says."""
    input_digest: str
    result_digest: str | None = None
    """Of the changed input or the replaced output."""
    duration: float = 0.0
    """Seconds."""
    time: float = 0.0
    """Seconds since the epoch."""


Participants = Sequence[Interceptor | HookSpec]
