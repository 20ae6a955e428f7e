"""Who can be started from the page, and on what: the agents installed here, or a scripted model behind them."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from interlock import Otherwise, Permission, Posture, Request
from interlock_fixtures.clis import find_cli
from interlock_fixtures.guarded import steps_of
from interlock_fixtures.scripted_agent.launcher import install
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

NAMES = ("claude", "codex", "copilot")
PERMISSION = Permission(posture=Posture.READ, otherwise=Otherwise.ASK)


@dataclass(frozen=True)
class Agent:
    """One that can be started: `order` gives the request for a prompt, for as long as the run takes."""

    name: str
    note: str
    order: Callable[[str], AbstractContextManager[Request]]


def installed(folder: Path) -> Sequence[Agent]:
    """The agents on PATH, with your login. One that is missing says so when it is started."""
    return [Agent(name, "with your login", partial(_logged_in, name, folder)) for name in NAMES]


@contextmanager
def _logged_in(name: str, folder: Path, prompt: str) -> Iterator[Request]:
    yield Request(agent=name, prompt=prompt, cwd=str(folder), permission=PERMISSION)


def offline(folder: Path, scratch: Path) -> Sequence[Agent]:
    """The real CLIs where they are, talking to a script; where one is missing, a program plays it."""
    return [_offline(name, folder, scratch) for name in NAMES]


def _offline(name: str, folder: Path, scratch: Path) -> Agent:
    cwd = folder / f"work-of-{name}"
    cwd.mkdir(parents=True, exist_ok=True)
    cli = find_cli(name, "newest") or shutil.which(name)
    if cli:
        return Agent(name, "the real CLI, offline", partial(_real, name, str(cli), cwd))
    home = scratch / f"stand-in-for-{name}"
    home.mkdir()
    program = install(home, [steps_of(_script("claude", name))])
    return Agent(name, "not installed: a scripted agent stands in", partial(_stand_in, program, cwd))


@contextmanager
def _real(name: str, cli: str, cwd: Path, prompt: str) -> Iterator[Request]:
    with ScriptedModel(_script(name, name)) as model:
        words = [word for word in model.arguments(name) if word.startswith("model_provider")]
        yield Request(
            agent=name,
            prompt=prompt,
            cwd=str(cwd),
            permission=PERMISSION,
            binary=cli,
            login="env",
            env=model.environment(name),
            extra_args=tuple(part for word in words for part in ("-c", word)),
        )


@contextmanager
def _stand_in(program: Path, cwd: Path, prompt: str) -> Iterator[Request]:
    yield Request(agent="claude", prompt=prompt, cwd=str(cwd), permission=PERMISSION, binary=str(program))


def _script(dialect: str, name: str) -> list[Turn]:
    """What the model says: a command that is asked about, one that the guard refuses, an answer."""
    command = f"printf 'checked by {name}\\n' >> notes.txt"
    return [
        Turn(Text("I write that down."), _shell(dialect, command)),
        Turn(_shell(dialect, "git push origin main")),
        Turn(Text("The notes are written, and pushing was left to you.")),
    ]


def _shell(dialect: str, command: str) -> ToolCall:
    match dialect:
        case "claude":
            return ToolCall("Bash", {"command": command, "description": "Write the notes"})
        case "codex":
            return ToolCall("exec_command", {"cmd": command})
        case _:
            return ToolCall("bash", {"command": command, "description": "Write the notes"})
