"""`interlock record` keeps a run, and `interlock replay` runs it again, with faults where they are asked for."""

from pathlib import Path
from typing import Any

import pytest
from tests.cli.agent_places import real_claude, telling
from tests.cli.conftest import Cli
from tests.cli.test_doctor import needed

from interlock_adapters.cli.options import UsageProblem
from interlock_adapters.cli.replay import faults_of
from interlock_fixtures.recording import load_recording
from interlock_fixtures.replay import Faults
from interlock_fixtures.scripted_agent.launcher import install
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

RECORDINGS = Path(__file__).parents[2] / "fixtures/recordings"
KEPT = RECORDINGS / "claude/2.1.332"
CODEX = RECORDINGS / "codex/0.171.0"
COPILOT = RECORDINGS / "copilot/1.0.102"
SCRIPT = [[{"tool": "Bash", "input": {"command": "echo hi > made"}, "id": "t1"}, {"text": "done"}]]


@pytest.fixture
def binary(cli: Cli, tmp_path: Path) -> Path:
    """The scripted agent, which tells a version as the CLI does."""
    return telling(tmp_path / "bin", "2.1.332", [install(cli.folder, SCRIPT)])


def recorded(cli: Cli, binary: Path, *more: str, out: str = "kept", prompt: str = "go", **env: str) -> Any:
    words = ("-a", "claude", "--binary", str(binary), "-C", str(cli.workspace), "--posture", "full", "--login", "env")
    return cli.interlock("record", "--out", str(cli.folder / out), *words, *more, prompt, **env)


def replayed(cli: Cli, folder: Path, *more: str) -> tuple[int, list[dict[str, Any]]]:
    done = cli.interlock("replay", str(folder), "--json", *more, PATH="/usr/bin:/bin")
    return done.returncode, cli.events(done)


def outcome(events: list[dict[str, Any]]) -> dict[str, Any]:
    assert [event["type"] for event in events].count("run_finished") == 1
    assert events[-1]["type"] == "run_finished"
    told: dict[str, Any] = events[-1]["outcome"]
    return told


# ---- Recording ------------------------------------------------------------------------------------------------------


@pytest.mark.behaviour("kit:record")
def test_a_run_is_recorded_as_it_is_shown_and_can_be_replayed(cli: Cli, binary: Path) -> None:
    done = recorded(cli, binary)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert b"recorded: " in done.stderr
    assert (cli.workspace / "made").exists()
    folder = cli.folder / "kept/claude/2.1.332/run"
    recording = load_recording(folder)
    assert (recording.meta.recorded_by, recording.meta.code) == ("interlock record", 0)
    (cli.workspace / "made").unlink()
    code, events = replayed(cli, cli.folder / "kept")
    assert (code, outcome(events)["text"]) == (0, "done")
    assert [event["tool_name"] for event in events if event["type"] == "tool_requested"] == ["Bash"]
    assert not (cli.workspace / "made").exists()


def test_nothing_private_is_kept(cli: Cli, tmp_path: Path) -> None:
    said = "write to someone.private@corp.example, or look into the workspace"
    agent = install(
        cli.folder, [[{"tool": "Bash", "input": {"command": "pwd; echo $ANTHROPIC_API_KEY"}}, {"text": said}]]
    )
    key = "hunter2-hunter2-hunter2"
    done = recorded(cli, telling(tmp_path / "bin", "2.1.332", [agent]), ANTHROPIC_API_KEY=key)
    assert done.returncode == 0, done.stderr
    text = "".join(path.read_text("utf-8") for path in (cli.folder / "kept").rglob("*.json*"))
    assert [word for word in (key, str(cli.workspace), str(tmp_path), "private@corp") if word in text] == []
    assert "user@example.com" in text


def test_what_looks_like_a_secret_is_not_saved(cli: Cli, tmp_path: Path) -> None:
    agent = install(cli.folder, [[{"text": "it is ghp_" + "a1" * 18}]])
    done = recorded(cli, telling(tmp_path / "bin", "2.1.332", [agent]))
    assert done.returncode == 1
    assert b"nothing was saved" in done.stderr
    assert b"ghp_" not in done.stderr
    assert not (cli.folder / "kept").exists()


def test_a_run_that_fails_is_recorded_too(cli: Cli, tmp_path: Path) -> None:
    agent = install(cli.folder, [[{"text": "half"}, {"exit": 9}]])
    done = recorded(cli, telling(tmp_path / "bin", "2.1.332", [agent]), "--case", "crash")
    assert done.returncode == 1
    assert load_recording(cli.folder / "kept/claude/2.1.332/crash").meta.code == 9
    code, events = replayed(cli, cli.folder / "kept/claude/2.1.332/crash")
    assert (code, outcome(events)["status"], outcome(events)["exit_code"]) == (1, "failed", 9)


def test_what_cannot_be_recorded_is_said_before_anything_is_started(cli: Cli, binary: Path) -> None:
    assert recorded(cli, binary).returncode == 0
    (cli.workspace / "made").unlink()
    again = recorded(cli, binary)
    assert (again.returncode, b"is there already" in again.stderr) == (2, True)
    assert recorded(cli, binary, "--case", "../up").returncode == 2
    assert recorded(cli, cli.folder / "nothing", out="other").returncode == 2
    assert not (cli.workspace / "made").exists()
    assert not (cli.folder / "other").exists()


@pytest.mark.live
def test_the_real_cli_is_recorded_and_replayed(cli: Cli) -> None:
    real = needed(real_claude())
    with ScriptedModel([Turn(ToolCall("Bash", {"command": "echo hi > made"})), Turn(Text("done"))]) as model:
        env = {name: value for name, value in model.environment("claude").items() if name.startswith("ANTHROPIC")}
        done = recorded(cli, real, **env, NO_PROXY="127.0.0.1")
    assert done.returncode == 0, done.stderr
    assert (cli.workspace / "made").read_text("utf-8") == "hi\n"
    code, events = replayed(cli, cli.folder / "kept")
    assert (code, outcome(events)["text"], outcome(events)["tool_calls"]) == (0, "done", 1)


# ---- Replaying ------------------------------------------------------------------------------------------------------


@pytest.mark.behaviour("kit:replay")
@pytest.mark.parametrize(
    ("case", "code", "said"),
    [
        ("bash", 0, "Bash touch made; echo hi"),
        ("bash-deny", 0, "denied by interceptor 'recorded': out of bounds"),
        ("bash-replace", 0, "its output was replaced"),
        ("approve-edited", 0, "touch edited"),
        ("decline", 0, "(user): the user declined this action"),
        ("decline-and-stop", 130, "stopped by a denial: enough"),
        ("question", 0, "done"),
        ("steer", 0, "done"),
        ("interrupt", 130, "cancelled"),
        ("conversation", 0, "more"),
        ("resume", 0, "done"),
        ("options", 0, "done"),
        ("auth", 1, "auth"),
        ("max-turns", 3, "max_turns"),
    ],
)
@pytest.mark.sampled
def test_a_kept_recording_ends_as_it_did(cli: Cli, case: str, code: int, said: str) -> None:
    done = cli.interlock("replay", str(KEPT / case))
    assert done.returncode == code, done.stderr
    assert said in (done.stdout + done.stderr).decode()


@pytest.mark.behaviour("kit:replay:endpoint")
@pytest.mark.parametrize(
    ("case", "code", "said"),
    [
        ("shell", 0, "Bash touch made; echo hi"),
        ("shell-deny", 0, "denied by interceptor 'recorded': out of bounds"),
        pytest.param("shell-replace", 0, "its output was replaced", marks=pytest.mark.slow),
        ("approve-edited", 0, "touch edited"),
        pytest.param("decline", 0, "(user): the user declined this action", marks=pytest.mark.slow),
        ("decline-and-stop", 130, "stopped by a denial: enough"),
        pytest.param("leave-sandbox", 0, "done", marks=pytest.mark.slow),
        pytest.param("patch-modify", 0, "done", marks=pytest.mark.slow),
        pytest.param("code-deny", 0, "out of bounds", marks=pytest.mark.slow),
        pytest.param("question", 0, "done", marks=pytest.mark.slow),
        ("interrupt-question", 130, "cancelled"),
        ("conversation", 0, "more"),
        pytest.param("sub-agent", 0, "done", marks=pytest.mark.slow),
        pytest.param("exec-shell", 0, "touch made; echo hi", marks=pytest.mark.slow),
        ("exec-auth", 1, "auth"),
    ],
)
@pytest.mark.sampled
def test_a_kept_recording_of_codex_calls_us_again_and_ends_as_it_did(cli: Cli, case: str, code: int, said: str) -> None:
    done = cli.interlock("replay", str(CODEX / case))
    assert done.returncode == code, done.stderr
    assert said in (done.stdout + done.stderr).decode()


@pytest.mark.behaviour("kit:replay:endpoint")
@pytest.mark.parametrize(
    ("case", "code", "said"),
    [
        ("bash-replace", 0, "its output was replaced"),
        ("approve-two", 0, "done"),
        pytest.param("decline", 0, "(user): the user declined this action", marks=pytest.mark.slow),
        pytest.param("question", 0, "done", marks=pytest.mark.slow),
        pytest.param("interrupt", 130, "cancelled", marks=pytest.mark.slow),
        pytest.param("conversation", 0, "more", marks=pytest.mark.slow),
        ("prompt-parallel", 0, "denied by interceptor 'recorded': out of bounds"),
        pytest.param("prompt-bash", 0, "touch made; echo hi", marks=pytest.mark.slow),
        pytest.param("prompt-sub-agent", 0, "done", marks=pytest.mark.slow),
        ("prompt-auth", 1, "auth"),
    ],
)
def test_a_kept_recording_of_copilot_ends_as_it_did_over_both_transports(
    cli: Cli, case: str, code: int, said: str
) -> None:
    done = cli.interlock("replay", str(COPILOT / case))
    assert done.returncode == code, done.stderr
    assert said in (done.stdout + done.stderr).decode()


@pytest.mark.parametrize(
    ("fault", "code", "reason"),
    [
        ("cut-at=2000", 1, "crashed"),
        ("chunks=7", 0, None),
        ("chunks=whole", 0, None),
        ("garbage", 0, None),
        ("garbage=what", 0, None),
        ("duplicate-end", 0, None),
        ("stderr=100000", 0, None),
        ("delay=0.001", 0, None),
    ],
)
@pytest.mark.sampled
def test_a_fault_changes_how_it_ends_and_never_how_often(cli: Cli, fault: str, code: int, reason: str | None) -> None:
    found, events = replayed(cli, KEPT / "bash", "--fault", fault)
    assert (found, outcome(events)["reason"]) == (code, reason)


def test_faults_are_read_together_and_a_wrong_one_names_all() -> None:
    words = ["cut-at=9", "exit=3", "chunks=1", "ignore-term", "garbage=x"]
    assert faults_of(words) == Faults(cut_at=9, code=3, chunks=1, ignore_term=True, garbage=b"x\n")
    assert faults_of([]) == Faults()
    for word in ("cut", "cut-at", "cut-at=x", "cut-at=-1", "chunks=0", "delay=nan", "ignore-term=1", "signal=0", ""):
        with pytest.raises(UsageProblem):
            faults_of([word])


def test_a_folder_without_one_recording_is_a_usage_error(cli: Cli, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "meta.json").write_text("{}", "utf-8")
    for folder in (tmp_path / "none", KEPT, broken, cli.workspace):
        done = cli.interlock("replay", str(folder))
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr
    assert b"recordings; name the folder of one" in cli.interlock("replay", str(KEPT)).stderr


def test_json_is_one_event_a_line(cli: Cli) -> None:
    _, events = replayed(cli, KEPT / "text")
    assert events[0]["type"] == "run_started"
    assert outcome(events)["status"] == "completed"
