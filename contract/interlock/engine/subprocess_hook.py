"""A participant that is a program: started for one call, one JSON object in, exactly one JSON object out.

The exit code says only whether it lived: anything but 0 is broken, whatever was printed. It gets an empty folder of its
own, an environment without credentials, and a deadline that covers spawning, running and reading; with it ends
everything that it started. It need not read what it is given.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

import anyio

from interlock.engine.participants import BrokenAnswer
from interlock.engine.process import Exit, GuardianLost, Process, Stream, StreamClosed, spawn
from interlock.engine.programs import SYSTEM_PATH, Program
from interlock.engine.scratch import Scratch
from interlock.framing.json_objects import NotJson, parse_object
from interlock.hooks import Allow, DenyCall, HookCall, HookOutcome, Modify, Replace
from interlock.model import JsonValue

__all__ = ["SubprocessHook", "read_answer"]

LONGEST_ANSWER = 8 * 1024 * 1024
STDERR_TAIL = 2048
QUOTED = 200
LINGER = 0.25
"""Seconds for the output to end after the program has; who still holds it then is killed."""


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
            process = await spawn(self.program.argv, cwd=folder, env=self._environment(folder))
        except (OSError, ValueError, GuardianLost) as error:
            raise BrokenAnswer("it could not be started", str(error)) from error
        said = _Said()
        try:
            exited = await _converse(process, question, said)
        finally:
            await process.kill_tree()
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()
        return _judged(exited, said)

    def _environment(self, folder: str) -> dict[str, str]:
        """The baseline: no credentials, and a home that holds none."""
        language = {name: value for name in ("LANG", "LC_ALL") if (value := os.environ.get(name))}
        baseline = {"PATH": SYSTEM_PATH, "HOME": folder, "TMPDIR": folder, "PYTHONSAFEPATH": "1"}
        return {"LANG": "C.UTF-8", **language, **baseline, **self.env}


@dataclass(slots=True)
class _Said:
    """What a program said, in bounded memory."""

    answer: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)

    @property
    def too_much(self) -> bool:
        return len(self.answer) > LONGEST_ANSWER

    def tail(self) -> str:
        return bytes(self.stderr[-STDERR_TAIL:]).decode("utf-8", "replace").strip()


async def _converse(process: Process, question: bytes, said: _Said) -> Exit | None:
    """Write, read and wait at once, so that neither side waits for the other; how it exited, if that was seen."""
    exited: list[Exit] = []
    ended = anyio.Event()

    async def watch() -> None:
        with suppress(GuardianLost):
            exited.append(await process.wait())
        with anyio.move_on_after(LINGER):
            await ended.wait()
        group.cancel_scope.cancel()

    async def listen() -> None:
        await _read_answer(process.stdout, said)
        ended.set()
        if said.too_much:
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        group.start_soon(listen)
        group.start_soon(_read_stderr, process.stderr, said)
        group.start_soon(_write, process.stdin, question)
    return exited[0] if exited else None


async def _write(stdin: Stream, question: bytes) -> None:
    with suppress(StreamClosed):
        await stdin.send(question)
    stdin.send_eof()


async def _read_answer(stdout: Stream, said: _Said) -> None:
    while not said.too_much and (data := await stdout.receive()):
        said.answer += data


async def _read_stderr(stderr: Stream, said: _Said) -> None:
    while data := await stderr.receive():
        said.stderr += data
        del said.stderr[:-STDERR_TAIL]


def _judged(exited: Exit | None, said: _Said) -> HookOutcome:
    if said.too_much:
        raise BrokenAnswer(f"it printed more than {LONGEST_ANSWER} bytes", said.tail())
    if exited is None:
        raise BrokenAnswer("nothing is known of how it ended", said.tail())
    if exited.signal is not None:
        raise BrokenAnswer(f"it was ended by signal {exited.signal}", said.tail())
    if exited.code != 0:
        raise BrokenAnswer(f"it exited with code {exited.code}", said.tail())
    try:
        return read_answer(bytes(said.answer))
    except BrokenAnswer as error:
        error.detail = "; ".join(filter(None, (error.detail, said.tail())))
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
        _no_key_twice(data)
        return _outcome(cast("dict[str, JsonValue]", value))
    except ValueError as error:
        raise BrokenAnswer(str(error), quoted, denies=denies) from error


def _no_key_twice(data: bytes) -> None:
    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        names = dict(found)
        if len(names) != len(found):
            raise ValueError("it printed an object with the same key twice")
        return names

    try:
        json.loads(data, object_pairs_hook=pairs)
    except RecursionError as error:
        raise ValueError("it printed an object that is nested too deep") from error


def _outcome(answer: dict[str, JsonValue]) -> HookOutcome:
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
