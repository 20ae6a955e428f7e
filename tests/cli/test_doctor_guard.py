"""`interlock doctor --guard`: on the real CLIs every promise holds; behind a wrapper that breaks one it is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli import inert_hooks
from tests.cli.agent_places import telling
from tests.cli.conftest import Cli

from interlock.coverage import coverage
from interlock.engine.registry import find_adapter, known_agents
from interlock_fixtures.clis import Which, clis_required, find_cli, pinned_ends
from interlock_fixtures.proving import dialects_of

NOWHERE = "/usr/bin:/bin"
LIMIT = 110.0
"""Seconds; Copilot unpacks itself first."""
ENDS = [(name, pinned_ends(name)[-1]) for name in known_agents() if dialects_of(name)]
"""One version is enough here: the session itself is played on all of them by `live/test_coverage_live.py`."""
INERT = [
    ("claude", "dropped"),
    pytest.param("claude", "bare", marks=pytest.mark.slow),
    ("codex", "stripped"),
    pytest.param("copilot", "stripped", marks=pytest.mark.slow),
]


def real(name: str, which: Which = "oldest") -> Path:
    """A real CLI, or the reason why the test cannot run."""
    path = find_cli(name, which)
    if path is None and not clis_required():
        pytest.skip("the real CLI is not installed: run `npm ci` in fixtures/clis")
    assert path is not None
    return path


def proven(cli: Cli, name: str, binary: Path, code: int, *more: str) -> dict[str, Any]:
    """What is said, as JSON."""
    words = ("doctor", "--guard", name, "--binary", str(binary), "--json", *more)
    started = cli.start(*words, env={**cli.env, "PATH": NOWHERE})
    stdout, stderr = started.communicate(timeout=LIMIT)
    assert (started.returncode, stderr) == (code, b""), stdout.decode()
    told: dict[str, Any] = json.loads(stdout)
    assert told["ok"] is (code == 0)
    return told


def verdicts(told: dict[str, Any], verdict: str) -> set[str]:
    return {one["promise"] for one in told["promises"] if one["verdict"] == verdict}


@pytest.mark.live
@pytest.mark.parametrize(("name", "which"), ENDS)
def test_with_the_real_cli_every_promise_that_is_claimed_holds(cli: Cli, name: str, which: Which) -> None:
    told = proven(cli, name, real(name, which), 0)
    assert verdicts(told, "broken") == set()
    held = verdicts(told, "holds")
    sees = [one for one in find_adapter(name).transports if one.capabilities.sees_before == "all"]
    claimed = {
        f"{row.tool_class}.{column}"
        for one in sees
        for row in coverage(one.capabilities)
        for column in row.claimed() & {"before", "deny"}
        if any(row.tool_class in dialect.calls for dialect in dialects_of(name))
    }
    assert held >= claimed | {"failing-hook", "no-alarm", "completed", "nothing-left", "shell.replace", "shell.asked"}
    assert {one["transport"] for one in told["promises"]} == {one.name for one in find_adapter(name).transports}
    assert sorted(path.name for path in Path(cli.env["HOME"]).iterdir()) == []


@pytest.mark.live
@pytest.mark.parametrize(("name", "how"), INERT)
def test_hooks_that_never_fire_are_broken_promises(cli: Cli, tmp_path: Path, name: str, how: str) -> None:
    inert = inert_hooks.install(tmp_path / "inert", name, how, real(name))
    told = proven(cli, name, inert, 4)
    assert verdicts(told, "broken") >= {"shell.before", "shell.deny", "shell.modify", "shell.replace", "failing-hook"}
    assert "shell.deny" not in verdicts(told, "holds")


@pytest.mark.live
def test_the_one_promise_that_is_broken_is_named(cli: Cli, tmp_path: Path) -> None:
    shown = inert_hooks.install(tmp_path / "inert", "claude", "shown", real("claude"))
    told = proven(cli, "claude", shown, 4)
    broken = verdicts(told, "broken")
    assert broken >= {"shell.replace", "read.replace"}
    assert {one.partition(".")[2] for one in broken} <= {"replace", ""}
    assert verdicts(told, "holds") >= {"shell.before", "shell.deny", "shell.modify", "shell.after", "failing-hook"}
    seen = {one["promise"]: one["seen"] for one in told["promises"]}
    assert seen["shell.replace"] == "the model was sent what was replaced"


@pytest.mark.live
def test_the_plain_form_has_a_line_for_every_promise_and_says_what_broke(cli: Cli, tmp_path: Path) -> None:
    inert = inert_hooks.install(tmp_path / "inert", "codex", "stripped", real("codex"))
    words = ("doctor", "--guard", "codex", "--binary", str(inert), "--transport", "app-server")
    done = cli.interlock(*words, PATH=NOWHERE)
    lines = [" ".join(line.split()) for line in done.stdout.decode().splitlines()]
    assert done.returncode == 4
    assert "broken shell.deny: what is denied does not run, and the model reads why" in lines
    assert any("does not confirm our hook" in line for line in lines)
    assert lines[-1].startswith("broken: shell.before (app-server), ")


@pytest.mark.live
def test_one_transport_can_be_chosen_and_one_that_shows_nothing_refuses_a_chain(cli: Cli) -> None:
    told = proven(cli, "codex", real("codex"), 0, "--transport", "exec")
    assert {one["transport"] for one in told["promises"]} == {"exec"}
    assert verdicts(told, "holds") == {"refused.chain", "refused.asking"}


def test_a_program_that_is_no_agent_keeps_no_promise(cli: Cli, tmp_path: Path) -> None:
    path = telling(tmp_path / "bin", "2.1.332", ["false"])
    told = proven(cli, "claude", path, 4)
    assert verdicts(told, "holds") <= {"no-alarm"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--guard", "nobody"], "nobody"),
        (["--guard", "claude"], "not found: claude"),
        (["--guard", "claude", "codex"], "leave out codex"),
        (["--guard", "claude", "--transport", "pigeon"], "stream-json"),
        (["--transport", "stream-json"], "--guard AGENT"),
    ],
)
def test_what_cannot_be_proven_is_a_usage_error_that_says_why(cli: Cli, words: list[str], said: str) -> None:
    done = cli.interlock("doctor", *words, PATH=NOWHERE)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()


def test_a_version_that_is_refused_is_not_started(cli: Cli, tmp_path: Path) -> None:
    path = telling(tmp_path / "bin", "2.0.0", ["touch", str(tmp_path / "started")])
    done = cli.interlock("doctor", "--guard", "claude", "--binary", str(path), PATH=NOWHERE)
    assert (done.returncode, "older than what was tested" in done.stderr.decode()) == (2, True)
    assert not (tmp_path / "started").exists()
