"""Which tests show each cell of the coverage table: `file::function`, relative to `tests`, by transport, class, column.

`test_coverage.py` holds it against the table both ways. `MEASURED` shows every cell that its session judges; it cannot
be named for any other.
"""

from collections.abc import Iterable, Mapping

from interlock.capabilities import ToolClass
from interlock.coverage import Column

__all__ = ["ABSENT", "COVERAGE", "MEASURED"]

Cells = Mapping[Column, tuple[str, ...]]

LIVE = "live/test_coverage_live.py::test_"
OUTPUTS = "live/test_claude_outputs.py::test_"
HOLES = "live/test_codex_holes.py::test_"
CLAIMS = "live/test_codex_claims.py::test_"

MEASURED = f"{LIVE}what_the_session_shows_is_what_the_table_claims"
SEEN: tuple[Column, ...] = ("before", "after", "deny", "modify")
_FAILED = f"{OUTPUTS}a_failed_command_whose_output_must_be_withheld_stops_the_run"
_STOPS = f"{LIVE}an_output_of_claude_that_cannot_be_replaced_stops_the_run"
_CLAUDE_GATE = f"{LIVE}behind_hooks_that_never_fire_the_gate_of_claude_lets_nothing_run"
_CODEX_GATE = f"{LIVE}behind_hooks_that_fail_open_the_gate_of_codex_lets_run_only_what_it_never_asks_about"
_SANDBOX = f"{LIVE}the_sandbox_confines_commands_typed_input_patches_and_sub_agents"
_TYPED = f"{LIVE}what_is_typed_into_a_shell_over_exec_is_confined_too"
_PLAN = f"{LIVE}the_plan_tool_of_claude_is_seen_denied_and_asked_about"
_LATE = f"{HOLES}no_output_of_a_long_command_reaches_the_model_unjudged"
_NO_INPUT = f"{HOLES}a_shell_that_waits_for_input_gets_none"
_BACKGROUND = f"{LIVE}a_command_of_codex_that_goes_on_while_the_model_does_is_denied_rewritten_and_asked_about"
_IMAGE = f"{LIVE}an_image_of_codex_is_viewed_only_as_the_chain_and_the_person_say"
_NO_IMAGE = f"{CLAIMS}no_image_is_viewed_where_outputs_are_judged"
_UNKNOWN = f"{LIVE}a_tool_of_codex_that_our_table_lacks_is_denied_rewritten_and_asked_about"
_INSIDE = f"{LIVE}outputs_of_tools_that_run_in_codex_itself_are_replaced"
_LACKING = f"{LIVE}codex_has_no_tools_to_search_edit_write_fetch_or_plan_with"


def shown(columns: Iterable[Column], *tests: str) -> dict[Column, tuple[str, ...]]:
    """These tests show these columns."""
    return dict.fromkeys(columns, tests)


def measured(*more: str, backstop: tuple[str, ...] = ()) -> Cells:
    """The session shows all that it judges; `more` shows what becomes of failed calls."""
    cells = {**shown((*SEEN, "asked"), MEASURED), **shown(("replace",), MEASURED, *more)}
    return {**cells, **({"backstop": backstop} if backstop else {})}


_CLAUDE = measured(_FAILED, backstop=(_CLAUDE_GATE,))
_CLAUDE_STOPPED: Cells = {**_CLAUDE, "replace": (_STOPS,)}
_COPILOT_GATE = f"{LIVE}behind_hooks_that_are_never_called_copilot_lets_run_only_what_it_never_asks_about"
_COPILOT_STOPS = f"{LIVE}an_output_of_copilot_that_cannot_be_replaced_stops_the_run"
_COPILOT_LATE = f"{LIVE}a_command_of_copilot_in_the_background_is_denied_rewritten_and_asked_about"
_COPILOT_NONE_LATE = f"{LIVE}no_command_of_copilot_runs_in_the_background_where_outputs_are_judged"
_COPILOT_LACKS = f"{LIVE}copilot_offers_no_plans_and_asks_nothing_where_nobody_can_be_asked"


def copilot(*, asks: bool, backed: bool, stops: bool = False) -> Cells:
    """What the session shows over one of its transports."""
    cells = {
        **measured(backstop=(_COPILOT_GATE,) if backed else ()),
        **({"replace": (_COPILOT_STOPS,)} if stops else {}),
    }
    return {column: tests for column, tests in cells.items() if asks or column != "asked"}


_CONFINED: Cells = {"backstop": (_SANDBOX,)}

COVERAGE: Mapping[tuple[str, str], Mapping[ToolClass, Cells]] = {
    ("claude", "stream-json"): {
        ToolClass.SHELL: _CLAUDE,
        ToolClass.READ: _CLAUDE,
        ToolClass.SEARCH: _CLAUDE,
        ToolClass.EDIT: _CLAUDE,
        ToolClass.WRITE: _CLAUDE,
        ToolClass.FETCH: _CLAUDE_STOPPED,
        ToolClass.WEB_SEARCH: _CLAUDE,
        ToolClass.MCP: _CLAUDE,
        ToolClass.AGENT: _CLAUDE,
        ToolClass.SUBAGENT_CALL: _CLAUDE,
        ToolClass.PLAN: {
            **shown(("before", "after", "deny", "asked"), _PLAN),
            **shown(("modify",), f"{LIVE}a_plan_of_claude_that_the_chain_changes_is_the_accepted_one_or_is_denied"),
            **shown(("replace",), f"{LIVE}what_the_plan_tool_of_claude_says_stops_the_run_if_it_must_not_be_shown"),
            **shown(("backstop",), f"{LIVE}behind_hooks_that_never_fire_no_plan_of_claude_is_accepted"),
        },
        ToolClass.QUESTION: _CLAUDE,
        ToolClass.UNKNOWN: _CLAUDE_STOPPED,
    },
    ("codex", "app-server"): {
        ToolClass.SHELL: measured(backstop=(_SANDBOX, _CODEX_GATE)),
        ToolClass.BACKGROUND_SHELL: {
            **shown(("before", "deny", "modify", "asked"), _BACKGROUND),
            **shown(("after", "replace"), _LATE),
            **shown(("backstop",), _SANDBOX, _CODEX_GATE),
        },
        ToolClass.SHELL_INPUT: {
            **shown(("before", "deny", "modify", "asked", "backstop"), _NO_INPUT),
            **shown(("after", "replace"), _LATE),
        },
        ToolClass.READ: {
            **shown(("before", "deny", "modify", "asked"), _IMAGE),
            **shown(("after", "replace"), _NO_IMAGE),
        },
        ToolClass.PATCH: measured(backstop=(_SANDBOX, _CODEX_GATE)),
        ToolClass.MCP: measured(
            f"{HOLES}what_a_failed_call_of_an_mcp_tool_says_is_judged_before_the_model_is_asked",
            backstop=(_CODEX_GATE,),
        ),
        ToolClass.AGENT: measured(),
        ToolClass.SUBAGENT_CALL: measured(backstop=(_SANDBOX, _CODEX_GATE)),
        ToolClass.QUESTION: measured(),
        ToolClass.UNKNOWN: {
            **shown((*SEEN, "asked"), _UNKNOWN),
            **shown(("replace",), _INSIDE),
        },
    },
    ("copilot", "server"): {
        ToolClass.SHELL: copilot(asks=True, backed=True),
        ToolClass.BACKGROUND_SHELL: {
            **shown(("before", "deny", "modify", "asked"), _COPILOT_LATE),
            **shown(("after", "replace"), _COPILOT_NONE_LATE),
            **shown(("backstop",), _COPILOT_GATE),
        },
        ToolClass.SHELL_INPUT: copilot(asks=True, backed=False, stops=True),
        ToolClass.READ: copilot(asks=True, backed=True),
        ToolClass.SEARCH: copilot(asks=True, backed=True),
        ToolClass.EDIT: copilot(asks=True, backed=True),
        ToolClass.WRITE: copilot(asks=True, backed=True),
        ToolClass.PATCH: copilot(asks=True, backed=True),
        ToolClass.FETCH: copilot(asks=True, backed=False, stops=True),
        ToolClass.WEB_SEARCH: copilot(asks=True, backed=False, stops=True),
        ToolClass.MCP: copilot(asks=True, backed=False),
        ToolClass.AGENT: copilot(asks=True, backed=False),
        ToolClass.SUBAGENT_CALL: copilot(asks=True, backed=True),
        ToolClass.QUESTION: copilot(asks=True, backed=False),
        ToolClass.UNKNOWN: copilot(asks=True, backed=False, stops=True),
    },
    ("copilot", "prompt"): {
        ToolClass.SHELL: copilot(asks=False, backed=True),
        ToolClass.BACKGROUND_SHELL: {
            **shown(("before", "deny", "modify"), _COPILOT_LATE),
            **shown(("after", "replace"), _COPILOT_NONE_LATE),
            **shown(("backstop",), _COPILOT_GATE),
        },
        ToolClass.SHELL_INPUT: copilot(asks=False, backed=False),
        ToolClass.READ: copilot(asks=False, backed=False),
        ToolClass.SEARCH: copilot(asks=False, backed=False),
        ToolClass.EDIT: copilot(asks=False, backed=True),
        ToolClass.WRITE: copilot(asks=False, backed=True),
        ToolClass.PATCH: copilot(asks=False, backed=True),
        ToolClass.FETCH: copilot(asks=False, backed=False, stops=True),
        ToolClass.WEB_SEARCH: copilot(asks=False, backed=False, stops=True),
        ToolClass.MCP: copilot(asks=False, backed=True),
        ToolClass.AGENT: copilot(asks=False, backed=False),
        ToolClass.SUBAGENT_CALL: copilot(asks=False, backed=True),
        ToolClass.UNKNOWN: copilot(asks=False, backed=False),
    },
    ("codex", "exec"): {
        ToolClass.SHELL: _CONFINED,
        ToolClass.BACKGROUND_SHELL: _CONFINED,
        ToolClass.SHELL_INPUT: {"backstop": (_TYPED,)},
        ToolClass.PATCH: _CONFINED,
        ToolClass.SUBAGENT_CALL: _CONFINED,
    },
}

_NOTHING_TO_TYPE_INTO = (f"{LIVE}claude_has_no_patches_and_nothing_to_type_into",)
_CODEX_LACKS = dict.fromkeys(
    (ToolClass.SEARCH, ToolClass.EDIT, ToolClass.WRITE, ToolClass.FETCH, ToolClass.WEB_SEARCH, ToolClass.PLAN),
    (_LACKING,),
)

ABSENT: Mapping[tuple[str, str], Mapping[ToolClass, tuple[str, ...]]] = {
    ("claude", "stream-json"): {
        ToolClass.BACKGROUND_SHELL: (
            f"{OUTPUTS}work_in_the_background_is_not_to_be_had",
            *_NOTHING_TO_TYPE_INTO,
        ),
        ToolClass.SHELL_INPUT: _NOTHING_TO_TYPE_INTO,
        ToolClass.PATCH: _NOTHING_TO_TYPE_INTO,
    },
    ("copilot", "server"): {ToolClass.PLAN: (_COPILOT_LACKS,)},
    ("copilot", "prompt"): {ToolClass.PLAN: (_COPILOT_LACKS,), ToolClass.QUESTION: (_COPILOT_LACKS,)},
    ("codex", "app-server"): _CODEX_LACKS,
    ("codex", "exec"): _CODEX_LACKS,
}
"""Which tests show that no call of a class can be made."""
