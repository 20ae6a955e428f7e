"""Whatever a hook or an interceptor does wrong, the call that it was asked about leaves no file behind.

One run for each binding: the call names the misbehaviour, and the participant obeys.
"""

import os
import runpy
import sys
from pathlib import Path

import anyio
import pytest

from interlock import Client, ConfigurationError, HookSpec, Notice
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}

MISDEEDS = runpy.run_path(str(Path(__file__).parent / "hook_rows.py"))
PROGRAM, ROWS, HARMLESS = MISDEEDS["PROGRAM"], MISDEEDS["ROWS"], MISDEEDS["HARMLESS"]
INTERCEPTED, Wayward = MISDEEDS["INTERCEPTED"], MISDEEDS["Wayward"]
SAMPLE = {"deny", "exit_1", "killed", "too_late", "banner_then_deny", "truncated", "native_dialect", "echo"}
"""Rows that the oldest version is shown too: all of them if INTERLOCK_LONG=1."""


def calls(rows) -> list[Turn]:
    return [*(Turn(ToolCall("Bash", {"command": f"touch {row}"}, row)) for row in rows), DONE]


@pytest.fixture
def hook(tmp_path: Path):
    """Makes a hook of a Python program outside the workspace."""

    def make(text: str, **fields: object) -> HookSpec:
        program = tmp_path / "hooks" / "guard.py"
        program.parent.mkdir(exist_ok=True)
        program.write_text(text, encoding="utf-8")
        return HookSpec.model_validate({"name": "guard", "command": (sys.executable, str(program)), **fields})

    return make


async def test_a_hook_that_misbehaves_leaves_no_file(live, hook):
    everything = live.which == "newest" or os.environ.get("INTERLOCK_LONG") == "1"
    rows = [row for row in ROWS if row not in HARMLESS and (everything or row in SAMPLE)]
    assert len(rows) > 30 or not everything
    played = await live.play(calls(rows), permission=FULL, hooks=[hook(PROGRAM, timeout=1.0)])
    assert list(live.workspace.iterdir()) == []
    assert played.decisions() == dict.fromkeys(rows, "deny by hook")
    assert all(played.result(row).is_error for row in rows)
    assert "the hook says no" in played.result("deny").content
    reported = [notice.message for notice in played.of(Notice) if notice.code == "hook_broken"]
    assert len(reported) == len(rows) - 1
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_hook_that_answers_well_is_obeyed(live, hook):
    played = await live.play(calls(["allow", "rewritten"]), permission=FULL, hooks=[hook(PROGRAM)])
    assert [path.name for path in live.workspace.iterdir()] == ["allow"]
    assert played.decisions() == {"allow": "allow by posture", "rewritten": "allow by posture"}


async def test_two_rewriting_hooks_compose_in_order(live, hook):
    first = hook(
        "import json, sys\n"
        "call = json.load(sys.stdin)\n"
        "command = call['input']['command']\n"
        "new = command if command.endswith('1') else command + '1'\n"
        "print(json.dumps({'decision': 'modify', 'input': {'command': new}}))\n"
    )
    second = live.folder / "hooks" / "second.py"
    second.write_text(
        "import json, sys\n"
        "call = json.load(sys.stdin)\n"
        "new = call['input']['command'].replace('made', 'done')\n"
        "print(json.dumps({'decision': 'modify', 'input': {'command': new}}))\n"
    )
    other = HookSpec(name="second", command=(sys.executable, str(second)))
    played = await live.play(calls(["made"]), permission=FULL, hooks=[first, other])
    assert [path.name for path in live.workspace.iterdir()] == ["done1"]
    assert played.unguarded() == []


async def test_a_hook_whose_program_is_replaced_during_the_run_is_broken(live, hook):
    always = 'print(\'{"decision": "allow"}\')\n'
    spec = hook(always)
    swap = f"echo '# changed' >> {live.folder / 'hooks' / 'guard.py'}; touch swapped"
    script = [Turn(ToolCall("Bash", {"command": swap}, "swap")), *calls(["made"])]
    played = await live.play(script, permission=FULL, hooks=[spec])
    assert [path.name for path in live.workspace.iterdir()] == ["swapped"]
    assert played.decisions() == {"swap": "allow by posture", "made": "deny by hook"}


async def test_a_hook_whose_program_is_missing_is_an_error_before_anything_is_started(live):
    missing = HookSpec(name="gone", command=(str(live.folder / "no-such-program"),))
    with ScriptedModel(calls(["made"])) as model:
        with pytest.raises(ConfigurationError):
            async with _stream(live, model, missing):
                pass
        assert model.requests == ()
    assert not (live.state / "runs").exists()


async def test_a_missing_script_of_an_interpreter_is_found_before_or_denies(live):
    spec = HookSpec(name="gone", command=(sys.executable, str(live.folder / "no-such-script.py")))
    with ScriptedModel(calls(["made"])) as model, anyio.fail_after(30):
        try:
            async with _stream(live, model, spec) as run:
                await run.outcome()
        except ConfigurationError:
            assert model.requests == ()
    assert list(live.workspace.iterdir()) == []


def _stream(live, model, spec):
    return Client(hooks=[spec], state=live.state).stream(live.request(model, permission=FULL))


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_interceptor_that_misbehaves_leaves_no_file(live):
    played = await live.play(calls(INTERCEPTED), Wayward(), permission=FULL)
    assert list(live.workspace.iterdir()) == []
    assert played.decisions() == dict.fromkeys(INTERCEPTED, "deny by hook")
    assert (played.outcome.ok, played.unguarded()) == (True, [])
