"""Planning: everything that can be known before a process is started is known then, and all of it at once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock import run_sync
from interlock.errors import ConfigurationError, NotInstalled, UnknownAgent, Unsupported
from interlock.permission import Permission
from interlock.request import NewSession

pytestmark = pytest.mark.anyio

SECRET = "sk-ant-secret-of-this-test"
PROMPT = "the prompt that nobody else may read"


def unmet(raised: pytest.ExceptionInfo[Unsupported]) -> set[str]:
    return {one.field for one in raised.value.unmet}


@pytest.mark.parametrize("how", ["run", "stream"])
async def test_every_reason_against_a_request_is_given_at_once_and_nothing_is_started(bench: Any, how: str) -> None:
    started = bench.folder / "started"
    request = bench.request(
        binary=bench.program(f"touch {started}"),
        effort="frantic",
        add_dirs=(str(bench.folder / "nowhere"),),
        extra_args=("--bare", "--dangerously-skip-permissions"),
        session=NewSession(id="not-a-uuid"),
        env={"LD_PRELOAD": "/x.so"},
        permission=Permission(otherwise="ask", network=True),
    )
    client = bench.client()
    with anyio.fail_after(10), pytest.raises(Unsupported) as raised:
        await (client.run(request) if how == "run" else client.stream(request).__aenter__())
    found = {"effort", "add_dirs", "permission.network", "extra_args", "env.LD_PRELOAD", "session.id"}
    assert unmet(raised) == found | ({"permission.otherwise"} if how == "run" else set())
    assert not started.exists()
    assert not bench.state.exists()
    text = str(raised.value)
    assert all(field in text for field in ("nowhere", "frantic", "--bare", "LD_PRELOAD"))


def test_planning_starts_no_process_and_makes_no_folder(bench: Any) -> None:
    code = (
        "import sys, os\n"
        "from interlock import Client, Request\n"
        "plan = Client(state=sys.argv[2]).plan(Request.model_validate_json(sys.argv[1]))\n"
        "print(plan.to_json())\n"
        "children = open('/proc/self/task/%d/children' % os.getpid()).read()\n"
        "assert not children and not os.path.exists(sys.argv[2]), children\n"
    )
    argv = [sys.executable, "-c", code, bench.request().model_dump_json(), str(bench.state)]
    done = subprocess.run(argv, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["agent"] == "claude"


@pytest.mark.behaviour("start:not-found")
async def test_a_missing_program_is_not_installed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not confused with what cannot be started."""
    monkeypatch.setenv("PATH", str(bench.folder))
    request = bench.request(binary="/nowhere/claude")
    with pytest.raises(NotInstalled) as raised:
        bench.client().plan(request)
    assert raised.value.looked_for == ("/nowhere/claude",)
    with anyio.fail_after(10), pytest.raises(NotInstalled) as looked_up:
        await bench.client().run(request.model_copy(update={"binary": None}))
    assert (looked_up.value.agent, looked_up.value.looked_for) == ("claude", ("claude",))
    assert "npm" in looked_up.value.hint


async def test_an_unknown_agent_is_named_with_those_that_are_known(bench: Any) -> None:
    with anyio.fail_after(10), pytest.raises(UnknownAgent) as raised:
        await bench.client().run(bench.request(agent="clyde"))
    assert raised.value.agent == "clyde"
    assert "claude" in raised.value.known


@pytest.mark.parametrize("kind", ["missing", "file"])
async def test_a_working_directory_that_is_none_is_unsupported(bench: Any, kind: str) -> None:
    path = bench.folder / "not-there"
    if kind == "file":
        path.write_text("", encoding="utf-8")
    with anyio.fail_after(10), pytest.raises(Unsupported) as raised:
        await bench.client().run(bench.request(cwd=str(path)))
    assert unmet(raised) == {"cwd"}


@pytest.mark.parametrize("field", ["cwd", "add_dirs"])
@pytest.mark.behaviour("tampering:next-run")
async def test_a_state_folder_inside_what_the_agent_may_write_is_unsupported(bench: Any, field: str) -> None:
    client = bench.client(state=bench.workspace / "deep" / "state")
    elsewhere = bench.folder / "elsewhere"
    elsewhere.mkdir()
    paths: dict[str, Any] = {"cwd": str(bench.workspace)}
    if field == "add_dirs":
        paths = {"cwd": str(elsewhere), "add_dirs": [str(bench.workspace)]}
    with anyio.fail_after(10), pytest.raises(Unsupported) as raised:
        await client.run(bench.request(**paths))
    assert unmet(raised) == {field}
    assert list(bench.workspace.iterdir()) == []


def test_a_state_folder_that_is_a_link_into_the_workspace_is_unsupported(bench: Any) -> None:
    inside = bench.workspace / "state"
    inside.mkdir()
    link = bench.folder / "link"
    link.symlink_to(inside)
    with pytest.raises(Unsupported) as raised:
        bench.client(state=link).plan(bench.request())
    assert unmet(raised) == {"cwd"}


def test_a_printed_plan_shows_neither_secrets_nor_the_prompt(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", SECRET + "-host")
    request = bench.request(
        prompt=PROMPT,
        env={"ANTHROPIC_API_KEY": SECRET, "MY_TOKEN": SECRET + "-mine"},
        instructions=PROMPT + " either",
        session=NewSession(id="6f0f2f5e-0b4d-4c0e-9b55-2a4d3f0c1a11"),
    )
    plan = bench.client().plan(request)
    for text in (plan.to_json(), plan.describe(), repr(plan.redacted()), " ".join(plan.redacted_argv())):
        assert SECRET not in text
        assert PROMPT not in text
        assert "6f0f2f5e" not in text
    assert "ANTHROPIC_API_KEY" in plan.to_json()
    assert all(SECRET not in argument.text and PROMPT not in argument.text for argument in plan.argv)


@pytest.mark.behaviour("start:secrets", "start:long-arguments")
async def test_neither_argv_nor_events_of_a_run_show_secrets_or_the_prompt(bench: Any) -> None:
    request = bench.request(
        [{"tool": "Bash", "input": {"command": "tr '\\0' ' ' < /proc/$PPID/cmdline"}}, {"text": "done"}],
        prompt=PROMPT,
        env={"ANTHROPIC_API_KEY": SECRET},
    )
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            events = await bench.events(run)
            outcome = await run.outcome(check=True)
    told = "".join(event.model_dump_json() for event in events)
    assert "stream-json" in told
    assert SECRET not in told + outcome.model_dump_json()
    assert PROMPT not in told


def test_a_plan_is_the_same_each_time_and_relative_paths_become_absolute(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = bench.request()
    first, second = (bench.client().plan(request) for _ in range(2))
    assert first == second
    monkeypatch.chdir(bench.folder)
    relative = request.model_copy(update={"cwd": "workspace"})
    assert bench.client().plan(relative) == first


def test_what_nobody_could_answer_is_fine_where_somebody_will(bench: Any) -> None:
    request = bench.request(permission=Permission(otherwise="ask"))
    with pytest.raises(Unsupported):
        bench.client().plan(request)
    assert bench.client().plan(request, answered=True).otherwise == "ask"


@pytest.mark.behaviour("hooks:missing-program")
def test_a_hooks_file_that_is_not_there_is_an_error_before_anything_starts(bench: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        bench.client(hooks=bench.folder / "hooks.json").plan(bench.request())
    assert "hooks.json" in raised.value.source


@pytest.mark.behaviour("tampering:options")
async def test_settings_that_are_not_ours_are_unsupported_each_named_and_nothing_is_prompted(bench: Any) -> None:
    foreign = {"sources": [{"source": "policySettings", "settings": {"disableAllHooks": True}}]}
    turn = [{"tool": "Bash", "input": {"command": "touch made"}}]
    script = {"replies": {"get_settings": foreign}, "turns": [turn]}
    with anyio.fail_after(10), pytest.raises(Unsupported) as raised:
        await bench.client().run(bench.request(script))
    assert {one.value for one in raised.value.unmet} == {"flagSettings", "policySettings"}
    assert list(bench.workspace.iterdir()) == []


@pytest.mark.behaviour("start:wrong-binary")
async def test_a_version_that_is_too_old_is_unsupported_and_no_tool_runs(bench: Any) -> None:
    script = {"version": "2.0.1", "turns": [[{"tool": "Bash", "input": {"command": "touch made"}}]]}
    with anyio.fail_after(10), pytest.raises(Unsupported) as raised:
        await bench.client().run(bench.request(script))
    assert unmet(raised) == {"binary"}
    assert list(bench.workspace.iterdir()) == []


async def test_an_agent_that_refuses_the_handshake_is_unsupported_and_outcome_says_so(bench: Any) -> None:
    script = {"replies": {"initialize": "no such request"}, "turns": [[{"text": "done"}]]}
    with anyio.fail_after(10):
        outcome = await bench.client().run(bench.request(script), check=False)
    assert (outcome.status, outcome.reason) == ("failed", "unsupported")
    assert "no such request" in outcome.message


def test_the_guardian_of_runs_is_one_a_process(bench: Any) -> None:
    for _ in range(2):
        run_sync(bench.request([{"text": "done"}]), state=bench.state)
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8").split()
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children]
        assert sum(b"interlock-guardian" in command for command in commands) == 1


def test_a_request_says_where_a_program_lies_relative_to_nothing(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = Path(bench.binary([{"text": "done"}]))
    monkeypatch.chdir(binary.parent)
    plan = bench.client().plan(bench.request(binary=f"./{binary.name}"))
    assert plan.binary == str(binary)
