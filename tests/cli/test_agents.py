"""`interlock agents`: what is here, in which version, logged in or not, and what it can do."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.agent_places import program, telling
from tests.cli.conftest import Cli, Typing


def listed(cli: Cli, path: Path | None = None, **env: str) -> dict[str, dict[str, Any]]:
    """The agents by name; `path` is the only place beside the system where programs are."""
    where = f"{path}:/usr/bin:/bin" if path else "/usr/bin:/bin"
    done = cli.interlock("agents", "--json", PATH=where, **env)
    assert (done.returncode, done.stderr) == (0, b"")
    return {one["name"]: one for one in json.loads(done.stdout)["agents"]}


def test_an_agent_that_is_not_here_is_listed_with_how_to_install_it(cli: Cli) -> None:
    claude = listed(cli)["claude"]
    assert (claude["found"], claude["path"], claude["title"]) == (False, "", "Claude Code")
    assert "@anthropic-ai/claude-code" in claude["install_hint"]
    assert claude["transports"][0]["transport"] == "stream-json"


@pytest.mark.parametrize(
    ("version", "standing"), [("2.1.197", "tested"), ("2.1.332", "tested"), ("2.1.9", "older"), ("3.0.0", "newer")]
)
def test_a_version_stands_to_the_tested_range(cli: Cli, tmp_path: Path, version: str, standing: str) -> None:
    path = telling(tmp_path / "bin", version)
    claude = listed(cli, path.parent)["claude"]
    assert claude["path"] == str(path)
    assert claude["version"] == {"number": version, "standing": standing, "problem": ""}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo hello", "`--version` says no version: hello"),
        ("exit 3", "`--version` says no version: nothing"),
    ],
)
def test_a_program_that_tells_no_version_is_no_error(cli: Cli, tmp_path: Path, body: str, problem: str) -> None:
    found = listed(cli, program(tmp_path / "bin", body).parent)["claude"]["version"]
    assert (found["standing"], found["problem"]) == ("unknown", problem)


def test_a_program_that_cannot_be_started_is_no_error(cli: Cli, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "")
    path.write_bytes(b"#!/no/such/interpreter\n")
    assert "cannot be started" in listed(cli, path.parent)["claude"]["version"]["problem"]


def test_a_program_sees_neither_the_home_nor_the_keys_of_the_user(cli: Cli, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    path = program(tmp_path / "bin", f'env > {seen}; touch "$HOME/made"; echo 2.1.332')
    assert listed(cli, path.parent)["claude"]["version"]["number"] == "2.1.332"
    told = dict(line.split("=", 1) for line in seen.read_text("utf-8").splitlines() if "=" in line)
    assert told["HOME"] != cli.env["HOME"]
    assert not Path(told["HOME"]).exists()
    assert told["CLAUDE_CONFIG_DIR"] == told["HOME"]
    assert "opens-nothing" not in seen.read_text("utf-8")
    assert told["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert list(Path(cli.env["HOME"]).iterdir()) == []


def test_a_program_that_never_ends_is_ended_with_all_it_started(cli: Cli, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    path = program(tmp_path / "bin", f"sleep 600 & echo $! > {pid}; echo 2.1.332; wait")
    found = listed(cli, path.parent)["claude"]["version"]
    assert found["number"] == "2.1.332"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text("utf-8")), 0)


def test_a_login_is_seen_and_never_read(cli: Cli, tmp_path: Path) -> None:
    del cli.env["ANTHROPIC_API_KEY"]
    assert listed(cli)["claude"]["login"] == []
    assert not listed(cli)["claude"]["logged_in"]
    folder = Path(cli.env["HOME"]) / ".claude"
    folder.mkdir()
    (folder / ".credentials.json").write_text("secret words", "utf-8")
    keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "CODEX_API_KEY": "c"}
    found = listed(cli, **keys)
    assert found["claude"]["login"] == [f"credentials file {folder}/.credentials.json", "ANTHROPIC_API_KEY"]
    assert found["codex"]["login"] == ["CODEX_API_KEY"]
    moved = listed(cli, CLAUDE_CONFIG_DIR=str(tmp_path))["claude"]
    assert moved["login"] == []


def test_the_plain_form_has_a_line_for_each_fact_and_ability(cli: Cli, tmp_path: Path) -> None:
    done = cli.interlock("agents", PATH=f"{telling(tmp_path / 'bin', '2.1.100').parent}:/usr/bin:/bin")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [" ".join(line.split()) for line in done.stdout.decode().splitlines()]
    assert "claude (Claude Code)" in lines
    assert "version 2.1.100 (older than what was tested: refused)" in lines
    assert "login ANTHROPIC_API_KEY" in lines
    assert "claude over stream-json" in lines
    for row in ("asks yes, several at once", "denies all kinds", "backstop gate, none", "replaces errors none"):
        assert row in lines
    assert b"\x1b" not in done.stdout


def test_at_a_terminal_it_is_a_table_in_colours(typed: Typing) -> None:
    child = typed("agents", PATH="/usr/bin:/bin")
    child.expect("Claude Code")
    child.expect("\x1b\\[")
    child.expect("stream-json")
    child.expect_exact("backstop")
