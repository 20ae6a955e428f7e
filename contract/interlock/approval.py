"""Approvals and questions: what a run asks of people mid-run, and how they answer."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Literal, Protocol

from pydantic import Discriminator, Field, TypeAdapter

from interlock.model import FrozenMap, JsonValue, Map, Model, canonical_json
from interlock.permission import Rule
from interlock.tools import ToolCall

__all__ = [
    "Answer",
    "Answerer",
    "Approval",
    "Approve",
    "Approver",
    "Choice",
    "Decision",
    "Deny",
    "Question",
    "QuestionItem",
    "decision_adapter",
]


class Approve(Model):
    """Yes to one call; `updated_input` replaces the whole input, once."""

    decision: Literal["approve"] = "approve"
    updated_input: Map[JsonValue] | None = None
    remember: Rule | None = None
    """A rule that allows further calls for the rest of this run; it is ours and never sent to the agent."""


class Deny(Model):
    """No to one call; the model reads `reason`. `interrupt` ends the whole run."""

    decision: Literal["deny"] = "deny"
    reason: str = "the user declined this action"
    interrupt: bool = False


Decision = Annotated[Approve | Deny, Discriminator("decision")]
"""The answer to an `Approval`, as JSON tagged by `decision`."""


def decision_adapter() -> TypeAdapter[Approve | Deny]:
    """A validator of decisions that came as JSON."""
    return TypeAdapter(Decision)


class Approval(Model):
    """A call that waits for somebody's yes or no."""

    id: str
    """Ours, and unique over all runs."""
    run_id: str
    agent: str
    call: ToolCall
    """What will run if it is approved."""
    original_input: JsonValue = None
    """What the model asked for, where hooks changed it; else equal to `call.input`."""
    reason: str = ""
    """Why it is asked: which layer did not cover it, or what the agent itself says."""
    suggestions: tuple[Rule, ...] = ()
    """Rules that would cover this call, for `Approve.remember`."""
    deadline: float | None = None
    """Seconds since the epoch at which it is denied as expired; None: never."""
    description: str = ""
    """The agent's own words about the call; nothing that was verified."""
    leaves_sandbox: bool = False
    """The call asks to run outside the agent's sandbox."""

    def display(self) -> str:
        """The exact input, safe for a terminal: all but plain text escaped, length and lines counted, never cut."""
        body = self.call.subject.command
        if body is None:
            body = canonical_json(self.call.input).decode()
        size = f"{len(body)} characters in {body.count(chr(10)) + 1} line(s)"
        head = f"{self.call.tool_name} [{self.call.tool_kind}] {size}"
        shown = [escape(head), *("  | " + escape(line) for line in body.split("\n"))]
        if self.call.subject.command is not None:
            rest = _beside(self.call.subject.command, self.call.input)
            if rest:
                shown.append("  with " + escape(canonical_json(rest).decode()))
        if self.description:
            shown.append(f"  the agent says: {escape(self.description)}")
        if self.leaves_sandbox:
            shown.append("  this asks to leave the sandbox")
        return "\n".join(shown)


def escape(text: str) -> str:
    r"""Text with all but printable ASCII and left-to-right letters escaped as `\xNN`, `\uNNNN` or `\UNNNNNNNN`."""
    return "".join(c if c.isascii() and c.isprintable() and c != "\\" else _escaped(c) for c in text)


_BLANK_LETTERS = "\u115f\u1160\u3164\uffa0"
"""Hangul fillers: letters by category, and invisible."""


def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    visible = char.isprintable() and char.isalnum() and char not in _BLANK_LETTERS
    if visible and unicodedata.bidirectional(char) == "L":
        return char
    return char.encode("unicode_escape").decode("ascii")


def _beside(command: str, given: JsonValue) -> JsonValue:
    """What the input holds beside the command that was shown: nothing is left out on an adapter's word."""
    if isinstance(given, dict):
        return {key: value for key, value in given.items() if key != "command" or value != command}
    return None if given == command else given


class Choice(Model):
    """One of the answers that a question offers."""

    label: str
    description: str = ""


class QuestionItem(Model):
    """One question with the answers it offers; free text is always possible."""

    id: str
    text: str
    header: str = ""
    choices: tuple[Choice, ...] = ()
    several: bool = False
    """Whether more than one choice may be taken."""


class Question(Model):
    """The agent asks the user something through its ask-the-user tool."""

    id: str
    """Ours, and unique over all runs."""
    run_id: str
    agent: str
    items: tuple[QuestionItem, ...] = Field(min_length=1)
    tool_call_id: str | None = None
    agent_id: str = "main"
    deadline: float | None = None
    """Seconds since the epoch at which it counts as declined; None: never."""


class Answer(Model):
    """The answers by question id; a question that is missing was left unanswered. `declined` refuses them all."""

    answers: Map[tuple[str, ...]] = Field(default_factory=FrozenMap[tuple[str, ...]])
    declined: bool = False
    reason: str = "the user declined to answer"


class Approver(Protocol):
    """Answers approvals for a client: a person behind a UI, or a policy."""

    async def __call__(self, approval: Approval, /) -> Approve | Deny:
        """Decide; an exception or anything but a decision counts as a denial and is reported."""
        ...


class Answerer(Protocol):
    """Answers questions for a client."""

    async def __call__(self, question: Question, /) -> Answer:
        """Answer; an exception counts as declined and is reported."""
        ...
