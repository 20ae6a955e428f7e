"""Frozen maps, canonical JSON, hook calls on the wire, outcomes in words, stamps, names of events and kinds."""

import copy
import json
import pickle
import re
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import events
from interlock.events import BaseEvent, Event, Notice, RunFinished, TextDelta, event_adapter, stamp
from interlock.hooks import HookCall
from interlock.model import FrozenMap, canonical_json, digest, same_json
from interlock.outcome import Outcome, Reason, Status
from interlock.permission import Backstop, Otherwise, Posture
from interlock.request import Request
from interlock.tools import Subject, ToolKind


def call(event: str, **fields: Any) -> HookCall:
    return HookCall.model_validate({
        "event": event, "workspace": "/w", "agent_id": "main", "tool_call_id": "1", "tool_name": "Bash",
        "input": {"command": "ls"}, "agent": "claude", "run_id": "r", "cwd": "/w", "tool_kind": ToolKind.SHELL,
        "subject": Subject(command="ls"), **fields,
    })  # fmt: skip


# ---- Frozen maps ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["__setitem__", "__delitem__", "update", "pop", "clear", "setdefault", "popitem", "__ior__"]
)
def test_a_frozen_map_has_no_way_to_change(name: str) -> None:
    assert not hasattr(FrozenMap({"a": 1}), name)


def test_a_frozen_map_keeps_nothing_of_the_dict_it_came_from() -> None:
    source = {"A": "1"}
    request = Request.model_validate({"agent": "a", "prompt": "p", "env": source})
    source["A"] = "2"
    assert request.env == {"A": "1"}


def test_a_frozen_map_compares_hashes_and_copies_as_the_mapping_it_is() -> None:
    frozen = FrozenMap({"a": 1, "b": 2})
    assert frozen == {"b": 2, "a": 1} == frozen
    assert frozen != {"a": 1}
    assert frozen != 3
    assert hash(frozen) == hash(FrozenMap({"b": 2, "a": 1}))
    assert copy.deepcopy(frozen) == pickle.loads(pickle.dumps(frozen)) == frozen
    assert (list(frozen), len(frozen), repr(frozen)) == (["a", "b"], 2, "{'a': 1, 'b': 2}")


def test_a_request_pickles_and_hashes() -> None:
    fields = {"agent": "a", "prompt": "p", "env": {"A": "1"}, "output_schema": {"type": "object", "required": ["x"]}}
    request = Request.model_validate(fields)
    assert pickle.loads(pickle.dumps(request)) == request
    assert hash(request) == hash(copy.deepcopy(request))


# ---- Canonical JSON -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, 1.0), (1, True), (0, False), (1, "1"), (None, False), ([], {}), ([1, 2], [2, 1]), ("", None)],
)
def test_values_of_other_types_or_order_are_not_the_same_json(left: object, right: object) -> None:
    assert not same_json(left, right)
    assert digest(left) != digest(right)


def test_the_order_of_keys_and_the_kind_of_mapping_make_no_difference() -> None:
    assert same_json({"a": 1, "b": {"d": 1, "c": 2}}, FrozenMap({"b": {"c": 2, "d": 1}, "a": 1}))
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()


def test_what_is_no_json_has_no_digest() -> None:
    with pytest.raises(ValueError, match="no JSON value: object"):
        digest({"a": object()})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=8,
    )
)
def test_canonical_json_is_json_and_canonical(value: Any) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


# ---- Hook calls -----------------------------------------------------------------------------------------------------


def test_before_the_call_output_and_verdict_are_absent_on_the_wire_not_null() -> None:
    wire = json.loads(call("pre_tool_use").wire())
    assert {"output", "is_error"} & set(wire) == set()
    assert wire["hook_schema"] == 1
    assert wire["round"] == 1
    assert wire["subject"] == {"command": "ls", "paths": [], "urls": [], "mcp": None}


@pytest.mark.parametrize("output", [None, "text", {"a": [1]}, ""])
def test_after_the_call_output_and_verdict_are_on_the_wire(output: object) -> None:
    wire = json.loads(call("post_tool_use", output=output, is_error=False).wire())
    assert wire["output"] == output
    assert wire["is_error"] is False


def test_a_hook_call_is_one_line() -> None:
    assert b"\n" not in call("pre_tool_use", input="a\nb\r\u2028").wire()


def test_a_hook_call_comes_back_from_the_wire() -> None:
    before = call("pre_tool_use")
    assert HookCall.parse_json(before.wire()) == before


# ---- Outcomes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"status": "completed"}, "claude run completed"),
        ({"status": "failed", "reason": "auth", "message": "log in"}, "claude run failed (auth): log in"),
        (
            {"status": "failed", "reason": "crashed", "stderr_tail": "a\nboom\n\n", "exit_code": 7},
            "claude run failed (crashed): boom [exit 7]",
        ),
        (
            {"status": "failed", "reason": "crashed", "signal": 9, "exit_code": 1},
            "claude run failed (crashed) [signal 9]",
        ),
        (
            {"status": "failed", "reason": "protocol", "stdout_noise": "oops \n", "exit_code": 0},
            "claude run failed (protocol): oops",
        ),
        ({"status": "timed_out", "reason": "deadline"}, "claude run timed_out (deadline)"),
    ],
)
def test_an_outcome_says_in_one_line_the_most_specific_words_it_has(fields: dict[str, Any], words: str) -> None:
    outcome = Outcome.model_validate({"run_id": "r", "agent": "claude", **fields})
    assert outcome.describe() == words
    assert outcome.ok == (fields["status"] == "completed")


# ---- Events ---------------------------------------------------------------------------------------------------------


def test_the_union_of_events_is_closed() -> None:
    members = set(get_args(get_args(Event)[0]))
    assert members == set(BaseEvent.__subclasses__())
    assert all(kind.__name__ in events.__all__ for kind in members)


@pytest.mark.parametrize("kind", BaseEvent.__subclasses__(), ids=lambda kind: kind.__name__)
def test_the_type_of_an_event_is_its_name_in_snake_case(kind: type[BaseEvent]) -> None:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    field = kind.model_fields["type"]
    assert (get_args(field.annotation), field.default) == ((snake,), snake)


def test_a_stamp_fills_the_fields_of_the_engine_and_shows_in_the_json() -> None:
    event = TextDelta(text="x", agent_id="sub")
    stamp([TextDelta(text="before"), event], run_id="r", agent="claude", seq=2, time=1.5, turn=2)
    wanted = {
        "run_id": "r",
        "agent": "claude",
        "agent_id": "sub",
        "seq": 3,
        "time": 1.5,
        "turn": 2,
        "type": "text_delta",
        "text": "x",
    }
    assert json.loads(event.to_json()) == wanted
    assert event_adapter().validate_json(event.to_json()) == event


def test_an_event_holds_its_whole_outcome() -> None:
    outcome = Outcome(run_id="r", agent="a", status=Status.FAILED, reason=Reason.AUTH)
    back = event_adapter().validate_json(RunFinished(outcome=outcome).to_json())
    assert isinstance(back, RunFinished)
    assert back.outcome.reason is Reason.AUTH


def test_levels_of_notices_are_closed() -> None:
    with pytest.raises(ValueError, match="level"):
        Notice.model_validate({"code": "c", "message": "m", "level": "fatal"})


# ---- Words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [ToolKind, Posture, Otherwise, Backstop, Status, Reason], ids=lambda words: words.__name__
)
def test_a_word_is_its_own_name_in_lower_case(words: type[ToolKind]) -> None:
    assert all(word.value == word.name.lower() for word in words)


@given(
    st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.none())
    | st.dictionaries(st.text(), st.recursive(st.text() | st.integers() | st.floats(allow_nan=False), st.lists))
)
def test_the_quick_spelling_of_a_plain_object_is_the_one_spelling(value: dict[str, Any]) -> None:
    nested = canonical_json([value])
    assert nested == b"[" + canonical_json(value) + b"]"
