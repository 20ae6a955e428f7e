"""What adapters claim, and which test on the real CLI shows each thing that those of Claude and Copilot's server do.

`file::function`, relative to `tests`; every one of them runs on the oldest and on the newest pinned version.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from interlock.capabilities import EVERY_KIND, Capabilities

CALLS = "live/test_claude_calls.py::test_"
OUTPUTS = "live/test_claude_outputs.py::test_"
APPROVALS = "live/test_claude_approvals.py::test_"
OUTCOMES = "live/test_claude_outcomes.py::test_"
ENDINGS = "live/test_claude_endings.py::test_"
SERVERS = "live/test_claude_servers.py::test_"
PLANS = "live/test_claude_plans.py::test_"
TURNS = "live/test_claude_turns.py::test_"
FEATURES = "live/test_claude_features.py::test_"
HONESTY = "live/test_claude_honesty.py::test_"
PERSON = "live/test_claude_person.py::test_"
CODEC_OUTPUTS = "adapters/claude/test_live_outputs.py::test_"

_REPLACED = f"{OUTPUTS}a_replaced_output_is_all_that_the_model_is_shown"
_CHANGED = f"{OUTPUTS}a_secret_in_what_a_file_held_is_not_shown_when_it_is_changed"
_SESSIONS = f"{OUTCOMES}a_session_takes_our_id_and_is_resumed_and_forked"
_EFFORT = f"{OUTCOMES}effort_reaches_the_service"
_MCP = f"{FEATURES}a_call_of_an_mcp_tool_is_denied_rewritten_and_its_output_replaced"

CLAUDE: dict[str, tuple[str, ...]] = {
    "asks": (
        f"{APPROVALS}an_approved_call_runs_once_and_a_denied_one_does_not",
        f"{APPROVALS}calls_with_effects_are_each_asked_about",
    ),
    "asks_in_parallel": (f"{APPROVALS}two_parallel_calls_wait_together_and_are_answered_in_reverse",),
    "questions": (f"{APPROVALS}a_question_of_the_agent_is_answered_and_the_model_reads_it",),
    "sees_before:all": (
        f"{CALLS}a_denied_command_does_not_run_and_the_model_reads_the_reason",
        f"{CALLS}a_call_of_a_sub_agent_is_judged_under_its_own_name",
        f"{HONESTY}an_honest_corpus_raises_no_alarm",
    ),
    "sees_after:all": (
        f"{OUTPUTS}the_chain_sees_after_a_rewrite_what_truly_ran",
        f"{OUTPUTS}a_failed_command_whose_output_must_be_withheld_stops_the_run",
    ),
    "deny": (
        f"{CALLS}under_the_posture_none_nothing_runs",
        f"{CALLS}without_a_chain_an_allow_list_with_nothing_else_truly_restricts",
        f"{HONESTY}the_same_corpus_without_permission_raises_no_alarm_and_changes_nothing",
        _MCP,
    ),
    "modify": (
        f"{CALLS}a_rewritten_command_is_the_one_that_runs",
        f"{CALLS}rewrites_of_every_changing_tool_are_what_runs",
        f"{APPROVALS}an_edited_input_is_what_runs",
        _MCP,
    ),
    "replace:shell": (_REPLACED,),
    "replace:read": (_REPLACED,),
    "replace:search": (_REPLACED,),
    "replace:edit": (_CHANGED,),
    "replace:write": (_CHANGED,),
    "replace:agent": (f"{OUTPUTS}the_report_of_a_sub_agent_and_the_outputs_that_it_sees_are_replaced",),
    "replace:web_search": (f"{FEATURES}the_output_of_a_web_search_is_replaced",),
    "replace:question": (f"{FEATURES}the_answer_to_a_question_is_replaced",),
    "replace:mcp": (_MCP,),
    "backstops:gate": (f"{HONESTY}hooks_that_never_fire_are_noticed_and_nothing_runs",),
    "backstops:none": (f"{CALLS}without_a_gate_behind_it_the_chain_alone_still_decides",),
    "otherwise:deny": (f"{CALLS}without_a_chain_an_allow_list_with_nothing_else_truly_restricts",),
    "otherwise:ask": (f"{APPROVALS}an_approved_call_runs_once_and_a_denied_one_does_not",),
    "otherwise:chain": (f"{CALLS}a_participant_with_the_power_to_grant_lets_run_what_it_does_not_object_to",),
    "otherwise:agent": (f"{CALLS}what_the_agent_decides_itself_is_decided_by_its_own_rules",),
    "new_session_id": (_SESSIONS,),
    "resume": (_SESSIONS, f"{OUTCOMES}a_resumed_run_carries_the_whole_permission_anew"),
    "fork": (_SESSIONS,),
    "images": (f"{FEATURES}an_image_goes_with_the_prompt",),
    "mcp_servers:stdio": (_MCP, f"{FEATURES}an_mcp_tool_runs_unasked_only_by_rule_or_under_full"),
    "mcp_servers:http": (f"{SERVERS}a_server_behind_a_url_serves_and_its_calls_are_judged",),
    "mcp_servers:sse": (f"{SERVERS}a_server_behind_a_url_serves_and_its_calls_are_judged",),
    "in_process_servers": (f"{SERVERS}a_tool_of_ours_is_called_and_its_calls_are_judged_like_any_other",),
    "output_schema": (f"{FEATURES}the_answer_fits_the_schema_whatever_the_posture",),
    "efforts:low": (_EFFORT,),
    "efforts:medium": (_EFFORT,),
    "efforts:high": (_EFFORT,),
    "efforts:xhigh": (_EFFORT,),
    "efforts:max": (_EFFORT,),
    "instructions": (f"{OUTCOMES}model_and_instructions_reach_the_service",),
    "add_dirs": (f"{OUTCOMES}further_directories_count_as_inside",),
    "max_turns": (f"{OUTCOMES}turns_are_bounded",),
    "budget_usd": (f"{OUTCOMES}money_is_bounded",),
    "interrupt": (f"{ENDINGS}an_interrupt_ends_the_command_and_the_run",),
    "plan_mode": (
        f"{PLANS}a_plan_changes_nothing_and_is_the_answer",
        f"{PLANS}an_accepted_plan_is_carried_out_under_the_permission_of_the_request",
    ),
    "steer": (
        f"{FEATURES}a_message_into_the_running_turn_is_read_after_the_next_call",
        f"{TURNS}a_message_that_comes_too_late_has_a_turn_of_its_own_with_which_the_run_ends",
    ),
    "several_turns": (f"{FEATURES}a_conversation_has_several_turns_in_one_process_and_each_is_guarded",),
    "hole:`@path` in a prompt is read and inlined": (
        f"{PERSON}a_prompt_reaches_the_model_byte_for_byte_and_nothing_is_inlined",
    ),
    "hole:reports of background work": (f"{OUTPUTS}work_in_the_background_is_not_to_be_had",),
    "hole:what Monitor streams": (
        f"{OUTPUTS}tools_that_show_outputs_past_the_chain_are_not_offered_where_it_may_replace",
    ),
    "hole:files read again after compaction or a change on disk": (
        f"{OUTPUTS}a_redacted_secret_stays_out_when_the_session_is_resumed",
        f"{CODEC_OUTPUTS}no_byte_of_a_redacted_file_reaches_the_model_when_the_file_changes_on_disk",
        f"{CODEC_OUTPUTS}a_full_context_is_not_compacted_where_outputs_may_be_replaced",
    ),
    "hole:the path of a file that holds a long output": (
        f"{OUTPUTS}what_replaces_a_long_output_does_not_say_where_the_original_lies",
    ),
    "hole:whether a file exists, when an edit of it is refused before any hook": (
        f"{HONESTY}the_same_corpus_without_permission_raises_no_alarm_and_changes_nothing",
    ),
}

SERVER_CALLS = "live/test_copilot_server_calls.py::test_"
SERVER_OUTPUTS = "live/test_copilot_server_outputs.py::test_"
SERVER_APPROVALS = "live/test_copilot_server_approvals.py::test_"
SERVER_GUARD = "live/test_copilot_server_guard.py::test_"
SERVER_FEATURES = "live/test_copilot_server_features.py::test_"

_SERVER_DENIED = f"{SERVER_CALLS}a_denied_call_does_not_run_the_model_reads_the_reason_and_the_run_goes_on"
_SERVER_REPLACED = f"{SERVER_OUTPUTS}a_replaced_output_is_all_that_the_model_is_shown"
_SERVER_CHANGED = f"{SERVER_OUTPUTS}a_secret_in_what_a_change_reports_is_not_shown"
_SERVER_SESSIONS = f"{SERVER_FEATURES}a_session_takes_our_id_and_is_resumed_and_forked"
_SERVER_EFFORT = f"{SERVER_FEATURES}effort_reaches_the_service"
_SERVER_URL = f"{SERVER_FEATURES}a_server_behind_a_url_serves_and_its_calls_are_judged"
_SERVER_ALLOWED = f"{SERVER_CALLS}without_a_chain_an_allow_list_with_nothing_else_truly_restricts"
_SERVER_ASKED = f"{SERVER_APPROVALS}an_approved_call_runs_once_and_a_denied_one_does_not"

COPILOT_SERVER: dict[str, tuple[str, ...]] = {
    "asks": (_SERVER_ASKED, f"{SERVER_APPROVALS}calls_of_every_kind_are_asked_about_and_judged_by_their_own_input"),
    "questions": (f"{SERVER_APPROVALS}a_question_of_the_agent_is_answered_and_the_model_reads_it",),
    "sees_before:all": (
        _SERVER_DENIED,
        f"{SERVER_CALLS}a_call_of_a_sub_agent_is_judged_under_its_own_name",
        f"{SERVER_CALLS}an_honest_corpus_raises_no_alarm",
    ),
    "sees_after:all": (
        f"{SERVER_OUTPUTS}the_chain_sees_after_a_rewrite_what_truly_ran",
        f"{SERVER_OUTPUTS}a_failed_output_that_must_be_withheld_stops_the_run_and_is_not_in_the_session",
        f"{SERVER_CALLS}the_same_corpus_where_outputs_are_judged_raises_no_alarm",
    ),
    "deny": (
        _SERVER_DENIED,
        f"{SERVER_CALLS}under_the_posture_none_nothing_runs",
        f"{SERVER_CALLS}a_patch_is_a_text_that_is_denied_and_rewritten",
    ),
    "modify": (
        f"{SERVER_CALLS}a_rewritten_call_is_the_one_that_runs",
        f"{SERVER_CALLS}a_patch_is_a_text_that_is_denied_and_rewritten",
        f"{SERVER_APPROVALS}an_edited_input_is_what_runs_and_passes_the_chain_again",
    ),
    "replace:shell": (_SERVER_REPLACED,),
    "replace:read": (_SERVER_REPLACED, f"{SERVER_OUTPUTS}an_image_is_replaced_by_words"),
    "replace:search": (_SERVER_REPLACED,),
    "replace:mcp": (_SERVER_REPLACED,),
    "replace:internal": (_SERVER_REPLACED,),
    "replace:edit": (_SERVER_CHANGED,),
    "replace:write": (_SERVER_CHANGED,),
    "replace:patch": (_SERVER_CHANGED,),
    "replace:agent": (f"{SERVER_OUTPUTS}the_report_of_a_sub_agent_and_the_outputs_that_it_sees_are_replaced",),
    "replace:question": (f"{SERVER_OUTPUTS}the_answer_to_a_question_is_replaced",),
    "backstops:gate": (
        f"{SERVER_GUARD}hooks_that_never_fire_are_noticed_and_nothing_runs",
        f"{SERVER_GUARD}a_session_that_asks_nobody_runs_nothing_that_it_would_ask_about",
    ),
    "otherwise:deny": (_SERVER_ALLOWED,),
    "otherwise:ask": (_SERVER_ASKED,),
    "otherwise:chain": (f"{SERVER_CALLS}a_participant_with_the_power_to_grant_lets_run_what_it_does_not_object_to",),
    "new_session_id": (_SERVER_SESSIONS, f"{SERVER_FEATURES}an_id_that_exists_is_not_begun_anew"),
    "resume": (_SERVER_SESSIONS, f"{SERVER_FEATURES}a_resumed_run_carries_the_whole_permission_anew"),
    "fork": (_SERVER_SESSIONS,),
    "images": (f"{SERVER_FEATURES}an_image_goes_with_the_prompt",),
    "mcp_servers:stdio": (_SERVER_DENIED, f"{SERVER_CALLS}an_mcp_tool_runs_unasked_only_by_rule_or_under_full"),
    "mcp_servers:http": (_SERVER_URL,),
    "mcp_servers:sse": (_SERVER_URL,),
    "output_schema": (f"{SERVER_FEATURES}the_answer_fits_the_schema",),
    "efforts:minimal": (_SERVER_EFFORT,),
    "efforts:low": (_SERVER_EFFORT,),
    "efforts:medium": (_SERVER_EFFORT,),
    "efforts:high": (_SERVER_EFFORT,),
    "efforts:xhigh": (_SERVER_EFFORT,),
    "efforts:max": (_SERVER_EFFORT,),
    "instructions": (f"{SERVER_FEATURES}model_and_instructions_reach_the_service",),
    "add_dirs": (f"{SERVER_FEATURES}further_directories_count_as_inside",),
    "max_turns": (f"{SERVER_FEATURES}turns_are_bounded",),
    "interrupt": (f"{SERVER_APPROVALS}an_interrupt_ends_the_command_and_the_run",),
    "steer": (
        f"{SERVER_FEATURES}a_message_into_the_running_turn_is_read_after_the_next_call",
        f"{SERVER_FEATURES}a_message_that_comes_too_late_has_a_turn_of_its_own_with_which_the_run_ends",
    ),
    "several_turns": (f"{SERVER_FEATURES}a_conversation_has_several_turns_in_one_process_and_each_is_guarded",),
    "hole:what commands and sub-agents in the background report": (
        f"{SERVER_OUTPUTS}work_in_the_background_is_not_to_be_had",
        f"{SERVER_OUTPUTS}the_report_of_a_sub_agent_and_the_outputs_that_it_sees_are_replaced",
        f"{SERVER_OUTPUTS}a_command_that_outlasts_the_agent_s_patience_is_stopped",
    ),
    "hole:a long output in a file of its own": (
        f"{SERVER_OUTPUTS}a_long_output_is_replaced_whole_and_lies_in_no_file",
    ),
    "hole:the words around the error of a call that failed": (
        f"{SERVER_OUTPUTS}what_the_model_reads_of_a_call_that_failed_holds_nothing_of_a_file",
    ),
    "hole:instructions found beside a file that is read": (
        f"{SERVER_OUTPUTS}instructions_beside_a_file_that_is_read_are_not_looked_for",
    ),
    "hole:a call whose arguments are no JSON": (f"{SERVER_CALLS}arguments_that_are_no_json_run_nothing",),
}

NO_CLAIMS = {"agent", "transport", "versions", "tamperable", "absent", "unbacked"}
"""Names, and admissions."""


def claims(can: Capabilities) -> Iterator[str]:
    """All that a transport says it can do, and each hole that it says it closes."""
    for name in sorted(set(type(can).model_fields) - NO_CLAIMS):
        match getattr(can, name):
            case bool(offered):
                yield from [name] if offered else []
            case str(sight):
                yield from [f"{name}:{sight}"] if sight != "none" else []
            case frozenset() | tuple() as several if name == "holes":
                yield from (f"hole:{hole.what}" for hole in several if hole.closed_by)
            case frozenset() as kinds if kinds == EVERY_KIND:
                yield name
            case frozenset() | tuple() as several:
                yield from (f"{name}:{one}" for one in several)
            case other:
                raise TypeError(f"what kind of claim is {name}={other!r}?")


def fixtures_of(tests: Path, shown_by: str) -> set[str]:
    """The arguments of the test `file::function`, whose file is relative to a folder; raises where it is not there."""
    file, _, name = shown_by.partition("::")
    module = ast.parse((tests / file).read_text(encoding="utf-8"))
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = [node for node in functions if node.name == name]
    if len(found) != 1:
        raise LookupError(f"{len(found)} tests are named {shown_by}")
    return {argument.arg for argument in found[0].args.args}
