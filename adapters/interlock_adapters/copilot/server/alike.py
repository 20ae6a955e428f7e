"""When two inputs are the same to the agent: its runtime knows no integers, and writes 1.0 as 1 (1.0.102)."""

from __future__ import annotations

from interlock.model import JsonValue

__all__ = ["alike"]


def alike(left: JsonValue, right: JsonValue) -> bool:
    """Whether two JSON values are the same, numbers by their value as a double."""
    match left, right:
        case (bool(), _) | (_, bool()):
            return left is right
        case (int() | float(), int() | float()):
            return _double(left) == _double(right)
        case dict(), dict():
            return left.keys() == right.keys() and all(alike(value, right[key]) for key, value in left.items())
        case list(), list():
            return len(left) == len(right) and all(map(alike, left, right))
        case _:
            return type(left) is type(right) and left == right


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
