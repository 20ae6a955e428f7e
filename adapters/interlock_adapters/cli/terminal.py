"""Approvals and questions, answered by the person at the terminal, one at a time.

The exact input is shown and nothing else of the agent is trusted. What was typed before a question was shown is
discarded. An approval that is no longer open takes its question with it.
"""

from __future__ import annotations

import time
from typing import Protocol

import anyio
from pydantic import ValidationError

from interlock.approval import Answer, Approval, Approve, Deny, Question, QuestionItem, escape
from interlock.errors import NotOpen
from interlock.events import ApprovalResolved
from interlock.model import JsonValue, canonical_json, same_json
from interlock.tools import Subject, ToolCall
from interlock_adapters.cli.keyboard import Keyboard
from interlock_adapters.cli.output import safe_line, safe_text
from interlock_adapters.cli.show import Screen

__all__ = ["Answering", "Terminal"]

CHOICES = "allow? [y]es, [n]o, [e]dit, [r]emember for this run, [q]uit: "
HELP = "y: run it, n: refuse it, e: change it first, r: allow such calls for this run, q: refuse and end the run"
QUIT = "the user ended the run"


class Answering(Protocol):
    """The part of a run that takes answers."""

    def respond(self, approval_id: str, decision: Approve | Deny, /) -> None:
        """Answer an approval."""
        ...

    def answer(self, question_id: str, answer: Answer, /) -> None:
        """Answer a question."""
        ...


class Terminal:
    """Asks the person at the terminal."""

    def __init__(self, screen: Screen, keyboard: Keyboard | None = None) -> None:
        self._screen = screen
        self._keyboard = keyboard or Keyboard()
        self._open: dict[str, Approval | Question] = {}
        self._news = anyio.Event()
        self._shown: tuple[str, anyio.CancelScope] | None = None
        self._gone: ApprovalResolved | None = None
        self.quit = False
        """Whether the person chose to end the run."""

    def submit(self, item: Approval | Question) -> None:
        """Queue something to be asked."""
        self._open[item.id] = item
        self._news.set()

    def resolved(self, event: ApprovalResolved) -> None:
        """It is no longer open: its question, if shown, goes away."""
        self._open.pop(event.id, None)
        if self._shown is not None and self._shown[0] == event.id:
            self._gone = event
            self._shown[1].cancel()

    async def serve(self, run: Answering) -> None:
        """Ask and answer until cancelled."""
        while True:
            while not self._open:
                self._news = anyio.Event()
                await self._news.wait()
            item = next(iter(self._open.values()))
            await self._screen.hold()
            try:
                await self._serve_one(run, item)
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                    await self._screen.release()

    async def _serve_one(self, run: Answering, item: Approval | Question) -> None:
        with anyio.CancelScope() as scope:
            self._shown = (item.id, scope)
            decision = await (self._decide(item) if isinstance(item, Approval) else self._reply(item))
            self._shown = None
            self._open.pop(item.id, None)
            await self._hand_over(run, item.id, decision)
        self._shown = None
        gone, self._gone = self._gone, None
        if gone is not None:
            await self._screen.ask(f"\n({_why_gone(gone)})", "yellow")

    async def _hand_over(self, run: Answering, item_id: str, decision: Approve | Deny | Answer) -> None:
        try:
            if isinstance(decision, Answer):
                run.answer(item_id, decision)
            else:
                run.respond(item_id, decision)
        except NotOpen as error:
            await self._screen.ask(f"(too late: {safe_line(error.why)})", "yellow")

    # ---- approvals ----

    async def _decide(self, approval: Approval) -> Approve | Deny:
        await self._present(approval)
        while True:
            match await self._asked(CHOICES):
                case None:
                    return Deny()
                case "y" | "yes":
                    return Approve()
                case "n" | "no":
                    return await self._refusal()
                case "q" | "quit":
                    self.quit = True
                    return Deny(reason=QUIT, interrupt=True)
                case "e" | "edit":
                    decision = await self._edit(approval)
                case "r" | "remember":
                    decision = await self._remember(approval)
                case _:
                    decision = None
                    await self._screen.ask(HELP)
            if decision is not None:
                return decision

    async def _present(self, approval: Approval) -> None:
        await self._screen.ask(f"{safe_line(approval.agent)} asks to run:", "bold")
        await self._screen.ask(approval.display())
        if not same_json(approval.original_input, approval.call.input) and approval.original_input is not None:
            await self._screen.ask(f"  a hook changed it; the model asked for {_escaped_json(approval.original_input)}")
        if approval.reason:
            await self._screen.ask(f"  why you are asked: {escape(approval.reason)}")
        if approval.deadline is not None:
            left = max(0, round(approval.deadline - time.time()))
            await self._screen.ask(f"  without an answer it is denied in {left} s")

    async def _asked(self, prompt: str) -> str | None:
        answer = await self._read(prompt)
        return answer if answer is None else answer.strip().lower()

    async def _read(self, prompt: str) -> str | None:
        self._keyboard.discard()
        await self._screen.ask(prompt, line=False)
        line = await self._keyboard.line()
        if line is None:
            await self._screen.ask("")
        return line

    async def _refusal(self) -> Deny:
        reason = await self._read("reason, for the model (empty: none): ")
        return Deny(reason=reason.strip()) if reason and reason.strip() else Deny()

    async def _edit(self, approval: Approval) -> Approve | None:
        """The person's own input, shown once more and confirmed; None: back to the choices."""
        if not isinstance(approval.call.input, dict):
            await self._screen.ask("this input is no JSON object, so it cannot be edited")
            return None
        call = approval.call
        while True:
            edited = await self._edited_call(call)
            if edited is None:
                return None
            await self._screen.ask(approval.model_copy(update={"call": edited, "description": ""}).display())
            match await self._asked("run this instead? [y]es, [n]o, [e]dit again: "):
                case "y" | "yes":
                    return Approve(updated_input=_object(edited.input))
                case "e" | "edit":
                    call = edited
                case _:
                    return None

    async def _edited_call(self, call: ToolCall) -> ToolCall | None:
        self._keyboard.discard()
        command = call.subject.command
        given = _object(call.input)
        if command is not None and given.get("command") == command:
            await self._screen.ask("the new command line:")
            line = await self._keyboard.edited(command)
            if line is None:
                return None
            subject = call.subject.model_copy(update={"command": line})
            return call.model_copy(update={"input": {**given, "command": line}, "subject": subject})
        await self._screen.ask("the new input, as JSON on one line:")
        line = await self._keyboard.edited(canonical_json(call.input).decode())
        return None if line is None else await self._from_json(call, line)

    async def _from_json(self, call: ToolCall, line: str) -> ToolCall | None:
        try:
            edited = Approve.model_validate_json(b'{"updated_input":' + line.encode() + b"}").updated_input
        except ValidationError as error:
            await self._screen.ask(f"this is no JSON object: {safe_line(error.errors()[0]['msg'])}")
            return None
        return None if edited is None else call.model_copy(update={"input": dict(edited), "subject": Subject()})

    async def _remember(self, approval: Approval) -> Approve | None:
        rules = approval.suggestions
        if not rules:
            await self._screen.ask("no rule would cover this call and little else; y allows it once")
            return None
        for number, rule in enumerate(rules, 1):
            await self._screen.ask(f"  {number}) {escape(rule)}")
        chosen = await self._asked("allow which of them for the rest of this run? (number; empty: none) ")
        if chosen is not None and chosen.isdecimal() and 1 <= int(chosen) <= len(rules):
            return Approve(remember=rules[int(chosen) - 1])
        return None

    # ---- questions ----

    async def _reply(self, question: Question) -> Answer:
        await self._screen.ask(f"{safe_line(question.agent)} asks you:", "bold")
        answers: dict[str, tuple[str, ...]] = {}
        for item in question.items:
            answer = await self._reply_to(item)
            if answer is None:
                return Answer(declined=True)
            if answer:
                answers[item.id] = answer
        return Answer(answers=answers) if answers else Answer(declined=True)

    async def _reply_to(self, item: QuestionItem) -> tuple[str, ...] | None:
        await self._screen.ask(safe_text(item.text))
        for number, choice in enumerate(item.choices, 1):
            words = f": {safe_line(choice.description)}" if choice.description else ""
            await self._screen.ask(f"  {number}) {safe_line(choice.label)}{words}")
        how = "numbers with commas, or words" if item.several else "number, or words"
        line = await self._read(f"your answer ({how if item.choices else 'words'}; empty: none): ")
        return None if line is None else _chosen(item, line.strip())


def _chosen(item: QuestionItem, line: str) -> tuple[str, ...]:
    parts = [part.strip() for part in line.split(",")] if item.several else [line]
    numbers = [int(part) for part in parts if part.isdecimal()]
    if numbers and len(numbers) == len(parts) and all(1 <= number <= len(item.choices) for number in numbers):
        return tuple(item.choices[number - 1].label for number in numbers)
    return (line,) if line else ()


def _why_gone(event: ApprovalResolved) -> str:
    match event.by:
        case "expired":
            return "nobody answered in time: it counts as denied"
        case "agent":
            return "the agent no longer waits for it"
        case _:
            return f"it is no longer open ({safe_line(event.by)})"


def _object(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _escaped_json(value: JsonValue) -> str:
    return escape(canonical_json(value).decode())
