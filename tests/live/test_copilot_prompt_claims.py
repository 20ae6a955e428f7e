"""What the adapter of Copilot claims of prompts, and for each claim a test on the real CLI."""

import runpy
from functools import partial
from pathlib import Path

import pytest

from interlock import DenyCall
from interlock_adapters.copilot.prompt.transport import Prompt
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

TESTS = Path(__file__).parent
SHARED = runpy.run_path(str(TESTS / "evidence.py"))
claims, fixtures_of = SHARED["claims"], SHARED["fixtures_of"]
birds_over = runpy.run_path(str(TESTS / "mcp_servers.py"))["birds_over"]

CALLS = "test_copilot_prompt.py::test_"
OUTPUTS = "test_copilot_prompt_outputs.py::test_"
GUARD = "test_copilot_prompt_guard.py::test_"
ENDINGS = "test_copilot_prompt_endings.py::test_"
HERE = "test_copilot_prompt_claims.py::test_"

_REPLACED = f"{OUTPUTS}a_replaced_output_is_all_that_the_model_is_shown"
_CHANGED = f"{OUTPUTS}what_changed_files_say_of_it_is_replaced"
_ROADS = f"{OUTPUTS}no_road_leads_round_the_hook_after_a_call"
_FAILED = f"{OUTPUTS}what_a_failed_call_says_is_judged_before_the_model_is_asked"
_FILES = f"{CALLS}files_are_created_edited_and_patched_as_decided"
_SESSIONS = f"{ENDINGS}a_session_takes_our_id_and_is_resumed_where_the_request_says"
_SERVERS = f"{CALLS}tools_of_a_server_are_denied_rewritten_and_only_run_by_rule_or_under_full"
_EFFORT = f"{ENDINGS}effort_reaches_the_service"
_SUBAGENT = f"{CALLS}a_call_of_a_sub_agent_is_judged_under_its_own_name"

EVIDENCE: dict[str, tuple[str, ...]] = {
    "sees_before:all": (
        f"{CALLS}paths_in_all_the_words_that_a_model_has_are_recognized",
        _SUBAGENT,
        f"{GUARD}a_call_that_is_not_asked_about_is_noticed_when_its_hook_is_not_obeyed",
    ),
    "sees_after:all": (f"{GUARD}without_the_hook_after_a_call_a_run_with_it_is_stopped", _FAILED),
    "deny": (
        f"{CALLS}a_command_that_a_rule_denies_does_not_run_under_full_and_is_in_the_stream",
        f"{HERE}a_call_of_every_kind_is_denied",
        _FILES,
        _SERVERS,
        _SUBAGENT,
    ),
    "modify": (f"{CALLS}a_rewritten_command_is_the_one_that_runs", _FILES, _SERVERS),
    "replace:shell": (_REPLACED,),
    "replace:shell_input": (_ROADS,),
    "replace:read": (_REPLACED,),
    "replace:search": (_REPLACED,),
    "replace:write": (_CHANGED,),
    "replace:edit": (_CHANGED,),
    "replace:patch": (_CHANGED,),
    "replace:mcp": (_REPLACED,),
    "replace:agent": (f"{OUTPUTS}the_report_of_a_sub_agent_and_the_outputs_that_it_sees_are_replaced",),
    "replace:unknown": (_REPLACED,),
    "hole:what a command or a sub-agent says in the background, which the agent reads by itself": (_ROADS,),
    "hole:the output of a failed call": (_FAILED,),
    "hole:the path of a file that holds a long output": (_ROADS,),
    "hole:programs that sub-agents of the workspace name (.github/agents)": (
        f"{CALLS}programs_of_a_sub_agent_that_the_workspace_defines_are_not_started",
    ),
    "backstops:flags": (
        f"{GUARD}an_answer_that_counts_as_a_yes_lets_nothing_run",
        f"{GUARD}without_the_hook_before_a_call_nothing_that_is_asked_about_runs",
        f"{GUARD}where_nobody_listens_nothing_runs",
    ),
    "otherwise:deny": (f"{CALLS}the_posture_read_reads_inside_and_changes_nothing",),
    "otherwise:chain": (
        f"{CALLS}a_participant_with_the_power_to_grant_lets_run_what_it_does_not_object_to",
    ),
    "new_session_id": (_SESSIONS,),
    "resume": (_SESSIONS, f"{ENDINGS}an_unknown_session_is_never_quietly_a_new_one"),
    "mcp_servers:stdio": (_SERVERS,),
    "mcp_servers:http": (f"{HERE}a_server_behind_a_url_is_called_with_its_key",),
    "efforts:minimal": (_EFFORT,),
    "efforts:low": (_EFFORT,),
    "efforts:medium": (_EFFORT,),
    "efforts:high": (_EFFORT,),
    "efforts:xhigh": (_EFFORT,),
    "efforts:max": (_EFFORT,),
    "instructions": (f"{ENDINGS}what_a_request_carries_reaches_the_service",),
    "add_dirs": (f"{CALLS}further_directories_and_allow_rules_reach_outside",),
    "max_turns": (f"{ENDINGS}turns_are_bounded",),
}  # fmt: skip
"""By claim the tests that show it."""


@pytest.fixture
def play(copilot):
    """Runs the CLI over this transport, under the posture `full`."""
    return partial(copilot.play, transport="prompt", permission={"posture": "full"})


async def test_a_call_of_every_kind_is_denied(copilot, play, policy):
    at = copilot.workspace
    (at / "file").write_text("tiger-lily")
    script = [
        Turn(
            ToolCall("bash", {"command": "touch made", "description": "x"}, "c1"),
            ToolCall("view", {"path": f"{at}/file"}, "c2"),
            ToolCall("grep", {"pattern": "tiger", "path": str(at), "output_mode": "content"}, "c3"),
            ToolCall("glob", {"pattern": "*"}, "c4"),
            ToolCall("create", {"path": f"{at}/new", "file_text": "x"}, "c5"),
            ToolCall("edit", {"path": f"{at}/file", "old_str": "t", "new_str": "x"}, "c6"),
            ToolCall("sql", {"query": "select 1", "description": "x"}, "c7"),
            ToolCall("list_bash", {}, "c8"),
            ToolCall("task", {"description": "x", "prompt": "x", "agent_type": "general-purpose", "name": "n"}, "c9"),
            ToolCall("no_such_tool", {}, "c10"),
        ),
        Turn(Text("done")),
    ]
    played = await play(script, policy(lambda _: DenyCall(reason="not today")))
    assert played.decisions() == {f"c{number}": "deny by hook" for number in range(1, 11)}
    assert all("not today" in played.result(f"c{number}").content for number in range(1, 11))
    assert [path.name for path in at.iterdir()] == ["file"]
    assert (played.outcome.ok, played.unguarded(), played.knows(b"tiger-lily")) == (True, [], False)


async def test_a_server_behind_a_url_is_called_with_its_key(play):
    with birds_over("http", "48213") as (birds, servers):
        played = await play(
            [Turn(ToolCall("birds-say", {"text": "wren"}, "c1")), Turn(Text("done"))], mcp_servers=servers
        )
    assert (played.result("c1").content, birds.keys) == ("said wren", {"48213"})
    assert (played.decisions(), played.unguarded()) == ({"c1": "allow by posture"}, [])
    assert not any("48213" in argument.text for argument in played.plan.argv)


def test_every_claim_has_evidence_and_nothing_else_has():
    assert sorted(claims(Prompt.capabilities)) == sorted(EVIDENCE)


@pytest.mark.parametrize("shown_by", sorted({one for found in EVIDENCE.values() for one in found}))
def test_the_evidence_is_a_test_on_the_real_cli(shown_by):
    assert {"copilot", "play"} & fixtures_of(TESTS, shown_by), f"{shown_by} drives no real CLI"
