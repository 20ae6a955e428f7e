"""What an agent may do: a posture that runs unasked, rules beside it, and what becomes of the rest.

An answer of no beats everything; then what you allowed; then what you said for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from interlock.model import Model
from interlock.tools import ToolKind

__all__ = ["Backstop", "Otherwise", "Permission", "Posture", "Rule"]


class Posture(StrEnum):
    """What runs unasked."""

    NONE = "none"
    """Nothing but what is internal to the agent."""
    READ = "read"
    """Reading and searching inside the workspace, readers in the shell, sub-agents."""
    EDIT = "edit"
    """`read`, and changing files inside the workspace."""
    FULL = "full"
    """Everything."""


class Otherwise(StrEnum):
    """What becomes of a call that neither posture nor an allow rule covers."""

    DENY = "deny"
    ASK = "ask"
    """An `Approval`, answered by the caller."""
    CHAIN = "chain"
    """Runs if a participant with the power to grant was asked and nobody objected."""
    AGENT = "agent"
    """The agent's own rules, sandbox or classifier decide."""


class Backstop(StrEnum):
    """What stands behind the chain on the agent's side."""

    ANY = "any"
    """In a request: whatever the transport offers."""
    GATE = "gate"
    """The agent's own question about a call is answered only for what was decided for that call and input."""
    SANDBOX = "sandbox"
    """The agent's own sandbox confines what runs."""
    FLAGS = "flags"
    """The agent's own allow and deny flags mirror the permission."""
    NONE = "none"


_RULE = re.compile(r"\A(?P<kind>\*|[a-z_]+)(?:\((?P<pattern>.*)\))?\Z", re.DOTALL)


def _checked_rule(text: str) -> str:
    match = _RULE.match(text)
    if match is None:
        message = f"a rule is `*`, `kind` or `kind(pattern)`, not {text!r}; for example `shell(git push:*)`"
        raise ValueError(message)
    kind, pattern = match["kind"], match["pattern"]
    if kind == "*":
        if pattern is not None:
            message = f"`*` matches every call and takes no pattern: {text!r}"
            raise ValueError(message)
    elif kind not in set(ToolKind):
        message = f"{kind!r} is no kind of tool; kinds: {', '.join(ToolKind)}"
        raise ValueError(message)
    elif pattern is not None and not pattern.strip():
        message = f"the pattern of {text!r} is empty; write `{kind}` to match every call of that kind"
        raise ValueError(message)
    elif pattern is not None and kind == ToolKind.SHELL and any(c in pattern for c in "\0\n\r"):
        message = f"the pattern of {text!r} spans lines; a shell rule is one command"
        raise ValueError(message)
    return text


Rule = Annotated[str, AfterValidator(_checked_rule)]
"""A rule over the tool vocabulary: `*`, `kind`, or `kind(pattern)`, as in `shell(git push:*)` or `write(src/**)`."""


def rule_parts(rule: str) -> tuple[str, str | None]:
    """The kind and the pattern of a rule that was checked before."""
    match = _RULE.match(rule)
    if match is None:
        message = f"not a rule: {rule!r}"
        raise ValueError(message)
    return match["kind"], match["pattern"]


class Permission(Model):
    """What may happen during a run."""

    posture: Posture = Posture.READ
    allow: tuple[Rule, ...] = ()
    """What may run beyond the posture. A rule spares the question, never the chain."""
    deny: tuple[Rule, ...] = ()
    """What never runs, whoever says otherwise."""
    otherwise: Otherwise = Otherwise.DENY
    backstop: Backstop = Backstop.ANY
    """What must stand behind the chain on the agent's side; unmet is `Unsupported`."""
    network: bool | None = None
    """Whether the agent's sandbox lets commands reach the network; None leaves it to the agent."""
    writable: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Directories beyond cwd and add_dirs that a sandbox leaves writable."""

    if TYPE_CHECKING:  # the words of JSON are fine in Python too

        def __init__(
            self,
            *,
            posture: Posture | Literal["none", "read", "edit", "full"] = ...,
            allow: Sequence[str] = ...,
            deny: Sequence[str] = ...,
            otherwise: Otherwise | Literal["deny", "ask", "chain", "agent"] = ...,
            backstop: Backstop | Literal["any", "gate", "sandbox", "flags", "none"] = ...,
            network: bool | None = ...,
            writable: Sequence[str] = ...,
        ) -> None: ...


Binding = Literal["interceptor", "hook"]
"""How a participant of the chain is reached: in this process, or as a program."""
