"""A person at the real CLIs' own screens, offline: what they type, what our chain says to it, what they are asked.

Of Claude Code and Copilot the file of the hooks is overwritten before the first prompt: it is read at the start alone.
"""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest

from interlock.engine.registry import find_adapter
from interlock_fixtures.clis import Which, copilot_cache, require_cli
from interlock_fixtures.scripted_model import ModelRequest, ScriptedModel, Text, ToolCall, Turn

pytestmark = pytest.mark.live

PROGRAM = [sys.executable, "-c", "from interlock_adapters.cli import main; main()"]
LIMIT = 60.0
QUIET = 4.0
"""Seconds without output after which a key counts as lost."""
HOOK = """
import json, sys
call = json.load(sys.stdin)
if "heron" in str(call["input"]):
    print(json.dumps({"decision": "deny", "reason": "no herons here"}))
elif "touch one" in str(call["input"]):
    print(json.dumps({"decision": "modify", "input": {**call["input"], "command": "touch two"}}))
else:
    print(json.dumps({"decision": "allow"}))
"""


class Screen(pyte.Screen):
    """What the person sees; questions of the program about the terminal are answered by `Person`."""

    def report_device_status(self, mode: int, **kwargs: Any) -> None:
        del mode, kwargs

    def report_device_attributes(self, mode: int = 0, **kwargs: Any) -> None:
        del mode, kwargs


@dataclass
class Person:
    """Somebody at a terminal."""

    child: Any
    screen: Screen = field(default_factory=lambda: Screen(120, 45))

    def __post_init__(self) -> None:
        self._stream = pyte.ByteStream(self.screen)

    @property
    def sees(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display if line.strip())

    def waits_for(self, *texts: str, key: str = "", over: str = "") -> None:
        """Read until all of these texts are on the screen; `key` is typed while `over` stays there and nothing comes.

        Some drop what is typed before they have drawn what they ask.
        """
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if all(text in self.sees for text in texts):
                return
            try:
                data = self.child.read_nonblocking(65536, timeout=QUIET)
            except pexpect.TIMEOUT:
                self.child.send(key if over in self.sees else "")
                continue
            except pexpect.EOF:
                break
            self._stream.feed(data)
            if b"\x1b[6n" in data:
                self.child.send("\x1b[1;1R")
            if b"\x1b[c" in data:
                self.child.send("\x1b[?62;c")
        pytest.fail(f"not all of {texts} came:\n{self.sees}")

    def types(self, text: str) -> None:
        """A prompt, and the key that sends it, once it stands on the screen."""
        self.child.send(text)
        self.waits_for(text)
        self.child.send("\r")

    def leaves(self, keys: str) -> int:
        """By these keys, typed again only where nothing follows; the exit code."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            self.child.send(keys)
            try:
                while True:
                    self._stream.feed(self.child.read_nonblocking(65536, timeout=3))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                break
        self.child.wait()
        return int(self.child.exitstatus)


@dataclass
class Claude:
    """The folder counts as trusted, the key as chosen: it is ready at once."""

    which: Which = "newest"
    name = "claude"
    ready = "? for shortcuts"
    asks = "Do you want to proceed?"
    options = ()
    hooks = "settings.json"
    asked = "touch asked"

    def call(self, command: str, call_id: str) -> ToolCall:
        return ToolCall("Bash", {"command": command, "description": "a command"}, call_id)

    def binary(self, folder: Path, model: ScriptedModel) -> Path:
        del folder, model
        return require_cli("claude", self.which)

    def prepare(self, home: Path) -> None:
        del home

    def open(self, person: Person) -> None:
        person.waits_for(self.ready)


class Copilot(Claude):
    """It asks first whether the folder is trusted."""

    name = "copilot"
    ready = "? help"
    asks = "Do you want to run this command?"
    hooks = "plugin/hooks.json"
    options = ("-m", "gpt-4.1")

    def call(self, command: str, call_id: str) -> ToolCall:
        return ToolCall("bash", {"command": command, "description": "a command"}, call_id)

    def binary(self, folder: Path, model: ScriptedModel) -> Path:
        del folder, model
        return require_cli("copilot", "oldest")

    def prepare(self, home: Path) -> None:
        unpacked = home / ".local/state/interlock/copilot/packages"
        unpacked.parent.mkdir(parents=True)
        unpacked.symlink_to(copilot_cache() / "copilot")

    def open(self, person: Person) -> None:
        person.waits_for("Do you trust the files in this folder?")
        person.waits_for(self.ready, key="1\r", over="Do you trust the files")


class Codex(Claude):
    """It opens the folder restricted; its commands run in the sandbox, and it asks who wants to leave that."""

    name = "codex"
    ready = "Ask Codex to do anything"
    asks = "Would you like to run the following command?"
    hooks = "read again for each conversation"
    options = ("-m", "gpt-5.5")

    def call(self, command: str, call_id: str) -> ToolCall:
        leaves = {"sandbox_permissions": "require_escalated", "justification": "must"}
        return ToolCall("exec_command", {"cmd": command, **(leaves if command == self.asked else {})}, call_id)

    def binary(self, folder: Path, model: ScriptedModel) -> Path:
        words = [word for word in model.arguments("codex") if word.startswith("model_provider")]
        options = shlex.join([part for word in words for part in ("-c", word)])
        path = folder / "codex"
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(str(require_cli("codex", "oldest")))} "$@" {options}\n')
        path.chmod(0o755)
        return path

    def open(self, person: Person) -> None:
        person.waits_for("Open restricted")
        person.waits_for("Use existing model", key="\r", over="Open restricted")
        person.waits_for(self.ready, key="2", over="Use existing model")


@dataclass
class Session:
    """The person, and what there is to be looked at."""

    person: Person
    model: ScriptedModel
    workspace: Path
    home: Path
    audit: Path

    def made(self) -> list[str]:
        return sorted(path.name for path in self.workspace.iterdir())

    def shown(self) -> dict[str, str]:
        """What the model was shown of each call at last."""
        return {one.tool_use_id: one.content for one in self.model.shown}

    def decisions(self) -> list[tuple[str, str]]:
        lines = self.audit.read_text("utf-8").splitlines()
        return [(one["decision"], one["binding"]) for one in map(json.loads, lines)]


@pytest.fixture(
    params=[
        pytest.param(Claude("oldest"), marks=pytest.mark.slow, id="claude-oldest"),
        pytest.param(Claude(), id="claude"),
        pytest.param(Codex(), marks=pytest.mark.slow, id="codex"),
        pytest.param(Copilot(), marks=pytest.mark.slow, id="copilot"),
    ]
)
def agent(request: pytest.FixtureRequest) -> Claude:
    """Each real CLI in turn."""
    made: Claude = request.param
    return made


@pytest.fixture
def session(agent: Claude, tmp_path: Path) -> Iterator[Session]:
    """A person who has typed a prompt, to which the model calls three commands."""
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    for folder in (workspace, home):
        folder.mkdir()
    agent.prepare(home)
    hook, hooks = tmp_path / "hook.py", tmp_path / "hooks.json"
    hook.write_text(HOOK, "utf-8")
    spec = {"name": "birds", "command": [sys.executable, str(hook)]}
    hooks.write_text(json.dumps({"schema": 1, "hooks": [spec]}), "utf-8")
    calls = [agent.call(command, f"t{at}") for at, command in enumerate(("touch heron", "touch one", agent.asked))]

    def say(request: ModelRequest) -> Turn:
        """Names of sessions are asked for on the side, without the tool."""
        if f'"{calls[0].name}"'.encode() not in request.raw:
            return Turn(Text("a name"))
        return Turn(calls[len(request.shown)]) if len(request.shown) < len(calls) else Turn(Text("all done"))

    with ScriptedModel([say] * 12) as model:
        keys, variables = find_adapter(agent.name).key_variables, model.environment(agent.name)
        env = {name: value for name, value in variables.items() if name in keys and name != "COPILOT_MODEL"}
        env |= {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        env |= {name: os.environ[name] for name in ("PYTHONPATH", "TMPDIR") if name in os.environ}
        more = [word for name in variables if name not in keys for word in ("--env", f"{name}={variables[name]}")]
        words = ["attach", "-a", agent.name, "--binary", str(agent.binary(tmp_path, model)), "-C", str(workspace)]
        words += ["--login", "env", "--hooks", str(hooks), "--audit", str(tmp_path / "audit.jsonl")]
        words += ["--posture", "edit", "--allow", "shell(touch two)", *agent.options, *more]
        child: Any = pexpect.spawn(PROGRAM[0], [*PROGRAM[1:], *words], env=env, dimensions=(45, 120))
        child.delaybeforesend = None
        try:
            person = Person(child)
            agent.open(person)
            for place in home.glob(f".local/state/interlock/runs/*/{agent.hooks}"):
                place.write_text("", "utf-8")  # as a command that the agent runs could
            person.types("make it")
            yield Session(person, model, workspace, home, tmp_path / "audit.jsonl")
        finally:
            child.close(force=True)


def test_the_chain_denies_and_rewrites_and_the_rest_is_asked_on_the_agents_own_screen(
    agent: Claude, session: Session
) -> None:
    session.person.waits_for(agent.asks, agent.asked)
    assert session.made() == ["two"]
    session.person.child.send("\r")
    session.person.waits_for("all done")
    assert session.made() == ["asked", "two"]
    assert "no herons here" in session.shown()["t0"]
    assert "no herons here" in session.person.sees
    assert session.person.leaves("\x03\x03") == 0
    assert session.decisions()[0] == ("deny", "hook")
    assert ("modify", "hook") in session.decisions()
    assert list((session.home / ".local/state/interlock/runs").iterdir()) == []
