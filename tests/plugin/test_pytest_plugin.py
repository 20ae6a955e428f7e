"""The plugin, in a pytest of its own: the example of a user who tests a guard, and what each fixture makes."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "test_my_guard.py"
FIXTURES = """
import subprocess
from pathlib import Path
from urllib.request import urlopen
import pytest
from interlock import Approve, Allow, Replace
from interlock_fixtures.scripted_model import HttpError, Text, ToolCall, Turn

BASH = Turn(Text("I look."), ToolCall("Bash", {"command": "echo heron > made; cat made"}, id="t1"))
DONE = Turn(Text("done"))

class Redact:
    name = "redact"
    async def after(self, call):
        return Replace(output="[redacted]") if "heron" in str(call.output) else Allow()

def test_a_scripted_model_listens(scripted_model):
    model = scripted_model([Turn(Text("hello"))])
    assert model.url.startswith("http://127.0.0.1:")

def test_a_scripted_agent_is_a_program(scripted_agent):
    assert subprocess.check_output([scripted_agent([{"text": "hi"}]), "--version"]).startswith(b"2.1")

def test_a_replay_is_a_program(replay):
    program = replay(Path(RECORDING))
    assert subprocess.run([program], input=b"", capture_output=True).stdout == b""

def test_a_run_without_guards(guarded_run):
    ran = guarded_run([BASH, DONE])
    assert (ran.workspace / "made").read_text() == "heron\\n"
    assert (ran.outcome.text, ran.denials, list(ran.shown)) == ("done", (), ["t1"])

def test_a_guard_that_replaces(guarded_run):
    assert "heron" not in str(guarded_run([BASH, DONE], Redact()).shown)

def test_an_approval_and_nobody_to_give_it(guarded_run):
    ask = {"posture": "none", "otherwise": "ask"}
    assert len(guarded_run([BASH, DONE], permission=ask).denials) == 1
    assert guarded_run([BASH, DONE], permission=ask, respond=lambda _: Approve()).denials == ()

@pytest.mark.anyio
async def test_a_run_in_a_coroutine(guarded_run):
    assert (await guarded_run.run([DONE])).outcome.ok

def test_trouble_of_a_model_needs_a_real_cli(guarded_run):
    with pytest.raises(ValueError, match="trouble"):
        guarded_run([Turn(HttpError(529))])
"""


@pytest.fixture
def run_pytest(tmp_path):
    """Runs a pytest that has no plugin but this one and anyio's."""

    def run(*arguments: str, path: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
        env["PYTHONPATH"] = os.pathsep.join([*path, *filter(None, [env.get("PYTHONPATH", "")])])
        plugins = ["-p", "interlock_fixtures.pytest_plugin", "-p", "anyio"]
        options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path), "-W", "error"]
        argv = [sys.executable, "-m", "pytest", *plugins, *options, "--strict-markers", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=110, check=False)

    return run


@pytest.mark.behaviour("kit:guarded-run")
def test_a_user_s_test_of_a_guard_passes_against_the_scripted_agent(run_pytest) -> None:
    done = run_pytest(str(EXAMPLE))
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.live
@pytest.mark.behaviour("kit:guarded-run")
@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_the_same_test_passes_against_the_real_cli_offline(run_pytest, which) -> None:
    done = run_pytest(str(EXAMPLE), "--interlock-cli", which)
    assert "1 passed" in done.stdout or "1 skipped" in done.stdout, done.stdout + done.stderr


def test_the_same_test_fails_without_its_guard(run_pytest, tmp_path) -> None:
    unguarded = EXAMPLE.read_text("utf-8").replace("NoDeletes(), ", "")
    (tmp_path / "test_unguarded.py").write_text(unguarded, "utf-8")
    assert "1 failed" in run_pytest("test_unguarded.py").stdout


def test_each_fixture_makes_what_it_says(run_pytest, tmp_path) -> None:
    recording = ROOT / "fixtures" / "recordings" / "claude" / "2.1.332" / "bash"
    (tmp_path / "test_fixtures.py").write_text(f"RECORDING = {str(recording)!r}\n{FIXTURES}", "utf-8")
    done = run_pytest("test_fixtures.py")
    assert "8 passed" in done.stdout or "9 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_loads_nothing_of_the_engine_until_it_is_used() -> None:
    code = "import sys, interlock_fixtures.pytest_plugin; print([m for m in sys.modules if m.startswith('interlock.')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.behaviour("kit:third-party-adapter")
def test_a_third_party_adapter_is_found_by_its_entry_point_and_keeps_the_contract(run_pytest, tmp_path) -> None:
    """Installed as its pyproject says, but for building a wheel: what an entry point needs is a `.dist-info`."""
    package = ROOT / "examples" / "third_party"
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
    installed = tmp_path / "installed"
    info = installed / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1\n", "utf-8")
    points = project["entry-points"]["interlock.adapters"]
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[interlock.adapters]", *lines, ""]), "utf-8")
    done = run_pytest(str(package / "test_parrot.py"), path=(str(installed), str(package)))
    assert "1 passed" in done.stdout, done.stdout + done.stderr
