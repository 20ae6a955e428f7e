"""`interlock replay`: a recorded conversation as a run again, with faults if wanted; no agent and no account is needed.

A program says what the recorded agent said, in a workspace that is thrown away, and the engine runs it as it would the
CLI. Our side answers as it did then: what a participant or a person said is said again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from interlock.approval import Answer, Approval, Approve, Deny, Question
from interlock.engine.client import Client
from interlock.engine.registry import find_adapter
from interlock.engine.run import Run
from interlock.errors import InterlockError, NotOpen, RunEnded
from interlock.events import ApprovalRequested, BaseEvent, QuestionAsked, ToolDecided, TurnFinished
from interlock.hooks import Allow, DenyCall, HookCall, HookOutcome
from interlock.request import Request
from interlock_adapters.cli.agent_facts import key_names
from interlock_adapters.cli.options import UsageProblem
from interlock_adapters.cli.output import print_line
from interlock_adapters.cli.problems import INTERRUPTED, code_of, exit_code, explain
from interlock_adapters.cli.show import JsonView, PeopleView, Screen
from interlock_fixtures.conformance.running import Replayed
from interlock_fixtures.recording import Given, Interjection, Recording, find_recordings
from interlock_fixtures.replay import Faults, install_replay, moved

__all__ = ["replay"]

QUIET = 10.0
"""Seconds without progress after which a replay that was told to fall silent is given up."""
TOTAL = 600.0
BY = "denied by "
"""How a recorded denial of a participant begins."""
_NUMBERS: Mapping[str, str] = {"cut-at": "cut_at", "stall-at": "stall_at", "exit": "code", "signal": "signal"}
_FLAGS: Mapping[str, str] = {"duplicate-end": "duplicate_end", "ignore-term": "ignore_term"}
FAULTS = "cut-at=BYTE stall-at=BYTE exit=CODE signal=N chunks=BYTES|message|whole delay=SECONDS stderr=BYTES"
MORE_FAULTS = "garbage[=TEXT] duplicate-end ignore-term"


def replay(folder: str, faults: Sequence[str], *, as_json: bool) -> int:
    """Replay the recording in or under a folder; returns the exit code of the run."""
    try:
        recording = _the_one_in(Path(folder))
        chosen = faults_of(faults)
        with tempfile.TemporaryDirectory(prefix="interlock-replay-") as made:
            return anyio.run(partial(_play, recording, chosen, Path(made).resolve(), as_json=as_json))
    except (UsageProblem, InterlockError) as error:
        for line in explain(error):
            print_line(line, 2)
        return code_of(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _the_one_in(folder: Path) -> Recording:
    try:
        found = find_recordings(folder)
    except (OSError, ValueError, KeyError) as error:
        raise UsageProblem(f"{folder}: a recording in it cannot be read: {error}") from None
    if not found:
        raise UsageProblem(f"{folder}: there is no recording; make one with: interlock record --out {folder} ...")
    if len(found) > 1:
        names = ", ".join(one.name for one in found[:5])
        raise UsageProblem(f"{folder}: there are {len(found)} recordings; name the folder of one: {names} ...")
    return found[0]


# ---- Faults ---------------------------------------------------------------------------------------------------------


def faults_of(words: Sequence[str]) -> Faults:
    """The faults that `--fault` names, each as NAME or NAME=VALUE; raises `UsageProblem`."""
    fields: dict[str, Any] = {}
    for word in words:
        name, separator, value = word.partition("=")
        fields |= _fault(word, name, value if separator else None)
    return Faults(**fields)


def _fault(word: str, name: str, value: str | None) -> dict[str, Any]:
    match name, value:
        case "chunks", "message" | "whole":
            return {"chunks": value}
        case "chunks" | "stderr", str(number):
            return {name: _number(word, number, int, least=name == "chunks")}
        case "delay", str(number):
            return {"delay": _number(word, number, float)}
        case "garbage", _:
            return {"garbage": (b"\xbb not a message" if value is None else value.encode()) + b"\n"}
        case _ if name in _FLAGS and value is None:
            return {_FLAGS[name]: True}
        case _ if name in _NUMBERS and value is not None:
            return {_NUMBERS[name]: _number(word, value, int, least=name == "signal")}
        case _:
            raise UsageProblem(f"--fault {word!r}: there is no such fault; use\n{FAULTS}\n{MORE_FAULTS}")


def _number(word: str, text: str, kind: Callable[[str], float], *, least: int = 0) -> Any:
    try:
        found = kind(text)
    except ValueError:
        found = -1
    if not least <= found < 1 << 40:
        raise UsageProblem(f"--fault {word!r}: it takes a number from {int(least)} on")
    return found


# ---- The run --------------------------------------------------------------------------------------------------------


async def _play(recording: Recording, faults: Faults, place: Path, *, as_json: bool) -> int:
    screen = Screen()
    people = PeopleView(screen)
    view = JsonView(screen) if as_json else people
    side = _OurSide(recording)
    chain = [_Participant(recording)] if recording.meta.needs.get("chain_before") else []
    client = Client(interceptors=chain, state=place / "state")
    request = _request(recording, faults, place)
    async with client, client.stream(request, conversation=side.conversation) as run:
        for warning in run.plan.warnings:
            people.pass_over(warning)  # they are about credentials, which open nothing here
        async for event in run:
            await side.heard(run, event)
            await view.show(event)
        return exit_code(await run.outcome())


def _request(recording: Recording, faults: Faults, place: Path) -> Request:
    """The recorded request, in a place of its own and with a session of its own: the one recorded is not here."""
    adapter = find_adapter(recording.meta.agent)
    fields: dict[str, Any] = {**recording.meta.request}
    for number, name in enumerate(("repo", *fields.get("add_dirs", ()))):
        (place / (f"beside-{number}" if number else name)).mkdir()
    keys = dict.fromkeys(key_names(adapter)[:1], "placeholder")
    session = fields.pop("session", {"kind": "new"})
    limits = {"idle": QUIET, "start_up": QUIET} if faults.stall_at is not None else {}
    fields |= {
        "cwd": str(place / "repo"),
        "add_dirs": [str(place / f"beside-{number + 1}") for number in range(len(fields.get("add_dirs", ())))],
        "session": session if session["kind"] == "new" else {"kind": "new"},
        "login": "env",
        "env": {**keys, **fields.get("env", {})},
        "binary": str(install_replay(place, moved(recording, place / "repo"), faults)),
        "transport": recording.meta.transport,
        "limits": {"total": TOTAL, **fields.get("limits", {}), **limits},
        "trust_workspace": True,
    }
    return Request.model_validate(fields)


class _Participant(Replayed):
    """What was said before a call, unless a person was there to say it."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        permission = recording.meta.request.get("permission")
        self._asks = isinstance(permission, Mapping) and permission.get("otherwise") == "ask"
        self._said = {one.call: one.reason for one in recording.meta.verdicts if one.stage == "before"}

    async def before(self, call: HookCall) -> HookOutcome:
        """A participant's denial names it."""
        if self._asks and not self._said.get(call.tool_call_id, "").startswith(BY):
            return Allow()
        said = await super().before(call)
        if isinstance(said, DenyCall) and said.reason.startswith(BY):
            return DenyCall(reason=said.reason.partition(": ")[2] or said.reason)
        return said


@dataclass(slots=True)
class _OurSide:
    """Says what our side said in the recorded run."""

    recording: Recording
    left: list[Interjection] = field(init=False)
    conversation: bool = field(init=False)

    def __post_init__(self) -> None:
        self.left = list(self.recording.meta.interjections)
        self.conversation = any(one.kind == "prompt" for one in self.left)

    async def heard(self, run: Run, event: BaseEvent) -> None:
        """Answer what the event asks, and say what was said of our own accord."""
        try:
            match event:
                case ApprovalRequested(approval=approval):
                    run.respond(approval.id, self._decision(approval))
                case QuestionAsked(question=question):
                    run.answer(question.id, self._answer(question))
                case ToolDecided():
                    await self._say(run, "steer", "interrupt")
                case TurnFinished():
                    await self._say(run, "prompt")
                case _:
                    return
        except (NotOpen, RunEnded):
            return  # with a fault, it may be over by then

    async def _say(self, run: Run, *kinds: str) -> None:
        if self.left and self.left[0].kind in kinds:
            said = self.left.pop(0)
            await (run.interrupt() if said.kind == "interrupt" else run.send(said.text))
        elif "prompt" in kinds:
            await run.finish()

    def _given(self, call: str, *stages: str) -> Given | None:
        return next((one for one in self.recording.meta.verdicts if one.call == call and one.stage in stages), None)

    def _decision(self, approval: Approval) -> Approve | Deny:
        match self._given(approval.call.tool_call_id, "before"):
            case Given(verdict="proceed", changed=True, input=dict(native)):
                return Approve(updated_input=native)
            case Given(verdict="proceed"):
                return Approve()
            case Given(reason=reason, interrupt=interrupt) if reason:
                return Deny(reason=reason, interrupt=interrupt)
            case _:
                return Deny(reason="nobody said yes in the recorded run")

    def _answer(self, question: Question) -> Answer:
        given = next((one for one in self.recording.meta.verdicts if one.stage == "question"), None)
        del question
        if given is None:
            return Answer(declined=True, reason="nobody answered in the recorded run")
        return Answer(answers=given.answers, declined=given.declined, reason=given.reason)
