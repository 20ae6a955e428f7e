"""The rest of what the adapter of Codex claims, and for each claim of its transports a test on the real CLI."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from interlock import Allow, Approve, Deny, DenyCall
from interlock.events import ApprovalRequested, ToolFinished
from interlock_adapters.codex import adapter
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
OUTSIDE = {"sandbox_permissions": "require_escalated", "justification": "must"}
TESTS = Path(__file__).parent
SHARED = runpy.run_path(str(TESTS / "evidence.py"))
claims, fixtures_of = SHARED["claims"], SHARED["fixtures_of"]
SERVERS = runpy.run_path(str(TESTS / "mcp_servers.py"))
birds_over, echo = SERVERS["birds_over"], SERVERS["echo"]


def shell(command: str, call_id: str = "c1", **more: object) -> ToolCall:
    return ToolCall("exec_command", {"cmd": command, **more}, call_id)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_participant_with_the_power_to_grant_lets_run_what_it_does_not_object_to(codex, policy):
    granting = policy(lambda call: DenyCall(reason="no") if "no" in str(call.input) else Allow(), may=("deny", "grant"))
    script = [Turn(shell("touch yes", "c1")), Turn(shell("touch no", "c2")), DONE]
    played = await codex.play(script, granting, permission={"posture": "read", "otherwise": "chain"})
    assert played.decisions() == {"c1": "allow by grant", "c2": "deny by hook"}
    assert names(codex.workspace) == ["yes"]


async def test_what_the_agent_decides_itself_is_decided_by_its_own_flow(codex):
    outside = codex.folder / "outside"
    outside.mkdir()
    script = [
        Turn(shell("touch made", "c1")),
        Turn(shell(f"touch {outside}/inside", "c2")),
        Turn(shell(f"touch {outside}/yes", "c3", **OUTSIDE)),
        Turn(shell(f"touch {outside}/no", "c4", **OUTSIDE)),
        DONE,
    ]

    def respond(approval):
        assert approval.leaves_sandbox
        return Approve() if "yes" in json.dumps(approval.call.input) else Deny()

    permission = {"posture": "read", "otherwise": "agent"}
    played = await codex.play(script, permission=permission, respond=respond)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert (names(codex.workspace), names(outside)) == (["made"], ["yes"])
    assert len(played.of(ApprovalRequested)) == 2


@pytest.mark.parametrize("transport", ["exec", "app-server"])
@pytest.mark.parametrize("network", [True, False, None])
async def test_the_network_is_open_to_commands_only_if_the_permission_says_so(codex, transport, network):
    with ScriptedModel([DONE]) as other:
        host, port = other.url.removeprefix("http://").split(":")
        program = codex.workspace / "connect.py"
        program.write_text(f"import socket, time; time.sleep(0.3); socket.create_connection(({host!r}, {port}), 5)")
        permission = {"posture": "edit", "network": network}
        script = [Turn(shell(f"{sys.executable} connect.py && touch connected")), DONE]
        played = await codex.play(script, permission=permission, transport=transport)
    assert played.outcome.ok
    assert ("connected" in names(codex.workspace)) is (network is True)


@pytest.mark.parametrize("transport", ["exec", "app-server"])
async def test_servers_behind_a_url_are_called_with_their_key(codex, transport):
    script = [Turn(ToolCall("mcp__birds/say", {"text": "wren"}, "m1")), DONE]
    with birds_over("http", "48213") as (birds, servers):
        played = await codex.play(script, permission=FULL, mcp_servers=servers, transport=transport)
    assert (played.outcome.ok, played.unguarded()) == (True, [])
    assert "said wren" in played.result("m1").content
    assert birds.keys == {"48213"}
    assert [event.status for event in played.of(ToolFinished)] == ["ok"]


@pytest.mark.parametrize("transport", ["exec", "app-server"])
async def test_servers_of_a_request_are_started_with_their_variables(codex, transport):
    script = [Turn(ToolCall("mcp__e/echo", {"x": "hello"}, "m1")), DONE]
    servers = echo(env={"KEY": "48213"})
    played = await codex.play(script, permission=FULL, mcp_servers=servers, transport=transport)
    assert (played.outcome.ok, played.unguarded()) == (True, [])
    assert all(said in played.result("m1").content for said in ("hello", "48213"))
    assert [event.status for event in played.of(ToolFinished)] == ["ok"]


# ---- every claim has a test -----------------------------------------------------------------------------------------

CALLS, APPROVALS, HOLES = "test_codex_calls.py::test_", "test_codex_approvals.py::test_", "test_codex_holes.py::test_"
OUTCOMES, GATE, EXEC = "test_codex_outcomes.py::test_", "test_codex_gate.py::test_", "test_codex_exec.py::test_"
HERE = "test_codex_claims.py::test_"
_MCP = f"{HOLES}a_call_of_an_mcp_tool_is_denied_and_rewritten"
_FAILED = f"{HOLES}what_a_failed_call_of_an_mcp_tool_says_is_judged_before_the_model_is_asked"
_LATE = f"{HOLES}no_output_of_a_long_command_reaches_the_model_unjudged"
_PATCHES = f"{CALLS}patches_are_denied_and_rewritten_and_their_outputs_replaced"
_INSIDE = "test_coverage_live.py::test_outputs_of_tools_that_run_in_codex_itself_are_replaced"
_NETWORK = f"{HERE}the_network_is_open_to_commands_only_if_the_permission_says_so"
_STDIO = f"{HERE}servers_of_a_request_are_started_with_their_variables"
_HTTP = f"{HERE}servers_behind_a_url_are_called_with_their_key"
_SESSIONS = "a_session_is_resumed_and_forked_with_the_permission_of_its_own_request"
_EFFORTS = {
    f"efforts:{word}": (f"{OUTCOMES}effort_reaches_the_service",)
    for word in ("none", "minimal", "low", "medium", "high", "xhigh")
}

EVIDENCE: dict[str, dict[str, tuple[str, ...]]] = {
    "app-server": {
        "asks": (f"{APPROVALS}an_approved_call_runs_once_and_a_denied_one_does_not",),
        "asks_in_parallel": (f"{APPROVALS}two_parallel_calls_wait_together_and_are_answered_in_reverse",),
        "questions": (f"{APPROVALS}a_question_of_the_agent_is_answered_and_the_model_reads_it",),
        "sees_before:all": (
            f"{CALLS}a_denied_command_does_not_run_and_the_model_reads_the_reason",
            f"{HOLES}a_call_of_a_sub_agent_is_judged_under_its_own_name",
        ),
        "sees_after:all": (f"{CALLS}a_replaced_output_is_all_that_the_model_is_shown", _LATE, _FAILED),
        "deny": (f"{APPROVALS}under_the_posture_none_nothing_runs", _PATCHES, _MCP),
        "modify": (f"{CALLS}a_rewritten_command_is_the_one_that_runs", _PATCHES, _MCP),
        "replace:shell": (f"{CALLS}a_replaced_output_is_all_that_the_model_is_shown",),
        "replace:shell_input": (_LATE,),
        "replace:patch": (_PATCHES,),
        "replace:mcp": (_FAILED,),
        "replace:agent": (_INSIDE,),
        "replace:question": (_INSIDE,),
        "replace:unknown": (_INSIDE,),
        "replace_failed:shell": (f"{CALLS}a_replaced_output_is_all_that_the_model_is_shown",),
        "hole:input typed into a running command": (f"{HOLES}a_shell_that_waits_for_input_gets_none",),
        "hole:what a command has said before its end": (_LATE,),
        "hole:a patch written as a heredoc of a command": (
            f"{HOLES}a_patch_written_as_a_heredoc_is_a_command_like_any_other",
        ),
        "hole:searches of the web": (f"{HOLES}a_search_that_the_service_runs_is_noticed",),
        "hole:the report of an image that could not be viewed": (f"{HERE}no_image_is_viewed_where_outputs_are_judged",),
        "hole:the output of a failed call of an MCP tool, or of reading a resource": (
            _FAILED,
            f"{HOLES}resources_of_a_server_are_judged_and_so_is_what_a_failed_reading_says",
        ),
        "hole:what a patch that does not apply says of it": (
            f"{HERE}a_patch_that_does_not_apply_shows_nothing_of_the_file",
        ),
        "backstops:sandbox": (f"{APPROVALS}without_anybody_to_ask_nothing_leaves_the_sandbox",),
        "backstops:gate": (f"{GATE}a_hook_that_fails_open_lets_nothing_run",),
        "otherwise:deny": (f"{APPROVALS}what_a_rule_allows_runs_even_where_the_posture_is_narrower",),
        "otherwise:ask": (f"{APPROVALS}an_approved_call_runs_once_and_a_denied_one_does_not",),
        "otherwise:chain": (f"{HERE}a_participant_with_the_power_to_grant_lets_run_what_it_does_not_object_to",),
        "otherwise:agent": (f"{HERE}what_the_agent_decides_itself_is_decided_by_its_own_flow",),
        "confines": (f"{APPROVALS}the_posture_read_writes_nothing",),
        "network_switch": (_NETWORK,),
        "resume": (f"{OUTCOMES}{_SESSIONS}",),
        "fork": (f"{OUTCOMES}{_SESSIONS}",),
        "images": (f"{OUTCOMES}what_a_request_carries_reaches_the_service",),
        "mcp_servers:stdio": (_STDIO,),
        "mcp_servers:http": (_HTTP,),
        "output_schema": (f"{OUTCOMES}the_answer_fits_the_schema",),
        **_EFFORTS,
        "instructions": (f"{OUTCOMES}what_a_request_carries_reaches_the_service",),
        "add_dirs": (f"{OUTCOMES}further_directories_count_as_inside",),
        "interrupt": (f"{OUTCOMES}an_interrupt_ends_the_command_and_the_run",),
        "steer": (f"{OUTCOMES}a_message_into_the_running_turn_is_read_in_it",),
        "several_turns": (f"{OUTCOMES}a_conversation_has_several_turns_in_one_process_and_each_is_guarded",),
    },
    "exec": {
        "backstops:sandbox": (f"{EXEC}the_sandbox_is_that_of_the_posture",),
        "otherwise:deny": (f"{EXEC}the_sandbox_is_that_of_the_posture",),
        "confines": (f"{EXEC}the_sandbox_is_that_of_the_posture",),
        "network_switch": (_NETWORK,),
        "resume": (f"{EXEC}{_SESSIONS}",),
        "fork": (f"{EXEC}{_SESSIONS}",),
        "mcp_servers:stdio": (_STDIO,),
        "mcp_servers:http": (_HTTP,),
        "output_schema": (f"{EXEC}what_a_request_carries_reaches_the_service",),
        **dict.fromkeys(_EFFORTS, (f"{EXEC}effort_reaches_the_service",)),
        "instructions": (f"{EXEC}what_a_request_carries_reaches_the_service",),
        "add_dirs": (f"{EXEC}what_a_request_carries_reaches_the_service",),
    },
}
"""By transport and claim the tests that show it."""


async def test_no_image_is_viewed_where_outputs_are_judged(codex, policy):
    script = [Turn(ToolCall("view_image", {"path": str(codex.workspace / "x.png")}, "v1")), DONE]
    played = await codex.play(script, policy(after=lambda _: Allow()), permission=FULL)
    offered = [tool.get("name") for tool in played.requests[0].body["tools"]]
    assert "view_image" not in offered
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_patch_that_does_not_apply_shows_nothing_of_the_file(codex, policy):
    (codex.workspace / "a.txt").write_text("tiger-lily\n")
    text = "*** Begin Patch\n*** Update File: a.txt\n@@\n-rose\n+tulip\n*** End Patch\n"
    script = [Turn(ToolCall("apply_patch", {"input": text}, "p1")), DONE]
    played = await codex.play(script, policy(after=lambda _: Allow()), permission=FULL)
    assert "rose" in played.result("p1").content
    assert not played.knows(b"tiger-lily")
    assert (played.outcome.ok, played.unguarded()) == (True, [])
    assert [event.status for event in played.of(ToolFinished)] == ["error"]


@pytest.mark.parametrize("transport", adapter.transports, ids=lambda transport: transport.name)
def test_every_claim_has_evidence_and_nothing_else_has(transport):
    assert sorted(claims(transport.capabilities)) == sorted(EVIDENCE[transport.name])


@pytest.mark.parametrize(
    "shown_by", sorted({one for of in EVIDENCE.values() for found in of.values() for one in found})
)
def test_the_evidence_is_a_test_on_the_real_cli(shown_by):
    assert "codex" in fixtures_of(TESTS, shown_by), f"{shown_by} drives no real CLI"
