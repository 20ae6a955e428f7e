"""Private copies of JSON values: what one participant holds on to, no other one sees change."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import cast

from interlock.model import FrozenMap, JsonValue

__all__ = ["copied"]

DEEPEST = 200


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
