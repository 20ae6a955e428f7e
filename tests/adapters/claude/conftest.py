"""A driver for the codec: the real process on socket pairs, and a function that gives the verdicts.

It is what an engine does, without deadlines and without a gate: perform the actions, hand back bytes and verdicts.
"""

from __future__ import annotations

import os
import runpy
import select
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from interlock.actions import (
    Action,
    Ask,
    CloseInput,
    Consult,
    Emit,
    Ending,
    Keep,
    Proceed,
    RunDone,
    Send,
    Stop,
    Suspicion,
    Verdict,
)
from interlock.adapter import Codec, Host, Launch, Order
from interlock.approval import Answer
from interlock.capabilities import Needs
from interlock.events import BaseEvent
from interlock.permission import Backstop
from interlock.request import Request
from interlock_adapters.claude import adapter
from interlock_fixtures.clis import clis_required, find_cli
from interlock_fixtures.scripted_model import ScriptedModel, ToolShown

Decide = Callable[[Consult | Ask], Verdict | Answer | Literal["hold"] | None]
"""None is no objection; `hold` leaves the request open."""
LIMIT = 30.0
LINES = runpy.run_path(str(Path(__file__).parent / "cli_lines.py"))
TRANSPORT = adapter.transports[0]
FULL = Needs(chain_before=True, chain_after=True, modify=True, replace=True, answered=True)


def allow_all(asked: Consult | Ask) -> Verdict | Answer:
    """No objection anywhere; questions are declined."""
    if isinstance(asked, Ask):
        return Answer(declined=True)
    return Keep() if asked.stage == "after" else Proceed()


def an_order(
    request: Request,
    *,
    needs: Needs = FULL,
    binary: str = "/usr/bin/claude",
    backstop: Backstop = Backstop.GATE,
    environ: dict[str, str] | None = None,
    login_files: frozenset[str] = frozenset(),
) -> Order:
    """An order as the engine makes it."""
    host = Host(
        home="/home/user",
        environ={} if environ is None else environ,
        binary=binary,
        binary_folder="/usr/bin",
        platform="linux",
        root=False,
        login_files=login_files,
        login_folder="/home/user/.claude",
    )
    return Order("run-1", request, needs, host, backstop, 66.5, hooks=True)


@dataclass
class Conversation:
    """What happened between a codec and a real process."""

    events: list[BaseEvent] = field(default_factory=list)
    consults: list[Consult | Ask] = field(default_factory=list)
    others: list[Action] = field(default_factory=list)
    received: bytes = b""
    sent: bytes = b""
    code: int | None = None
    stderr: str = ""

    @property
    def ending(self) -> Ending:
        """The one ending."""
        endings = [action.ending for action in self.others if isinstance(action, RunDone)]
        assert len(endings) == 1, (self.others, self.stderr)
        return endings[0]

    def of(self, kind: type[BaseEvent]) -> list[BaseEvent]:
        """All events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def suspicions(self) -> list[Action]:
        """Everything that must not be there in an honest run."""
        return [action for action in self.others if isinstance(action, Suspicion | Stop)]


def perform(codec, actions, ours, talk, decide) -> None:
    """Perform actions; without a socket what is sent is only noted. After the last turn the input is closed."""
    for action in actions:
        match action:
            case Emit(events):
                talk.events += events
            case Send(data):
                talk.sent += data
                if ours is not None:
                    ours.sendall(data)
            case CloseInput() | Stop():
                talk.others += [action] if isinstance(action, Stop) else []
                if ours is not None:
                    ours.shutdown(socket.SHUT_WR)
            case Consult() | Ask():
                talk.consults.append(action)
                verdict = decide(action) or allow_all(action)
                if verdict != "hold":
                    stage = action.stage if isinstance(action, Consult) else None
                    perform(codec, codec.decided(action.key, stage, verdict), ours, talk, decide)
            case _:
                talk.others.append(action)
    over = any(isinstance(action, RunDone) and not action.ending.more for action in actions)
    if over and ours is not None:
        ours.shutdown(socket.SHUT_WR)


@dataclass
class Driver:
    """Runs one real process against a codec."""

    folder: Path
    binary: str
    which: Literal["oldest", "newest"]

    @property
    def cwd(self) -> Path:
        """The workspace."""
        path = self.folder / "repo"
        path.mkdir(exist_ok=True)
        return path

    def request(self, prompt: str = "go", **fields: object) -> Request:
        """A request in the workspace."""
        return Request.model_validate({"agent": "claude", "prompt": prompt, "cwd": str(self.cwd), **fields})

    def run(
        self,
        model: ScriptedModel,
        request: Request | None = None,
        decide: Decide = allow_all,
        *,
        needs: Needs = FULL,
        backstop: Backstop = Backstop.GATE,
        when: Callable[[Conversation, Codec], Sequence[Action]] | None = None,
        env: dict[str, str] | None = None,
    ) -> Conversation:
        """One run from start to exit; `when` is asked after each piece that came, for interrupts."""
        request = request or self.request()
        environ = model.environment("claude") | (env or {})
        order = an_order(request, needs=needs, binary=self.binary, backstop=backstop, environ=environ)
        codec = TRANSPORT.codec(order)
        process, ours = self._spawn(TRANSPORT.launch(order), environ)
        talk = Conversation()
        try:
            perform(codec, codec.start(), ours, talk, decide)
            perform(codec, codec.prompt(request.prompt), ours, talk, decide)
            self._converse(codec, ours, talk, decide, when)
            talk.code = process.wait(LIMIT)
        finally:
            process.kill()
            process.wait()
            ours.close()
        talk.stderr = (self.folder / "stderr").read_text()
        perform(codec, codec.exited(talk.code, None, {}), None, talk, decide)
        return talk

    @staticmethod
    def shown(model: ScriptedModel, call_id: str) -> ToolShown:
        """The result of a call as the model was shown it."""
        return next(shown for shown in model.shown if shown.tool_use_id == call_id)

    def _spawn(self, launch: Launch, environ: dict[str, str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
        home, state = self.folder / "home", self.folder / "state"
        for file in launch.files:
            (home / file.path).parent.mkdir(parents=True, exist_ok=True)
            (home / file.path).write_text(file.content, "utf-8")
        for link in launch.links:
            target = Path(link.target.replace("{state}", str(state)))
            target.mkdir(parents=True, exist_ok=True)
            path = home / link.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_symlink():
                path.symlink_to(target)
        ours, theirs = socket.socketpair()
        given = {name: value for name, value in environ.items() if name not in launch.drop_env}
        set_env = {name: value.replace("{home}", str(home)) for name, value in launch.env.items()}
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **given, **set_env}
        argv = [argument.text.replace("{home}", str(home)) for argument in launch.argv]
        with theirs, (self.folder / "stderr").open("wb") as stderr:
            process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=stderr, cwd=self.cwd, env=env)
        return process, ours

    def _converse(self, codec, ours, talk, decide, when) -> None:
        deadline = time.monotonic() + LIMIT
        while True:
            ready, _, _ = select.select([ours], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"nothing came for {LIMIT} s; so far: {talk.received[-3000:]!r}"
            try:
                data = ours.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                perform(codec, codec.eof("stdout"), None, talk, decide)
                return
            talk.received += data
            perform(codec, codec.received("stdout", data), ours, talk, decide)
            if when is not None:
                perform(codec, when(talk, codec), ours, talk, decide)


@pytest.fixture(params=["oldest", "newest"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Driver:
    """A driver of the oldest and of the newest pinned CLI."""
    found = find_cli("claude", request.param)
    if found is None:
        assert not clis_required(), "the pinned CLIs are not installed: run `npm ci` in fixtures/clis"
        pytest.skip("the pinned CLIs are not installed")
    return Driver(tmp_path, str(found), request.param)


@pytest.fixture
def make_order() -> Callable[..., Order]:
    """Makes orders as the engine does."""
    return an_order


@pytest.fixture
def begin() -> Callable[..., Codec]:
    """A codec, started and prompted; `ready` has answered the handshake."""

    def make(*, ready: bool = True, version: str = "2.1.332", **fields: Any) -> Codec:
        codec = TRANSPORT.codec(an_order(Request(agent="claude", prompt="go", cwd="/repo", **fields)))
        codec.start()
        codec.prompt("go")
        if ready:
            codec.received("stdout", LINES["reply"]("initialize", {"claude_code_version": version}))
            codec.received("stdout", LINES["settings"](("flagSettings", LINES["SETTINGS"])))
        return codec

    return make
