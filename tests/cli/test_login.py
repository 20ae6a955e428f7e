"""`interlock login` on programs in the place of an agent's: its own command, in the person's home, on their screen."""

import os
import subprocess
import termios
from pathlib import Path
from typing import Any

import pexpect
import pytest
from tests.cli.agent_places import program
from tests.cli.conftest import Cli
from tests.cli.test_attach import code_of, gone
from tests.cli.test_doctor import needed

from interlock.adapter import LoggingIn
from interlock.engine.registry import find_adapter
from interlock_fixtures.clis import copilot_cache, find_cli

LOGS_IN = """
echo "asked: $*"
stty -echo; printf 'token: '; read -r token; stty echo
mkdir -p "$HOME/.claude"; echo "$token" > "$HOME/.claude/.credentials.json"
echo "stored in $PWD"
"""


def login(cli: Cli, typed: Any, body: str, **env: str) -> Any:
    """The command with a program whose body this is; no key of the environment counts as a login."""
    binary = program(cli.folder / "bin", body)
    cli.env.pop("ANTHROPIC_API_KEY", None)
    return typed("login", "claude", "--binary", str(binary), **env)


def home(cli: Cli) -> Path:
    return Path(cli.env["HOME"])


def test_the_login_is_made_in_the_persons_own_home_and_found_there(cli: Cli, typed: Any) -> None:
    child = login(cli, typed, LOGS_IN)
    child.expect("in your own home")
    child.expect("asked: auth login\r\n")
    child.expect("token: ")
    child.sendline("opens-nothing")
    child.expect(f"stored in {home(cli)}\r\n")
    assert "opens-nothing" not in child.before
    assert code_of(child) == 0
    assert "login: " in child.before
    assert (home(cli) / ".claude/.credentials.json").read_text("utf-8") == "opens-nothing\n"


def test_a_login_that_leaves_nothing_is_none(cli: Cli, typed: Any) -> None:
    child = login(cli, typed, "echo done")
    assert code_of(child) == 1
    assert "warning" in child.before


def test_a_command_that_fails_is_told_even_where_a_login_is_there(cli: Cli, typed: Any) -> None:
    (home(cli) / ".claude").mkdir()
    (home(cli) / ".claude/.credentials.json").write_text("{}", "utf-8")
    child = login(cli, typed, "exit 7")
    assert code_of(child) == 1
    assert "exit 7" in child.before


def test_what_would_switch_guards_off_or_mark_a_nested_agent_does_not_reach_it(cli: Cli, typed: Any) -> None:
    names = ("CLAUDECODE", "COPILOT_ALLOW_ALL", "NODE_OPTIONS", "DISPLAY")
    body = "\n".join(f'echo "{name}=${{{name}-unset}}"' for name in names)
    child = login(cli, typed, body, **dict.fromkeys(names, "1"))
    code_of(child)
    assert [line for line in child.before.splitlines() if line.partition("=")[0] in names] == [
        "CLAUDECODE=unset",
        "COPILOT_ALLOW_ALL=unset",
        "NODE_OPTIONS=unset",
        "DISPLAY=1",
    ]


def test_ctrl_c_is_the_programs_and_the_terminal_is_as_before(cli: Cli, typed: Any) -> None:
    child = login(cli, typed, "stty -echo; echo ready; read -r line")
    child.expect("ready")
    assert not termios.tcgetattr(child.child_fd)[3] & termios.ECHO
    child.send("\x03")
    assert code_of(child) == 1
    assert "signal 2" in child.before


def test_nothing_of_it_is_left(cli: Cli, typed: Any) -> None:
    child = login(cli, typed, "setsid sleep 600 & echo pid $!; read -r line")
    child.expect(r"pid (\d+)\r\n")
    pid = int(child.match[1])
    child.sendline("")
    code_of(child)
    assert gone(pid)


def test_told_to_end_it_ends_the_command(cli: Cli, typed: Any) -> None:
    child = login(cli, typed, "echo pid $$; trap '' TERM HUP; while :; do sleep 600; done")
    child.expect(r"pid (\d+)\r\n")
    pid = int(child.match[1])
    child.kill(15)
    assert code_of(child) == 130
    assert gone(pid)


def test_without_a_terminal_it_is_refused_and_says_what_to_do(cli: Cli) -> None:
    binary = program(cli.folder / "bin", f"touch {cli.folder}/started")
    done = cli.interlock("login", "claude", "--binary", str(binary))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"needs a terminal" in done.stderr
    assert b"doctor claude" in done.stderr
    assert not (cli.folder / "started").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["terminal:aider"], "no command is known that logs in"),
        (["nobody"], "no adapter is named"),
        (["claude", "--binary", "/nowhere/claude"], "is not installed"),
    ],
)
def test_what_cannot_be_is_said_with_the_way_out(cli: Cli, typed: Any, words: list[str], said: str) -> None:
    child = typed("login", *words)
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 2
    assert said in child.before


@pytest.mark.live
@pytest.mark.parametrize(
    ("agent", "which"), [("claude", "oldest"), ("claude", "newest"), ("codex", "oldest"), ("copilot", "oldest")]
)
def test_the_real_cli_has_the_command(agent: str, which: Any, tmp_path: Path) -> None:
    binary, adapter = needed(find_cli(agent, which)), find_adapter(agent)
    assert isinstance(adapter, LoggingIn)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    if agent == "copilot":
        env["COPILOT_PKG_CACHE_HOME"] = str(copilot_cache() / "copilot")
    words = [str(binary), *adapter.login_arguments, "--help"]
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=40, check=True)
    assert f"Usage: {agent} {' '.join(adapter.login_arguments)}" in done.stdout
