"""The base of every model at a border of the library: frozen, closed, equal after JSON out and in again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from json import JSONEncoder
from typing import Annotated, Any, Self, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, JsonValue
from pydantic_core import CoreSchema, core_schema, from_json, to_json

__all__ = ["FrozenMap", "JsonValue", "Map", "Model", "canonical_json", "digest", "same_json"]

V = TypeVar("V")


class Model(BaseModel):
    """A frozen value: unknown fields are refused, and it survives JSON out and in again unchanged."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_inf_nan="constants")

    def to_json(self) -> str:
        """This value as one line of JSON, without a newline."""
        return self.model_dump_json()

    @classmethod
    def parse_json(cls, text: str | bytes) -> Self:
        """Read a value back; raises `pydantic.ValidationError` naming each bad field."""
        return cls.model_validate_json(text)


class FrozenMap(Mapping[str, V]):
    """An immutable mapping, so that a frozen model holds no dict; JSON values in it are plain lists and dicts."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, V] | None = None) -> None:
        self._items = dict(items or {})

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return repr(self._items)

    def __eq__(self, other: object) -> bool:
        return dict(self) == dict(other) if isinstance(other, Mapping) else NotImplemented  # pyright: ignore[reportUnknownArgumentType]

    def __hash__(self) -> int:
        return hash(frozenset(self._items))  # the keys alone: a JSON value may hold lists


class _Frozen:
    """Turns what a mapping field is given into a `FrozenMap`, and back into a plain object as JSON."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        values = handler.generate_schema(get_args(source)[1])
        plain = core_schema.no_info_before_validator_function(
            _plain, core_schema.dict_schema(core_schema.str_schema(), values)
        )
        return core_schema.no_info_after_validator_function(
            FrozenMap, plain, serialization=core_schema.plain_serializer_function_ser_schema(dict)
        )


Map = Annotated[Mapping[str, V], _Frozen()]
"""The type of a mapping field: any mapping may be given, a `FrozenMap` is kept."""


def _plain(given: object) -> object:
    return dict(cast("FrozenMap[object]", given)) if isinstance(given, FrozenMap) else given


def canonical_json(value: object) -> bytes:
    """The one spelling of a JSON value that digests and comparisons use: keys sorted, no spaces, UTF-8."""
    if type(value) is dict and _SPELLED_ALIKE.issuperset(map(type, cast("dict[object, object]", value).values())):
        return _encoded(value).encode()
    plain = to_json(value, inf_nan_mode="constants", fallback=_unwrapped)
    return to_json(_sorted(from_json(plain)), inf_nan_mode="constants")


_encoded = JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_SPELLED_ALIKE = frozenset({str, int, bool, type(None)})
"""What both encoders spell alike; the input of most tool calls is one object of these, and this is the cheaper one."""


def digest(value: object) -> str:
    """`sha256:` and the hex digest of the value's canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def same_json(left: object, right: object) -> bool:
    """Whether two JSON values are the same, types included: `1`, `1.0`, `true` and `"1"` all differ."""
    return left is right or canonical_json(left) == canonical_json(right)


def _unwrapped(value: object) -> object:
    if isinstance(value, FrozenMap):
        return _plain(cast("object", value))
    raise TypeError(f"no JSON value: {type(value).__name__}")


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        items = cast("dict[str, object]", value)
        return {key: _sorted(items[key]) for key in sorted(items)}
    if isinstance(value, list):
        return [_sorted(entry) for entry in cast("list[object]", value)]
    return value
