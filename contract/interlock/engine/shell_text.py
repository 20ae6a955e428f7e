"""Words of a command line, and what they could become when a shell expands them.

A word is a row of pieces: literal text, or None for what only the shell will know. So a word is sure, or a shape that
it will have. What must be certain asks for the literal; what must not be overlooked asks whether the shape could be it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["UNKNOWN", "Bare", "Word", "could_run", "could_say", "literals", "read_bare"]

Pieces = tuple[str | None, ...]
LONGEST_SHAPE = 512
"""Characters at the end of a word that is not literal which are compared; what stands before could be anything."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word."""

    pieces: Pieces
    splits: bool = False
    """An unquoted expansion: it may become any number of words, the first and last of which keep their outer pieces."""
    many: bool = False
    """A glob or a brace expansion: any number of words, each of this shape."""
    bare: bool = False
    """Written without any quoting, so that a shell takes it for a keyword where one can stand."""

    @property
    def literal(self) -> str | None:
        """The word, where nothing in it expands."""
        if self.splits or self.many or None in self.pieces:
            return None
        return "".join(piece for piece in self.pieces if piece is not None)

    @property
    def blank(self) -> bool:
        """Whether nothing at all is known of it."""
        return not any(self.pieces) and None in self.pieces

    def could_be(self, wanted: str) -> bool:
        """Whether one of the words that come of this one could be `wanted`."""
        return self.splits or _overlap(self.pieces, (wanted,))

    def folded(self) -> Pieces:
        """Its pieces, case aside."""
        return tuple(piece and piece.casefold() for piece in self.pieces)


UNKNOWN = Word((None,), splits=True)
"""Any number of words, of which nothing is known."""


def literals(words: Iterable[Word]) -> tuple[str, ...] | None:
    """The words as text; None if one of them is not literal."""
    found = [word.literal for word in words]
    return tuple(text for text in found if text is not None) if None not in found else None


# ---- What a command could be ----------------------------------------------------------------------------------------


def could_run(words: tuple[Word, ...], wanted: tuple[str, ...], *, prefix: bool) -> bool:
    """Whether the command could be the one that `wanted` says, in any folder and any case.

    With `prefix` the wanted words need only occur in their order, whatever stands between and behind them.
    """
    name = wanted[0].rpartition("/")[2].casefold()
    for position, word in enumerate(words):
        if _could_name(word, name):
            rest = words[position if word.splits or word.many else position + 1 :]
            if could_say(rest, wanted[1:], skipping=prefix):
                return True
        if not (word.splits or word.many):
            return False
    return False


def _could_name(word: Word, name: str) -> bool:
    pieces = word.folded()
    if word.splits:
        start = next((index for index, piece in enumerate(pieces) if piece is None), len(pieces))
        pieces = (*pieces[:start], None)
    return _overlap(pieces, (name,)) or _overlap(pieces, (None, "/" + name))


def could_say(words: tuple[Word, ...], wanted: tuple[str, ...], *, skipping: bool) -> bool:
    """Whether the words could be the wanted ones; with `skipping`, others may stand between and behind them."""
    reached = {0}
    for word in words:
        following = set(reached) if skipping or word.splits or word.many else set[int]()
        for start in reached:
            following |= _advance(word, wanted, start)
        reached = following
    return len(wanted) in reached


def _advance(word: Word, wanted: tuple[str, ...], start: int) -> set[int]:
    """How many wanted words are said once this word is read, `start` of them before."""
    found: set[int] = set()
    for position in range(start, len(wanted)):
        if not word.could_be(wanted[position]):
            break
        found.add(position + 1)
        if not (word.splits or word.many):
            break
    return found


@lru_cache(maxsize=4096)
def _overlap(one: Pieces, other: Pieces) -> bool:
    """Whether some text has both shapes."""
    left, right = _shape(one), _shape(other)
    reached = {0}
    for char in [*left, ""]:
        reached = _skip_stars(right, reached)
        if char == "":
            break
        reached = _read(char, right, reached)
    return len(right) in reached


def _shape(pieces: Pieces) -> list[str | None]:
    found: list[str | None] = []
    for piece in pieces:
        if piece is None:
            if found[-1:] != [None]:
                found.append(None)
        else:
            found.extend(piece)
    return [None, *found[-LONGEST_SHAPE:]] if len(found) > LONGEST_SHAPE else found


def _skip_stars(shape: list[str | None], reached: set[int]) -> set[int]:
    found = set(reached)
    for position in sorted(reached):
        while position < len(shape) and shape[position] is None:
            position += 1  # noqa: PLW2901  # a star may stand for nothing
            found.add(position)
    return found


def _read(char: str | None, shape: list[str | None], reached: set[int]) -> set[int]:
    if char is None:
        return set(range(min(reached), len(shape) + 1)) if reached else set()
    return {
        position + (shape[position] is not None)
        for position in reached
        if position < len(shape) and shape[position] in {None, char}
    }


# ---- Reading words without quotes -----------------------------------------------------------------------------------

_TOKEN = re.compile(r"\\(?P<escaped>[^\n])|(?P<glob>[*?])|(?P<plain>[^\\*?])", re.DOTALL)
_PLAIN = re.compile(r"[\w@%+:,./=~^{}\[\]!#-]")
_SET = re.compile(r"\[.*\]", re.DOTALL)
_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)
_HISTORY = re.compile(r"!(?![\s=]|\Z)")


@dataclass(frozen=True, slots=True)
class Bare:
    """Text without quotes, read: its pieces, what is certain of it, and whether it is text at all."""

    pieces: Pieces
    glob: bool
    odd: bool
    """Shells may differ on it."""
    broken: bool
    """A character that should not be there."""


def read_bare(text: str) -> Bare:
    """What unquoted text within a word means; braces, sets and tildes are judged over the whole word."""
    pieces: list[str | None] = []
    broken = False
    for token in _TOKEN.finditer(text):
        if token["glob"]:
            pieces.append(None)
        elif token["escaped"]:
            pieces.append(token["escaped"])
        else:
            pieces.append(token["plain"])
            broken = broken or not _is_plain(token["plain"])
    covered = sum(len(token[0]) for token in _TOKEN.finditer(text)) == len(text)
    odd = _HISTORY.search(text) is not None or text.startswith(("=", "#"))
    return Bare(tuple(pieces), None in pieces, odd, broken or not covered)


def _is_plain(char: str) -> bool:
    return _PLAIN.match(char) is not None or (not char.isascii() and char.isprintable() and not char.isspace())


def joined(pieces: Iterable[str | None], skeleton: str, *, splits: bool, many: bool, bare: bool) -> Word:
    """A word of its pieces; `skeleton` is its text with a NUL for whatever is quoted or expands."""
    merged: list[str | None] = []
    for piece in pieces:
        if piece is None or not merged or merged[-1] is None:
            merged.append(piece)
        else:
            merged[-1] += piece
    unquoted = re.sub(r"\\.", "\0", skeleton, flags=re.DOTALL)
    if _SET.search(unquoted) or _BRACES.search(unquoted):
        return Word((None,), splits=splits, many=True)
    if unquoted.startswith("~"):
        user = re.match(r"~[^/]*", unquoted)
        rest = "".join(piece or "" for piece in merged)[user.end() if user else 1 :]
        simple = len(merged) == 1
        return Word((None, rest) if simple and rest else (None,), splits=splits, many=many)
    if re.search(r"[=:]~", unquoted):
        return Word((None,), splits=splits, many=many)
    return Word(tuple(merged), splits=splits, many=many, bare=bare)
