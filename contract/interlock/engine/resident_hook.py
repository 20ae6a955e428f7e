"""A participant that is one process for the whole run: calls go in a line each, answers come a line each, in any order.

Strategy: a call carries an `id`, and the answer repeats it. A line that is not exactly one answer to one open call
makes all that is open worthless, since nobody knows any more what belongs to what: it is denied, and the process is
replaced once. So is one that ends, and one that answered nothing at all while a call's whole time passed. After a
second time every call is denied. Whoever asks sends the question itself if it fits at once; else a writer does, so
that an asker who is cancelled leaves no half line.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import anyio

from interlock.engine.exchange import LINGER, LONGEST_ANSWER, end, ending, keep_tail, words
from interlock.engine.participants import BrokenAnswer
from interlock.engine.process import Exit, GuardianLost, Process, StreamClosed, spawn
from interlock.engine.subprocess_hook import hook_environment, outcome_of, unambiguous
from interlock.framing.json_objects import NotJson, parse_object
from interlock.framing.lines import LineFramer, Oversized

if TYPE_CHECKING:
    from interlock.engine.programs import Program
    from interlock.engine.scratch import Scratch
    from interlock.hooks import HookCall, HookOutcome
    from interlock.model import JsonValue

__all__ = ["RESIDENT_VARIABLE", "ResidentHook"]

RESIDENT_VARIABLE = "INTERLOCK_HOOK_RESIDENT"
"""Tells a program that it is started once for many calls."""
MOST_STARTS = 2
NEARLY = 0.9
"""A call that was given up after so much of its time ran out of it; before, somebody withdrew it."""


class _Garbled(Exception):
    """A line that is no answer to an open call. `denies`: it said deny, to whichever call."""

    def __init__(self, why: str, detail: str = "", *, denies: bool = False) -> None:
        super().__init__(why)
        self.detail = detail
        self.denies = denies


@dataclass(slots=True)
class _Open:
    """A call that waits for its answer."""

    done: anyio.Event = field(default_factory=anyio.Event)
    answer: HookOutcome | None = None
    broken: BrokenAnswer | None = None


class ResidentHook:
    """One program, resolved and digested, of one run; it lives from `start` to `close` in a folder of `scratch`.

    `patience`: seconds that a call has, as the chain measures them. In between `attend` must run as a task.
    """

    def __init__(self, program: Program, scratch: Scratch, *, env: Mapping[str, str], patience: float) -> None:
        self._program = program
        self._scratch = scratch
        self._env = {**env, RESIDENT_VARIABLE: "1"}
        self._patience = patience
        self._numbers = itertools.count(1)
        self._stack = ExitStack()
        self._starts = 0
        self._life: _Life | None = None
        self._end: BrokenAnswer | None = BrokenAnswer("it was not started with the run")
        self._changed = anyio.Event()
        self._replacing = anyio.Lock()

    async def start(self) -> None:
        """Start the process for the first time; raises `BrokenAnswer`."""
        try:
            folder = self._stack.enter_context(self._scratch.folder(once=True))
        except OSError as error:
            raise BrokenAnswer("its private folder cannot be made", str(error)) from error
        self._env = hook_environment(folder, self._env)
        self._life = await self._spawn()
        self._end = None

    async def close(self) -> None:
        """End the process with all that it started, and deny whatever is open; may be called at any time, again too."""
        self._over(BrokenAnswer("the run is over"))
        with anyio.CancelScope(shield=True):
            async with self._replacing:
                life, self._life = self._life, None
                if life is not None:
                    life.fail(BrokenAnswer("the run is over"))
                    await end(life.process)
        self._stack.close()

    async def attend(self) -> None:
        """Keep the process going until cancelled; raises nothing else."""
        while (life := self._life) is not None and self._end is None:
            why = await life.run()
            with anyio.CancelScope(shield=True):
                await end(life.process)
            async with self._replacing:
                await self._again(life, why)

    async def _again(self, failed: _Life, why: BrokenAnswer) -> None:
        if self._life is not failed or self._end is not None:
            return
        if self._starts >= MOST_STARTS:
            self._life = None
            self._over(BrokenAnswer("it failed twice in this run and is not started again", f"{why.why}; {why.detail}"))
            return
        try:
            fresh = await self._spawn()
        except BrokenAnswer as error:
            self._life = None
            self._over(error)
            return
        self._life = fresh
        self._tell()

    async def _spawn(self) -> _Life:
        self._starts += 1
        change = self._program.change()
        if change is not None:
            raise BrokenAnswer("its program is not the one of the start", change)
        try:
            return _Life(await spawn(self._program.argv, cwd=self._env["HOME"], env=self._env))
        except (OSError, ValueError, GuardianLost) as error:
            raise BrokenAnswer("it could not be started", str(error)) from error

    def _over(self, why: BrokenAnswer) -> None:
        if self._end is None:
            self._end = why
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def ask(self, call: HookCall) -> HookOutcome:
        """Ask about one call; raises `BrokenAnswer`. A call that is cancelled is forgotten."""
        began = anyio.current_time()
        while (life := self._life) is None or life.failure is not None:
            if self._end is not None:
                raise BrokenAnswer(self._end.why, self._end.detail)
            await self._changed.wait()
        number = next(self._numbers)
        try:
            return await life.ask(number, b'{"id":%d,%s\n' % (number, call.wire()[1:]))
        except BaseException:
            if anyio.current_time() - began >= self._patience * NEARLY:
                life.ran_out(began)
            raise


class _Life:
    """One process, from its start to the first thing that goes wrong."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.failure: BrokenAnswer | None = None
        self._open: dict[int, _Open] = {}
        self._withdrawn: set[int] = set()
        """Calls that nobody waits for any more; each may still be answered once."""
        self._unsent: dict[int, memoryview] = {}
        """What did not fit; of the first a part may be sent."""
        self._to_write = anyio.Event()
        self._answered_at = anyio.current_time()
        self._stderr = bytearray()
        self._framer = LineFramer(LONGEST_ANSWER)
        self._unfinished = 0
        self._exited = anyio.Event()
        self._silent = anyio.Event()
        self._scope = anyio.CancelScope()

    async def ask(self, number: int, question: bytes) -> HookOutcome:
        """Send a question and wait for its answer; raises `BrokenAnswer`."""
        waiting = self._open[number] = _Open()
        self._send(number, question)
        try:
            await waiting.done.wait()
        except BaseException:
            self._withdraw(number)
            raise
        if waiting.answer is not None:
            return waiting.answer
        raise waiting.broken or BrokenAnswer("it gave no answer")

    def _send(self, number: int, question: bytes) -> None:
        rest = memoryview(question)
        if not self._unsent:
            with suppress(StreamClosed):  # the writer notices it too, and says so
                rest = rest[self.process.stdin.offer(rest) :]
        if rest:
            self._unsent[number] = rest
            self._to_write.set()

    def _withdraw(self, number: int) -> None:
        if self._open.pop(number, None) is None:
            return
        if number in self._unsent and number != next(iter(self._unsent)):
            del self._unsent[number]
        else:
            self._withdrawn.add(number)

    def ran_out(self, asked: float) -> None:
        """A call's time has passed: if nothing was answered since, the process hangs."""
        if self._answered_at < asked:
            self.fail(BrokenAnswer("it gave no answer to any call in the time of one"))

    def fail(self, why: BrokenAnswer) -> None:
        """The end of this life, whatever follows: all that is open is broken. The first reason counts."""
        if self.failure is not None:
            return
        why.detail = "; ".join(filter(None, (why.detail, words(self._stderr))))
        self.failure = why
        while self._open:
            _, waiting = self._open.popitem()
            waiting.broken = BrokenAnswer(why.why, why.detail, denies=why.denies)
            waiting.done.set()
        self._scope.cancel()

    async def run(self) -> BrokenAnswer:
        """Read, write and watch until something goes wrong; what."""
        with self._scope:
            async with anyio.create_task_group() as group:
                for task in (self._watch, self._listen, self._write, self._complaints):
                    group.start_soon(task)
        return self.failure or BrokenAnswer("it was given up")

    async def _watch(self) -> None:
        exited: Exit | None = None
        with suppress(GuardianLost):
            exited = await self.process.wait()
        self._exited.set()
        with anyio.move_on_after(LINGER):
            await self._silent.wait()
        self.fail(BrokenAnswer(f"{ending(exited)} while it was needed"))

    async def _listen(self) -> None:
        try:
            while data := await self.process.stdout.receive():
                self._hear(data)
        except _Garbled as error:
            self.fail(BrokenAnswer(str(error), error.detail, denies=error.denies))
            return
        self._silent.set()
        await anyio.sleep(LINGER)
        if not self._exited.is_set():
            self.fail(BrokenAnswer("it closed its output"))

    def _hear(self, data: bytes) -> None:
        lines = self._framer.feed(data)
        self._unfinished = 0 if lines else self._unfinished + len(data)
        for line in lines:
            self._answer(line)
        if self._unfinished > LONGEST_ANSWER:
            raise _Garbled(f"it printed a line of more than {LONGEST_ANSWER} bytes")

    def _answer(self, line: bytes | Oversized) -> None:
        """One line: an answer to a call that is open, or was."""
        value, number = _numbered(line)
        waiting = self._open.pop(number, None)
        if waiting is None and number not in self._withdrawn:
            raise _Garbled(f"it answered call {number}, which is not open", denies=value.get("decision") == "deny")
        self._withdrawn.discard(number)
        self._answered_at = anyio.current_time()
        if waiting is None:
            return
        try:
            waiting.answer = outcome_of(value)
        except ValueError as error:
            waiting.broken = BrokenAnswer(str(error), words(self._stderr), denies=value.get("decision") == "deny")
        waiting.done.set()

    async def _write(self) -> None:
        try:
            while True:
                await self._to_write.wait()
                while self._unsent:
                    number, rest = next(iter(self._unsent.items()))
                    await self.process.stdin.send(rest)
                    del self._unsent[number]
                self._to_write = anyio.Event()
        except StreamClosed:
            await anyio.sleep(LINGER)
            self.fail(BrokenAnswer("it no longer reads"))

    async def _complaints(self) -> None:
        await keep_tail(self.process.stderr, self._stderr)


def _numbered(line: bytes | Oversized) -> tuple[dict[str, JsonValue], int]:
    """An answer and the call that it is about; raises `_Garbled`."""
    if isinstance(line, Oversized):
        raise _Garbled(f"it printed a line of more than {LONGEST_ANSWER} bytes")
    value = parse_object(line)
    if isinstance(value, NotJson):
        raise _Garbled("it printed a line that is not exactly one JSON object", f"{value.reason}: {value.text[:200]}")
    denies = value.get("decision") == "deny"
    try:
        unambiguous(line)
    except ValueError as error:
        raise _Garbled(str(error), denies=denies) from error
    number = value.get("id")
    if type(number) is not int:
        raise _Garbled("it answered without the `id` of a call", denies=denies)
    return cast("dict[str, JsonValue]", value), number
