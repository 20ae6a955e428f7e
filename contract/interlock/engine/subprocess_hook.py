"""A participant that is a program: started for one call, one JSON object in, exactly one JSON object out.

The exit code says only whether it lived: anything but 0 is broken, whatever was printed. It gets an empty folder of its
own, an environment without credentials, and a deadline that covers spawning, running and reading; with it ends
everything that it started. It need not read what it is given.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from interlock.engine.exchange import LONGEST_ANSWER, Heard, NotStarted, converse
from interlock.engine.participants import BrokenAnswer
from interlock.engine.programs import SYSTEM_PATH, Program
from interlock.engine.scratch import Scratch
from interlock.framing.json_objects import NotJson, parse_object
from interlock.hooks import Allow, DenyCall, HookCall, HookOutcome, Modify, Replace
from interlock.model import JsonValue

__all__ = ["LONGEST_ANSWER", "SubprocessHook", "hook_environment", "outcome_of", "read_answer", "unambiguous"]

QUOTED = 200


class _Malformed(ValueError):
    """A JSON object that is no answer."""


@dataclass(frozen=True, slots=True)
class SubprocessHook:
    """One program, resolved and digested; it runs in a folder of `scratch`."""

    program: Program
    scratch: Scratch
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    async def ask(self, call: HookCall) -> HookOutcome:
        """Ask about one call; raises `BrokenAnswer`. Cancelled, it leaves no process and no folder."""
        change = self.program.change()
        if change is not None:
            raise BrokenAnswer("its program is not the one of the start", change)
        try:
            with self.scratch.folder() as folder:
                return await self._ask(call.wire(), folder)
        except OSError as error:
            raise BrokenAnswer("its private folder cannot be made", str(error)) from error

    async def _ask(self, question: bytes, folder: str) -> HookOutcome:
        try:
            heard = await converse(
                self.program.argv, cwd=folder, env=hook_environment(folder, self.env), question=question
            )
        except NotStarted as error:
            raise BrokenAnswer("it could not be started", str(error)) from error
        return _judged(heard)


def hook_environment(folder: str, env: Mapping[str, str]) -> dict[str, str]:
    """The baseline of a hook, and its own variables: no credentials, and a home that holds none."""
    language = {name: value for name in ("LANG", "LC_ALL") if (value := os.environ.get(name))}
    baseline = {"PATH": SYSTEM_PATH, "HOME": folder, "TMPDIR": folder, "PYTHONSAFEPATH": "1"}
    return {"LANG": "C.UTF-8", **language, **baseline, **env}


def _judged(heard: Heard) -> HookOutcome:
    trouble = heard.trouble()
    if trouble is not None:
        raise BrokenAnswer(trouble, heard.tail())
    try:
        return read_answer(bytes(heard.answer))
    except BrokenAnswer as error:
        error.detail = "; ".join(filter(None, (error.detail, heard.tail())))
        raise


def read_answer(data: bytes) -> HookOutcome:
    """The one answer in a program's output; raises `BrokenAnswer` for anything but exactly one that is well formed."""
    if not data.strip():
        raise BrokenAnswer("it printed nothing")
    value = parse_object(data)
    quoted = data[:QUOTED].decode("utf-8", "replace")
    if isinstance(value, NotJson):
        raise BrokenAnswer("it printed something other than exactly one JSON object", f"{value.reason}: {quoted}")
    denies = value.get("decision") == "deny"
    try:
        unambiguous(data)
        return outcome_of(cast("dict[str, JsonValue]", value))
    except ValueError as error:
        raise BrokenAnswer(str(error), quoted, denies=denies) from error


def unambiguous(data: bytes) -> None:
    """Raises `ValueError` for JSON that different readers take for different things."""

    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        names = dict(found)
        if len(names) != len(found):
            raise ValueError("it printed an object with the same key twice")
        return names

    try:
        json.loads(data, object_pairs_hook=pairs)
    except RecursionError as error:
        raise ValueError("it printed an object that is nested too deep") from error


def outcome_of(answer: dict[str, JsonValue]) -> HookOutcome:
    """The answer that an object holds; raises `ValueError`."""
    match answer.get("decision"):
        case "allow":
            return Allow(reason=_reason(answer))
        case "deny":
            if "reason" not in answer:
                raise _Malformed("it answered deny without a `reason`")
            return DenyCall(reason=_reason(answer))
        case "modify":
            if "input" not in answer:
                raise _Malformed("it answered modify without an `input`")
            return Modify(input=answer["input"], reason=_reason(answer))
        case "replace":
            return _replacement(answer)
        case None:
            raise _Malformed("it answered without a `decision`")
        case other:
            raise _Malformed(f"it answered the unknown decision {str(other)[:100]!r}")


def _replacement(answer: dict[str, JsonValue]) -> Replace:
    if "output" not in answer:
        raise _Malformed("it answered replace without an `output`")
    is_error = answer.get("is_error")
    if is_error is not None and not isinstance(is_error, bool):
        raise _Malformed("it answered an `is_error` that is neither true nor false")
    return Replace(output=answer["output"], is_error=is_error, reason=_reason(answer))


def _reason(answer: dict[str, JsonValue]) -> str:
    reason = answer.get("reason", "")
    if not isinstance(reason, str):
        raise _Malformed("it answered a `reason` that is no text")
    return reason
