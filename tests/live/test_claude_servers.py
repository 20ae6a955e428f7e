"""MCP servers behind URLs and in our own process, used by the real Claude Code through the engine."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock import Allow, Client, DenyCall, Permission, Replace, Unsupported
from interlock.outcome import Status
from interlock.servers import InProcessServer, ServedTool, ServerResult
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = [pytest.mark.anyio, pytest.mark.live]
DONE = Turn(Text("done"))
FULL = Permission(posture="full")
SECRET = "token-$HOME-48213"
SERVERS = runpy.run_path(str(Path(__file__).parent / "mcp_servers.py"))
birds_over, SCHEMA = SERVERS["birds_over"], SERVERS["SCHEMA"]
BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


# ---- Behind a URL ---------------------------------------------------------------------------------------------------


def say(text: str, call_id: str = "t1") -> ToolCall:
    return ToolCall("mcp__birds__say", {"text": text}, call_id)


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_server_behind_a_url_serves_and_its_calls_are_judged(live, policy, kind):
    guard = policy(
        lambda call: DenyCall(reason="no crows") if call.input["text"] == "crow" else Allow(),
        lambda call: Replace(output="REDACTED"),
    )
    with birds_over(kind, SECRET) as (birds, servers):
        played = await live.play(
            [Turn(say("crow")), Turn(say("wren", "t2")), DONE], guard, permission=FULL, mcp_servers=servers
        )
    assert birds.calls == ["wren"]
    assert "no crows" in played.result("t1").content
    assert played.result("t2").content == "REDACTED"
    assert (played.outcome.status, played.unguarded()) == (Status.COMPLETED, [])
    assert birds.keys == {SECRET}


async def test_the_headers_of_a_server_stand_in_no_command_line_and_in_a_file_for_us_alone(live):
    seen: list[tuple[int, bytes]] = []

    def look(request: object) -> Turn:
        del request
        files = (live.state / "runs").glob("*/mcp.json")
        seen.extend((path.stat().st_mode & 0o777, path.read_bytes()) for path in files)
        return DONE

    with birds_over("http", SECRET) as (_, servers):
        played = await live.play([look], mcp_servers=servers)
    assert [mode for mode, _ in seen] == [0o600]
    assert b"48213" in seen[0][1]
    assert "48213" not in "".join(argument.text for argument in played.plan.argv)
    assert not list((live.state / "runs").glob("*"))


async def test_a_server_that_does_not_work_is_warned_of(live):
    servers = {"birds": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}
    played = await live.play([DONE], mcp_servers=servers)
    assert any("birds" in warning for warning in played.outcome.warnings)


# ---- In our own process ---------------------------------------------------------------------------------------------


class Nest:
    """A server in this process."""

    def __init__(self, act: Callable[[str], Any] = str) -> None:
        self.calls: list[str] = []
        self._act = act

    def tools(self) -> tuple[ServedTool, ...]:
        return (ServedTool(name="say", description="says", input_schema=SCHEMA),)

    async def call(self, name: str, arguments: Any) -> str | ServerResult:
        assert name == "say"
        self.calls.append(arguments["text"])
        return self._act(arguments["text"])


@BOTH_LOOPS
async def test_a_tool_of_ours_is_called_and_its_calls_are_judged_like_any_other(live, policy):
    nest = Nest(lambda text: f"said {text} hunter-48213")
    assert isinstance(nest, InProcessServer)

    def before(call):
        assert call.subject.mcp == "birds/say"
        return DenyCall(reason="no crows") if call.input["text"] == "crow" else Allow()

    guard = policy(before, lambda call: Replace(output="REDACTED"))
    script = [Turn(say("crow")), Turn(say("wren", "t2")), DONE]
    played = await live.play(script, guard, permission=FULL, client={"mcp": {"birds": nest}})
    assert nest.calls == ["wren"]
    assert "no crows" in played.result("t1").content
    assert played.result("t2").content == "REDACTED"
    assert not played.knows(b"48213")
    assert (played.outcome.status, played.unguarded()) == (Status.COMPLETED, [])
    assert played.outcome.warnings == played.plan.warnings


async def test_a_tool_of_ours_runs_unasked_only_by_rule_or_under_full(live):
    nest = Nest()
    for permission, decision in (
        ({"posture": "edit"}, "deny by policy"),
        ({"posture": "none", "allow": ["mcp(birds/say)"]}, "allow by rule"),
    ):
        played = await live.play([Turn(say("wren")), DONE], permission=permission, client={"mcp": {"birds": nest}})
        assert played.decisions() == {"t1": decision}
    assert nest.calls == ["wren"]


def broken(text: str) -> str:
    raise LookupError(f"no {text} here")


@pytest.mark.parametrize(
    ("act", "words", "is_error"),
    [
        (broken, "LookupError: no wren here", True),
        (lambda text: ServerResult(text=f"no {text}", is_error=True), "no wren", True),
        (lambda text: 3, "ValidationError", True),
        (lambda text: ServerResult(blocks=({"type": "text", "text": text},)), "wren", False),
        (lambda text: "x" * 100_000 + "\u2028 end", "end", False),
    ],
    ids=["raises", "an error", "no text", "blocks", "long"],
)
@pytest.mark.sampled
async def test_whatever_a_tool_of_ours_gives_the_model_gets_an_answer(live, act, words, is_error):
    played = await live.play([Turn(say("wren")), DONE], permission=FULL, client={"mcp": {"birds": Nest(act)}})
    shown = played.result("t1")
    assert shown.is_error is is_error
    assert words in json.dumps(shown.content, ensure_ascii=False) or words == "end"
    assert played.outcome.status is Status.COMPLETED


@pytest.mark.slow
async def test_a_tool_of_ours_that_hangs_ends_with_the_run(live):
    class Hangs(Nest):
        cancelled = False

        async def call(self, name: str, arguments: Any) -> str:
            del name, arguments
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled = True
            raise AssertionError

    nest = Hangs()
    played = await live.play(
        [Turn(say("wren")), DONE], permission=FULL, client={"mcp": {"birds": nest}}, limits={"total": 5.0}
    )
    assert played.outcome.status is Status.TIMED_OUT
    assert nest.cancelled


async def test_a_name_for_two_servers_is_unsupported(live):
    servers = {"birds": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}
    with ScriptedModel([]) as model, pytest.raises(Unsupported, match="that name too"):
        Client(state=live.state, mcp={"birds": Nest()}).plan(live.request(model, mcp_servers=servers))


async def test_a_server_whose_words_the_agent_would_change_is_unsupported(live):
    servers = {"birds": {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"x-key": "a ${HOME}"}}}
    with ScriptedModel([]) as model, pytest.raises(Unsupported) as caught:
        Client(state=live.state).plan(live.request(model, mcp_servers=servers))
    assert [unmet.field for unmet in caught.value.unmet] == ["mcp_servers.birds.headers"]
