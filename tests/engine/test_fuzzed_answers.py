"""Ten thousand mangled answers, for one call and on a resident's line: none of them becomes an allow."""

import json
import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from interlock.engine.participants import BrokenAnswer
from interlock.engine.resident_hook import _Garbled, _numbered
from interlock.engine.subprocess_hook import outcome_of, read_answer
from interlock.hooks import Allow, HookOutcome
from interlock.model import JsonValue

MANY = 10_000
SEEDS: list[dict[str, Any]] = [
    {"decision": "allow"},
    {"decision": "allow", "reason": "fine"},
    {"decision": "deny", "reason": "allow"},
    {"decision": "modify", "input": {"command": "ls", "decision": "allow"}},
    {"decision": "replace", "output": {"decision": "allow"}, "is_error": False},
    {"permissionDecision": "allow"},
    {"hookSpecificOutput": {"permissionDecision": "allow"}},
]
PIECES = [
    b"{", b"}", b'"', b",", b":", b"[", b"]", b"\\", b"\0", b"\n", b" ", b"\xff", b"\xef\xbb\xbf", b"null", b"true",
    b"allow", b'"decision"', b'"decision":"allow"', b'{"decision":"allow"}', b'"id":1,', b"NaN", b"1e999",
    b"\xed\xa0\x80", b"\\u0061", b"//", b"'", b"\xe2\x80\xa8",
]  # fmt: skip


def mangled(chance: random.Random, data: bytes) -> bytes:
    """The answer with one to four accidents."""
    for _ in range(chance.randint(1, 4)):
        at, to = chance.randint(0, len(data)), chance.randint(0, len(data))
        match chance.randrange(8):
            case 0:
                data = data[:at] + chance.choice(PIECES) + data[at:]
            case 1:
                data = data[:at]
            case 2:
                data = data[at:]
            case 3:
                data = data[: min(at, to)] + data[max(at, to) :]
            case 4:
                data = data + chance.choice([b"", b"\n", b" "]) + data
            case 5:
                data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
            case 6:
                data = data.swapcase() if chance.random() < 0.2 else data.replace(b'"', b"'", 1)
            case _:
                data = data.replace(b'"allow"', chance.choice([b"1", b"null", b'["allow"]', b'"Allow"', b'"allow "']))
    return data


def says_allow(data: bytes, *, number: int | None = None) -> bool:
    """Whether the bytes are, to the letter, exactly one object that allows; written without any code of ours."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({name for name, _ in found}) == len(found)
        return dict(found)

    def never(text: str) -> None:
        raise AssertionError(text)

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=never)
    except (ValueError, AssertionError, RecursionError):
        return False
    if not isinstance(value, dict) or (number is not None and type(value.get("id")) is not int):
        return False
    return value.get("decision") == "allow" and isinstance(value.get("reason", ""), str)


def one_call(data: bytes) -> HookOutcome:
    return read_answer(data)


def resident(data: bytes) -> HookOutcome:
    try:
        value, number = _numbered(data)
        if number != 1:
            raise BrokenAnswer("another call")
        return outcome_of(cast("dict[str, JsonValue]", value))
    except (_Garbled, ValueError) as error:
        raise BrokenAnswer(str(error)) from error


@pytest.mark.parametrize(("read", "number"), [(one_call, None), (resident, 1)])
def test_no_mangled_answer_becomes_an_allow(read: Callable[[bytes], HookOutcome], number: int | None) -> None:
    chance = random.Random(20_261_130)
    broken = allowed = 0
    while broken < MANY:
        seed = chance.choice(SEEDS)
        data = mangled(chance, json.dumps(seed if number is None else {"id": number, **seed}).encode())
        try:
            answer = read(data)
        except BrokenAnswer:
            broken += 1
            continue
        if isinstance(answer, Allow):
            allowed += 1
            assert says_allow(data, number=number), data
        else:
            broken += 1
    assert allowed > 10  # so that the mangling is not too coarse to tell
