"""Verdicts in the CLI's words: one pure function from a waiting request and a verdict to the answer.

It may raise: whoever calls it then gives the refusal that was made beforehand (`fallback`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from interlock.actions import Defer, Keep, Key, Proceed, Refuse, Stage, Substitute, Verdict
from interlock.approval import Answer, Choice, QuestionItem
from interlock.model import JsonValue
from interlock.tools import ToolCall, ToolKind
from interlock_adapters.claude import wire
from interlock_adapters.claude.replace import replaced

__all__ = ["FAULT", "Pending", "Reply", "answer", "deny", "fallback", "items_of"]

FAULT = "the answer about this call could not be given"
UNANSWERED = "the question was left unanswered"


@dataclass(frozen=True, slots=True)
class Pending:
    """A request of the CLI that waits; stage None is a question of the agent to the user."""

    request_id: str
    key: Key
    stage: Stage | None
    call: ToolCall
    refusal: bytes
    """The answer if all else fails, made before anybody was asked."""
    response: JsonValue = None
    """After the call: the tool's structured output."""
    replaceable: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """What is written; `data` None answers nothing, so that the interrupt finds the request still waiting."""

    data: bytes | None
    passed: bool = True
    """Whether the call may run, or its output be shown."""
    ends: Literal["no", "by_answer", "by_interrupt", "withheld"] = "no"
    """Whether the run ends with it, and by what."""
    reason: str = ""
    native: JsonValue = None
    """The input with a person's answers in it, where the CLI is told to go on with that."""


def answer(pending: Pending, verdict: Verdict | Answer) -> Reply:
    """The answer that a verdict means; raises if it fits neither the stage nor the wire."""
    match verdict:
        case Answer():
            return _to_question(pending, verdict)
        case Proceed() | Defer():
            return _passed(pending, verdict)
        case Refuse():
            return _refused(pending, verdict)
        case Keep():
            return Reply(wire.success(pending.request_id, _only_after(pending)))
        case Substitute():
            return _substituted(pending, verdict.output, verdict.is_error)
        case _:
            assert_never(verdict)


def fallback(pending: Pending) -> Reply:
    """What is said where no answer could be made: no."""
    if pending.stage == "after":
        return Reply(None, passed=False, ends="withheld", reason=FAULT)
    return Reply(pending.refusal, passed=False, reason=FAULT)


def deny(reason: str, *, interrupt: bool = False) -> dict[str, object]:
    """No to a `can_use_tool`."""
    return {"behavior": "deny", "message": reason, **({"interrupt": True} if interrupt else {})}


def items_of(native: JsonValue) -> tuple[QuestionItem, ...]:
    """The questions of AskUserQuestion, by number; raises `ValidationError` if they cannot be read."""
    asked = wire.WireQuestions.model_validate(native)
    return tuple(
        QuestionItem(
            id=str(number),
            text=question.question,
            header=question.header,
            choices=tuple(Choice(label=one.label, description=one.description) for one in question.options),
            several=question.several,
        )
        for number, question in enumerate(asked.questions, start=1)
    )


def _passed(pending: Pending, verdict: Proceed | Defer) -> Reply:
    native = verdict.input if verdict.changed else pending.call.input
    if not isinstance(native, dict) or (verdict.changed and not native and pending.call.input):
        raise TypeError("an input of this agent is an object, and an empty one would run the original")
    if verdict.changed and not pending.call.input and pending.call.tool_kind is ToolKind.PLAN:
        raise TypeError("the plan lies in a file of the agent, and this call cannot be changed")  # 2.1.332
    match pending.stage:
        case "before" if verdict.changed:
            body: dict[str, object] = {"hookEventName": "PreToolUse", "updatedInput": native}
            return Reply(wire.success(pending.request_id, {"hookSpecificOutput": body}))
        case "before":
            return Reply(wire.success(pending.request_id, {}))
        case "confirm":
            return Reply(wire.success(pending.request_id, {"behavior": "allow", "updatedInput": native}))
        case _:
            raise TypeError("this verdict is none on a call that has run")


def _refused(pending: Pending, verdict: Refuse) -> Reply:
    reason = verdict.reason or FAULT
    if pending.stage == "after":
        shown = _substituted(pending, reason, is_error=True)
        ends = "by_interrupt" if verdict.interrupt and shown.ends == "no" else shown.ends
        return Reply(shown.data, passed=False, ends=ends, reason=reason)
    if pending.stage == "before":
        ends = "by_interrupt" if verdict.interrupt else "no"
        return Reply(wire.success(pending.request_id, wire.hook_deny(reason)), passed=False, ends=ends, reason=reason)
    body = deny(reason, interrupt=verdict.interrupt)
    ends = "by_answer" if verdict.interrupt else "no"
    return Reply(wire.success(pending.request_id, body), passed=False, ends=ends, reason=reason)


def _substituted(pending: Pending, output: JsonValue, is_error: bool | None) -> Reply:
    _only_after(pending)
    if not pending.replaceable:
        return Reply(None, passed=False, ends="withheld")
    shown = replaced(pending.call.tool_name, pending.response, output, is_error)
    body: dict[str, object] = {"hookEventName": "PostToolUse", "updatedToolOutput": shown}
    return Reply(wire.success(pending.request_id, {"hookSpecificOutput": body}))


def _only_after(pending: Pending) -> dict[str, object]:
    if pending.stage != "after":
        raise TypeError("this verdict is one on a call that has run")
    return {}


def _to_question(pending: Pending, given: Answer) -> Reply:
    items, native = items_of(pending.call.input), pending.call.input
    if pending.stage is not None or not isinstance(native, dict):
        raise TypeError("this answers a question, and none was asked")
    answers = {item.text: ", ".join(given.answers[item.id]) for item in items if given.answers.get(item.id)}
    if given.declined or not answers:
        reason = given.reason if given.declined else UNANSWERED
        return Reply(wire.success(pending.request_id, deny(reason)), passed=False, reason=reason)
    answered: dict[str, JsonValue] = {**native, "answers": {**answers}}
    body = {"behavior": "allow", "updatedInput": answered}
    return Reply(wire.success(pending.request_id, body), native=answered)
