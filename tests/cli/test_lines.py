"""Events, calls and outcomes as lines for people."""

import unicodedata
from typing import Any, get_args

import pytest

from interlock import events
from interlock.capabilities import Unmet
from interlock.errors import (
    ConfigurationError,
    InterlockError,
    NotInstalled,
    StartFailed,
    UnknownAgent,
    Unsupported,
)
from interlock.events import BaseEvent, ToolRequested
from interlock.outcome import Denial, Outcome, RateLimit, Reason, Status, Usage
from interlock.tools import Subject, ToolKind
from interlock_adapters.cli.closing import SHOWN, Closing
from interlock_adapters.cli.lines import line_of, summary_of
from interlock_adapters.cli.options import UsageProblem
from interlock_adapters.cli.problems import code_of, exit_code, explain

EVIL = "a\x1b]52;c;aGk=\x07\u202eb\nc\rd"


def outcome(status: Status = Status.COMPLETED, reason: Reason | None = None, **more: Any) -> Outcome:
    return Outcome(run_id="r", agent="claude", status=status, reason=reason, **more)


def requested(call: str = "t1", command: str = "touch x") -> ToolRequested:
    return ToolRequested(
        tool_call_id=call,
        tool_name="Bash",
        tool_kind=ToolKind.SHELL,
        input={"command": command},
        subject=Subject(command=command),
    )


def denial(call: str = "t1", by: str = "policy", **more: Any) -> Denial:
    fields = {"tool_name": "Bash", "tool_kind": ToolKind.SHELL, "reason": "why", "allow_rule": "shell(touch x)", **more}
    return Denial(tool_call_id=call, by=by, **fields)


def last_lines(*denials: Denial, seen: tuple[ToolRequested, ...] = (), **more: Any) -> list[str]:
    closing = Closing()
    for event in seen:
        closing.see(event)
    return list(closing.lines(outcome(denials=denials, **more)))


@pytest.mark.parametrize(
    "event",
    [
        requested(command=EVIL),
        ToolRequested(tool_call_id="t", tool_name=EVIL, tool_kind=ToolKind.UNKNOWN, input={EVIL: EVIL}),
        ToolRequested(
            tool_call_id="t", tool_name="R", tool_kind=ToolKind.READ, input={}, subject=Subject(paths=(EVIL,))
        ),
        events.ToolDecided(
            tool_call_id="t", tool_name=EVIL, event="pre_tool_use", decision="deny", by="hook", reason=EVIL
        ),
        events.ToolDecided(
            tool_call_id="t", tool_name="B", event="pre_tool_use", decision="allow", by="x", input={"c": EVIL}
        ),
        events.ToolDecided(
            tool_call_id="t", tool_name="B", event="post_tool_use", decision="replace", by="hook", reason=EVIL
        ),
        events.ToolFinished(tool_call_id="t", tool_name=EVIL, tool_kind=ToolKind.SHELL, status="error", output=EVIL),
        events.ApprovalResolved(id="a", decision="deny", by="approver", reason=EVIL),
        events.FilesChanged(changes=(events.FileChange(path=EVIL, change="add"),)),
        events.RunStarted(transport="t", binary=EVIL, version=EVIL, backstop="gate", confined=False, cwd=EVIL),
        events.Notice(code="x", message=EVIL),
        events.Unguarded(kind="other_input", message=EVIL),
        events.Retrying(attempt=1, error=EVIL),
        events.RateLimited(limit=RateLimit(status=EVIL, blocking=True)),
        events.SubagentStarted(subagent_id="s", description=EVIL, agent_id=EVIL),
    ],
)
def test_whatever_the_agent_says_a_line_is_one_line_and_safe(event: BaseEvent) -> None:
    line = line_of(event)
    assert line is not None
    assert all(unicodedata.category(char) not in {"Cc", "Cf"} for char in line.text)


def test_what_people_need_not_see_has_no_line() -> None:
    assert line_of(events.Thinking(text="hm")) is None
    assert line_of(events.Raw(data={})) is None
    assert line_of(events.RateLimited(limit=RateLimit(status="allowed"))) is None
    assert line_of(events.ApprovalResolved(id="a", decision="approve", by="user")) is None


def test_every_kind_of_event_is_shown_or_left_out_without_an_error() -> None:
    kinds = get_args(get_args(events.Event)[0])
    assert events.RunStarted in kinds
    for kind in kinds:
        line_of(kind.model_construct(**_filled(kind)))


def _filled(kind: Any) -> dict[str, Any]:
    examples: dict[str, Any] = {
        "input": {},
        "subject": Subject(),
        "limit": RateLimit(status="x"),
        "changes": (),
        "entries": (),
    }
    return {name: examples.get(name, "x") for name, field in kind.model_fields.items() if field.is_required()}


def test_a_long_command_is_cut_in_a_line_and_its_length_named() -> None:
    line = line_of(requested(command="x" * 1000))
    assert line is not None
    assert len(line.text) < 220
    assert line.text.endswith("... (1000 characters)")


def test_the_line_of_a_sub_agent_names_it() -> None:
    line = line_of(requested().model_copy(update={"agent_id": "helper-1"}))
    assert line is not None
    assert line.text.startswith("[helper-1] ")


def test_a_denied_call_says_what_it_was_and_which_option_allows_it() -> None:
    assert last_lines(denial(), seen=(requested(),)) == [
        "denied: Bash \"touch x\" (policy): allow it with --allow 'shell(touch x)'"
    ]


def test_a_rule_with_quotes_can_be_pasted_into_a_shell() -> None:
    (line,) = last_lines(denial(allow_rule="shell(echo 'a b')"))
    assert line.endswith("""--allow 'shell(echo '"'"'a b'"'"')'""")


def test_a_denied_edit_names_the_posture_as_well() -> None:
    (line,) = last_lines(denial(tool_kind=ToolKind.WRITE, tool_name="Write", allow_rule="write(a.txt)"))
    assert line.endswith("allow it with --allow 'write(a.txt)' or --posture edit")


def test_a_denial_without_a_rule_names_what_else_would_do() -> None:
    (line,) = last_lines(denial(allow_rule=None))
    assert "--posture full" in line
    assert "--otherwise ask" in line


@pytest.mark.parametrize("by", ["hook", "user", "agent"])
def test_a_denial_that_no_option_lifts_gives_its_reason(by: str) -> None:
    (line,) = last_lines(denial(by=by, reason="not \x1bhere"))
    assert line == rf"denied: Bash ({by}): not \x1bhere"


def test_equal_denials_are_one_line_and_many_are_counted() -> None:
    same = last_lines(denial("t1"), denial("t2"), seen=(requested("t1"), requested("t2")))
    assert same == ["denied: Bash \"touch x\" (policy): allow it with --allow 'shell(touch x)' (2 times)"]
    many = [denial(str(n), allow_rule=f"shell(touch {n})") for n in range(SHOWN + 5)]
    assert last_lines(*many)[-1] == "denied: 5 more calls"


def test_a_warning_is_said_once() -> None:
    closing = Closing()
    assert closing.first_time("old")
    assert list(closing.lines(outcome(warnings=("old", "new\x1b")))) == [r"warning: new\x1b"]


def test_a_summary_names_what_is_known() -> None:
    known = outcome(duration=1.25, tool_calls=1, usage=Usage(input_tokens=5), cost_usd=0.25, session_id="s")
    assert summary_of(known) == "completed in 1.2 s, 1 tool call, 5 tokens in, $0.2500, session s"
    failed = outcome(Status.FAILED, Reason.AUTH, message="log in \x1bfirst", exit_code=1)
    assert summary_of(failed) == r"claude run failed (auth): log in \x1bfirst [exit 1]"


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (Status.COMPLETED, None, 0),
        (Status.FAILED, Reason.AUTH, 1),
        (Status.FAILED, Reason.NO_OUTPUT, 1),
        (Status.FAILED, Reason.DENIED, 1),
        (Status.FAILED, Reason.UNSUPPORTED, 2),
        (Status.TIMED_OUT, Reason.DEADLINE, 3),
        (Status.TIMED_OUT, Reason.STALLED, 3),
        (Status.FAILED, Reason.MAX_TURNS, 3),
        (Status.FAILED, Reason.BUDGET, 3),
        (Status.FAILED, Reason.UNGUARDED, 4),
        (Status.CANCELLED, None, 130),
    ],
)
def test_an_outcome_has_its_exit_code(status: Status, reason: Reason | None, code: int) -> None:
    assert exit_code(outcome(status, reason)) == code


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageProblem("--x 'y': no"), 2, ["--x 'y': no"]),
        (UnknownAgent("cluade", ["claude"]), 2, ["cluade", "claude"]),
        (NotInstalled("claude", ["claude"], "npm install it"), 2, ["npm install it", "--binary PATH"]),
        (ConfigurationError("hooks.json", "no JSON"), 2, ["hooks.json", "no JSON"]),
        (StartFailed("/bin/x", "no \x1bmemory"), 1, [r"no \x1bmemory"]),
    ],
)
def test_an_error_before_the_start_has_its_exit_code_and_its_words(
    error: UsageProblem | InterlockError, code: int, words: list[str]
) -> None:
    assert code_of(error) == code
    said = "\n".join(explain(error))
    for word in words:
        assert word in said


def test_what_is_unsupported_gives_every_reason_in_terms_of_options() -> None:
    unmet = [
        Unmet(
            field="permission.otherwise",
            value="agent",
            reason="has no rules",
            alternatives=("otherwise=deny", "wait"),
        ),
        Unmet(field="limits.budget_usd", value="1.0", reason="reports no cost"),
        Unmet(field="trust_workspace", value="False", reason="x", alternatives=("trust_workspace=True",)),
        Unmet(field="user_config", value="True", reason="x", alternatives=("leave it out",)),
        Unmet(field="env.PATHS", value="...", reason="x"),
        Unmet(field="images", value="2", reason="x"),
    ]
    said = explain(Unsupported("claude", unmet))
    assert said[1:] == [
        "  - --otherwise agent: has no rules (--otherwise deny; or wait)",
        "  - --budget-usd 1.0: reports no cost",
        "  - no --trust-workspace: x (--trust-workspace)",
        "  - --user-config: x (leave it out)",
        "  - --env PATHS ...: x",
        "  - images 2: x",
    ]
    assert "--approve-with" in explain(Unsupported("claude", unmet), unanswered=True)[-1]
