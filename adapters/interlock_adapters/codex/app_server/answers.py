"""Verdicts in Codex' words: one pure function from what waits and a verdict to the answer.

It may raise: whoever calls it then gives the refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from interlock.actions import Defer, Keep, Key, Proceed, Refuse, Stage, Substitute, Verdict
from interlock.approval import Answer, Choice, QuestionItem
from interlock.model import JsonValue, canonical_json
from interlock.tools import ToolCall
from interlock_adapters.codex import hooks
from interlock_adapters.codex.app_server.calls import CallState
from interlock_adapters.codex.app_server.wire import UserInput
from interlock_adapters.codex.shell import wrapped
from interlock_adapters.codex.tools import PATCH, SHELL

__all__ = [
    "FAULT",
    "HookAnswer",
    "HookAsked",
    "Wrapping",
    "answer_hook",
    "answer_outside",
    "answer_question",
    "items_of",
]

FAULT = "the answer about this call could not be given"


@dataclass(frozen=True, slots=True)
class Wrapping:
    """How commands are wrapped in this run."""

    at_once: bool
    in_place: bool
    """Whether a command must run in the directory in which it was judged."""
    slow_to_fail: bool = False
    """Whether a command that failed must not end at once."""


@dataclass(frozen=True, slots=True)
class HookAsked:
    """A hook that waits for its answer."""

    request: str
    """The key of the HTTP request."""
    key: Key
    stage: Stage
    state: CallState
    call: ToolCall


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What the hook is told."""

    data: bytes
    passed: bool
    """Whether the call may run, or its output be shown as it is."""
    reason: str = ""
    shown: JsonValue = None
    """What the model sees in place of the output."""
    decided: JsonValue = None
    told: str | None = None
    interrupt: bool = False


def answer_hook(asked: HookAsked, verdict: Verdict, wrapping: Wrapping) -> HookAnswer:
    """The answer that a verdict means; raises if it does not fit the stage or the tool."""
    match verdict:
        case Proceed() | Defer():
            native = verdict.input if verdict.changed else asked.call.input
            return _passed(_before(asked), native, wrapping, changed=verdict.changed)
        case Refuse(reason, interrupt):
            said = reason or FAULT
            shown = said if asked.stage == "after" else None
            return HookAnswer(hooks.deny(said), False, said, shown, interrupt=interrupt)
        case Keep():
            _after(asked)
            return HookAnswer(hooks.ALLOW, True)
        case Substitute(output):
            _after(asked)
            text = output if isinstance(output, str) else canonical_json(output).decode()
            return HookAnswer(hooks.show(text), False, shown=text)
        case _:
            assert_never(verdict)


def _passed(asked: HookAsked, native: JsonValue, wrapping: Wrapping, *, changed: bool) -> HookAnswer:
    """Commands are always rewritten; a rewrite of a command or patch can change nothing but its text."""
    if asked.state.name in {SHELL, PATCH}:
        command = native.get("command") if isinstance(native, dict) else None
        if not isinstance(command, str) or not isinstance(native, dict) or (changed and len(native) != 1):
            raise TypeError("of a command or a patch only its text can be changed")
        if asked.state.name == PATCH:
            return HookAnswer(hooks.modify({"command": command}) if changed else hooks.ALLOW, True, decided=native)
        cwd = asked.state.cwd if wrapping.in_place else None
        told = wrapped(command, at_once=wrapping.at_once, cwd=cwd, slow_to_fail=wrapping.slow_to_fail)
        return HookAnswer(hooks.modify({"command": told}), True, decided=native, told=told)
    if changed and not isinstance(native, dict):
        raise TypeError("an input of this agent is an object")
    return HookAnswer(hooks.modify(native) if changed else hooks.ALLOW, True, decided=native)


def _before(asked: HookAsked) -> HookAsked:
    if asked.stage != "before":
        raise TypeError("this verdict is none on a call that has run")
    return asked


def _after(asked: HookAsked) -> None:
    if asked.stage != "after":
        raise TypeError("this verdict is one on a call that has run")


# ---- Questions of the agent itself ----------------------------------------------------------------------------------


def answer_outside(verdict: Verdict) -> str:
    """The decision about leaving the sandbox; a changed input cannot be given, and so is no yes."""
    match verdict:
        case Proceed(changed=False):
            return "accept"
        case Refuse(interrupt=True):
            return "cancel"
        case _:
            return "decline"


def answer_question(asked: UserInput, given: Answer) -> dict[str, JsonValue]:
    """The person's answers by question."""
    if given.declined:
        return {"answers": {}}
    known = [question.id for question in asked.questions]
    return {"answers": {name: {"answers": [*given.answers[name]]} for name in known if given.answers.get(name)}}


def items_of(asked: UserInput) -> tuple[QuestionItem, ...]:
    """The questions in the shared vocabulary."""
    return tuple(
        QuestionItem(
            id=question.id,
            text=question.question,
            header=question.header,
            choices=tuple(
                Choice(label=option.label, description=option.description) for option in question.options or ()
            ),
        )
        for question in asked.questions
    )
