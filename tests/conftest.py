"""Fixtures that every test may use, and which tests belong to the long group (`INTERLOCK_LONG=1`).

The short group has to be through in minutes on two cores, and nearly all its time is that of real processes. So there
- the oldest pinned Claude Code runs what its wire may change most (decisions, failing hooks), and its recordings;
- what shows through the codec alone what is shown through the whole engine too waits;
- a test of real processes in the engine or a batch takes one of the two event loops, every other test the other one;
- of a test on real processes with many like cases, the first runs, and what another agent shows as well waits;
- what is marked slow waits.
"""

import os
import zlib

import pytest
from hypothesis import settings

settings.register_profile("untimed", settings(), deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")

LONG = os.environ.get("INTERLOCK_LONG") == "1"
WITH_OLDEST = frozenset({"test_claude_calls", "test_claude_hook_matrix"})
SHOWN_TWICE = frozenset({"test_live_calls", "test_live_outputs"})
ON_ONE_LOOP = (
    "test_attacks", "test_driver", "test_kills", "test_lifeline", "test_process", "test_pty", "test_resident_hook",
    "test_run_", "test_seam", "test_subprocess_hook", "test_trouble", "test_workspaces",
)  # fmt: skip
SAMPLED = frozenset({
    "test_a_command_that_knows_the_tokens_is_noticed_and_decides_nothing",
    "test_a_command_of_copilot_in_the_background_is_denied_rewritten_and_asked_about",
    "test_an_error_of_the_service_has_its_own_reason",
    "test_behind_hooks_that_never_fire_the_gate_of_claude_lets_nothing_run",
    "test_the_offline_guide_leads_to_a_question_and_a_yes_to_the_file",
    "test_a_command_of_codex_that_goes_on_while_the_model_does_is_denied_rewritten_and_asked_about",
    "test_a_fault_changes_how_it_ends_and_never_how_often",
    "test_a_kept_recording_ends_as_it_did",
    "test_a_kept_recording_of_codex_calls_us_again_and_ends_as_it_did",
    "test_a_message_that_the_agent_never_reads_is_said_to_be_lost",
    "test_a_prompt_reaches_the_model_as_it_is_and_nothing_is_inlined",
    "test_a_prompt_reaches_the_model_byte_for_byte_and_nothing_is_inlined",
    "test_a_replaced_output_is_all_that_the_model_is_shown",
    "test_a_resident_hook_that_misbehaves_leaves_no_file",
    "test_a_run_that_is_ended_while_a_person_is_asked_runs_nothing",
    "test_a_short_key_of_a_provider_breaks_nothing",
    "test_an_answer_that_counts_as_a_yes_lets_nothing_run",
    "test_an_error_of_the_service_has_its_reason",
    "test_an_error_of_the_service_is_the_reason_of_the_outcome",
    "test_an_honest_corpus_raises_no_alarm",
    "test_an_output_of_copilot_that_cannot_be_replaced_stops_the_run",
    "test_behind_hooks_that_are_never_called_copilot_lets_run_only_what_it_never_asks_about",
    "test_effort_reaches_the_service",
    "test_no_road_leads_round_the_hook_after_a_call",
    "test_no_road_shows_the_model_a_token",
    "test_the_cli_asks_again_after_trouble",
    "test_what_cannot_be_replaced_stops_the_run",
    "test_what_lies_about_runs_nothing_says_nothing_and_permits_nothing",
    "test_whatever_a_tool_of_ours_gives_the_model_gets_an_answer",
    "test_whoever_dies_while_a_hook_is_answered_nothing_runs_and_nothing_is_shown",
})  # fmt: skip

SHOWN_BY_ANOTHER = frozenset(
    {
        ("test_claude_endings", "test_leaving_the_block_while_a_command_runs_leaves_no_process"),
        ("test_claude_servers", "test_a_tool_of_ours_that_hangs_ends_with_the_run"),
        ("test_claude_sessions", "test_a_directory_of_any_name_keeps_its_sessions"),
        ("test_codex_exec", "test_an_interrupt_ends_the_run_and_its_command"),
        ("test_codex_person", "test_with_a_key_nobody_is_called_but_its_service"),
        ("test_copilot_prompt", "test_a_run_ends_with_text_usage_and_session"),
        ("test_copilot_prompt_endings", "test_a_model_that_is_unknown_or_no_login_says_so_and_sends_nothing"),
        ("test_copilot_prompt_endings", "test_cancelling_leaves_no_process"),
        ("test_copilot_prompt_endings", "test_silence_ends_at_the_idle_limit"),
        ("test_copilot_server_features", "test_a_request_that_is_repeated_is_told_and_the_run_goes_on"),
        ("test_copilot_server_features", "test_the_words_of_a_prompt_are_words_and_nothing_is_inlined"),
        ("test_terminal_aider", "test_an_error_of_the_service_is_a_failure_although_aider_exits_with_0"),
    }
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long group out unless it is asked for; pytest says how many that are."""
    spared = [] if LONG else [item for item in items if _is_long(item)]
    left_out = set(spared)
    if not LONG:
        begun: set[tuple[str, str]] = set()
        for item in items:
            function = (item.path.stem, item.name.partition("[")[0])
            if item in left_out or function[1] not in SAMPLED:
                continue
            if function in begun:
                spared.append(item)
            begun.add(function)
    if spared:
        config.hook.pytest_deselected(items=spared)
        left_out = set(spared)
        items[:] = [item for item in items if item not in left_out]


def _is_long(item: pytest.Item) -> bool:
    if item.get_closest_marker("slow") or item.path.stem in SHOWN_TWICE:
        return True
    if (item.path.stem, item.name.partition("[")[0]) in SHOWN_BY_ANOTHER:
        return True
    called = getattr(item, "callspec", None)
    params = called.params if called else {}
    loop = params.get("anyio_backend")
    if loop and item.path.stem.startswith(ON_ONE_LOOP) and loop != _loop_of(item):
        return True
    if "oldest" not in {params.get("claude_which"), params.get("driver")}:
        return False
    return loop == "trio" or item.path.stem not in WITH_OLDEST


def _loop_of(item: pytest.Item) -> str:
    """The event loop that a test takes in the short group: the same on every machine."""
    return ("asyncio", "trio")[zlib.crc32(item.name.partition("[")[0].encode()) % 2]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test on both event loops."""
    return str(request.param)
