"""What an agent writes to a terminal, as lines of text: no control sequence becomes text, and none is obeyed.

Two views of the same bytes. The *lines* are what was printed one after the other, exactly, and each says how it came to
be: `bare`, nothing but text; `styled`, with colours and the like in it; or `drawn`, with anything else, so that what a
person saw is not what was printed. The *picture* is what a terminal would show at last, by an emulator. Strings that a
terminal would obey (titles, clipboard, links) are dropped from both. No question that the agent asks the terminal
itself (where is the cursor, what are you) is ever answered.

What is not known to be harmless makes the line drawn, and so do bytes that are no UTF-8. Memory is bounded, and so is
the time that the emulator is given.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import dataclass
from typing import Literal

import pyte

__all__ = ["Line", "Look", "Screen"]

Look = Literal["bare", "styled", "drawn"]

LONGEST = 65_536
"""Characters of a line that are kept."""
REMEMBERED = 2_000
"""Lines that are kept."""
WIDEST = 250
"""Columns of the picture, however wide the window is said to be."""
PENDING = 64
"""Characters of an unfinished sequence that is waited for."""
PIECE = 1_024
"""Characters up to which pieces of text are joined, so that it does not matter how they were cut."""
EMULATED = 4_096
"""Sequences that the emulator is given between two looks; of more, the last."""

_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x08\x0a-\x1f\x7f-\x9f]+)"
    r"|(?P<end>\r*\n)"
    r"|(?P<style>\x1b\[[0-9;:]*m|\x1b\[\?(?:25|1004|2004)[hl]|\x1b[=>]|\x1b\(B)"
    r"|(?P<string>\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
    r"|(?P<other>(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]|[\x00-\x1f\x7f-\x9f])"
)
_UNFINISHED = re.compile(r"(?:\r+|(?:\x1b\[|\x9b)[0-?]*[ -/]*|\x1b[ -/]*)\Z")
_STRING_END = re.compile(r"[\x07\x18\x1a\x9c]|\x1b\\|\x1b(?=[^\\])")


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it was printed; of a drawn one, as the picture shows it."""

    text: str
    look: Look


class Screen:
    """Takes bytes, gives lines and a picture; never raises."""

    def __init__(self, rows: int, columns: int) -> None:
        self._rows, self._columns = rows, columns
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._in_string = False
        self._lines: deque[Line] = deque(maxlen=REMEMBERED)
        self._fresh: deque[Line] = deque(maxlen=REMEMBERED)
        self._text = ""
        self._look: Look = "bare"
        self._backlog: deque[str] = deque()
        self._plainly = True
        self._printing = False
        self.ended = 0
        """How many lines have ended."""
        self._picture = _Picture(min(columns, WIDEST), rows)
        self._stream = pyte.Stream(self._picture)

    def feed(self, data: bytes) -> None:
        """What the agent wrote, in pieces of any size."""
        text = self._pending + self._decoder.decode(data)
        self._pending = ""
        at = 0
        while at < len(text):
            at = self._skip(text, at) if self._in_string else self._take(text, at)

    def entered(self) -> None:
        """A key that ends a line was typed, which the agent's terminal does not echo: the line ends here."""
        self._printing = False
        self._end_line()

    def take(self) -> list[Line]:
        """The lines that ended since the last call."""
        taken = list(self._fresh)
        self._fresh.clear()
        return taken

    @property
    def crowded(self) -> bool:
        """Whether more lines wait to be taken than is good: soon the first would be dropped."""
        return len(self._fresh) > REMEMBERED // 2

    @property
    def current(self) -> Line:
        """The line that has not ended."""
        return Line(self._text, self._look)

    @property
    def recent(self) -> tuple[Line, ...]:
        """The last lines, and the one that has not ended."""
        return (*self._lines, self.current)

    def picture(self) -> str:
        """What a terminal would show, without empty space at the end of lines and of the whole."""
        self._emulate()
        return "\n".join(self._picture.row(y) for y in range(self._rows)).rstrip()

    # ---- tokens -----------------------------------------------------------------------------------------------------

    def _take(self, text: str, at: int) -> int:
        unfinished = _UNFINISHED.match(text, at)
        if unfinished is not None and len(text) - at <= PENDING:
            self._pending = text[at:]
            return len(text)
        token = _TOKEN.match(text, at)
        if token is None:  # every character belongs to a kind
            return at + 1
        said = token.group()
        self._printing = self._printing and token.lastgroup == "text"
        match token.lastgroup:
            case "text":
                self._print(said)
            case "end":
                self._end_line()
            case "style":
                self._look = "styled" if self._look == "bare" else self._look
                self._backlog.append(said)
            case "string":
                self._look = "drawn"
                self._in_string = True
            case _:
                self._draw(said)
        return token.end()

    def _skip(self, text: str, at: int) -> int:
        """Past a string that a terminal would obey; unfinished ones swallow what follows, as terminals do."""
        end = _STRING_END.search(text, at)
        if end is None:
            self._pending = "\x1b" if text.endswith("\x1b") else ""
            return len(text)
        self._in_string = False
        return end.start() if end.group() == "\x1b" else end.end()

    def _print(self, said: str) -> None:
        room = LONGEST - len(self._text)
        if len(said) > room or "\ufffd" in said:
            self._look = "drawn"
        self._text += said[:room]
        if self._backlog and self._printing and len(self._backlog[-1]) < PIECE:
            self._backlog[-1] += said
        else:
            self._backlog.append(said)
        self._printing = True

    def _end_line(self) -> None:
        text = self._text
        if self._look == "drawn":
            self._emulate()
            text = self._picture.row(self._picture.cursor.y)
        line = Line(text, self._look)
        self._lines.append(line)
        self._fresh.append(line)
        self.ended += 1
        self._text, self._look = "", "bare"
        self._backlog.append("\r\n")
        self._shorten()

    def _draw(self, said: str) -> None:
        """Something that may have changed what stands anywhere on the screen: none of it is as it was printed."""
        self._look = "drawn"
        for back in range(1, min(self._rows, len(self._lines)) + 1):
            self._lines[-back] = Line(self._lines[-back].text, "drawn")
        self._plainly = False
        self._backlog.append(said)

    # ---- the picture ------------------------------------------------------------------------------------------------

    def _shorten(self) -> None:
        """Of lines that were printed one after the other only a screenful is ever seen."""
        if len(self._backlog) > EMULATED:
            if not self._plainly:
                self._emulate()
                return
            kept = [self._backlog.pop()]
            ends = 0
            while self._backlog and ends <= self._rows:
                kept.append(self._backlog.pop())
                ends += kept[-1] == "\r\n"
            self._backlog = deque(reversed(kept))

    def _emulate(self) -> None:
        said = list(self._backlog)[-EMULATED:]
        self._backlog.clear()
        self._plainly, self._printing = True, False
        try:
            for piece in said:
                self._stream.feed(piece[-self._rows * WIDEST :])
        except Exception:  # noqa: BLE001  # whatever an emulator makes of nonsense, the picture alone suffers
            self._picture = _Picture(min(self._columns, WIDEST), self._rows)
            self._stream = pyte.Stream(self._picture)


class _Picture(pyte.Screen):
    """The emulator's screen, of fixed size and bounded memory."""

    def row(self, y: int) -> str:
        """One row without the space at its end."""
        line = self.buffer[y]
        return "".join(line[x].data for x in range(max(line, default=-1) + 1)).rstrip()

    def save_cursor(self) -> None:
        """At most one is kept."""
        self.savepoints.clear()
        super().save_cursor()

    def set_mode(self, *modes: int, **kwargs: bool) -> None:
        """The width stays."""
        super().set_mode(*(mode for mode in modes if mode != _WIDE), **kwargs)

    def reset_mode(self, *modes: int, **kwargs: bool) -> None:
        """The width stays."""
        super().reset_mode(*(mode for mode in modes if mode != _WIDE), **kwargs)


_WIDE = 3
"""The mode that makes a terminal 132 columns wide."""
