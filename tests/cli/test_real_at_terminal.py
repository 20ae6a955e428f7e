"""`interlock run` with a person at a real terminal and the real CLIs behind it, offline: what is asked, what happens.

The same tests for every agent. What `--posture edit` leaves to be asked differs: Claude Code and Copilot ask about a
command; Codex runs it in its sandbox, and asks about a patch outside the workspace, twice, since that also leaves the
sandbox.
"""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.agent_places import program
from tests.cli.conftest import Cli
from tests.cli.test_doctor import needed
from tests.cli.test_run_at_terminal import ASKED, ends
from tests.live.mcp_servers import echo

from interlock.engine.registry import find_adapter
from interlock_fixtures.clis import copilot_cache, find_cli
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn, Usage

pytestmark = pytest.mark.live

EDIT = ("--posture", "edit", "--otherwise", "ask")
READ = ("--posture", "read", "--otherwise", "ask")
PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"
DONE = Turn(Text("all done"), usage=Usage(10, 2))
USAGE = {"input_tokens": 110, "output_tokens": 22}
"""Of both answers of the model."""
HOOK = """
import json, sys
call = json.load(sys.stdin)
if call["event"] == "post_tool_use":
    print(json.dumps({"decision": "replace", "output": "a bird"}))
elif "secret" in str(call["input"]):
    print(json.dumps({"decision": "deny", "reason": "not that file"}))
elif "one" in str(call["input"]):
    print(json.dumps({"decision": "modify", "input": {"command": "echo heron; touch two"}}))
else:
    print(json.dumps({"decision": "allow"}))
"""


@dataclass(frozen=True)
class Asked:
    """A call that makes `path`, how often the person is asked about it, and the keys that make it `edited` instead."""

    call: ToolCall
    path: Path
    questions: int
    keys: str
    edited: Path


class Claude:
    """Its commands are asked about."""

    name = "claude"
    options: tuple[str, ...] = ()

    def asked(self, cli: Cli) -> Asked:
        call = self.shell("touch made")
        return Asked(call, cli.workspace / "made", 1, "-otherwise\n", cli.workspace / "made-otherwise")

    def shell(self, command: str, call_id: str = "t1") -> ToolCall:
        return ToolCall("Bash", {"command": command}, call_id)

    def say(self, text: str, call_id: str) -> ToolCall:
        return ToolCall("mcp__e__echo", {"x": text}, call_id)

    def binary(self, cli: Cli, model: ScriptedModel) -> Path:
        del cli, model
        return needed(find_cli("claude", "newest"))


class Codex:
    """Its commands run in its sandbox; what it would write outside is asked about."""

    name = "codex"
    options = ("-m", "gpt-5.5")

    def asked(self, cli: Cli) -> Asked:
        outside, inside = cli.folder.parent / "outside", cli.workspace / "edited"
        outside.mkdir()
        call = ToolCall("apply_patch", {"input": PATCH.format(outside / "made")}, "t1")
        keys = "\x15" + json.dumps({"command": PATCH.format(inside)}) + "\n"
        return Asked(call, outside / "made", 2, keys, inside)

    def shell(self, command: str, call_id: str = "t1") -> ToolCall:
        return ToolCall("exec_command", {"cmd": command}, call_id)

    def say(self, text: str, call_id: str) -> ToolCall:
        return ToolCall("mcp__e/echo", {"x": text}, call_id)

    def binary(self, cli: Cli, model: ScriptedModel) -> Path:
        real = needed(find_cli("codex", "newest"))
        words = [word for word in model.arguments("codex") if word.startswith("model_provider")]
        options = shlex.join([part for word in words for part in ("-c", word)])
        return program(cli.folder / "bin", f'exec {shlex.quote(str(real))} "$@" {options}', "codex")


class Copilot:
    """Its commands are asked about, whether they are written by its tool `bash`, or what else it has."""

    name = "copilot"
    options: tuple[str, ...] = ()

    def asked(self, cli: Cli) -> Asked:
        call = self.shell("touch made")
        return Asked(call, cli.workspace / "made", 1, "-otherwise\n", cli.workspace / "made-otherwise")

    def shell(self, command: str, call_id: str = "t1") -> ToolCall:
        return ToolCall("bash", {"command": command}, call_id)

    def say(self, text: str, call_id: str) -> ToolCall:
        return ToolCall("e-echo", {"x": text}, call_id)

    def binary(self, cli: Cli, model: ScriptedModel) -> Path:
        """The CLI; what it unpacks at its first start all tests share."""
        del model
        unpacked = Path(cli.env["HOME"]) / ".local" / "state" / "interlock" / "copilot" / "packages"
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        if not unpacked.is_symlink():
            unpacked.symlink_to(copilot_cache() / "copilot")
        return needed(find_cli("copilot", "newest"))


Agent = Claude | Codex | Copilot


@dataclass
class Session:
    """A run with a person at its terminal, and the model behind its agent."""

    child: Any
    model: ScriptedModel

    def answers(self, *keys: str) -> str:
        """Wait for the question and type; gives what stood before it."""
        self.child.expect(ASKED)
        before = str(self.child.before)
        for text in keys:
            self.child.send(text)
        return before

    def shown(self) -> dict[str, str]:
        """What the model was shown of each call."""
        return {one.tool_use_id: one.content for one in self.model.shown}

    def outcome(self) -> dict[str, Any]:
        """The last event, of a run with `--json`."""
        code = ends(self.child)
        events = [json.loads(line) for line in self.child.before.splitlines() if line.startswith('{"')]
        finished: dict[str, Any] = events[-1]
        assert finished["type"] == "run_finished"
        return {**finished["outcome"], "code": code}


Start = Callable[..., Any]


@pytest.fixture(params=[Claude, Codex, Copilot], ids=["claude", "codex", "copilot"])
def agent(request: pytest.FixtureRequest) -> Agent:
    """Each real CLI in turn."""
    made: Agent = request.param()
    return made


@pytest.fixture
def start(cli: Cli, typed: Any, agent: Agent) -> Start:
    """Starts `interlock run` on the real CLI with a script for its model."""

    @contextmanager
    def session(script: Sequence[Turn], *options: str) -> Iterator[Session]:
        with ScriptedModel(script) as model:
            keys = find_adapter(agent.name).key_variables
            variables = model.environment(agent.name)
            env = {name: value for name, value in variables.items() if name in keys}
            more = [word for name in variables if name not in keys for word in ("--env", f"{name}={variables[name]}")]
            words = ["run", "-a", agent.name, "--binary", str(agent.binary(cli, model)), "-C", str(cli.workspace)]
            child = typed(*words, "--login", "env", *more, *agent.options, *options, "make it", **env)
            child.timeout = 60
            yield Session(child, model)

    return session


def test_yes_lets_it_run_and_the_outcome_has_the_usage_of_the_run(cli: Cli, agent: Agent, start: Start) -> None:
    asked = agent.asked(cli)
    with start([Turn(Text("I make it."), asked.call, usage=Usage(100, 20)), DONE], *EDIT, "--json") as session:
        for _ in range(asked.questions):
            session.child.expect(ASKED)
            assert not asked.path.exists()
            session.child.send("y\n")
        outcome = session.outcome()
    assert (outcome["status"], outcome["text"], outcome["code"]) == ("completed", "all done", 0)
    assert {name: outcome["usage"][name] for name in USAGE} == USAGE
    assert outcome["denials"] == []
    assert asked.path.exists()


def test_no_with_a_reason_keeps_it_from_running_and_the_model_reads_the_reason(
    cli: Cli, agent: Agent, start: Start
) -> None:
    asked = agent.asked(cli)
    with start([Turn(asked.call), DONE], *EDIT) as session:
        session.answers("n\n")
        session.child.expect("reason")
        session.child.send("not today\n")
        assert ends(session.child) == 0
        assert "all done" in session.child.before
        assert "denied: " in session.child.before
        assert "not today" in session.shown()["t1"]
    assert not asked.path.exists()


def test_what_the_person_makes_of_it_is_what_runs(cli: Cli, agent: Agent, start: Start) -> None:
    asked = agent.asked(cli)
    with start([Turn(asked.call), DONE], *EDIT) as session:
        session.answers("e\n")
        session.child.expect("new> ")
        session.child.send(asked.keys)
        session.child.expect("run this instead")
        session.child.send("y\n")
        assert ends(session.child) == 0
        assert "all done" in session.child.before
    assert asked.edited.exists()
    assert not asked.path.exists()


def test_hooks_of_a_file_deny_rewrite_and_replace_before_the_person_is_asked(
    cli: Cli, agent: Agent, start: Start, tmp_path: Path
) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text(HOOK, "utf-8")
    file = tmp_path / "hooks.json"
    spec = {"name": "birds", "command": [sys.executable, str(hook)], "events": ["pre_tool_use", "post_tool_use"]}
    file.write_text(json.dumps({"schema": 1, "hooks": [spec]}), "utf-8")
    script = [Turn(agent.shell("cat secret", "t1")), Turn(agent.shell("echo heron; touch one", "t2")), DONE]
    with start(script, *READ, "--hooks", str(file)) as session:
        before = session.answers("y\n")
        assert "touch two" in before
        assert "secret" not in before.rpartition("touch two")[2]
        assert ends(session.child) == 0
        shown = session.shown()
    assert "not that file" in shown["t1"]
    assert ("a bird" in shown["t2"], "heron" in shown["t2"]) == (True, False)
    assert sorted(path.name for path in cli.workspace.iterdir()) == ["two"]


@pytest.mark.parametrize("agent", [Codex], indirect=True, ids=["codex"])
def test_a_command_runs_in_the_sandbox_unasked_and_is_asked_about_where_it_wants_to_leave_it(
    cli: Cli, start: Start
) -> None:
    outside = cli.folder.parent / "outside"
    outside.mkdir()
    leave = {"sandbox_permissions": "require_escalated", "justification": "must"}
    script = [
        Turn(ToolCall("exec_command", {"cmd": "touch inside"}, "t1")),
        Turn(ToolCall("exec_command", {"cmd": f"touch {outside}/no", **leave}, "t2")),
        Turn(ToolCall("exec_command", {"cmd": f"touch {outside}/yes", **leave}, "t3")),
        DONE,
    ]
    with start(script, *EDIT) as session:
        before = session.answers("n\n")
        assert "sandbox" in before
        assert (cli.workspace / "inside").exists()
        session.child.expect("reason")
        session.child.send("\n")
        session.answers("y\n")
        assert ends(session.child) == 0
    assert [path.name for path in outside.iterdir()] == ["yes"]


def test_a_tool_of_a_server_given_by_a_file_is_asked_about(
    cli: Cli, agent: Agent, start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": echo()}), "utf-8")
    script = [Turn(agent.say("heron", "t1")), Turn(agent.say("wren", "t2")), DONE]
    with start(script, *READ, "--mcp", str(file)) as session:
        session.answers("y\n")
        session.answers("n\n")
        session.child.expect("reason")
        session.child.send("no wrens\n")
        assert ends(session.child) == 0
        shown = session.shown()
    assert "echoed" in shown["t1"]
    assert ("no wrens" in shown["t2"], "echoed" in shown["t2"]) == (True, False)
    assert not list(cli.workspace.iterdir())


MADE = "fresh"
ASKED_ABOUT = {
    "create": ("gpt-4.1", ToolCall("create", {"path": "{}/fresh", "file_text": "x\n"}, "t1")),
    "edit": ("gpt-4.1", ToolCall("edit", {"path": "{}/old", "old_str": "was", "new_str": "is"}, "t1")),
    "patch": ("gpt-5.4", ToolCall("apply_patch", {"input": PATCH.format("fresh")}, "t1")),
}


@pytest.mark.parametrize("agent", [Copilot], indirect=True, ids=["copilot"])
@pytest.mark.parametrize("way", [pytest.param("create", marks=pytest.mark.slow), "edit", "patch"])
def test_a_change_of_a_file_is_asked_about_under_read_and_what_is_read_is_not(cli: Cli, start: Start, way: str) -> None:
    (cli.workspace / "old").write_text("was\n", "utf-8")
    model, call = ASKED_ABOUT[way]
    call = replace(call, input={name: str(text).format(cli.workspace) for name, text in call.input.items()})
    read = ToolCall("view", {"path": f"{cli.workspace}/old"}, "t0")
    with start([Turn(read), Turn(call), DONE], *READ, "-m", model, "--json") as session:
        before = session.answers("y\n")
        assert '"tool_call_id":"t0","tool_name":"view"' in before
        assert sorted(path.read_text("utf-8") for path in cli.workspace.iterdir()) == ["was\n"]
        outcome = session.outcome()
    assert (outcome["status"], outcome["code"], outcome["denials"]) == ("completed", 0, [])
    files = {path.name: path.read_text("utf-8") for path in cli.workspace.iterdir()}
    assert files == ({"old": "is\n"} if way == "edit" else {"old": "was\n", MADE: "x\n"})


@pytest.mark.parametrize("agent", [Copilot], indirect=True, ids=["copilot"])
def test_the_transport_that_cannot_ask_is_refused_before_the_start_and_names_the_other(cli: Cli, agent: Agent) -> None:
    with ScriptedModel([DONE]) as model:
        binary = str(agent.binary(cli, model))
        variables = model.environment("copilot")
    words = ["--binary", binary, "-C", str(cli.workspace), "--login", "env", "--transport", "prompt"]
    done = cli.interlock("plan", "-a", "copilot", *words, "--otherwise", "ask", "hi", **variables)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"cannot ask" in done.stderr
    assert b"--transport server" in done.stderr


@pytest.mark.parametrize("agent", [Copilot], indirect=True, ids=["copilot"])
def test_a_denied_call_of_the_transport_that_cannot_ask_is_told_and_its_reason_reaches_the_model(
    cli: Cli, start: Start, agent: Agent
) -> None:
    (cli.workspace / "precious").touch()
    how = ("--transport", "prompt", "--posture", "full", "--deny", "shell(rm:*)")
    with start([Turn(agent.shell("rm precious")), DONE], *how) as session:
        session.child.expect("bash denied")
        assert ends(session.child) == 0
        assert "denied by rule 'shell(rm:*)'" in session.child.before
        assert "denied by rule 'shell(rm:*)'" in session.shown()["t1"]
    assert (cli.workspace / "precious").exists()
