"""One terminal agent, sans-IO: what stands on its screen becomes questions, and verdicts become keys.

Strategy. Bytes go into a `Screen`; nothing is judged while they come. A look, by a `Wake` of the engine, is taken a
moment later, and a question counts as asked only if two looks in a row find the very same one and nothing was written
between them. It must be one that the profile describes, end at the cursor, and have been printed plainly where its
text is taken for a call; if two questions of the profile could be meant, none is. Keys are sent only to a question that
still stands. All else waits, and the idle limit ends what waits for good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from interlock.actions import (
    Action,
    Consult,
    Emit,
    Key,
    Proceed,
    Ready,
    Refuse,
    RunDone,
    Send,
    Stage,
    Verdict,
    Wake,
    Withdraw,
)
from interlock.approval import Answer
from interlock.events import BaseEvent, Notice, TextDelta, ToolFinished
from interlock.framing.reports import requested
from interlock.framing.screen import Line, Screen
from interlock.model import JsonValue
from interlock.outcome import Status
from interlock.tools import MAIN_AGENT, Subject, ToolCall, ToolKind
from interlock_adapters.terminal.endings import ending
from interlock_adapters.terminal.profile import Profile, Question
from interlock_adapters.terminal.recognition import Found, Recognition

__all__ = ["TerminalCodec", "subject_of"]

QUIET = 0.15
"""Seconds from what was written to a look, and from one look to the next."""
LOOK = "look"
PIECE = 900
"""Bytes that hold fewer lines than a screen has room for."""
PRINTED = 1_000_000
"""Characters of what was printed that are kept for the answer; the first are dropped first."""


@dataclass(slots=True)
class Open:
    """A question that is being decided, one call after the other; a yes to all of them is a yes."""

    found: Found
    question: Question
    calls: deque[ToolCall]
    allowed: list[ToolCall]


class TerminalCodec:
    """A codec for the agent of a profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._screen = Screen(profile.window.rows, profile.window.columns)
        self._recognition = Recognition(profile, self._screen)
        self._looking = False
        self._fresh = False
        self._seen: Found | None = None
        self._answered: Found | None = None
        self._open: Open | None = None
        self._running: list[ToolCall] = []
        self._numbers = 0
        self._prompt: str | None = None
        self._typed = False
        self._quit = False
        self._printed: deque[str] = deque()
        self._printed_size = 0
        self._version: str | None = None
        self._over = False

    # ---- the engine's side ------------------------------------------------------------------------------------------

    def start(self) -> Sequence[Action]:
        """Ready at once, unless the prompt is typed: then once the agent asks for it."""
        return () if self._profile.prompt.by == "keys" else (Ready(),)

    def prompt(self, prompt: str) -> Sequence[Action]:
        """Kept until it can be typed; given with the launch, it is on its way already."""
        self._prompt = prompt
        return ()

    def steer(self, text: str) -> Sequence[Action]:
        """Takes no message mid-turn."""
        del text
        return ()

    def interrupt(self) -> Sequence[Action]:
        """Has no word for it that is sure to mean that."""
        return ()

    def received(self, channel: str, data: bytes) -> Sequence[Action]:
        """Onto the screen, in pieces that it has room for; a look follows."""
        if channel != "stdout":
            return ()
        actions: list[Action] = []
        for at in range(0, len(data), PIECE):
            self._screen.feed(data[at : at + PIECE])
            if self._screen.crowded:
                actions += self._show()
        self._fresh = True
        return [*actions, *self._look_later()]

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        """Opens no endpoint."""
        del channel, key, body
        return ()

    def eof(self, channel: str) -> Sequence[Action]:
        """What is left is said at the exit."""
        del channel
        return ()

    def showing(self) -> str:
        """The last line that stands on the agent's screen."""
        return self._screen.picture().rpartition("\n")[2].strip()

    def woke(self, key: str) -> Sequence[Action]:
        """A look."""
        if key != LOOK or self._over:
            return ()
        self._looking = False
        fresh, self._fresh = self._fresh, False
        seen = self._recognition.look()
        steady = seen is not None and seen == self._seen and not (fresh and seen.exact)
        changed = seen != self._seen
        self._seen = seen
        actions: list[Action] = [*self._show(), *self._gone(seen)]
        if steady and seen is not None:
            actions += self._asked(seen)
        if fresh or changed:
            actions += self._look_later()
        return actions

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Sequence[Action]:
        """The verdict on one call of the open question; after the last yes, or the first no, the keys."""
        del stage
        case = self._open
        if case is None or case.calls[0].tool_call_id != key.call:
            return ()
        if self._recognition.look() != case.found:
            return self._close(case, "the question was gone before it was answered")
        call = case.calls[0]
        if isinstance(verdict, Proceed) and not verdict.changed:
            case.allowed.append(case.calls.popleft())
            if case.calls:
                return self._ask(case.calls[0])
            self._running += case.allowed
            return self._answer(case.found, case.question.yes)
        reason = verdict.reason if isinstance(verdict, Refuse) else "the agent can only run it as it is"
        denied = [_finished(call, "denied", reason)]
        denied += [
            _finished(other, "error", "not run: it is one with a call that was denied") for other in case.allowed
        ]
        return (Emit(denied), *self._answer(case.found, case.question.no))

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        """How it ended: by exit status and marker; what its screen showed at last is told beside it."""
        self._over = True
        events: list[BaseEvent] = [event for action in self._show(last=True) for event in action.events]
        events += [_finished(call, "ok", None) for call in self._running]
        self._running.clear()
        done = ending(self._profile, code, signal, files, printed="".join(self._printed), version=self._version)
        picture = self._screen.picture()
        if picture and done.status is not Status.COMPLETED:
            events.append(Notice(code="stdout_noise", message=picture))
        return (Emit(events), RunDone(done))

    # ---- looks ------------------------------------------------------------------------------------------------------

    def _look_later(self) -> Sequence[Action]:
        if self._looking:
            return ()
        self._looking = True
        return (Wake(LOOK, QUIET),)

    def _asked(self, found: Found) -> Sequence[Action]:
        """A question that stands, and that was not answered or asked about before."""
        if found == self._answered or (self._open is not None and self._open.found == found):
            return ()
        question = found.question
        if question is None:
            return self._ready(found)
        if question.always is not None:
            message = f"{question.name}: answered as the profile says"
            return (Emit([Notice(code="answered", message=message)]), *self._answer(found, question.always))
        calls = deque(self._calls(found, question))
        if not calls:
            return self._answer(found, question.no)
        self._open = Open(found, question, calls, [])
        return (*self._finish_running(), *self._ask(calls[0]))

    def _ready(self, found: Found) -> Sequence[Action]:
        """The agent waits for a prompt: for ours, or, after it, for the next, which there is not."""
        how = self._profile.prompt
        if not self._typed and how.by == "keys":
            if self._prompt is None:
                return (Ready(version=self._version),)
            self._typed = True
            text = self._prompt if how.newline is None else self._prompt.replace("\n", how.newline)
            return (Ready(version=self._version), *self._answer(found, how.begin + text + how.end))
        if self._profile.ends.quit is not None and not self._quit:
            self._quit = True
            return (*self._finish_running(), *self._answer(found, self._profile.ends.quit))
        return ()

    def _gone(self, seen: Found | None) -> Sequence[Action]:
        """A question that went away by itself is no longer open, and one that was answered may come again."""
        if self._answered is not None and seen != self._answered:
            self._answered = None
        case = self._open
        if case is None or seen == case.found:
            return ()
        key = Key(MAIN_AGENT, case.calls[0].tool_call_id)
        return (Withdraw(key), *self._close(case, "the question went away by itself"))

    def _close(self, case: Open, why: str) -> Sequence[Action]:
        self._open = None
        return (Emit([_finished(call, "error", why) for call in (*case.allowed, case.calls[0])]),)

    def _answer(self, found: Found, keys: str | None) -> Sequence[Action]:
        if keys is None:
            return ()
        self._open = None
        self._answered = found
        if "\n" in keys or "\r" in keys:
            self._screen.entered()
        return (Send(keys.encode(), answers=found.question is not None),)

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _calls(self, found: Found, question: Question) -> Iterator[ToolCall]:
        inputs = [dict(found.groups)]
        if question.each_line:
            lines = [line.strip() for line in found.groups["command"].split("\n")]
            inputs = [{**found.groups, "command": line} for line in lines if line and not line.startswith("#")]
        for given in inputs:
            for name, kind in question.calls.items():
                self._numbers += 1
                shown: JsonValue = dict(given)
                yield ToolCall(
                    tool_call_id=f"question-{self._numbers}",
                    tool_name=name,
                    input=shown,
                    tool_kind=kind,
                    subject=subject_of(kind, shown),
                )

    def _ask(self, call: ToolCall) -> Sequence[Action]:
        return (Emit([requested(call)]), Consult(Key(MAIN_AGENT, call.tool_call_id), "before", call))

    def _finish_running(self) -> Sequence[Action]:
        """What was let run has ended by the time of the next question; what came of it is not known."""
        done = [_finished(call, "ok", None) for call in self._running]
        self._running.clear()
        return (Emit(done),) if done else ()

    # ---- what was printed -------------------------------------------------------------------------------------------

    def _show(self, *, last: bool = False) -> Sequence[Emit]:
        lines = self._screen.take()
        if last and self._screen.current.text:
            lines.append(self._screen.current)
        events: list[BaseEvent] = []
        for line in lines:
            events += self._heard_version(line)
            if not self._recognition.is_noise(line.text):
                self._keep(f"{line.text}\n")
                events.append(TextDelta(text=f"{line.text}\n"))
        return (Emit(events),) if events else ()

    def _keep(self, text: str) -> None:
        self._printed.append(text)
        self._printed_size += len(text)
        while self._printed_size > PRINTED:
            self._printed_size -= len(self._printed.popleft())

    def _heard_version(self, line: Line) -> Iterator[BaseEvent]:
        if self._version is not None or line.look == "drawn":
            return
        self._version = self._recognition.version(line.text)
        if self._version is not None and self._profile.range.judge(self._version) != "tested":
            tested = self._profile.range
            message = f"version {self._version} was never tried, only {tested.oldest} to {tested.newest}"
            yield Notice(level="warning", code="untested_version", message=message)


def _finished(call: ToolCall, status: Literal["ok", "error", "denied"], output: JsonValue) -> ToolFinished:
    return ToolFinished(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        tool_kind=call.tool_kind,
        status=status,
        output=output,
        by="agent" if status == "denied" else "",
    )


def subject_of(kind: ToolKind, shown: JsonValue) -> Subject:
    """What a call is about, out of what its question shows."""
    given = shown if isinstance(shown, dict) else {}
    command, path, url = (_text(given.get(name)) for name in ("command", "path", "url"))
    match kind:
        case ToolKind.SHELL:
            return Subject(command=command)
        case ToolKind.READ | ToolKind.SEARCH | ToolKind.EDIT | ToolKind.WRITE | ToolKind.PATCH:
            return Subject(paths=(path,) if path else ())
        case ToolKind.FETCH:
            return Subject(urls=(url,) if url else ())
        case _:
            return Subject()


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
