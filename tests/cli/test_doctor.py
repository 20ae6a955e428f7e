"""`interlock doctor`: whether agents can be run here, on machines of every kind."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.agent_places import program, real_claude, telling
from tests.cli.conftest import Cli

from interlock_adapters.cli.doctor_machine import configuration
from interlock_fixtures.clis import clis_required, find_cli
from interlock_fixtures.scripted_agent.launcher import install

NOWHERE = "/usr/bin:/bin"
MACHINE = {
    "platform", "guardian", "state folder", "workspace", "administrator's hooks", "administrator's policy",
    "your hooks", "your policy", "proxies",
}  # fmt: skip


def examined(cli: Cli, *words: str, code: int | None = None, **env: str) -> dict[str, dict[str, Any]]:
    """The checks by name."""
    given = {"PATH": NOWHERE, **env}
    done = cli.interlock("doctor", *words, "-C", str(cli.workspace), "--json", **given)
    assert done.stderr == b""
    told = json.loads(done.stdout)
    found = {f"{one['agent']}: {one['name']}".removeprefix(": "): one for one in told["checks"]}
    bad = any(one["verdict"] == "problem" for one in found.values())
    assert (done.returncode, told["ok"]) == (int(bad), not bad)
    assert all(one["way_out"] for one in found.values() if one["verdict"] != "ok")
    assert code is None or done.returncode == code, told
    return found


def scripted(cli: Cli, name: str = "claude") -> Path:
    """The scripted agent, which confirms a handshake as the CLI does."""
    folder = cli.folder / "scripted"
    folder.mkdir(exist_ok=True)
    return install(folder, [[{"text": "done"}]], name=name)


# ---- The machine ----------------------------------------------------------------------------------------------------


def test_without_any_agent_it_says_so_and_how_to_install_one(cli: Cli) -> None:
    found = examined(cli, code=1)
    assert set(found) >= MACHINE
    assert found["agents"]["verdict"] == "problem"
    assert found["claude: program"]["verdict"] == "warning"
    assert "npm install -g @anthropic-ai/claude-code" in found["claude: program"]["way_out"]
    assert examined(cli, "claude", code=1)["claude: program"]["verdict"] == "problem"


def test_the_state_folder_is_made_private_and_judged_by_where_it_lies(cli: Cli) -> None:
    assert "temporary" in examined(cli)["state folder"]["says"]
    state = Path(cli.env["HOME"]) / ".local/state/interlock"
    assert state.stat().st_mode & 0o777 == 0o700
    state.chmod(0o777)
    assert examined(cli)["state folder"]["way_out"] == f"chmod 700 {state}"
    inside = examined(cli, XDG_STATE_HOME=str(cli.workspace))["state folder"]
    assert (inside["verdict"], "inside" in inside["says"]) == ("problem", True)
    unusable = examined(cli, XDG_STATE_HOME="/proc/nowhere")["state folder"]
    assert (unusable["verdict"], "cannot be written" in unusable["says"]) == ("problem", True)


def test_a_workspace_whose_git_configuration_names_programs_is_a_problem(cli: Cli) -> None:
    assert examined(cli)["workspace"]["verdict"] == "ok"
    git = cli.workspace / ".git"
    for name in ("objects", "refs"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    (git / "config").write_text("[core]\n\tfsmonitor = ./evil\n", "utf-8")
    found = examined(cli)["workspace"]
    assert (found["verdict"], "fsmonitor" in found["says"]) == ("problem", True)


def test_your_files_are_read_as_a_run_reads_them(cli: Cli) -> None:
    folder = Path(cli.env["HOME"]) / ".config/interlock"
    folder.mkdir(parents=True)
    (folder / "hooks.json").write_text("{}", "utf-8")
    (folder / "policy.toml").write_text("schema = 2\n", "utf-8")
    found = examined(cli)
    assert [found[name]["verdict"] for name in ("your hooks", "your policy")] == ["problem"] * 2
    (folder / "hooks.json").write_text('{"schema": 1, "hooks": []}', "utf-8")
    (folder / "policy.toml").write_text("schema = 1\n", "utf-8")
    found = examined(cli)
    assert [found[name]["verdict"] for name in ("your hooks", "your policy")] == ["ok"] * 2


def test_an_administrators_file_that_others_may_write_is_a_problem(tmp_path: Path) -> None:
    hooks, policy = tmp_path / "hooks.json", tmp_path / "policy.toml"
    hooks.write_text('{"schema": 1, "hooks": []}', "utf-8")
    policy.write_text("schema = 1\n", "utf-8")
    owner = os.geteuid()

    def verdicts() -> list[str]:
        return [one.verdict for one in configuration((str(hooks), owner), (str(policy), owner))[:2]]

    assert verdicts() == ["ok", "ok"]
    hooks.chmod(0o666)
    policy.write_text("[[[", "utf-8")
    assert verdicts() == ["problem", "problem"]


def test_proxies_are_named_without_their_passwords(cli: Cli) -> None:
    proxy = "http://someone:hidden@proxy.example:8080"
    found = examined(cli, HTTPS_PROXY=proxy)["proxies"]
    assert (found["verdict"], found["way_out"]) == ("warning", "export NO_PROXY=127.0.0.1,localhost")
    assert "proxy.example:8080" in found["says"]
    assert "hidden" not in json.dumps(found)
    assert examined(cli, HTTPS_PROXY=proxy, NO_PROXY="127.0.0.1")["proxies"]["verdict"] == "ok"
    assert examined(cli, HTTPS_PROXY="http://[")["proxies"]["verdict"] == "warning"


# ---- One agent ------------------------------------------------------------------------------------------------------


def test_an_agent_that_confirms_all_is_well(cli: Cli, tmp_path: Path) -> None:
    path = telling(tmp_path / "bin", "2.1.332", [scripted(cli)])
    found = examined(cli, "claude", PATH=f"{path.parent}:{NOWHERE}", code=0)
    ours = {name: one["verdict"] for name, one in found.items() if one["agent"] == "claude"}
    parts = ("program", "version", "login", "handshake")
    assert ours == {f"claude: {part}": "ok" for part in parts}
    assert "no prompt was sent" in found["claude: handshake"]["says"]


@pytest.mark.parametrize(("version", "verdict"), [("2.1.100", "problem"), ("9.0.0", "warning"), ("none", "problem")])
def test_a_version_outside_the_tested_range(cli: Cli, tmp_path: Path, version: str, verdict: str) -> None:
    path = telling(tmp_path / "bin", version, [scripted(cli)])
    found = examined(cli, "claude", "--binary", str(path), code=int(verdict == "problem"))["claude: version"]
    assert (found["verdict"], "2.1.197 to 2.1.332" in found["way_out"]) == (verdict, True)


def test_without_a_login_it_warns_and_the_handshake_is_made_all_the_same(cli: Cli, tmp_path: Path) -> None:
    del cli.env["ANTHROPIC_API_KEY"]
    path = telling(tmp_path / "bin", "2.1.332", [scripted(cli)])
    found = examined(cli, "claude", "--binary", str(path), code=0)
    assert found["claude: login"]["verdict"] == "warning"
    assert "ANTHROPIC_API_KEY" in found["claude: login"]["way_out"]
    assert found["claude: handshake"]["verdict"] == "ok"


def test_a_file_that_is_not_executable_is_named(cli: Cli, tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "exit", mode=0o644)
    for words, env in ((["--binary", str(path)], {}), ([], {"PATH": f"{path.parent}:{NOWHERE}"})):
        found = examined(cli, "claude", *words, code=1, **env)["claude: program"]
        assert (found["says"], found["way_out"]) == (f"{path} is not executable", f"chmod +x {path}")


@pytest.mark.parametrize("body", ["exit 7", "echo nonsense; cat", "sleep 0.1; kill -9 $$"])
def test_a_program_that_is_no_agent_fails_the_handshake(cli: Cli, tmp_path: Path, body: str) -> None:
    path = telling(tmp_path / "bin", "2.1.332", [program(tmp_path / "other", body)])
    assert examined(cli, "claude", "--binary", str(path), code=1)["claude: handshake"]["verdict"] == "problem"


def test_usage_errors_name_the_way_out(cli: Cli) -> None:
    for words in (["nobody"], ["--binary", "/bin/true"], ["claude", "codex", "--binary", "/bin/true"], ["--what"]):
        done = cli.interlock("doctor", *words)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr


def test_the_plain_form_says_what_is_wrong_and_the_way_out(cli: Cli) -> None:
    done = cli.interlock("doctor", "claude", "-C", str(cli.workspace), PATH=NOWHERE)
    lines = [" ".join(line.split()) for line in done.stdout.decode().splitlines()]
    assert lines[0] == "this machine"
    assert "problem program: not found: claude" in lines
    assert any(line.startswith("-> npm install") for line in lines)
    assert lines[-1].startswith("1 problem, ")


# ---- The real CLIs --------------------------------------------------------------------------------------------------


def needed(path: Path | None) -> Path:
    """A real CLI, or the reason why the test cannot run."""
    if path is None and not clis_required():
        pytest.skip("the real CLI is not installed: run `npm ci` in fixtures/clis")
    assert path is not None
    return path


@pytest.mark.live
@pytest.mark.parametrize(("name", "which"), [("claude", "oldest"), ("claude", "newest"), ("codex", "oldest")])
def test_the_real_cli_confirms_our_hooks_and_hears_no_prompt(cli: Cli, name: str, which: Any) -> None:
    path = needed(find_cli(name, which))
    found = examined(cli, name, "--binary", str(path), code=0)
    assert found[f"{name}: version"]["verdict"] == "ok"
    assert "our hooks are confirmed" in found[f"{name}: handshake"]["says"]
    state = Path(cli.env["HOME"]) / ".local/state/interlock"
    assert sorted(path.name for path in Path(cli.env["HOME"]).iterdir()) == [".local"]
    assert list(state.iterdir()) == []


@pytest.mark.live
def test_the_real_cli_behind_a_wrapper_that_tells_another_version(cli: Cli, tmp_path: Path) -> None:
    real = needed(real_claude())
    newer = examined(cli, "claude", "--binary", str(telling(tmp_path / "new", "9.9.9", [real])), code=0)
    assert newer["claude: version"]["verdict"] == "warning"
    assert newer["claude: handshake"]["verdict"] == "ok"
    older = examined(cli, "claude", "--binary", str(telling(tmp_path / "old", "2.0.0", [real])), code=1)
    assert older["claude: version"]["verdict"] == "problem"


@pytest.mark.live
def test_nothing_of_a_real_cli_is_left(cli: Cli, tmp_path: Path) -> None:
    real = needed(real_claude())
    place = tmp_path / "temporary"
    place.mkdir()
    examined(cli, "claude", "--binary", str(real), TMPDIR=str(place))
    assert list(place.iterdir()) == []
    shutil.rmtree(place)
