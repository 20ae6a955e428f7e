"""Resident hooks in runs: one process for all calls, there before the first and gone before the run is over."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engine.conftest import Bench

from interlock.engine.drive import Drive
from interlock.errors import ConfigurationError, StartFailed
from interlock.events import RunFinished, ToolDecided, ToolFinished
from interlock.hooks import HookSpec
from interlock.outcome import Status

pytestmark = pytest.mark.anyio

GUARD = """
import json, os, sys
for line in sys.stdin:
    call = json.loads(line)
    command = call["input"].get("command", "")
    if "die" in command:
        os._exit(7)
    answer = {"decision": "allow", "reason": str(os.getpid())}
    if "rm" in command:
        answer = {"decision": "deny", "reason": "no rm"}
    print(json.dumps({"id": call["id"], **answer}), flush=True)
"""


def guard(bench: Bench, body: str = GUARD) -> HookSpec:
    path = bench.folder / "guard.py"
    path.write_text(body, encoding="utf-8")
    return HookSpec(name="guard", command=(sys.executable, str(path)), resident=True)


def calls(*commands: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [{"tool": "Bash", "input": {"command": command}} for command in commands]
    return [*steps, {"text": "done"}, {"end_turn": True}]


def noting(bench: Bench) -> HookSpec:
    """A guard that notes its process id."""
    return guard(bench, f"import os\nopen({str(bench.folder / 'pid')!r}, 'w').write(str(os.getpid()))\n{GUARD}")


def gone(bench: Bench) -> bool:
    """Whether no guard runs that noted its process id."""
    note = bench.folder / "pid"
    return not note.exists() or not Path(f"/proc/{note.read_text(encoding='utf-8') or 'none'}").exists()


async def test_one_process_is_asked_about_every_call_of_a_run(bench: Bench) -> None:
    request = bench.request(calls("true", "rm -r x", "true"))
    with anyio.fail_after(30):
        async with bench.client(hooks=[guard(bench)]).stream(request) as run:
            events = await bench.events(run)
    decided = [event for event in events if isinstance(event, ToolDecided)]
    assert [event.decision for event in decided] == ["allow", "deny", "allow"]
    pids = {record.reason for event in decided for record in event.records if record.decision == "allow"}
    assert len({pid for pid in pids if pid.isdigit()}) == 1
    bench.assert_nothing_left()


async def test_a_resident_that_dies_denies_the_call_and_judges_the_next(bench: Bench) -> None:
    request = bench.request(calls("die", "true"))
    with anyio.fail_after(30):
        async with bench.client(hooks=[guard(bench)]).stream(request) as run:
            events = await bench.events(run)
    assert [event.decision for event in events if isinstance(event, ToolDecided)] == ["deny", "allow"]
    assert [event.status for event in events if isinstance(event, ToolFinished)][-1] == "ok"
    assert isinstance(events[-1], RunFinished)
    assert events[-1].outcome.status is Status.COMPLETED


async def test_it_is_gone_when_the_run_is_over(bench: Bench) -> None:
    with anyio.fail_after(30):
        await bench.client(hooks=[noting(bench)]).run(bench.request(calls("true")))
    assert (bench.folder / "pid").exists()
    assert gone(bench)


async def test_a_resident_that_cannot_be_started_keeps_the_agent_from_starting(bench: Bench) -> None:
    spec = guard(bench)
    script = bench.folder / "guard.py"
    request = bench.request(calls("true"))
    client = bench.client(hooks=[spec])
    planned = client._prepare(request, answered=False)
    drive = Drive(client._setting(*planned, streamed=False, watched=False, conversation=False))
    script.unlink()
    with anyio.fail_after(30):
        await drive.main()
    assert isinstance(drive.failure, ConfigurationError)
    bench.assert_nothing_left()


async def test_an_agent_that_cannot_be_started_leaves_no_resident(bench: Bench) -> None:
    request = bench.request(binary=bench.program("exit 0", shell="/nowhere/shell"))
    with anyio.fail_after(30), pytest.raises((StartFailed, ConfigurationError)):
        await bench.client(hooks=[noting(bench)]).run(request)
    assert gone(bench)
