"""A person may take their time: over every transport that asks, a call waits a quarter of an hour, and then runs.

Our clock is set forward while the call waits, so that every deadline of ours is put to the test; the long group waits
two minutes by the real clock, so that those of the agents are.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from interlock import Allow, Approve, Client, Deny
from interlock.engine.registry import find_adapter, known_agents
from interlock.events import ApprovalRequested, Unguarded
from interlock_fixtures.clis import CliMissing, clis_required, copilot_cache, find_cli, require_cli
from interlock_fixtures.proving import Place, dialects_of
from interlock_fixtures.proving.running import request_of
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = pytest.mark.live

QUARTER, LONG = 900.0, 120.0
LIMITS = {"total": 60.0, "idle": 30.0, "start_up": 60.0, "approval": 3600.0, "chain": 1200.0}
ASKING = [
    (name, transport.name)
    for name in known_agents()
    if dialects_of(name)
    for transport in find_adapter(name).transports
    if transport.capabilities.asks
]
SEEING = [
    (name, transport.name)
    for name in known_agents()
    if dialects_of(name)
    for transport in find_adapter(name).transports
    if transport.capabilities.sees_before == "all"
]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The oldest pinned CLI of the agent of the test, with a folder of its own."""
    name = request.getfixturevalue("name")
    try:
        made = Place(find_adapter(name), str(require_cli(name, "oldest")), tmp_path)
    except CliMissing as missing:
        if clis_required():
            raise
        pytest.skip(str(missing))
    if name == "copilot" and find_cli("copilot", "oldest") is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(copilot_cache()))
        unpacked = made.state / "copilot" / "packages"
        unpacked.parent.mkdir(parents=True)
        unpacked.symlink_to(copilot_cache() / "copilot")
    return made


class Slow:
    """A participant that takes as long as it is told to."""

    name = "slow"
    deadline = 1000.0

    def __init__(self, wait: Any) -> None:
        self.wait = wait

    async def before(self, call: Any) -> Allow:
        await self.wait()
        return Allow()


def patient(request: Any) -> Turn:
    """A model that calls tools from a script waits for it where it is told that it still runs (Codex 0.171.0)."""
    running = re.search(r"running with cell ID (\w+)", request.shown[-1].content)
    return Turn(ToolCall("wait", {"cell_id": running[1]})) if running else Turn(Text("done"))


async def played(place: Place, transport: str, permission: dict[str, str], wait: Any, *chain: Any) -> list[str]:
    """One command that is asked about, or shown to the chain, for that long; what lies in the workspace then."""
    dialect = dialects_of(place.adapter.name)[0]
    workspace = place.make("waits", "workspace")
    with ScriptedModel([Turn(dialect.shell("touch made", "c1")), *[patient] * 9]) as model:
        fields = {"transport": transport, "permission": permission, "limits": LIMITS, "mcp_servers": {}}
        request = request_of(place, "waits", dialect, model, cwd=str(workspace), **fields)
        events = []
        async with Client(interceptors=chain, state=place.state) as client, client.stream(request) as run:
            async for event in run:
                events.append(event)
                if isinstance(event, ApprovalRequested):
                    assert list(workspace.iterdir()) == []
                    await wait()
                    run.respond(event.approval.id, Approve() if "made" in str(event.approval.call.input) else Deny())
            outcome = await run.outcome()
    assert outcome.ok, outcome
    assert [event for event in events if isinstance(event, Unguarded)] == []
    return sorted(path.name for path in workspace.iterdir())


def run(main: Any, clock: MockClock) -> Any:
    return anyio.run(main, backend="trio", backend_options={"clock": clock})


async def leap(clock: MockClock) -> None:
    """A quarter of an hour in a moment, and a moment for what would time out."""
    clock.jump(QUARTER)
    await anyio.sleep(0.2)


@pytest.mark.parametrize(("name", "transport"), ASKING)
def test_an_approval_may_take_a_quarter_of_an_hour(name, transport, place):
    clock = MockClock(rate=1.0)
    asking = {"posture": "none", "otherwise": "ask"}
    assert run(partial(played, place, transport, asking, partial(leap, clock)), clock) == ["made"]


@pytest.mark.parametrize(("name", "transport"), SEEING)
def test_the_chain_may_take_a_quarter_of_an_hour(name, transport, place):
    clock = MockClock(rate=1.0)
    wait = partial(leap, clock)
    assert run(partial(played, place, transport, {"posture": "full"}, wait, Slow(wait)), clock) == ["made"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "transport"), ASKING)
def test_an_approval_takes_two_minutes_by_the_clock(name, transport, place):
    wait = partial(anyio.sleep, LONG)
    assert anyio.run(played, place, transport, {"posture": "none", "otherwise": "ask"}, wait) == ["made"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "transport"), SEEING)
def test_the_chain_takes_two_minutes_by_the_clock(name, transport, place):
    wait = partial(anyio.sleep, LONG)
    assert anyio.run(played, place, transport, {"posture": "full"}, wait, Slow(wait)) == ["made"]
