"""Events for people: the answer to stdout, all else to stderr.

To a terminal the answer is streamed and made safe. To anything else only the final answer is written, as it is, so that
`interlock run ... > answer.txt` holds the answer and nothing else. While a person is asked, nothing moves the question
away: what happens meanwhile is held back, up to a bound.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Protocol

import anyio

from interlock.events import BaseEvent, Notice, RunFinished, Text, TextDelta, Unguarded
from interlock.outcome import Outcome
from interlock.tools import MAIN_AGENT
from interlock_adapters.cli.closing import Closing
from interlock_adapters.cli.lines import line_of, summary_of
from interlock_adapters.cli.output import Sink, safe_line, safe_text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["JsonView", "PeopleView", "Screen", "View"]

HELD_LIMIT = 1_000_000
"""Bytes that are held back while a person is asked."""


class Screen:
    """stdout and stderr, which may be the same terminal."""

    def __init__(self, *, notes: int = 2) -> None:
        both = anyio.Lock() if os.isatty(1) and os.isatty(notes) else None
        self.out = Sink(1, both)
        self.err = Sink(notes, both)
        self._console = _console() if self.err.terminal else None
        self._mid_line = False
        self._held: list[tuple[Sink, bytes]] | None = None
        self._held_size = 0
        self._lost = 0

    async def answer(self, text: str) -> None:
        """A piece of the answer, for a terminal on stdout."""
        shown = safe_text(text)
        if shown:
            await self._write(self.out, shown.encode())

    async def raw(self, data: bytes) -> None:
        """Bytes for stdout as they are, for anything but a terminal."""
        await self._write(self.out, data)

    async def fresh_line(self) -> None:
        """End an unfinished line of the answer."""
        if self._mid_line:
            await self._write(self.out, b"\n")

    async def note(self, text: str, style: str = "") -> None:
        """One or more lines on stderr; `text` is safe already."""
        await self.fresh_line()
        await self._write(self.err, self._styled(text, style))

    async def ask(self, text: str, style: str = "", *, line: bool = True) -> None:
        """Like `note`, but now, past what is held back; `line` False leaves the cursor behind the text."""
        await self.err.write(self._styled(text, style) if line else text.encode())

    def hurry(self, patience: float) -> None:
        """From now on wait so many seconds, and no longer, for a reader who takes nothing."""
        self.out.hurry(patience)
        self.err.hurry(patience)

    async def hold(self) -> None:
        """From here on hold back all but `ask`."""
        await self.fresh_line()
        self._held, self._held_size, self._lost = [], 0, 0

    async def release(self) -> None:
        """Show what was held back."""
        held, self._held = self._held or [], None
        for sink, data in held:
            await self._write(sink, data)
        if self._lost:
            await self.note(f"({self._lost} bytes came while you were asked and are not shown)", "dim")

    async def _write(self, sink: Sink, data: bytes) -> None:
        if self._held is not None and sink.terminal:
            if self._held_size + len(data) > HELD_LIMIT:
                self._lost += len(data)
                return
            self._held.append((sink, data))
            self._held_size += len(data)
        else:
            await sink.write(data)
        if sink is self.out and sink.terminal:
            self._mid_line = not data.endswith(b"\n")

    def _styled(self, text: str, style: str) -> bytes:
        if self._console is None or not style:
            return f"{text}\n".encode(errors="backslashreplace")
        with self._console.capture() as captured:
            self._console.print(text, style=style, markup=False, highlight=False, emoji=False, soft_wrap=True)
        return captured.get().encode(errors="backslashreplace")


def _console() -> Console:
    from rich.console import Console  # noqa: PLC0415 -- only a terminal needs it

    return Console(file=io.StringIO(), force_terminal=True)


class View(Protocol):
    """What shows a run while it happens."""

    async def show(self, event: BaseEvent) -> None:
        """Show one event."""
        ...

    async def warn(self, text: str) -> None:
        """Say something about the run that is no event."""
        ...


class JsonView:
    """One event a line on stdout and nothing else there."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._closing = Closing()

    async def show(self, event: BaseEvent) -> None:
        """Write the event; what the person must know is said on stderr as well."""
        await self._screen.raw(event.to_json().encode() + b"\n")
        self._closing.see(event)
        match event:
            case Notice(level="warning" | "error", message=message) | Unguarded(message=message):
                await self.warn(message)
            case RunFinished(outcome=outcome):
                if not outcome.ok:
                    await self._screen.note(summary_of(outcome))
                for line in self._closing.lines(outcome):
                    await self._screen.note(line)
            case _:
                pass

    async def warn(self, text: str) -> None:
        """A warning on stderr."""
        if self._closing.first_time(text):
            await self._screen.note(f"warning: {safe_line(text)}")


class PeopleView:
    """The answer on stdout, what happens on stderr."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._closing = Closing()
        self._streamed = False
        self._answered = False

    async def show(self, event: BaseEvent) -> None:
        """Show the event, if it is one that people want to see."""
        self._closing.see(event)
        match event:
            case TextDelta(agent_id=agent_id, text=text):
                if agent_id == MAIN_AGENT and self._screen.out.terminal:
                    self._streamed = self._answered = True
                    await self._screen.answer(text)
            case Text(agent_id=agent_id, text=text):
                if agent_id == MAIN_AGENT and self._screen.out.terminal:
                    await self._block(text)
            case Notice(level="warning" | "error", message=message):
                await self.warn(message)
            case RunFinished(outcome=outcome):
                await self._finish(outcome)
            case _:
                if (line := line_of(event)) is not None:
                    await self._screen.note(line.text, line.style)

    async def warn(self, text: str) -> None:
        """A warning on stderr."""
        if self._closing.first_time(text):
            await self._screen.note(f"warning: {safe_line(text)}", "yellow")

    def pass_over(self, warning: str) -> None:
        """Never say this warning."""
        self._closing.first_time(warning)

    async def _block(self, text: str) -> None:
        if not self._streamed:
            await self._screen.answer(text)
        self._streamed, self._answered = False, True
        await self._screen.fresh_line()

    async def _finish(self, outcome: Outcome) -> None:
        if outcome.text and not self._screen.out.terminal:
            end = "" if outcome.text.endswith("\n") else "\n"
            await self._screen.raw((outcome.text + end).encode(errors="backslashreplace"))
        elif outcome.text and not self._answered:
            await self._screen.answer(outcome.text)
        await self._screen.note(summary_of(outcome), "dim" if outcome.ok else "red")
        for line in self._closing.lines(outcome):
            await self._screen.note(line, "yellow")
