"""The real CLIs, and runs of them through the engine. A missing CLI skips its tests, or fails them if required.

`live` is a workspace, a home and a state folder of their own, and `play`, which runs the CLI against a script.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock import (
    Allow,
    Answer,
    Approval,
    Approve,
    Client,
    Deny,
    HookCall,
    HookOutcome,
    Interceptor,
    Outcome,
    Plan,
    Question,
    Request,
)
from interlock.events import ApprovalRequested, QuestionAsked, ToolDecided, Unguarded
from interlock_fixtures.clis import CliMissing, Which, clis_required, copilot_cache, pinned_ends, require_cli
from interlock_fixtures.scripted_model import ModelRequest, ScriptedModel, ToolShown

LIMIT = 60.0
LONG = os.environ.get("INTERLOCK_LONG") == "1"
COPILOT_SERVICE = (
    "COPILOT_PROVIDER_BASE_URL",
    "COPILOT_PROVIDER_TYPE",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_OFFLINE",
    "NO_PROXY",
    "no_proxy",
)
COPILOT_FOREIGN = (
    "COPILOT_HOME",
    "COPILOT_ALLOW_ALL",
    "COPILOT_MODEL",
    "COPILOT_GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
)
SERVICE = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "CLAUDE_CODE_MAX_RETRIES", "NO_PROXY", "no_proxy")


@pytest.fixture
def anyio_backend() -> str:
    """Real processes take their time: most of these tests run on one event loop, and a few name both."""
    return "asyncio"


@pytest.fixture(params=["oldest", "newest"])
def claude_which(request: pytest.FixtureRequest) -> Which:
    """Which end of the tested range of Claude Code: `oldest` or `newest`."""
    return "oldest" if request.param == "oldest" else "newest"


@pytest.fixture
def claude_cli(claude_which: Which) -> Path:
    """The native executable of the real Claude Code at that end."""
    return installed("claude", claude_which)


@pytest.fixture(params=pinned_ends("codex"))
def codex_which(request: pytest.FixtureRequest) -> Which:
    """Which end of the tested range of Codex: `oldest`, or `newest` where that is another version."""
    return "oldest" if request.param == "oldest" else "newest"


@pytest.fixture
def codex_cli(codex_which: Which) -> Path:
    """The native executable of the real Codex at that end."""
    return installed("codex", codex_which)


@pytest.fixture(params=pinned_ends("copilot"))
def copilot_which(request: pytest.FixtureRequest) -> Which:
    """Which end of the tested range of Copilot: `oldest`, or `newest` where that is another version."""
    return "oldest" if request.param == "oldest" else "newest"


@pytest.fixture
def copilot_cli(copilot_which: Which) -> Path:
    """The native executable of the real Copilot at that end."""
    return installed("copilot", copilot_which)


def installed(name: str, which: Which) -> Path:
    """The CLI, or the reason for which the test cannot run."""
    try:
        return require_cli(name, which)
    except CliMissing as missing:
        if clis_required():
            raise
        pytest.skip(str(missing))


class Policy:
    """A participant made of two functions; without `after` no output can be replaced."""

    def __init__(
        self,
        before: Callable[[HookCall], HookOutcome] | None = None,
        after: Callable[[HookCall], HookOutcome] | None = None,
        *,
        name: str = "policy",
        may: tuple[str, ...] = ("deny", "modify", "replace"),
        deadline: float = 5.0,
    ) -> None:
        self.name = name
        self.may = may
        self.deadline = deadline
        self.events = ("pre_tool_use", "post_tool_use") if after else ("pre_tool_use",)
        self.calls: list[HookCall] = []
        self._before = before
        self._after = after

    async def before(self, call: HookCall) -> HookOutcome:
        self.calls.append(call)
        return self._before(call) if self._before else Allow()

    async def after(self, call: HookCall) -> HookOutcome:
        self.calls.append(call)
        return self._after(call) if self._after else Allow()


@dataclass(frozen=True)
class Played:
    """A run that is over, and all that the model was sent."""

    plan: Plan
    outcome: Outcome
    events: list[Any]
    requests: tuple[ModelRequest, ...]
    shown: list[ToolShown]

    def of(self, kind: type) -> list[Any]:
        """All events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def result(self, call_id: str) -> ToolShown:
        """What the model was shown of a call."""
        found = {shown.tool_use_id: shown for shown in self.shown}
        assert call_id in found, (self.outcome.describe(), self.unguarded(), list(found))
        return found[call_id]

    def decisions(self) -> dict[str, str]:
        """What was decided about each call before it ran."""
        found = [event for event in self.of(ToolDecided) if event.event == "pre_tool_use"]
        return {event.tool_call_id: f"{event.decision} by {event.by}" for event in found}

    def unguarded(self) -> list[tuple[str, str | None, str]]:
        """Every broken promise."""
        return [(event.kind, event.tool_name, event.message) for event in self.of(Unguarded)]

    def knows(self, secret: bytes) -> bool:
        """Whether the secret was in anything that the model was sent."""
        return any(secret in request.raw for request in self.requests)


@dataclass
class Live:
    """One real CLI with a workspace, a home and a state folder of its own."""

    cli: Path
    which: Which
    folder: Path
    workspace: Path = field(init=False)
    home: Path = field(init=False)
    state: Path = field(init=False)

    def __post_init__(self) -> None:
        self.workspace, self.home, self.state = (self.folder / name for name in ("workspace", "home", "state"))
        for made in (self.workspace, self.home):
            made.mkdir()

    def service(self, model: ScriptedModel) -> dict[str, str]:
        """What leads the CLI to the scripted model."""
        return {name: value for name, value in model.environment("claude").items() if name in SERVICE}

    def request(self, service: ScriptedModel, /, prompt: str = "go", **fields: object) -> Request:
        """A request in the workspace, to the scripted model."""
        given: dict[str, object] = {"agent": "claude", "prompt": prompt, "cwd": str(self.workspace), "login": "env"}
        given |= {"binary": str(self.cli), "env": self.service(service)}
        return Request.model_validate(given | fields)

    async def play(
        self,
        script: Sequence[object],
        *chain: Interceptor,
        respond: Callable[[Approval], Approve | Deny] | None = None,
        answer: Callable[[Question], Answer] | None = None,
        client: Mapping[str, Any] | None = None,
        **fields: object,
    ) -> Played:
        """Run the CLI through the engine against a script, to its end."""
        with ScriptedModel(script) as model, anyio.fail_after(LIMIT):
            events: list[object] = []
            async with (
                Client(**{"interceptors": chain, "state": self.state, **(client or {})}) as interlock,
                interlock.stream(self.request(model, **fields)) as run,
            ):
                async for event in run:
                    events.append(event)
                    match event:
                        case ApprovalRequested() if respond:
                            run.respond(event.approval.id, respond(event.approval))
                        case QuestionAsked() if answer:
                            run.answer(event.question.id, answer(event.question))
                        case _:
                            pass
                outcome = await run.outcome()
            return Played(run.plan, outcome, events, model.requests, model.shown)

    def alive(self) -> list[str]:
        """What lives of an agent that was given TEST_MARK=(the folder), and of all that it started, by name."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if f"TEST_MARK={self.folder}".encode() in variables and state != "Z":
                    found.append((entry / "comm").read_text().strip())
            except OSError:
                continue
        return found


@pytest.fixture
def live(claude_cli: Path, claude_which: Which, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    """The CLI with folders of its own; HOME is one of them."""
    made = Live(claude_cli, claude_which, tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(made.home / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(made.home / ".state"))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return made


@dataclass
class CodexLive(Live):
    """The real Codex, whose service is chosen by options."""

    def request(self, service: ScriptedModel, /, prompt: str = "go", **fields: object) -> Request:
        """A request in the workspace, to the scripted model."""
        words = service.arguments("codex", str(fields.get("model", "gpt-5.5")))
        settings = [word for word in words if word.startswith("model_provider")]
        given: dict[str, object] = {"agent": "codex", "prompt": prompt, "cwd": str(self.workspace), "login": "env"}
        given |= {"binary": str(self.cli), "env": service.environment("codex"), "model": "gpt-5.5"}
        given |= {"transport": "app-server"}
        given["extra_args"] = [word for setting in settings for word in ("-c", setting)]
        return Request.model_validate(given | fields)


@pytest.fixture
def codex(codex_cli: Path, codex_which: Which, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CodexLive:
    """The real Codex with folders of its own; HOME is one of them."""
    made = CodexLive(codex_cli, codex_which, tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(made.home / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(made.home / ".state"))
    for name in ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return made


@dataclass
class CopilotLive(Live):
    """The real Copilot; the model's name chooses its tools: `gpt-4.1` edits files, `gpt-5.4` applies patches."""

    def service(self, model: ScriptedModel) -> dict[str, str]:
        """What leads the CLI to the scripted model."""
        return {name: value for name, value in model.environment("copilot").items() if name in COPILOT_SERVICE}

    def request(self, service: ScriptedModel, /, prompt: str = "go", **fields: object) -> Request:
        """A request in the workspace, to the scripted model; `transport=` chooses another than `server`."""
        given: dict[str, object] = {"agent": "copilot", "prompt": prompt, "cwd": str(self.workspace), "login": "env"}
        given |= {"binary": str(self.cli), "env": self.service(service), "model": "gpt-4.1", "transport": "server"}
        return Request.model_validate(given | fields)


@pytest.fixture
def copilot(copilot_cli: Path, copilot_which: Which, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CopilotLive:
    """The real Copilot with folders of its own, HOME among them; what it unpacks all tests share."""
    made = CopilotLive(copilot_cli, copilot_which, tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(made.home / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(made.home / ".state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(copilot_cache()))
    unpacked = made.state / "copilot" / "packages"
    unpacked.parent.mkdir(parents=True)
    unpacked.symlink_to(copilot_cache() / "copilot")
    for name in COPILOT_FOREIGN:
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def policy() -> type[Policy]:
    """Makes a participant out of two functions."""
    return Policy


def is_inner(request: ModelRequest) -> bool:
    """Whether a request belongs to the sub-agent whose prompt says INNER."""
    body = request.body
    assert isinstance(body, dict)
    messages = body["messages"]
    assert isinstance(messages, list)
    first = next(message for message in messages if isinstance(message, dict) and message["role"] == "user")
    return "INNER" in json.dumps(first)


@pytest.fixture
def inner() -> Callable[[ModelRequest], bool]:
    """Tells the requests of a sub-agent apart."""
    return is_inner
