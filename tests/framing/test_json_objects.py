"""A line is exactly one JSON object, or a value that says why not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.framing.json_objects import NotJson, parse_object, parse_text

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=st.dictionaries(st.text(), json_values, max_size=5), ascii_only=st.booleans())
def test_every_object_comes_back_as_it_was(value: dict[str, object], ascii_only: bool) -> None:
    assert parse_object(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(line=st.binary(max_size=200))
def test_no_bytes_make_it_raise(line: bytes) -> None:
    assert isinstance(parse_object(line), dict | NotJson)


def test_exotic_line_separators_inside_strings_are_kept() -> None:
    text = "a\u2028b\u2029c\u0085d\v\f"

    assert parse_object(json.dumps({"t": text}).encode()) == {"t": text}
    assert parse_object('{"t":"\u2028\u2029\u0085"}'.encode()) == {"t": "\u2028\u2029\u0085"}


@pytest.mark.parametrize("text", ["0193e4f2-7e99-4e123", "sha 1e999", ":1e999", " 1e999,"])
def test_a_text_that_looks_like_too_large_a_number_is_no_number(text: str) -> None:
    assert parse_object(json.dumps({"id": text, "n": 1e300}).encode()) == {"id": text, "n": 1e300}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[{}]",
        b'"{}"',
        b"{}{}",
        b"{} {}",
        b'garbage{"type":"a"}',
        b'{"type":"a"}garbage',
        b'{"type":"a"',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":[{"b":1e999}]}',
        b'{"a":-1e999}',
        b'{"a": 1.5e+0999}',
        b'{"a":[0,0.1E400]}',
        b'{"a":[\n-12.50E+999]}',
        b'{"a":\t10e0309}',
        b'{"a":"\\ud800"}',
        b'{"\\udfff":1}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\xff"}',
        b'{"a":"\x00"}',
        b'{"a":"\n"}',
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":01}',
        b"\x00{}",
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"a":1' + b"0" * 5000 + b"}",
        b"\xbb",
    ],
)
def test_anything_but_one_object_is_refused(line: bytes) -> None:
    refused = parse_object(line)

    assert isinstance(refused, NotJson)
    assert refused.length == len(line)
    assert refused.reason


def test_a_report_is_bounded_readable_text() -> None:
    refused = parse_object(b"\xbb" + b"x" * 10_000)

    assert isinstance(refused, NotJson)
    assert refused.text == "\ufffd" + "x" * 511
    assert refused.length == 10_001


@pytest.mark.parametrize("text", [None, "", "no", "{} {}", "[" * 100_000, "NaN", "[1e999]", '"\\ud800"', "\ud800"])
def test_an_answer_that_is_no_json_is_none_and_never_raises(text: str | None) -> None:
    assert parse_text(text) is None


@pytest.mark.parametrize("value", [{"a": [1, None]}, [1.5], "text", 5, True])
def test_an_answer_may_be_json_of_any_kind(value: object) -> None:
    assert parse_text(json.dumps(value)) == value
