"""Whole runs of real programs on a terminal, through the engine: scripts that ask as people are asked."""

import hashlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from interlock import Approval, Approve, Client, Deny, Outcome, Request, Status, Unsupported
from interlock.engine.probe import probe
from interlock.events import ApprovalRequested, BaseEvent, FilesChanged, TextDelta, ToolDecided, Unguarded
from interlock.outcome import Reason

pytestmark = pytest.mark.anyio

PROFILE = r"""
name = "tool"
programs = ["tool"]
prompt = { by = "arguments", arguments = ["{prompt}"] }
[[question]]
name = "run"
kinds = ["shell"]
pattern = '(?:\A|\n)\n(?P<command>[^\n]+)\nRun it\? \(y/n\) $'
yes = "y\n"
no = "n\n"
"""
ASK = r"""
ask() {
    printf '\n%s\nRun it? (y/n) ' "$1"
    read -r answer
    echo "$answer" >> "$HEARD"
    [ "$answer" = y ] && eval "$1"
    echo
}
"""
TYPED = PROFILE.replace(
    'prompt = { by = "arguments", arguments = ["{prompt}"] }', 'prompt = { by = "keys", ready = "> $", end = "\\n" }'
)


@dataclass
class Table:
    """A workspace, a program and its profile."""

    folder: Path

    def __post_init__(self) -> None:
        self.workspace, self.state = self.folder / "workspace", self.folder / "state"
        self.workspace.mkdir()
        self.heard = self.folder / "heard"

    def request(self, code: str, profile: str = PROFILE, *, shell: str = "/bin/sh", **fields: object) -> Request:
        """A run of a program; `ask COMMAND` asks as the profile says."""
        program, described = self.folder / "tool", self.folder / "tool.toml"
        program.write_text(f"#!{shell}\n{ASK if shell == '/bin/sh' else ''}\n{code}\n", "utf-8")
        program.chmod(0o755)
        described.write_text(profile, "utf-8")
        given: dict[str, object] = {"agent": f"terminal:{described}", "prompt": "go", "cwd": str(self.workspace)}
        given |= {"binary": str(program), "env": {"HEARD": str(self.heard)}, "login": "env"}
        return Request.model_validate(given | fields)

    def python(self, code: str, profile: str = PROFILE, **fields: object) -> Request:
        """The same, written in Python."""
        return self.request(code, profile, shell=f"{sys.executable} -IS", **fields)

    async def play(
        self, request: Request, respond: Callable[[Approval], Approve | Deny] | None = None, **client: object
    ) -> tuple[Outcome, list[BaseEvent]]:
        """Run it to its end."""
        events: list[BaseEvent] = []
        with anyio.fail_after(30):
            async with Client(state=self.state, **client) as interlock, interlock.stream(request) as run:
                async for event in run:
                    events.append(event)
                    if isinstance(event, ApprovalRequested) and respond is not None:
                        run.respond(event.approval.id, respond(event.approval))
                return await run.outcome(), events

    @property
    def keys(self) -> list[str]:
        """The lines that the program read."""
        return self.heard.read_text("utf-8").split() if self.heard.exists() else []


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[Table]:
    made = Table(tmp_path)
    yield made
    assert not list((made.state / "runs").glob("*")) if (made.state / "runs").exists() else True


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def text(events: list[BaseEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_allowed_it_runs_denied_it_does_not_and_the_outcome_is_right(table):
    code = "ask 'touch one'; ask 'touch two'; echo done"
    said = iter((Approve(), Deny(reason="no")))
    outcome, events = await table.play(table.request(code, permission={"otherwise": "ask"}), lambda _: next(said))
    assert (outcome.status, outcome.exit_code, outcome.tool_calls) == ("completed", 0, 2), outcome
    assert [path.name for path in table.workspace.iterdir()] == ["one"]
    assert table.keys == ["y", "n"]
    assert [denial.tool_name for denial in outcome.denials] == ["run"]
    (changed,) = [event for event in events if isinstance(event, FilesChanged)]
    assert [(change.path, change.change) for change in changed.changes] == [("one", "add")]


async def test_posture_and_rules_answer_without_a_person(table):
    permission = {"posture": "edit", "allow": ["shell(touch:*)"], "deny": ["shell(touch two)"]}
    code = "ask 'touch one'; ask 'touch two'; ask 'rm -rf /nothing'"
    outcome, events = await table.play(table.request(code, permission=permission))
    assert outcome.status == "completed"
    assert table.keys == ["y", "n", "n"]
    assert [event.by for event in events if isinstance(event, ToolDecided)] == ["rule", "rule", "policy"]


async def test_an_unknown_question_that_waits_is_stalled_and_gets_no_key(table):
    code = "printf 'Trust this folder? (y/N) '; read -r answer; echo \"$answer\" >> $HEARD"
    outcome, _ = await table.play(table.request(code, permission={"posture": "full"}, limits={"idle": 0.7}))
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, Reason.STALLED)
    assert outcome.message.endswith("the last line on the agent's screen: Trust this folder? (y/N)")
    assert outcome.stdout_noise.strip() == "Trust this folder? (y/N)"
    assert table.keys == []


async def test_a_cosmetic_change_of_a_question_is_stalled(table):
    code = "printf '\\nls\\n| Run it? (y/n) '; read -r answer; echo \"$answer\" >> $HEARD"
    outcome, _ = await table.play(table.request(code, permission={"posture": "full"}, limits={"idle": 0.7}))
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, Reason.STALLED)
    assert table.keys == []


async def test_a_wrapper_that_starts_the_agent_as_its_child_makes_no_difference(table):
    request = table.request("ask 'touch one'; echo done; exit 0", permission={"posture": "full"})
    wrapper = table.folder / "wrapper"
    wrapper.write_text(f'#!/bin/sh\necho starting\n"{request.binary}" "$@"\ncode=$?\necho ended\nexit $code\n', "utf-8")
    wrapper.chmod(0o755)
    outcome, events = await table.play(request.model_copy(update={"binary": str(wrapper)}))
    assert outcome.status == "completed"
    assert table.keys == ["y"]
    assert text(events).split() == ["starting", "touch", "one", "Run", "it?", "(y/n)", "done", "ended"]


READ = """
import hashlib, os, sys
sys.stdout.write("> "); sys.stdout.flush()
data = b""
while not data.endswith(b"\\n"):
    data += os.read(0, 1 << 20)
print(len(data), hashlib.sha256(data).hexdigest())
"""


@pytest.mark.parametrize("length", [5_000, 200_000])
async def test_a_typed_prompt_arrives_whole_and_is_no_event(table, length):
    prompt = "p" * length
    outcome, events = await table.play(table.python(READ, TYPED, prompt=prompt))
    assert outcome.status == "completed"
    digest = hashlib.sha256(prompt.encode() + b"\n").hexdigest()
    assert text(events).split() == [">", str(length + 1), digest]


async def test_an_agent_in_line_mode_is_told_nothing_rather_than_a_part(table):
    line_mode = "import termios; m = termios.tcgetattr(0); m[3] |= termios.ICANON; termios.tcsetattr(0, 0, m)\n"
    outcome, _ = await table.play(table.python(line_mode + READ, TYPED, prompt="p" * 5_000))
    assert (outcome.status, outcome.reason) == ("failed", "protocol"), outcome
    assert "only the first 4095 would arrive" in outcome.message
    outcome, _ = await table.play(table.python(line_mode + READ, TYPED, prompt="p" * 4_000))
    assert outcome.status == "completed"


async def test_keys_that_nobody_reads_were_an_answer_to_no_question(table):
    """The text of a model stands there as a question, and the agent goes on to a real one."""
    code = """
import array, fcntl, os, sys, termios, time
os.write(1, b"\\n\\nls\\nRun it? (y/n) ")
count = array.array("i", [0])
while not count[0]:
    fcntl.ioctl(0, termios.FIONREAD, count)
    time.sleep(0.01)
os.write(1, b"and so on\\n")
time.sleep(1.5)
os.write(1, b"\\nrm -rf x\\nRun it? (y/n) ")
open(os.environ["HEARD"], "w").write(os.read(0, 9).decode())
"""
    outcome, events = await table.play(table.python(code, permission={"posture": "full"}))
    assert (outcome.status, outcome.reason) == ("failed", "unguarded"), outcome
    assert [event.kind for event in events if isinstance(event, Unguarded)] == ["not_confirmed"]
    assert table.keys == []


async def test_a_program_that_turns_the_echo_on_is_answered_all_the_same(table):
    code = "stty echo icanon icrnl; ask 'touch one'; ask 'touch two'; echo done"
    outcome, _ = await table.play(table.request(code, permission={"posture": "full"}))
    assert outcome.status == "completed", outcome
    assert table.keys == ["y", "y"]


async def test_what_is_written_while_a_person_thinks_withdraws_the_question(table):
    code = """
import os, select, sys
os.write(1, b"\\n\\ntouch x\\nRun it? (y/n) ")
while not os.path.exists("thinking"):
    select.select([], [], [], 0.01)
os.write(1, b"\\nnever mind\\n")
ready, _, _ = select.select([0], [], [], 1.0)
print("KEYS" if ready else "NONE")
"""

    async with Client(state=table.state) as interlock:
        request = table.python(code, permission={"otherwise": "ask"})
        with anyio.fail_after(20):
            async with interlock.stream(request) as run:
                async for event in run:
                    if isinstance(event, ApprovalRequested):
                        (table.workspace / "thinking").touch()
                outcome = await run.outcome()
    assert outcome.status == "completed"
    assert outcome.text is not None
    assert outcome.text.endswith("NONE")


async def test_leaving_at_the_question_leaves_nothing_and_says_no(table):
    request = table.request("ask 'touch one'; echo done", permission={"otherwise": "ask"})
    with anyio.fail_after(20):
        async with Client(state=table.state) as interlock, interlock.stream(request) as run:
            async for event in run:
                if isinstance(event, ApprovalRequested):
                    break
        outcome = await run.outcome()
    assert outcome.status == "cancelled"
    assert not list(table.workspace.iterdir())
    assert "y" not in table.keys


async def test_no_descendant_survives_not_even_one_in_a_session_of_its_own(table):
    code = "setsid sh -c 'echo $$ > pid; exec sleep 600' < /dev/null > /dev/null 2>&1 & ask true; cat pid"
    outcome, events = await table.play(table.request(code, permission={"posture": "full"}))
    assert outcome.status == "completed"
    assert not lives(int(text(events).split()[-1]))


async def test_nothing_that_a_terminal_obeys_comes_out(table):
    evil = r"\033]52;c;aGk=\007\033]0;title\007\033]8;;http://x\033\\\\link\033]8;;\033\\\\\033[?2004h\033[2J\033[6n"
    code = f"printf 'before {evil} after\\n'; printf '{evil}'; exit 3"
    outcome, events = await table.play(table.request(code))
    assert (outcome.status, outcome.exit_code) == ("failed", 3)
    told = json.dumps([event.model_dump(mode="json") for event in events])
    for raw in ("\\u001b", "\\u0007", "\\u009b"):
        assert raw not in told


async def test_its_environment_is_a_terminal_and_a_home_of_its_own(table):
    code = '[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "$TERM|$COLUMNS|$(stty size)"; ls -A "$HOME"; touch "$HOME/x"'
    profile = PROFILE.replace("[[question]]", '[env]\nTERM = "vt100"\n[window]\nrows = 33\ncolumns = 77\n[[question]]')
    outcome, _ = await table.play(table.request(code, profile))
    assert outcome.text == "vt100||33 77\n.keep"


async def test_a_run_that_ends_badly_is_no_success_whatever_its_screen_says(table):
    code = "echo 'All done. Success!'; exit 1"
    outcome, _ = await table.play(table.request(code))
    assert (outcome.status, outcome.reason) == ("failed", "crashed")
    marked = PROFILE.replace("[[question]]", '[ends]\nmarker = "^ok$"\n[[question]]', 1)
    outcome, _ = await table.play(table.request("echo 'All done. Success!'", marked))
    assert (outcome.status, outcome.reason) == ("failed", "protocol")


async def test_an_agent_that_ends_when_its_prompt_comes_back(table):
    code = (
        "printf '> '; read -r task; echo \"doing $task\"; printf '> '; read -r word; echo \"$word\" >> $HEARD; exit 0"
    )
    profile = TYPED.replace("[[question]]", '[ends]\nquit = "exit\\n"\n[[question]]', 1)
    outcome, _ = await table.play(table.request(code, profile, prompt="it"))
    assert outcome.status == "completed"
    assert table.keys == ["exit"]


async def test_an_agent_that_never_asks_for_its_prompt_was_not_ready(table):
    outcome, _ = await table.play(table.request("sleep 60", TYPED, limits={"start_up": 0.5}))
    assert (outcome.status, outcome.reason) == (Status.TIMED_OUT, Reason.STALLED)


async def test_no_handshake_is_made_with_an_agent_that_would_act_on_its_prompt(table):
    with pytest.raises(Unsupported, match="as soon as it is started"):
        await probe(table.request("touch started"), state=table.state)
    assert not list(table.workspace.iterdir())


async def test_a_file_that_the_agent_would_obey_is_refused_before_it_starts(table):
    profile = PROFILE.replace("[[question]]", "[[question]]", 1)
    profile = profile.replace('programs = ["tool"]', 'programs = ["tool"]\nobeys = [".tool.yml"]\nrooted = true')
    request = table.request("touch started", profile)
    (table.workspace / ".git").mkdir()
    below = table.workspace / "below"
    below.mkdir()
    client = Client(state=table.state)
    client.plan(request)
    with pytest.raises(Exception, match="names every path from the root") as raised:
        client.plan(request.model_copy(update={"cwd": str(below)}))
    assert [unmet.field for unmet in raised.value.unmet] == ["cwd"]
    (table.workspace / ".tool.yml").symlink_to("nowhere")
    with pytest.raises(Exception, match="would obey"):
        client.plan(request)
