"""The ready-made guards in runs: what the model is shown, and what does not run."""

import anyio
import pytest
from tests.engine.conftest import Bench

from interlock.events import ToolDecided, ToolFinished
from interlock_adapters.guards import HostAllowList, PushGuard, SecretRedactor, WorkspaceConfinement

pytestmark = pytest.mark.anyio
TOKEN = "ghp_" + "a1" * 18


async def test_guards_deny_and_redact_in_a_run(bench: Bench) -> None:
    (bench.workspace / "config").write_text(f"token is {TOKEN}\n", encoding="utf-8")
    commands = ["cat config", "git push origin", "cat /etc/hostname", "ls"]
    steps = [{"tool": "Bash", "input": {"command": command}} for command in commands]
    guards = [PushGuard(), WorkspaceConfinement(), HostAllowList([]), SecretRedactor(seconds=20.0)]
    request = bench.request([*steps, {"text": "done"}, {"end_turn": True}])
    with anyio.fail_after(60):
        async with bench.client(interceptors=guards).stream(request) as run:
            events = await bench.events(run)
    before = [one for one in events if isinstance(one, ToolDecided) and one.event == "pre_tool_use"]
    assert [one.decision for one in before] == ["allow", "deny", "deny", "allow"]
    assert "push-guard" in before[1].reason
    assert "workspace-confinement" in before[2].reason
    finished = [one for one in events if isinstance(one, ToolFinished)]
    assert "[redacted: GitHub Token]" in str(finished[0].output)
    assert not any(TOKEN in event.to_json() for event in events)
    bench.assert_nothing_left()
