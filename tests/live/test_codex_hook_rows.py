"""Whatever a hook or an interceptor does wrong, the call of the real Codex that it was asked about leaves no file."""

import os
import runpy
import sys
from pathlib import Path

import pytest

from interlock import HookSpec, Notice, Unsupported
from interlock.events import ToolFinished
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

MISDEEDS = runpy.run_path(str(Path(__file__).parent / "hook_rows.py"))
PROGRAM, ROWS, HARMLESS = MISDEEDS["PROGRAM"], MISDEEDS["ROWS"], MISDEEDS["HARMLESS"]
INTERCEPTED, Wayward = MISDEEDS["INTERCEPTED"], MISDEEDS["Wayward"]
DONE = Turn(Text("done"))
FULL = {"posture": "full"}


def calls(rows) -> list[Turn]:
    return [*(Turn(ToolCall("exec_command", {"cmd": f"touch {row}"}, row)) for row in rows), DONE]


@pytest.fixture
def hook(codex) -> HookSpec:
    """The hook that obeys the command."""
    program = codex.folder / "guard.py"
    program.write_text(PROGRAM, encoding="utf-8")
    return HookSpec(name="guard", command=(sys.executable, str(program)), timeout=1.0)


async def test_a_hook_that_misbehaves_leaves_no_file(codex, hook):
    rows = [row for row in ROWS if row not in HARMLESS]
    assert len(rows) > 30
    played = await codex.play(calls(rows), permission=FULL, hooks=[hook])
    assert list(codex.workspace.iterdir()) == []
    assert played.decisions() == dict.fromkeys(rows, "deny by hook")
    assert {event.status for event in played.of(ToolFinished)} == {"denied"}
    assert "the hook says no" in played.result("deny").content
    reported = [notice.message for notice in played.of(Notice) if notice.code == "hook_broken"]
    assert len(reported) == len(rows) - 1
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_hook_that_answers_well_is_obeyed(codex, hook):
    played = await codex.play(calls(["allow", "rewritten"]), permission=FULL, hooks=[hook])
    assert [path.name for path in codex.workspace.iterdir()] == ["allow"]
    assert played.decisions() == {"allow": "allow by posture", "rewritten": "allow by posture"}


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_interceptor_that_misbehaves_leaves_no_file(codex):
    played = await codex.play(calls(INTERCEPTED), Wayward(), permission=FULL)
    assert os.listdir(codex.workspace) == []  # noqa: PTH208
    assert played.decisions() == dict.fromkeys(INTERCEPTED, "deny by hook")
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_exec_refuses_every_chain_before_anything_starts(codex, hook):
    for chain, fields in (((), {"hooks": [hook]}), ((Wayward(),), {})):
        with pytest.raises(Unsupported) as caught:
            await codex.play([DONE], *chain, transport="exec", permission=FULL, **fields)
        assert "hooks" in {unmet.field for unmet in caught.value.unmet}
        assert "another transport" in str(caught.value)
    assert not (codex.state / "runs").exists()
