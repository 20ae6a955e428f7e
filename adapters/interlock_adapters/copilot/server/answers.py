"""Verdicts in Copilot's words: one pure function from what waits and a verdict to the answer.

Nearly every malformed answer to a hook counts as no opinion (1.0.102), so only the few forms below are ever given. "No
objection" is the empty answer, never `allow`, which would skip the permission request. It may raise: whoever calls it
then gives the refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from interlock.actions import Defer, Keep, Key, Proceed, Refuse, Stage, Substitute, Verdict
from interlock.approval import Answer, Choice, QuestionItem
from interlock.framing.jsonrpc import Id
from interlock.model import JsonValue, canonical_json, same_json
from interlock.tools import ToolCall
from interlock_adapters.copilot.server.calls import CallState
from interlock_adapters.copilot.server.wire import Question
from interlock_adapters.copilot.tools import PATCH
from interlock_adapters.copilot.wrapping import wrapped

__all__ = [
    "FAULT",
    "NO_OBJECTION",
    "HookAnswer",
    "HookAsked",
    "answer_hook",
    "answer_question",
    "deny",
    "items_of",
    "refusal",
    "show",
]

FAULT = "the answer about this call could not be given"
Object = dict[str, JsonValue]
NO_OBJECTION: Object = {}


@dataclass(frozen=True, slots=True)
class HookAsked:
    """A hook that waits for its answer."""

    request: Id
    key: Key
    stage: Stage
    state: CallState
    call: ToolCall
    told: JsonValue
    """The input as the hook was told of it."""
    result: str = "success"
    """After the call: the agent's own word for how it went."""
    replaceable: bool = True
    output: str | None = None
    """After the call: what the model sees if nobody objects, where that is not what the tool gave."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What the hook is told; `result` None: nothing is said, the turn is aborted first."""

    result: Object | None
    passed: bool
    """Whether the call may run, or its output be shown as it is."""
    reason: str = ""
    shown: str | None = None
    """What the model sees in place of the output."""
    decided: JsonValue = None
    told: JsonValue = None
    interrupt: bool = False


def deny(reason: str) -> Object:
    """No to a call; the model reads the reason, and the turn goes on."""
    return {"output": {"permissionDecision": "deny", "permissionDecisionReason": reason}}


def show(text: str, result: str) -> Object:
    """The text in place of everything that the tool gave."""
    shown: Object = {
        "resultType": result,
        "textResultForLlm": text,
        "sessionLog": text,
        "contents": [],
        "structuredContent": None,
        **({} if result == "success" else {"error": text}),
    }
    return {"output": {"modifiedResult": shown}}


def refusal(hook: str) -> Object:
    """The answer to a hook that cannot be dealt with: no call runs, and no output is shown, for it."""
    match hook:
        case "preToolUse":
            return deny(FAULT)
        case "postToolUse":
            return show(FAULT, "failure")
        case _:
            return NO_OBJECTION


def answer_hook(asked: HookAsked, verdict: Verdict, *, at_once: bool) -> HookAnswer:
    """The answer that a verdict means; raises if it does not fit the stage or the tool."""
    match verdict:
        case Proceed():
            native = verdict.input if verdict.changed else asked.call.input
            return _passed(asked, native, at_once=at_once)
        case Defer():
            raise TypeError("this agent has no rules of its own that could decide")
        case Refuse(reason, interrupt):
            return _refused(asked, reason or FAULT, interrupt=interrupt)
        case Keep():
            _after(asked)
            return HookAnswer(NO_OBJECTION, True) if asked.output is None else _shown(asked, asked.output, asked.result)
        case Substitute(output, is_error):
            _after(asked)
            text = output if isinstance(output, str) else canonical_json(output).decode()
            result = asked.result if is_error is None else "failure" if is_error else "success"
            return _shown(asked, text, result)
        case _:
            assert_never(verdict)


def _passed(asked: HookAsked, native: JsonValue, *, at_once: bool) -> HookAnswer:
    if asked.stage != "before":
        raise TypeError("this verdict is none on a call that has run")
    if asked.state.name == PATCH and not isinstance(native, str):
        raise TypeError("a patch is a text")
    if asked.state.name != PATCH and not isinstance(native, dict):
        raise TypeError("an input of this agent is an object")
    told = wrapped(asked.state.name, native, at_once=at_once)
    changed: Object = {"output": {"modifiedArgs": told}}
    result = NO_OBJECTION if same_json(told, asked.told) else changed
    return HookAnswer(result, True, decided=native, told=told)


def _refused(asked: HookAsked, reason: str, *, interrupt: bool) -> HookAnswer:
    if asked.stage == "before":
        return HookAnswer(deny(reason), False, reason, interrupt=interrupt)
    answer = _shown(asked, reason, "failure")
    return HookAnswer(answer.result, False, reason, reason, interrupt=interrupt)


def _shown(asked: HookAsked, text: str, result: str) -> HookAnswer:
    return HookAnswer(show(text, result) if asked.replaceable else None, False, shown=text)


def _after(asked: HookAsked) -> None:
    if asked.stage != "after":
        raise TypeError("this verdict is one on a call that has run")


# ---- Questions to the user ------------------------------------------------------------------------------------------


def items_of(asked: Question) -> tuple[QuestionItem, ...]:
    """The question in the shared vocabulary."""
    return (QuestionItem(id="1", text=asked.question, choices=tuple(Choice(label=label) for label in asked.choices)),)


def answer_question(asked: Question, given: Answer) -> Object | None:
    """The person's answer; None where there is none."""
    words = ", ".join(given.answers.get("1", ()))
    if given.declined or not words:
        return None
    return {"answer": words, "wasFreeform": words not in asked.choices}
