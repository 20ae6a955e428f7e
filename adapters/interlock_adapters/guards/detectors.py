"""Where secrets stand in a text: the patterns of `detect-secrets`, and a few that it lacks.

Strategy: the library's patterns are run over pieces of a text, since what it offers for lines costs milliseconds each,
and the whole match is the secret, with what follows of the same kind of characters. Pieces are small, so that no
pattern takes long on a hostile one, and between them the caller may look at the clock. What follows a keyword, as in
`password = "..."`, is looked for round the keyword alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from interlock.errors import ConfigurationError

__all__ = ["DEFAULT_KINDS", "KEYWORD", "Detectors", "Span"]

PIECE = 4096
"""Characters that the patterns see at once."""
OVERLAP = 1024
"""Characters that two pieces of one long line share."""
KEYWORD = "Secret Keyword"
_SLOW_OR_VAGUE = frozenset({
    "Public IP (ipv4)", "Cloudant Credentials", "IBM Cloud IAM Key", "IBM COS HMAC Credentials",
    "SoftLayer Credentials",
})  # fmt: skip
DEFAULT_KINDS: frozenset[str] | None = None
"""None: all kinds of fixed shape that are quick to look for, and keywords."""
_OWN = {
    "Anthropic API Key": re.compile(r"sk-ant-[A-Za-z0-9_-]{20,}"),
    "OpenAI Token": re.compile(
        r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}|(?:\b|(?<=\\[bfnrt]))sk-[A-Za-z0-9]{32,}"
    ),
    "GitHub Token": re.compile(r"github_pat_[A-Za-z0-9_]{22,}"),
    "Google API Key": re.compile(r"AIza[0-9A-Za-z_-]{35}"),
    "Authorization Header": re.compile(r"(?i:authorization:\s*(?:bearer|basic|token)\s+)[A-Za-z0-9._~+/=-]{8,}"),
}
"""In JSON a line may begin after the two characters of an escape, which look like the end of a word."""
_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_BLOCK_END = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_HINT = re.compile(r"(?i:pass|pwd|secret|token|api_?-?key|[a-z]key\b|_key\b)")
_UNQUOTED = (
    re.compile(
        r"\b[A-Z0-9_]*(?:PASSWORD|PASSWD|PASSPHRASE|PWD|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)[A-Z0-9_]*="
        r"(?P<value>[^\s'\"$(<{\[`][^\s'\"]{5,})"
    ),
    re.compile(
        r"(?i:\b[\w.-]{0,64}(?:password|passwd|passphrase|secret|token|api_?-?key)[\w.-]{0,64})\s?[=:]\s?"
        r"(?=[A-Za-z_./+!@#%^&*~-]*[0-9])(?P<value>[A-Za-z0-9_./+!@#%^&*~=-]{8,})(?![\w(\[])"
    ),
)
"""Values without quotes: of variables in capitals, and of other names if a digit is in the value."""
_NEEDS = {"NPM tokens": "_authToken", "JSON Web Token": "eyJ"}
"""What must stand in a piece for a pattern that is slow on hostile texts."""
_GOES_ON = re.compile(r"[A-Za-z0-9_\-=+/.~]*")
_BEFORE_HINT, _AFTER_HINT = 80, 400


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A secret in a text."""

    start: int
    end: int
    kind: str


class Detectors:
    """The patterns of the wanted kinds; raises `ConfigurationError` if the library is missing or a kind is unknown."""

    def __init__(self, kinds: Iterable[str] | None = DEFAULT_KINDS) -> None:
        shapes, keywords = _library()
        known = {*shapes, *_OWN, KEYWORD, "Private Key"}
        wanted = known - _SLOW_OR_VAGUE if kinds is None else set(kinds)
        if unknown := sorted(wanted - known):
            problem = f"unknown kinds of secrets: {', '.join(unknown)}; known: {', '.join(sorted(known))}"
            raise ConfigurationError("SecretRedactor", problem)
        self._shapes = [(kind, shape) for kind, found in shapes.items() if kind in wanted for shape in found]
        self._shapes += [(kind, shape) for kind, shape in _OWN.items() if kind in wanted]
        self._keywords = keywords if KEYWORD in wanted else []
        self._blocks = "Private Key" in wanted

    def search(self, text: str) -> Iterator[list[Span]]:
        """The secrets of a text, piece by piece; the caller may stop in between."""
        if self._blocks:
            yield list(_blocks(text))
        for start, end in _pieces(text):
            piece = text[start:end]
            found = list(self._in_piece(piece))
            yield [_whole(Span(start + one.start, start + one.end, one.kind), text) for one in found]

    def _in_piece(self, piece: str) -> Iterator[Span]:
        for kind, shape in self._shapes:
            if _NEEDS.get(kind, "") not in piece:
                continue
            for match in shape.finditer(piece):
                yield Span(match.start(), match.end(), kind)
        if self._keywords and _HINT.search(piece):
            yield from self._after_keywords(piece)

    def _after_keywords(self, piece: str) -> Iterator[Span]:
        for unquoted in _UNQUOTED:
            for match in unquoted.finditer(piece):
                yield Span(*match.span("value"), KEYWORD)
        for start, end in _near(piece, [match.start() for match in _HINT.finditer(piece)]):
            for shape, group in self._keywords:
                for match in shape.finditer(piece, start, end):
                    if match.end(group) > match.start(group):
                        yield Span(*match.span(group), KEYWORD)


def _near(piece: str, hints: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The stretches of lines round the hints, without overlap."""
    done = 0
    for hint in hints:
        if hint < done:
            continue
        line = piece.rfind("\n", 0, hint) + 1
        break_ = piece.find("\n", hint)
        done = min(len(piece) if break_ < 0 else break_, hint + _AFTER_HINT)
        yield max(line, hint - _BEFORE_HINT), done


def _whole(span: Span, text: str) -> Span:
    """A secret at the border of a piece may go on in the next one."""
    if span.kind == KEYWORD:
        return span
    match = _GOES_ON.match(text, span.end)
    return Span(span.start, match.end() if match else span.end, span.kind)


def _blocks(text: str) -> Iterator[Span]:
    """Private keys, from their first line to their last, or to the end of the text."""
    position = 0
    while begin := _BLOCK.search(text, position):
        end = _BLOCK_END.search(text, begin.end())
        position = end.end() if end else len(text)
        yield Span(begin.start(), position, "Private Key")


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Borders of pieces: at line ends where lines are short, overlapping in lines that are long."""
    start = 0
    while start < len(text):
        end = start + PIECE
        if end >= len(text):
            yield start, len(text)
            return
        border = text.rfind("\n", start, end)
        if border > start:
            yield start, border
            start = border
        else:
            yield start, end
            start = end - OVERLAP


def _library() -> tuple[dict[str, list[re.Pattern[str]]], list[tuple[re.Pattern[str], int]]]:
    """The library's patterns by kind, and those after keywords with the group that is the secret."""
    try:
        from detect_secrets.core.plugins.util import (  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
            get_mapping_from_secret_type_to_class,  # pyright: ignore[reportUnknownVariableType]
        )
        from detect_secrets.plugins import keyword  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
        from detect_secrets.plugins.base import (  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
            RegexBasedDetector,
        )
    except ImportError as error:
        raise ConfigurationError(
            "SecretRedactor", "detect-secrets is missing: pip install interlock[redact]"
        ) from error
    classes = cast("dict[str, Any]", get_mapping_from_secret_type_to_class())
    shapes = {
        kind: list(cast("Any", found()).denylist)
        for kind, found in classes.items()
        if issubclass(found, RegexBasedDetector)
    }
    return shapes, list(keyword.QUOTES_REQUIRED_DENYLIST_REGEX_TO_GROUP.items())
