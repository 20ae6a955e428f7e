"""Private copies of JSON values: what one participant holds on to, no other one sees change.

A value that many are shown is checked and copied once. Further copies of a small nested one are read back from a flat
form, which costs half; of a large one the texts are shared, and only what could be changed is copied.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

from interlock.model import FrozenMap, JsonValue

__all__ = ["Copies", "copied"]

DEEPEST = 200
LARGE = 65_536
"""Bytes of the flat form, from which on it costs more than it saves."""


class Copies:
    """A value of which many copies are wanted; raises `ValueError` for what is no JSON."""

    __slots__ = ("_flat", "_shallow", "_value")

    def __init__(self, value: object) -> None:
        self._value: Any = copied(value)
        self._shallow = _is_shallow(self._value)
        self._flat = None if self._shallow else _flat(self._value)

    def one(self) -> Any:
        """A copy of the value; what cannot be changed is no copy."""
        if self._shallow:
            return self._value.copy()
        if self._flat is not None:
            return marshal.loads(self._flat)  # noqa: S302  # nobody else wrote it
        return copied(self._value)


def _is_shallow(value: object) -> bool:
    """Whether it is one object of texts, numbers and the like, which nobody can change."""
    if not isinstance(value, dict):
        return False
    return not any(isinstance(entry, dict | list) for entry in cast("dict[str, object]", value).values())


def _flat(value: object) -> bytes | None:
    if not isinstance(value, dict | list):
        return None
    try:
        flat = marshal.dumps(cast("Any", value))
    except ValueError:  # a subclass of a plain type
        return None
    return flat if len(flat) < LARGE else None


def copied(value: object, depth: int = 0) -> JsonValue:
    """A deep copy; raises `ValueError` for what is no JSON: NaN, a lone surrogate, a key that is no text, a cycle."""
    match value:
        case str():
            if not value.isascii():
                value.encode()
            return value
        case None | bool() | int():
            return value
        case float():
            if not isfinite(value):
                raise ValueError("a number that is not finite is no JSON")
            return value
        case dict() | FrozenMap():
            return _copied_object(cast("Mapping[object, object]", value), _deeper(depth))
        case list():
            deeper = _deeper(depth)
            return [copied(entry, deeper) for entry in cast("list[object]", value)]
        case _:
            raise ValueError(f"a {type(value).__name__} is no JSON")


def _copied_object(value: Mapping[object, object], depth: int) -> dict[str, JsonValue]:
    copy: dict[str, JsonValue] = {}
    for key, entry in value.items():
        if not isinstance(key, str):
            raise ValueError("an object's key that is no text is no JSON")  # noqa: TRY004  # one error for all of it
        if not key.isascii():
            key.encode()
        copy[key] = entry if type(entry) is str and entry.isascii() else copied(entry, depth)
    return copy


def _deeper(depth: int) -> int:
    if depth >= DEEPEST:
        raise ValueError(f"JSON nested deeper than {DEEPEST} levels")
    return depth + 1
