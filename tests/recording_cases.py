"""What is the same for every agent whose conversations are recorded: the runs, and what our side says in them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from interlock import Allow, Answer, Approve, Client, Deny, DenyCall, HookCall, Outcome, Request
from interlock.engine.registry import find_adapter
from interlock.engine.run import Run
from interlock.events import ApprovalRequested, BaseEvent, QuestionAsked, ToolDecided, TurnFinished
from interlock_fixtures.clis import Which, cli_version, pinned_ends, require_cli
from interlock_fixtures.record import Recorder, Trim
from interlock_fixtures.recording import save_recording
from interlock_fixtures.scripted_model import HttpError, ScriptedModel, Text, ToolCall, Turn

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"
DONE = Turn(Text("done"))
ASK = {"posture": "none", "otherwise": "ask"}
FULL = {"posture": "full"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SESSION, BRANCH = (f"00000000-0000-4000-8000-0000000000{number}" for number in ("a1", "a2"))
ODD = "line\u2028paragraph\u2029next\u0085vt\u000bff\u000c bird \U0001f426 e\u0301 \u202e"
SHOWN = "line\u2028paragraph\u2029next bird \U0001f426 e\u0301"
PROSE = "(words of the CLI)"
OURS = ("go", "p", "and an egret", "go on")
"""What our side says, and a model to a sub-agent."""
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    done = {
        "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "birds", "version": "1"}},
        "tools/list": {"tools": [{"name": "say", "description": "says", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "said"}]},
    }.get(asked["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": done}), flush=True)
"""

Says = Callable[[HookCall], Any]


class Participant:
    """Two functions as a participant."""

    name = "policy"

    def __init__(self, before: Says | None, after: Says | None) -> None:
        self.events = ("pre_tool_use", *(("post_tool_use",) if after else ()))
        self._before, self._after = before, after

    async def before(self, call: HookCall) -> Any:
        return self._before(call) if self._before else Allow()

    async def after(self, call: HookCall) -> Any:
        return self._after(call) if self._after else Allow()


async def nothing(_: Run, __: BaseEvent) -> None:
    return


async def interrupt(run: Run, event: BaseEvent) -> None:
    if isinstance(event, ToolDecided):
        await run.interrupt()


async def steer(run: Run, event: BaseEvent) -> None:
    if isinstance(event, ToolDecided):
        await run.send("and an egret")


async def go_on(run: Run, event: BaseEvent) -> None:
    if isinstance(event, TurnFinished) and event.turn == 1:
        await run.send("go on")
    elif isinstance(event, TurnFinished):
        await run.finish()


@dataclass(frozen=True)
class Case:
    """What the model says, what our side answers, and what the request asks for."""

    turns: Sequence[Any]
    before: Says | None = None
    after: Says | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    respond: Callable[[ApprovalRequested], Approve | Deny | None] = lambda _: Approve()
    """None: it is left open, and `act` is told of it."""
    answer: Answer = field(default_factory=lambda: Answer(answers={"1": ("B",)}))
    act: Callable[[Run, BaseEvent], Any] = nothing
    conversation: bool = False
    first: Sequence[Any] = ()
    """Turns of a run before, in the session that this one goes on with."""
    chain: bool = True
    """Whether a participant takes part."""


def call(name: str, given: Mapping[str, Any], call_id: str = "t1") -> ToolCall:
    return ToolCall(name, given, id=call_id)


def refuse(*calls: str) -> Says:
    return lambda asked: DenyCall(reason="out of bounds") if asked.tool_call_id in calls else Allow()


def error(status: int, kind: str, times: int = 1, **headers: str) -> list[Turn]:
    return [Turn(HttpError(status, kind, "scripted", headers=headers))] * times


@dataclass(frozen=True)
class Studio:
    """Records one agent: its cases, and what is done with them."""

    agent: str
    cases: Mapping[str, Case]
    recorded_by: str
    trim: Trim
    redactions: tuple[str, ...]
    """What is told of `trim`."""
    service: tuple[str, ...]
    """The variables that lead to the scripted model."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Of every request."""
    leads: Callable[[ScriptedModel, Mapping[str, Any]], Mapping[str, Any]] = lambda _, __: {}
    """What else of a request leads to the scripted model, by it and the other fields."""
    names_sessions: bool = True
    """Whether a session can be given an id; else the first run says which it has."""
    environ: Callable[[], Mapping[str, str]] = dict
    """Of our own process, beside HOME."""
    prepare: Callable[[Path], None] = lambda _: None
    """What else there must be in the folder of a run."""
    paths: Callable[[], Mapping[str, str]] = dict
    """What else stands for what in a recording."""

    def main(self, words: Sequence[str]) -> None:
        """Record what the words name, or everything."""
        pinned = pinned_ends(self.agent)
        ends: list[Which] = [end for end in pinned if end in words] or list(pinned)
        for name in [word for word in words if word not in ends] or self.cases:
            for which in ends:
                print(f"{which} {name}: {self.record(which, name)}", flush=True)

    def record(self, which: Which, name: str, root: Path = RECORDINGS) -> str:
        """Record one case of one CLI; gives the outcome."""
        case, version = self.cases[name], cli_version(self.agent, which)
        assert version
        with tempfile.TemporaryDirectory(prefix="record") as made, self._at(Path(made).resolve()) as folder:
            cli = require_cli(self.agent, which)
            if case.first:
                with ScriptedModel(case.first) as model:
                    session = {"kind": "new", **({"id": SESSION} if self.names_sessions else {})}
                    before = Case((), request={**case.request, "session": session}, chain=case.chain)
                    began = anyio.run(lambda: self._play(before, cli, folder, model))
                if not self.names_sessions:
                    session = {**case.request["session"], "id": began.session_id}
                    case = replace(case, request={**case.request, "session": session})
            paths = {str(folder / "beside"): "/beside", str(folder): "/home/user", sys.executable: "/usr/bin/python3"}
            paths |= self.paths()
            with Recorder(find_adapter(self.agent), cli, version, self.trim, self.redactions, paths) as recorder:
                with ScriptedModel(case.turns) as model:
                    told = anyio.run(lambda: self._play(case, recorder.program, folder, model)).describe()
                save_recording(recorder.recording(name, recorded_by=self.recorded_by), root)
        return told

    @contextmanager
    def _at(self, folder: Path) -> Iterator[Path]:
        """A home and a workspace with files in it."""
        for path in ("home", "repo", "beside"):
            (folder / path).mkdir()
        for path in ("a.txt", "b.txt"):
            (folder / "repo" / path).write_text("a heron\n", "utf-8")
        self.prepare(folder)
        before = dict(os.environ)
        os.environ.update({"HOME": str(folder / "home"), **self.environ()})
        try:
            yield folder
        finally:
            os.environ.clear()
            os.environ.update(before)

    async def _play(self, case: Case, program: Path, folder: Path, model: ScriptedModel) -> Outcome:
        """One run through the engine."""
        env = {name: value for name, value in model.environment(self.agent).items() if name in self.service}
        given = {"permission": FULL, **self.fields, **case.request, "env": env, "login": "env"}
        given |= self.leads(model, given)
        if "add_dirs" in given:
            given["add_dirs"] = [str(folder / "beside")]
        request = Request(agent=self.agent, prompt="go", cwd=str(folder / "repo"), binary=str(program), **given)
        chain = [Participant(case.before, case.after)] if case.chain else []
        with anyio.fail_after(90):
            client = Client(interceptors=chain, state=folder / "state")
            async with client, client.stream(request, conversation=case.conversation) as run:
                await _follow(run, case)
                return await run.outcome()


async def _follow(run: Run, case: Case) -> None:
    """Read the run to its end and answer what it asks."""
    async for event in run:
        match event:
            case ApprovalRequested() if (decision := case.respond(event)) is not None:
                run.respond(event.approval.id, decision)
            case QuestionAsked():
                run.answer(event.question.id, case.answer)
            case _:
                await case.act(run, event)
