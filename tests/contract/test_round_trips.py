"""Every model of the contract: frozen, closed, and equal after JSON out and in again.

The strategies are read off the models' own fields, so a new field or a new model is tested without being named here.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, MinLen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, JsonValue, ValidationError
from pydantic.fields import FieldInfo

import interlock.adapter  # that every model of the contract is loaded
from interlock.events import BaseEvent, RunFinished, event_adapter
from interlock.hooks import HookOutcome, HooksFile
from interlock.model import FrozenMap, Model, canonical_json, digest, same_json
from interlock.permission import Permission
from interlock.request import NewSession, Request

assert interlock.adapter

PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
RULES = st.sampled_from(
    ["*", "shell", "shell(git push:*)", "write(src/**)", "read(**/.env)", "mcp(github/*)", "fetch(é.example)"]
)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0="), min_size=1, max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
CHECKS: dict[str, st.SearchStrategy[Any]] = {"_checked_rule": RULES, "_checked_for_nul": PLAIN}
SPECIAL: dict[tuple[type[Model], str], st.SearchStrategy[Any]] = {
    (Request, "prompt"): PLAIN.filter(str.strip),
    (Request, "env"): st.dictionaries(NAMES, PLAIN, max_size=3),
}


def models(root: type[Model] = Model) -> Iterator[type[Model]]:
    """Every model of the contract that a value can be of."""
    for kind in root.__subclasses__():
        if (
            kind.__name__[0] != "_"
            and kind is not BaseEvent
            and kind.__module__.startswith("interlock.")
            and kind.__module__.count(".") == 1
        ):
            yield kind
        yield from models(kind)


def of(annotation: Any, metadata: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """Values for one annotation."""
    checks = [CHECKS[part.func.__name__] for part in metadata if isinstance(part, AfterValidator)]
    if checks:
        return checks[0]
    if annotation is JsonValue:
        return JSON
    if hasattr(annotation, "__metadata__"):
        inside, *around = get_args(annotation)
        return of(
            inside, (*around, *(more for part in around if isinstance(part, FieldInfo) for more in part.metadata))
        )
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return st.sampled_from(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return built(annotation)
    return _simple(annotation, metadata)


def _simple(annotation: Any, metadata: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    least = max((part.min_length for part in metadata if isinstance(part, MinLen)), default=0)
    arguments = get_args(annotation)
    makers: dict[Any, Callable[[], st.SearchStrategy[Any]]] = {
        NoneType: st.none,
        bool: st.booleans,
        str: lambda: st.text(min_size=least, max_size=8),
        int: lambda: st.integers(*_bounds(metadata)),
        float: lambda: st.floats(
            *_bounds(metadata),
            allow_nan=False,
            allow_infinity=False,
            exclude_min=any(isinstance(part, Gt) for part in metadata),
        ),
        Literal: lambda: st.sampled_from(arguments),
        tuple: lambda: st.lists(of(arguments[0]), min_size=least, max_size=2).map(tuple),
        frozenset: lambda: st.frozensets(of(arguments[0]), max_size=3),
        Mapping: lambda: st.dictionaries(st.text(max_size=4), of(arguments[1]), max_size=2),
        Union: lambda: st.one_of([of(argument, metadata) for argument in arguments]),
        UnionType: lambda: st.one_of([of(argument, metadata) for argument in arguments]),
    }
    return makers[get_origin(annotation) or annotation]()


def _bounds(metadata: tuple[Any, ...]) -> tuple[Any, Any]:
    lower = next((part.ge if isinstance(part, Ge) else part.gt for part in metadata if isinstance(part, Ge | Gt)), None)
    return lower, next((part.le for part in metadata if isinstance(part, Le)), None)


def built(kind: type[Model]) -> st.SearchStrategy[Any]:
    """Values of a model, every field of it drawn or left at its default."""
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in kind.model_fields.items():
        values = SPECIAL[kind, name] if (kind, name) in SPECIAL else of(field.annotation, tuple(field.metadata))
        (required if field.is_required() else optional)[field.alias or name] = values
    return (
        st.fixed_dictionaries(required, optional=optional)
        .filter(lambda fields: fields.get("may") != ())
        .map(kind.model_validate)
    )


MODELS = sorted(set(models()), key=lambda kind: f"{kind.__module__}.{kind.__name__}")
OPEN = get_args(HookOutcome)
"""Answers of programs, whose unknown fields are ignored."""
EVENTS = [kind for kind in MODELS if issubclass(kind, BaseEvent)]
few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
each_model = pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)


@each_model
@few
@given(data=st.data())
def test_json_out_and_in_again_is_equal(kind: type[Model], data: st.DataObject) -> None:
    value = data.draw(built(kind))
    back = kind.parse_json(value.to_json())
    assert back == value
    assert kind.parse_json(value.to_json().encode()) == value
    assert _typed(back) == _typed(value)


def _typed(value: Model) -> bytes:
    """Its JSON, in which `1` and `1.0` differ, with sets in order."""
    return canonical_json({name: sorted(part) if isinstance(part, frozenset) else part for name, part in value})


@each_model
@few
@given(data=st.data())
def test_python_data_out_and_in_again_is_equal(kind: type[Model], data: st.DataObject) -> None:
    value = data.draw(built(kind))
    assert kind.model_validate(value.model_dump(by_alias=True)) == value
    assert kind.model_validate(value) == value


@each_model
@settings(few, max_examples=3)
@given(data=st.data())
def test_a_model_is_frozen(kind: type[Model], data: st.DataObject) -> None:
    value = data.draw(built(kind))
    for name in kind.model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(value, name, getattr(value, name))


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind not in OPEN], ids=lambda kind: kind.__name__)
@settings(few, max_examples=3)
@given(data=st.data())
def test_an_unknown_field_is_refused_by_name(kind: type[Model], data: st.DataObject) -> None:
    fields = data.draw(built(kind)).model_dump(by_alias=True)
    with pytest.raises(ValidationError) as refused:
        kind.model_validate({**fields, "surprise": 1})
    assert [(error["loc"], error["type"]) for error in refused.value.errors()] == [(("surprise",), "extra_forbidden")]


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@few
@given(data=st.data())
def test_an_event_is_found_again_by_its_type(kind: type[BaseEvent], data: st.DataObject) -> None:
    event = data.draw(built(kind))
    back = event_adapter().validate_json(event.to_json())
    assert type(back) is kind
    assert back == event


@few
@given(built(Request), built(Request))
def test_requests_share_a_digest_exactly_if_their_json_is_the_same(one: Request, other: Request) -> None:
    assert Request.parse_json(one.to_json()).digest() == one.digest()
    assert (one.digest() == other.digest()) == same_json(one.model_dump(mode="json"), other.model_dump(mode="json"))


def test_a_digest_does_not_depend_on_order_or_spelling_but_on_every_value() -> None:
    one = Request(agent="claude", prompt="p", env=FrozenMap({"A": "1", "B": "2"}), permission=Permission())
    assert one.digest() == Request(prompt="p", env=FrozenMap({"B": "2", "A": "1"}), agent="claude").digest()
    assert (
        one.digest() == Request.model_validate({"agent": "claude", "prompt": "p", "env": {"B": "2", "A": "1"}}).digest()
    )
    assert one.digest() != one.model_copy(update={"prompt": "q"}).digest()
    assert one.digest() != one.model_copy(update={"session": NewSession(id="x")}).digest()
    assert one.digest().startswith("sha256:")
    assert digest({"n": 1}) != digest({"n": 1.0})


def test_a_request_is_one_line_of_json_with_tagged_parts() -> None:
    text = Request(agent="claude", prompt="a\nb\u2028c").to_json()
    assert "\n" not in text
    assert '"session":{"kind":"new","id":null}' in text


def test_the_strategies_reach_every_model_that_events_and_requests_hold() -> None:
    assert {Request, RunFinished, HooksFile, Permission} <= set(MODELS)
    assert len(EVENTS) == len(set(EVENTS)) > 20
