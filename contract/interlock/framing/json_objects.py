"""One line, one JSON object, or a value that says why not.

Strict where parsers differ, since what one reader lets pass another may read as something else: UTF-8
only, no byte order mark, no NaN or Infinity (nor a number that overflows to one), no lone surrogate, no
second document, no array or scalar. Text of a refused line is decoded with replacement and cut, for
reports alone.
"""

import re
from dataclasses import dataclass
from math import isinf
from typing import cast

from pydantic_core import from_json

from interlock.model import JsonValue

REPORTED = 512
_MAY_OVERFLOW = re.compile(rb"[0-9][eE]\+?[0-9]{3}|[0-9]{100}")
"""Without one of these no number overflows, so that most lines need no walk. Quick, but ids in hex are like it too."""
_OVERFLOWS = re.compile(rb"[\s:,\[]-?[0-9]+(?:\.[0-9]+)?[eE]\+?[0-9]{3}|[0-9]{100}")
"""The same, but only where a number begins, or a text is written like one."""


@dataclass(frozen=True, slots=True)
class NotJson:
    """A line that is not exactly one JSON object: its first 512 bytes as text, its length, and why."""

    text: str
    length: int
    reason: str


def parse_object(line: bytes) -> dict[str, object] | NotJson:
    """Parse a line that must hold exactly one JSON object."""
    try:
        value: object = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        return _refused(line, str(error))
    if not isinstance(value, dict):
        return _refused(line, "not an object")
    found = cast("dict[str, object]", value)
    if _MAY_OVERFLOW.search(line) and _OVERFLOWS.search(line) and not _finite(found):
        return _refused(line, "number out of range")
    return found


def parse_text(text: str | None) -> JsonValue:
    """Parse a text, such as the answer of a model, that should be one JSON value of any kind; None if it is not."""
    try:
        value: JsonValue = from_json((text or "").encode(), allow_inf_nan=False)
    except ValueError:
        return None
    return value if _finite(value) else None


def readable(data: bytes) -> str:
    """Decode the first 512 bytes for a report, never for use."""
    return data[:REPORTED].decode("utf-8", "replace")


def _refused(line: bytes, reason: str) -> NotJson:
    return NotJson(readable(line), len(line), reason)


def _finite(value: object) -> bool:
    """Tell whether no number in the value overflowed: `1e999` is valid JSON and parses to infinity."""
    if isinstance(value, float):
        return not isinf(value)
    if isinstance(value, dict):
        return all(map(_finite, cast("dict[str, object]", value).values()))
    if isinstance(value, list):
        return all(map(_finite, cast("list[object]", value)))
    return True
