"""`interlock attach` on a program in the agent's place: the terminal is handed through, and its hooks are answered."""

import json
import os
import select
import shlex
import signal
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from tests.cli.agent_places import program
from tests.cli.conftest import Cli

from interlock_adapters.cli.attach_screen import Switches

AGENT = Path(__file__).with_name("attached_agent.py")
Attach = Callable[..., Any]


def words(cli: Cli, *more: str, command: str = "attach") -> list[str]:
    started = shlex.quote(str(cli.folder / "started"))
    binary = program(cli.folder / "bin", f'exec {shlex.quote(sys.executable)} {AGENT} {started} "$@"')
    return [command, "-a", "claude", "--binary", str(binary), "-C", str(cli.workspace), "--login", "env", *more]


@pytest.fixture
def attached(cli: Cli, typed: Any) -> Attach:
    """Attaches a person to the program, which is ready then."""

    def start(*more: str, **env: str) -> Any:
        child = typed(*words(cli, *more), **env)
        child.expect("\nready")
        return child

    return start


def tell(child: Any, line: str) -> str:
    """Type a line, and what the program says to it."""
    child.sendline(line)
    child.expect(r"\r\n<(.*?)>\r\n")
    return str(child.match[1])


def hook(child: Any, event: str, call: str, command: str) -> dict[str, Any]:
    """Have the program call a hook about a command; the answer."""
    body = json.dumps({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": call})
    answer: dict[str, Any] = json.loads(tell(child, f"hook {event} {body}"))
    return answer.get("hookSpecificOutput", answer)


def code_of(child: Any) -> int:
    """How it ended; its terminal is as it was."""
    child.expect(pexpect.EOF)
    assert cooked(child)
    child.wait()
    return int(child.exitstatus)


def cooked(child: Any) -> bool:
    """Whether the person's terminal echoes and reads lines."""
    flags = termios.tcgetattr(child.child_fd)[3]
    return bool(flags & termios.ICANON) and bool(flags & termios.ECHO)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def audited(cli: Cli) -> list[tuple[str, str, str]]:
    lines = (cli.folder / "audit.jsonl").read_text("utf-8").splitlines()
    return [(one["tool_call_id"], one["decision"], one["binding"]) for one in map(json.loads, lines)]


# ---- The terminal ---------------------------------------------------------------------------------------------------


def test_keys_output_and_size_are_handed_through_and_the_terminal_is_as_before(attached: Attach, cli: Cli) -> None:
    child = attached()
    assert not cooked(child)
    assert tell(child, "size") == "300x40"
    child.setwinsize(20, 100)
    child.expect("resized 100x20")
    assert tell(child, r"write \x1b[?1049h\x1b[?25lx") == "\x1b[?1049h\x1b[?25lx"
    child.sendline("quit 0")
    assert code_of(child) == 0
    assert "\x1b[?1049l\x1b[?25h" in child.before
    assert list((cli.folder.parent / "home/.local/state/interlock/runs").iterdir()) == []


def test_ctrl_c_is_the_programs(attached: Attach) -> None:
    child = attached()
    child.send("\x03")
    assert code_of(child) == 1
    assert "signal 2" in child.before
    assert "no hook of the agent ever called" in child.before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_end_it_ends_the_agent_with_all_its_children(attached: Attach, number: int) -> None:
    child = attached()
    pid = int(tell(child, "child"))
    child.kill(number)
    assert code_of(child) == 130
    assert gone(pid)


def test_what_the_agent_started_is_gone_when_it_ends(attached: Attach) -> None:
    child = attached()
    pid = int(tell(child, "child"))
    child.sendline("quit 0")
    assert code_of(child) == 0
    assert gone(pid)


def test_a_killed_host_leaves_nothing(attached: Attach) -> None:
    child = attached()
    pid = int(tell(child, "child"))
    handle = os.pidfd_open(pid)
    child.kill(signal.SIGKILL)
    ended, _, _ = select.select([handle], [], [], 20)
    os.close(handle)
    assert ended


def test_nothing_of_the_persons_own_takes_part(attached: Attach) -> None:
    child = attached(CLAUDECODE="1", COPILOT_ALLOW_ALL="true", CLAUDE_CODE_SIMPLE="1")
    assert [tell(child, f"env {name}") for name in ("CLAUDECODE", "COPILOT_ALLOW_ALL", "CLAUDE_CODE_SIMPLE")] == [
        "unset"
    ] * 3
    assert tell(child, "env CLAUDE_CONFIG_DIR").startswith(tell(child, "env HOME"))
    argv = tell(child, "argv")
    assert "--setting-sources=" in argv
    assert "Bearer" not in argv
    assert "opens-nothing" not in argv


# ---- Hooks ----------------------------------------------------------------------------------------------------------


def test_a_denied_call_is_denied_one_that_is_allowed_is_granted_and_the_rest_is_asked_on_the_screen(
    attached: Attach, cli: Cli
) -> None:
    rules = ("--deny", "shell(rm:*)", "--allow", "shell(touch:*)")
    child = attached(*rules, "--audit", str(cli.folder / "audit.jsonl"))
    denied = hook(child, "PreToolUse", "t1", "rm precious")
    assert denied["permissionDecision"] == "deny"
    assert "shell(rm:*)" in denied["permissionDecisionReason"]
    assert hook(child, "PreToolUse", "t2", "touch made") == {}
    assert hook(child, "PermissionRequest", "", "touch made") == {
        "hookEventName": "PermissionRequest",
        "decision": {"behavior": "allow"},
    }
    assert hook(child, "PostToolUse", "t2", "touch made") == {}
    assert hook(child, "PreToolUse", "t3", "make all") == {}
    assert hook(child, "PermissionRequest", "", "make all") == {}
    assert hook(child, "PermissionRequest", "", "make other") == {}
    assert hook(child, "PostToolUse", "t3", "make all") == {}
    child.sendline("quit 0")
    assert code_of(child) == 0
    assert "1 call denied" in child.before
    assert audited(cli) == [("t1", "deny", "rule"), ("t2", "allow", "rule"), ("t3", "agent", "policy")]


def test_a_chain_denies_and_rewrites(attached: Attach, cli: Cli) -> None:
    program(
        cli.folder / "hook",
        'if grep -q secret; then echo \'{"decision":"deny","reason":"not that"}\'; '
        'else echo \'{"decision":"modify","input":{"command":"touch two"}}\'; fi',
        "hook",
    )
    file = cli.folder / "hooks.json"
    file.write_text(json.dumps({"schema": 1, "hooks": [{"name": "h", "command": [str(cli.folder / "hook/hook")]}]}))
    child = attached("--hooks", str(file), "--allow", "shell(touch two)")
    assert "not that" in hook(child, "PreToolUse", "t1", "cat secret")["permissionDecisionReason"]
    changed = hook(child, "PreToolUse", "t2", "touch one")
    assert changed == {"hookEventName": "PreToolUse", "updatedInput": {"command": "touch two"}}
    assert hook(child, "PermissionRequest", "", "touch one") == {}
    assert hook(child, "PermissionRequest", "", "touch two")["decision"] == {"behavior": "allow"}
    child.sendline("quit 0")
    assert code_of(child) == 0


def test_a_broken_hook_of_the_chain_denies(attached: Attach, cli: Cli) -> None:
    program(cli.folder / "hook", "exit 1", "hook")
    file = cli.folder / "hooks.json"
    file.write_text(json.dumps({"schema": 1, "hooks": [{"name": "h", "command": [str(cli.folder / "hook/hook")]}]}))
    child = attached("--hooks", str(file), "--posture", "full")
    assert hook(child, "PreToolUse", "t1", "true")["permissionDecision"] == "deny"
    child.sendline("quit 0")
    assert code_of(child) == 0


def test_a_question_to_the_person_is_never_answered_for_them(attached: Attach) -> None:
    child = attached("--posture", "full")
    body = json.dumps({"tool_name": "AskUserQuestion", "tool_input": {"questions": []}, "tool_use_id": "t2"})
    assert json.loads(tell(child, f"hook PreToolUse {body}")) == {}
    assert json.loads(tell(child, f"hook PermissionRequest {body}")) == {}
    child.sendline("quit 0")
    assert code_of(child) == 0


@pytest.mark.parametrize(
    ("event", "said"),
    [("PermissionRequest", "no hook had shown it before"), ("PostToolUse", "nobody here had let it")],
)
def test_a_call_that_no_hook_has_shown_ends_the_session_as_unguarded(attached: Attach, event: str, said: str) -> None:
    child = attached("--posture", "full")
    child.sendline("hook " + event + ' {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}')
    assert code_of(child) == 4
    assert said in child.before


def test_a_call_that_ran_although_it_was_denied_ends_the_session_as_unguarded(attached: Attach) -> None:
    child = attached("--deny", "shell(rm:*)", "--posture", "full")
    assert hook(child, "PreToolUse", "t1", "rm x")["permissionDecision"] == "deny"
    child.sendline('hook PostToolUse {"tool_name": "Bash", "tool_input": {"command": "rm x"}, "tool_use_id": "t1"}')
    assert code_of(child) == 4


def test_a_hook_that_cannot_be_read_is_refused_and_ends_the_session(attached: Attach) -> None:
    child = attached("--posture", "full")
    child.sendline('hook PreToolUse {"hook_event_name": 7}')
    assert code_of(child) == 4


def test_whoever_does_not_know_the_token_is_turned_away(attached: Attach) -> None:
    child = attached()
    assert tell(child, "stranger PreToolUse") == "HTTP 401"
    child.sendline("quit 0")
    assert code_of(child) == 0
    assert "does not know its token" in child.before


def test_an_agent_that_breaks_down_has_failed(attached: Attach) -> None:
    child = attached()
    child.sendline("quit 3")
    assert code_of(child) == 1
    assert "exit 3" in child.before


# ---- What is refused before the start -------------------------------------------------------------------------------


def refused(cli: Cli, typed: Any, *more: str) -> str:
    child = typed(*words(cli, *more))
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2
    assert not (cli.folder / "started").exists()
    return str(child.before)


def test_a_chain_that_judges_outputs_is_unsupported(cli: Cli, typed: Any) -> None:
    file = cli.folder / "hooks.json"
    spec = {"name": "h", "command": ["/bin/true"], "events": ["pre_tool_use", "post_tool_use"]}
    file.write_text(json.dumps({"schema": 1, "hooks": [spec]}))
    assert "does not show every output" in refused(cli, typed, "--hooks", str(file))


def test_questions_of_ours_are_unsupported(cli: Cli, typed: Any) -> None:
    assert "cannot ask" in refused(cli, typed, "--otherwise", "ask")


def test_an_agent_without_a_screen_of_its_own_is_unsupported(cli: Cli, typed: Any) -> None:
    child = typed("attach", "-a", "terminal:aider", "-C", str(cli.workspace))
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2
    assert "interlock run" in child.before


def test_without_a_terminal_it_is_refused_and_says_what_to_do(cli: Cli) -> None:
    done = cli.interlock(*words(cli))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"needs a terminal" in done.stderr
    assert b"interlock run" in done.stderr
    assert not (cli.folder / "started").exists()


def test_a_plan_says_what_is_not_promised_and_starts_nothing(cli: Cli) -> None:
    done = cli.interlock(*words(cli, "--plan", "--deny", "shell(rm:*)"))
    assert done.returncode == 0
    for said in (b"over attach", b"otherwise agent", b"asked by the agent on its own screen", b"should they be lost"):
        assert said in done.stdout
    assert b"opens-nothing" not in done.stdout
    assert not (cli.folder / "started").exists()


@pytest.mark.parametrize("agent", ["codex", "copilot"])
def test_the_other_agents_have_plans_too(cli: Cli, agent: str) -> None:
    binary = program(cli.folder / "bin", "exit 1", agent)
    more = ("--env", "OPENAI_API_KEY=x") if agent == "codex" else ("--env", "GH_TOKEN=x")
    done = cli.interlock(
        "attach", "-a", agent, "--binary", str(binary), "-C", str(cli.workspace), "--login", "env", *more, "--plan"
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"over attach" in done.stdout
    assert b"your answer there counts" in done.stdout


def test_hooks_of_a_workspace_that_copilot_would_trust_are_refused(cli: Cli) -> None:
    (cli.workspace / ".github" / "hooks").mkdir(parents=True)
    binary = program(cli.folder / "bin", "exit 1", "copilot")
    words_ = ["attach", "-a", "copilot", "--binary", str(binary), "-C", str(cli.workspace), "--env", "GH_TOKEN=x"]
    done = cli.interlock(*words_, "--login", "env", "--plan")
    assert done.returncode == 2
    assert b".github/hooks" in done.stderr


# ---- What is switched back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "undone"),
    [
        (b"plain", b""),
        (b"\x1b[?1049h\x1b[?2004h", b"\x1b[?1049l\x1b[?2004l\x1b[0m"),
        (b"\x1b[?1049h\x1b[?1049l", b"\x1b[0m"),
        (b"\x1b[?1000;1006h", b"\x1b[?1000l\x1b[?1006l\x1b[0m"),
        (b"\x1b[?25l", b"\x1b[?25h\x1b[0m"),
        (b"\x1b[?25l\x1b[?25h", b"\x1b[0m"),
        (b"\x1b[>7u", b"\x1b[<u"),
        (b"\x1b[>7u\x1b[<1u", b""),
    ],
)
def test_only_what_a_program_left_on_is_switched_back_in_whatever_pieces_it_came(said: bytes, undone: bytes) -> None:
    whole, pieces = Switches(), Switches()
    whole.feed(said)
    for number in said:
        pieces.feed(bytes([number]))
    assert (whole.undone(), pieces.undone()) == (undone, undone)
