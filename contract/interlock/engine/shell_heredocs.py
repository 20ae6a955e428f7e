"""Here-documents, taken out of a command line before it is split.

Every here-document is replaced by `<` and a name that stands for it, and its lines are removed; what remains has none,
so that a parser's idea of where they end is never relied on. That idea is our own: the lines after the line of the
operator, up to the first that is the delimiter. Where shells could see another end, the whole is given up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["NAME", "Body", "cut", "index_of", "substitutions"]

NAME = "/dev/here-document/"
"""What a here-document is called in the text without it, followed by its number."""
_OPERATOR = re.compile(r"<<(-?)[ \t]*(?:'(\w+)'|\"(\w+)\"|\\(\w+)|(\w+))(?=[\s|&;<>)]|\Z)")
_REST_OF_LINE = re.compile(r"(?:[^'\"\\`\n#()]|'[^'\n]*'|\"[^\"\\`$\n]*\")*\Z")
_CLOSED = re.compile(r"\$\(([^()'\"`\\]*)\)")


@dataclass(frozen=True, slots=True)
class Body:
    """The text of a here-document, and whether the shell takes it as it stands."""

    text: str
    literal: bool


def cut(text: str, start: int, number: int) -> tuple[str, Body] | None:
    """Take out the here-document whose operator is at `start`; None if its end is not beyond doubt."""
    operator = _OPERATOR.match(text, start)
    if operator is None:
        return None
    strips, *names = operator.groups()
    delimiter = next(name for name in names if name)
    literal = names[-1] is None
    line_end = text.find("\n", operator.end())
    if line_end < 0 or not _REST_OF_LINE.match(text[operator.end() : line_end]):
        return None
    lines = text[line_end + 1 :].split("\n")
    if strips:
        lines = [line.lstrip("\t") for line in lines]
    count = _length(lines, delimiter, literal=literal)
    if count is None:
        return None
    kept = text[line_end + 1 :].split("\n")[count + 1 :]
    body = "".join(line + "\n" for line in lines[:count])
    remaining = [text[operator.end() : line_end], *kept]
    return f"{text[:start]}<{NAME}{number}" + "\n".join(remaining), Body(body, literal)


def _length(lines: list[str], delimiter: str, *, literal: bool) -> int | None:
    """How many lines the document has. A delimiter that a continued line could make or hide is in doubt."""
    try:
        count = lines.index(delimiter)
    except ValueError:
        return None
    if literal:
        return count
    for index in range(count):
        if lines[index].endswith("\\"):
            whole = lines[index]
            following = index + 1
            while whole.endswith("\\") and following <= count:
                whole = whole[:-1] + lines[following]
                following += 1
            if whole == delimiter or following > count:
                return None
    return count


def index_of(name: str | None) -> int | None:
    """Which here-document a file name stands for."""
    if name is None or not name.startswith(NAME):
        return None
    return int(name.removeprefix(NAME))


def substitutions(body: str) -> tuple[list[str], bool]:
    """The commands that a here-document which expands runs, and whether these are all."""
    text = re.sub(r"\\[\\$`]", r"\\_", body)
    rest = _CLOSED.sub("", text)
    return _CLOSED.findall(text), not re.search(r"`|\$\(|\$\{[^}]*[^\w}]", rest)
