"""Which question of a profile stands on the screen, if any; when in doubt, none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from interlock.framing.screen import Line, Screen
from interlock_adapters.terminal.profile import Profile, Question

__all__ = ["Found", "Recognition"]

LINES = 400
"""Lines above the cursor in which the text of a question may begin."""
CHARACTERS = 65_536
"""The longest text of a question."""


@dataclass(frozen=True, slots=True)
class Found:
    """One question that stands on the screen; equal to another exactly if it is the same one."""

    question: Question | None
    """None: the agent waits for a prompt."""
    text: str
    """All that the pattern matched."""
    line: int
    """The number of the line that it ends on; 0 where it is known by the picture alone."""
    groups: Mapping[str, str] = field(compare=False)

    @property
    def exact(self) -> bool:
        """Whether it was printed as it stands."""
        return self.question is None or self.question.exact


class Recognition:
    """Holds a profile's patterns against a screen."""

    def __init__(self, profile: Profile, screen: Screen) -> None:
        self._screen = screen
        self._columns = profile.window.columns
        self._questions = [(question, re.compile(question.pattern)) for question in profile.question]
        self._ready = re.compile(profile.prompt.ready) if profile.prompt.ready is not None else None
        self._noise = [re.compile(pattern) for pattern in profile.noise]
        pattern = profile.versions.pattern if profile.versions else None
        self._version = re.compile(pattern) if pattern else None

    def look(self) -> Found | None:
        """The one question that stands before the cursor; None if there is none, or more than one could be meant."""
        lines = self._last_lines()
        text = "\n".join(line.text for line in lines)
        picture = self._screen.picture() if any(not question.exact for question, _ in self._questions) else ""
        found = [*self._exact(lines, text), *self._drawn(picture)]
        return found[0] if len(found) == 1 else None

    def is_noise(self, line: str) -> bool:
        """Whether the profile says that a line is not worth showing."""
        return any(pattern.fullmatch(line) for pattern in self._noise)

    def version(self, line: str) -> str | None:
        """The version, if this is the line on which the agent says it."""
        match = self._version.fullmatch(line) if self._version is not None else None
        return match["version"] if match else None

    def _last_lines(self) -> list[Line]:
        lines: list[Line] = []
        size = 0
        for line in reversed(self._screen.recent[-LINES:]):
            size += len(line.text) + 1
            if size > CHARACTERS:
                break
            lines.append(line)
        return lines[::-1]

    def _exact(self, lines: list[Line], text: str) -> Iterator[Found]:
        candidates = [(question, pattern) for question, pattern in self._questions if question.exact]
        wanted = [*candidates, *([(None, self._ready)] if self._ready is not None else [])]
        for question, pattern in wanted:
            match = _at_the_cursor(pattern, text)
            if match is not None and self._is_exact(match, lines):
                yield Found(question, match.group(), self._screen.ended, _groups(match))

    def _drawn(self, picture: str) -> Iterator[Found]:
        for question, pattern in self._questions:
            if not question.exact and (match := _at_the_cursor(pattern, picture)) is not None:
                yield Found(question, match.group(), 0, {"screen": picture})

    def _is_exact(self, match: re.Match[str], lines: list[Line]) -> bool:
        """Whether every line of it was printed plainly, what is asked about bare, and none can have been wrapped."""
        spans = [match.span(name) for name in match.re.groupindex if match[name] is not None]
        if any(end - start >= self._columns - 1 for start, end in spans):
            return False
        at = 0
        for line in lines:
            begin, at = at, at + len(line.text) + 1
            if at <= match.start():
                continue
            if line.look == "drawn":
                return False
            if line.look != "bare" and any(start < at and end > begin for start, end in spans):
                return False
        return True


def _at_the_cursor(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The match that ends where the cursor is."""
    return next((match for match in pattern.finditer(text) if match.end() == len(text) and match.group()), None)


def _groups(match: re.Match[str]) -> dict[str, str]:
    """What is asked about, without the space that fills up its lines."""
    named = {name: text for name, text in match.groupdict().items() if text is not None}
    return {name: "\n".join(line.rstrip() for line in text.rstrip("\n").split("\n")) for name, text in named.items()}
