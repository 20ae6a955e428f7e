"""`interlock demo`: the whole engine at work on a scripted agent, without any agent CLI, account or network.

The agent is a program that speaks Claude's protocol and plays a script. It reads a file with a secret, tries to delete
something, and writes a file; two interceptors and one approval decide what becomes of that.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio

from interlock.approval import Approve
from interlock.engine.client import Client
from interlock.engine.run import Run
from interlock.errors import InterlockError
from interlock.events import ApprovalRequested, BaseEvent, ToolFinished
from interlock.hooks import Allow, DenyCall, HookCall, Modify, Replace
from interlock.model import JsonValue, canonical_json
from interlock.permission import Otherwise, Permission
from interlock.request import Request
from interlock.tools import ToolKind
from interlock_adapters.cli.options import at_terminal
from interlock_adapters.cli.output import print_line, safe_line
from interlock_adapters.cli.problems import INTERRUPTED, USAGE, code_of, explain
from interlock_adapters.cli.run import Follower
from interlock_adapters.cli.show import PeopleView, Screen, View
from interlock_adapters.cli.terminal import Terminal
from interlock_fixtures.scripted_agent.launcher import install

__all__ = ["demo"]

SECRET = "sk-demo-0123456789"  # noqa: S105 -- it opens nothing
SETTINGS = "settings.env"
PRIVATE = "umask 077; "
PROMPT = "tidy up, and write the greeting"
SCRIPT = [
    [
        {"text": "I look at the settings first.", "tool": "Read", "input": {"file_path": SETTINGS}},
        {"tool": "Bash", "input": {"command": "rm -rf build"}},
        {"tool": "Bash", "input": {"command": "echo hello > greeting.txt"}},
        {"text": "I wrote greeting.txt and left build alone."},
    ]
]
BEFORE = """\
An agent is about to work in a temp folder. Its posture is `read`: it may read there unasked; the rest is asked.
Two interceptors see each of its calls, before and after it runs:
  guard    denies `rm -rf`, and has what a command writes be private to you
  redact   takes secrets out of what the model is shown
"""
AFTER = """
What to try next:
  interlock plan -a claude "fix the test"        what would run, and what guards it; starts nothing
  interlock run -a claude --posture edit --otherwise ask "fix the test"
  interlock run -a claude --json "what is in here?" | head        one event a line"""


class Guard:
    """Denies a deletion and changes every other command."""

    name = "guard"
    may = ("deny", "modify")

    async def before(self, call: HookCall) -> Allow | DenyCall | Modify:
        """A rewriter is asked again about its own change, and then leaves it."""
        command = call.subject.command
        if call.tool_kind is not ToolKind.SHELL or command is None or not isinstance(call.input, dict):
            return Allow()
        if "rm -rf" in command:
            return DenyCall(reason="nothing is deleted here")
        if command.startswith(PRIVATE):
            return Allow()
        return Modify(input={**call.input, "command": PRIVATE + command}, reason="files stay private")


class Redact:
    """Takes the secret out of every output."""

    name = "redact"
    may = ("replace",)

    async def after(self, call: HookCall) -> Allow | Replace:
        """Whatever shape the output has, its strings are looked through."""
        clean = _without_secret(call.output)
        return Allow() if clean == call.output else Replace(output=clean, reason="a secret was taken out")


def _without_secret(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return value.replace(SECRET, "[taken out]")
        case list():
            return [_without_secret(entry) for entry in value]
        case dict():
            return {name: _without_secret(entry) for name, entry in value.items()}
        case _:
            return value


@dataclass(frozen=True, slots=True)
class _Narrator(View):
    """Shows the run as `interlock run` does, and what the model was shown; `yes` answers in place of the person."""

    run: Run
    screen: Screen
    people: PeopleView
    yes: bool

    async def show(self, event: BaseEvent) -> None:
        await self.people.show(event)
        match event:
            case ToolFinished(tool_kind=ToolKind.READ, output=output):
                shown = safe_line(canonical_json(output).decode(), 200)
                await self.screen.note(f"  the model was shown: {shown}", "green")
            case ApprovalRequested(approval=approval) if self.yes:
                await self.screen.note("claude asks to run:", "bold")
                await self.screen.note(approval.display())
                await self.screen.note("allow? yes (said by --yes)", "green")
                self.run.respond(approval.id, Approve())
            case _:
                pass

    async def warn(self, text: str) -> None:
        """The plan warns of credentials; here they open nothing."""
        self.people.pass_over(text)


def demo(*, yes: bool) -> int:
    """Show the demo; returns the exit code."""
    if not yes and not at_terminal():
        print_line("interlock: the demo asks for an approval, and here is no terminal; use: interlock demo --yes", 2)
        return USAGE
    with tempfile.TemporaryDirectory(prefix="interlock-demo-") as folder:
        try:
            return anyio.run(partial(_play, Path(folder), yes=yes))
        except InterlockError as error:
            for line in explain(error):
                print_line(line, 2)
            return code_of(error)
        except KeyboardInterrupt:
            return INTERRUPTED


async def _play(folder: Path, *, yes: bool) -> int:
    workspace = folder / "workspace"
    (workspace / "build").mkdir(parents=True)
    (workspace / SETTINGS).write_text(f"API_KEY={SECRET}\n", encoding="utf-8")
    screen = Screen(notes=1)
    await screen.note(BEFORE)
    client = Client(interceptors=[Guard(), Redact()], state=folder / "state")
    async with client, client.stream(_request(folder, workspace)) as run:
        terminal = None if yes else Terminal(screen)
        view = _Narrator(run, screen, PeopleView(screen), yes)
        code = await Follower(run, screen, view, terminal, asks=not yes).follow()
    await screen.note(_proof(workspace))
    await screen.note(AFTER)
    return code


def _request(folder: Path, workspace: Path) -> Request:
    return Request(
        agent="claude",
        prompt=PROMPT,
        cwd=str(workspace),
        binary=str(install(folder, SCRIPT)),
        login="env",
        env={"ANTHROPIC_API_KEY": "demo"},
        permission=Permission(otherwise=Otherwise.ASK),
    )


def _proof(workspace: Path) -> str:
    """What lies in the workspace afterwards."""
    left = ", ".join(
        f"{path.name} (mode {path.stat().st_mode & 0o777:o})" if path.is_file() else f"{path.name}/"
        for path in sorted(workspace.iterdir())
    )
    return f"In the workspace now: {left}"
