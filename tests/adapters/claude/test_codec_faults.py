"""What goes wrong on the wire or in a verdict: it is refused, reported, and stops nothing."""

import json
import runpy
from pathlib import Path

import pytest

from interlock.actions import (
    Ask,
    Consult,
    Emit,
    Keep,
    Key,
    Proceed,
    Ready,
    Refuse,
    RunDone,
    Send,
    Stop,
    Substitute,
    Suspicion,
    Wake,
    Withdraw,
)
from interlock.approval import Answer
from interlock.events import Notice, RateLimited, Raw, TextDelta, ThinkingDelta
from interlock.outcome import Reason, Status
from interlock.request import Resume

LINES = runpy.run_path(str(Path(__file__).parent / "cli_lines.py"))
SETTINGS, RESULT = LINES["SETTINGS"], LINES["RESULT"]
line, reply, settings = LINES["line"], LINES["reply"], LINES["settings"]
hook, given = LINES["hook"], LINES["given"]
KEY = Key("main", "t1")


def question(request_id="q1", call="t1", name="Bash", native=None):
    """The CLI's own question about a call."""
    request = {"subtype": "can_use_tool", "tool_name": name, "input": native or {"command": "ls"}, "tool_use_id": call}
    return line({"type": "control_request", "request_id": request_id, "request": request})


def answers(actions):
    """What was answered to the CLI."""
    lines = [
        json.loads(text) for action in actions if isinstance(action, Send) for text in action.data.split(b"\n") if text
    ]
    return [sent["response"].get("response", sent["response"]) for sent in lines if sent["type"] == "control_response"]


def is_denied(answer):
    """The two forms of no, letter by letter."""
    told = answer.get("hookSpecificOutput", {})
    by_hook = told.get("hookEventName") == "PreToolUse" and told.get("permissionDecision") == "deny"
    by_gate = answer.get("behavior") == "deny" and isinstance(answer.get("message"), str)
    return by_gate or (by_hook and isinstance(told["permissionDecisionReason"], str))


# ---- The handshake --------------------------------------------------------------------------------------------------


def test_the_prompt_waits_for_both_answers(begin):
    codec = begin(ready=False)
    assert given(codec, reply("initialize", {"claude_code_version": "2.1.332", "hooks_applied": True}))[0] == []
    actions, _ = given(codec, settings(("flagSettings", SETTINGS)))
    assert [type(action) for action in actions] == [Ready, Send]
    assert actions[0].version == "2.1.332"


BAD_SETTINGS = {
    "managed": (("flagSettings", SETTINGS), ("policySettings", {"disableAllHooks": True})),
    "the user's": (("userSettings", {"permissions": {"allow": ["Bash"]}}), ("flagSettings", SETTINGS)),
    "another rule": (("flagSettings", {"permissions": {"ask": ["Bash"], "disableAutoMode": "disable"}}),),
    "none": (),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_settings_in_force_that_are_not_ours_stop_the_run_unprompted(begin, case):
    codec = begin(ready=False)
    given(codec, reply("initialize", {}))
    actions, _ = given(codec, settings(*BAD_SETTINGS[case]))
    assert {type(action) for action in actions} == {Stop}
    assert {action.reason for action in actions} == {Reason.UNSUPPORTED}
    assert all(action.unmet for action in actions)
    assert list(codec.prompt("again")) == []


def test_an_empty_source_is_none(begin):
    codec = begin(ready=False)
    given(codec, reply("initialize", {}))
    actions, _ = given(codec, settings(("flagSettings", SETTINGS), ("policySettings", {})))
    assert [type(action) for action in actions] == [Ready, Send]


@pytest.mark.parametrize("key", ["hooks_applied", "hook_on_failure_supported"])
def test_hooks_that_are_not_confirmed_stop_the_run(begin, key):
    actions, _ = given(begin(ready=False), reply("initialize", {key: False}))
    assert [type(action) for action in actions] == [Stop]


def test_a_refused_handshake_stops_the_run(begin):
    refused = {"subtype": "error", "request_id": "settings", "error": "unknown subtype"}
    actions, _ = given(begin(ready=False), line({"type": "control_response", "response": refused}))
    assert [type(action) for action in actions] == [Stop]


@pytest.mark.parametrize("version", ["2.1.196", "1.0.0", "nonsense"])
def test_a_version_before_the_tested_range_stops_the_run(begin, version):
    actions, _ = given(begin(ready=False), reply("initialize", {"claude_code_version": version}))
    assert [type(action) for action in actions] == [Stop]


def test_a_newer_version_is_noted(begin):
    actions, events = given(begin(ready=False), reply("initialize", {"claude_code_version": "2.2.0"}))
    assert actions == []
    assert [event.code for event in events] == ["untested_version"]


INIT = {"type": "system", "subtype": "init", "session_id": "s", "permissionMode": "default"}
BAD_INITS = {
    "an older version": {"claude_code_version": "2.1.190"},
    "another mode": {"permissionMode": "bypassPermissions", "claude_code_version": "2.1.197"},
    "a tool that was left out": {"tools": ["Monitor"], "claude_code_version": "2.1.197"},
}


@pytest.mark.parametrize("case", BAD_INITS)
def test_what_the_first_turn_reveals_stops_the_run(begin, case):
    codec = begin(version=None)
    actions, _ = given(codec, line({**INIT, **BAD_INITS[case]}))
    assert [type(action) for action in actions] == [Stop]


# ---- Requests of the CLI --------------------------------------------------------------------------------------------


def test_a_second_hook_for_one_call_is_refused_and_suspicious(begin):
    codec = begin()
    given(codec, hook())
    codec.decided(KEY, "before", Proceed())
    actions, _ = given(codec, hook(request_id="h2"))
    assert is_denied(answers(actions)[0])
    assert [action.kind for action in actions if isinstance(action, Suspicion)] == ["second_consult"]


def test_a_request_id_that_comes_twice_is_suspicious(begin):
    codec = begin()
    given(codec, hook())
    actions, _ = given(codec, hook(call="t2"))
    assert [action.kind for action in actions] == ["unknown_answer"]


def test_an_answer_to_nothing_is_suspicious(begin):
    actions, _ = given(begin(), reply("initialize", {}))
    assert [action.kind for action in actions] == ["unknown_answer"]


BROKEN = {
    "no tool name": {"subtype": "hook_callback", "callback_id": "before", "input": {"hook_event_name": "PreToolUse"}},
    "no input": {"subtype": "hook_callback", "callback_id": "before"},
    "another event": {
        "subtype": "hook_callback",
        "callback_id": "x",
        "input": {"hook_event_name": "Stop", "tool_name": "", "tool_input": {}, "tool_use_id": ""},
    },
    "a question without a call": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}},
    "a question with a list": {"subtype": "can_use_tool", "tool_name": "Bash", "input": [], "tool_use_id": "t"},
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_request_that_cannot_be_read_is_refused_in_its_own_dialect(begin, case):
    actions, events = given(begin(), line({"type": "control_request", "request_id": "r", "request": BROKEN[case]}))
    (answer,) = answers(actions)
    assert is_denied(answer)
    assert [type(event) for event in events] == [Notice]


@pytest.mark.parametrize("request_body", [None, [], "hook_callback"])
def test_a_request_without_a_body_is_refused(begin, request_body):
    actions, events = given(begin(), line({"type": "control_request", "request_id": "r", "request": request_body}))
    assert is_denied(answers(actions)[0])
    assert {type(event) for event in events} == {Raw, Notice}


@pytest.mark.parametrize("subtype", ["mcp_message", "elicitation", "x/unknown"])
def test_a_request_that_we_do_not_serve_is_answered_with_an_error_and_noted(begin, subtype):
    actions, events = given(
        begin(), line({"type": "control_request", "request_id": "r", "request": {"subtype": subtype}})
    )
    assert [answer["subtype"] for answer in answers(actions)] == ["error"]
    assert [event.code for event in events] == ["unknown_request"]


def test_a_withdrawn_request_takes_no_answer(begin):
    codec = begin()
    given(codec, hook())
    actions, _ = given(codec, line({"type": "control_cancel_request", "request_id": "h1"}))
    assert actions == [Withdraw(KEY, "before")]
    assert list(codec.decided(KEY, "before", Proceed())) == []


def test_a_question_tool_that_was_never_let_through_is_confirmed_like_any_call(begin):
    asked = {"questions": [{"question": "Which?", "options": []}]}
    actions, _ = given(begin(), question(name="AskUserQuestion", native=asked))
    assert [action.stage for action in actions if isinstance(action, Consult)] == ["confirm"]
    assert not [action for action in actions if isinstance(action, Ask)]


# ---- Verdicts -------------------------------------------------------------------------------------------------------

MISFITS = {
    "an answer to no question": ("before", Answer()),
    "an output before the call": ("before", Substitute("x")),
    "keep before the call": ("before", Keep()),
    "an input that is no object": ("before", Proceed("ls", changed=True)),
    "an input that is a list": ("confirm", Proceed(["ls"], changed=True)),
    "an input changed to nothing": ("confirm", Proceed({}, changed=True)),
    "no verdict at all": ("confirm", None),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_verdict_that_cannot_be_said_becomes_a_refusal(begin, case):
    stage, verdict = MISFITS[case]
    codec = begin()
    given(codec, hook() if stage == "before" else question())
    actions = codec.decided(KEY, stage, verdict)
    assert is_denied(answers(actions)[0])
    assert [event.code for action in actions if isinstance(action, Emit) for event in action.events] == ["unanswerable"]


@pytest.mark.parametrize("verdict", [Proceed(), None, Answer()])
def test_a_verdict_that_cannot_be_said_after_the_call_withholds_the_output(begin, verdict):
    codec = begin()
    given(codec, hook("PostToolUse", tool_response={"stdout": "secret"}))
    actions = codec.decided(KEY, "after", verdict)
    assert answers(actions) == []
    assert b'"interrupt"' in next(action for action in actions if isinstance(action, Send)).data


def test_an_interrupt_that_is_not_followed_while_withholding_stops_the_run(begin):
    codec = begin()
    given(codec, hook("PostToolUseFailure", error="secret"))
    actions = codec.decided(KEY, "after", Substitute("x"))
    (wake,) = [action for action in actions if isinstance(action, Wake)]
    (stop,) = codec.woke(wake.key)
    assert stop.reason is Reason.UNREPLACEABLE


def test_a_refusal_at_the_hook_that_ends_the_run_says_no_and_interrupts(begin):
    codec = begin()
    given(codec, hook())
    actions = codec.decided(KEY, "before", Refuse("enough", interrupt=True))
    assert [b"deny" in action.data for action in actions] == [True, False]
    assert b'"interrupt"' in actions[1].data


# ---- Lines ----------------------------------------------------------------------------------------------------------


def delta(kind="text_delta", field="text", **more):
    """A delta as the CLI writes it."""
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": kind, field: "a\u2028\u0085b"}}
    return (
        json.dumps({"type": "stream_event", "event": event, **more}, separators=(",", ":"), ensure_ascii=False).encode()
        + b"\n"
    )


def test_deltas_are_told_the_short_and_the_long_way_alike(begin):
    short = given(begin(), delta() + delta("thinking_delta", "thinking") + delta("signature_delta", "signature"))
    long = given(
        begin(), (delta() + delta("thinking_delta", "thinking")).replace(b'"event":{"type"', b'"event": {"type"')
    )
    assert short == long == ([], [TextDelta(text="a\u2028\u0085b"), ThinkingDelta(text="a\u2028\u0085b")])


def test_a_delta_that_is_not_what_it_seems_is_told_the_common_way(begin):
    broken = b'{"type":"stream_event","event":{"type":"content_block_delta"\n'
    _, events = given(
        begin(), broken + b'{"type":"stream_event","event":{"type":"content_block_delta","delta":7}}\n' + delta()
    )
    assert [type(event) for event in events] == [Notice, TextDelta]


def test_noise_between_the_lines_is_noted_and_nothing_else(begin):
    noise = ["\U0001f680 banner", "[x] sending {", "\x1b[31mred\x1b[0m", 'garbage{"type":"result"}', "[1]", "\ufeff{}"]
    data = b"".join(text.encode() + b"\n" for text in noise) + b"\n \r\n\xbb\n" + delta()
    actions, events = given(begin(), data)
    assert actions == []
    assert [event.code for event in events[:-1]] == ["stdout_noise"] * 7
    assert isinstance(events[-1], TextDelta)


def test_nothing_but_noise_is_a_broken_protocol(begin):
    codec = begin(ready=False)
    given(codec, b"Segmentation fault\n" * 1000)
    (done,) = codec.exited(0, None, {})
    assert done.ending.reason is Reason.PROTOCOL
    assert "Segmentation fault" in done.ending.message
    assert len(done.ending.message) < 5000


@pytest.mark.parametrize(("code", "signal"), [(1, None), (0, None), (None, 9)])
def test_an_end_without_a_result_is_a_crash(begin, code, signal):
    (done,) = begin().exited(code, signal, {})
    assert (done.ending.status, done.ending.reason) == (Status.FAILED, Reason.CRASHED)
    assert str(signal or code) in done.ending.message


def test_a_line_over_the_limit_is_noted_with_its_true_length(begin):
    codec = begin()
    codec.received("stdout", b"x" * (65 * 1024 * 1024))
    _, events = given(codec, b"\n" + delta())
    assert events[0].code == "line_too_long"
    assert str(65 * 1024 * 1024) in events[0].message
    assert isinstance(events[1], TextDelta)


UNKNOWN = [
    {"type": "brand_new", "x": 1},
    {"type": "system", "subtype": "brand_new"},
    {"type": 7},
    {},
    {"type": "user", "message": {"role": "user", "content": "words"}},
]


@pytest.mark.parametrize("message", UNKNOWN)
def test_an_unknown_line_is_kept_as_it_is(begin, message):
    actions, events = given(begin(), line(message))
    assert actions == []
    assert [event.data for event in events] == [message]


@pytest.mark.parametrize(
    "message", [{"type": "assistant"}, {"type": "system", "subtype": "init"}, {"type": "control_response"}]
)
def test_a_line_that_cannot_be_read_is_kept_and_noted(begin, message):
    actions, events = given(begin(), line(message))
    assert actions == []
    assert [type(event) for event in events[-2:]] == [Raw, Notice]


def test_a_limit_that_blocks_nothing_is_no_failure(begin):
    codec = begin()
    _, events = given(
        codec, line({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": 5}})
    )
    assert [type(event) for event in events] == [RateLimited]
    actions, _ = given(codec, line(RESULT))
    assert actions[0].ending.status is Status.COMPLETED
    assert not actions[0].ending.rate_limit.blocking


TOOL_USE = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
REJECTED = [{"id": "t1", "permission_decision": {"decision": "reject"}}]


def told_of(**more):
    """The result of the call t1, as an error."""
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}
    return line({"type": "user", "message": {"role": "user", "content": [block]}, **more})


@pytest.mark.parametrize(
    ("before", "more", "status", "by"),
    [
        (b"", {}, "error", ""),
        (b"", {"tool_result_meta": REJECTED}, "denied", "agent"),
        (line({"type": "system", "subtype": "permission_denied", "tool_use_id": "t1"}), {}, "denied", "agent"),
        (b"", {"tool_result_meta": [{"id": "t2", "permission_decision": {"decision": "reject"}}]}, "error", ""),
    ],
)
def test_a_call_that_the_agent_itself_denied_is_told_from_one_that_failed(begin, before, more, status, by):
    codec = begin()
    given(codec, line({"type": "assistant", "message": {"content": [TOOL_USE]}}))
    _, events = given(codec, before + told_of(**more))
    assert [(event.status, event.by) for event in events] == [(status, by)]


def test_a_result_is_told_once(begin):
    codec = begin()
    given(codec, line({"type": "assistant", "message": {"content": [TOOL_USE]}}))
    _, events = given(codec, told_of() + told_of())
    assert [event.type for event in events] == ["tool_finished"]


def test_what_a_sub_agent_says_stands_under_its_own_id(begin):
    codec = begin()
    task = {"task_id": "a1", "tool_use_id": "t0", "task_type": "local_agent", "description": "d"}
    given(codec, line({"type": "system", "subtype": "task_started", **task}))
    _, events = given(codec, delta(parent_tool_use_id="t0") + delta(parent_tool_use_id=None))
    assert [event.agent_id for event in events] == ["a1", "main"]


# ---- Endings --------------------------------------------------------------------------------------------------------


def test_the_first_result_is_the_ending(begin):
    codec = begin()
    first, _ = given(codec, line(RESULT))
    second, _ = given(codec, line({**RESULT, "result": "later"}))
    assert [type(action) for action in first] == [RunDone]
    assert second == []
    assert codec.exited(1, None, {}) == ()


def test_a_result_that_cannot_be_read_is_a_broken_protocol(begin):
    actions, _ = given(begin(), line({"type": "result", "is_error": "perhaps?"}))
    assert actions[0].ending.reason is Reason.PROTOCOL


@pytest.mark.parametrize("text", ["", " \n", None])
def test_an_empty_answer_is_no_output(begin, text):
    actions, _ = given(begin(), line({**RESULT, "result": text}))
    assert actions[0].ending.reason is Reason.NO_OUTPUT


def test_the_same_line_is_a_cancellation_only_if_we_asked_for_it(begin):
    aborted = line({"type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 3})
    actions, _ = given(begin(), aborted)
    assert (actions[0].ending.status, actions[0].ending.reason) == (Status.FAILED, Reason.API)
    codec = begin()
    codec.interrupt()
    actions, _ = given(codec, aborted)
    assert (actions[0].ending.status, actions[0].ending.reason) == (Status.CANCELLED, None)


def test_an_interrupt_before_the_prompt_cancels_without_prompting(begin):
    codec = begin(ready=False)
    (done,) = codec.interrupt()
    assert done.ending.status is Status.CANCELLED
    given(codec, reply("initialize", {}))
    actions, _ = given(codec, settings(("flagSettings", SETTINGS)))
    assert not [action for action in actions if isinstance(action, Send)]


def test_an_interrupt_before_the_turn_began_is_said_again(begin):
    codec = begin()
    (first,) = codec.interrupt()
    actions, _ = given(codec, line({**INIT, "claude_code_version": "2.1.332"}))
    assert [b'"interrupt"' in action.data for action in [first, *actions]] == [True, True]


def test_a_conversation_that_is_not_there_is_told_from_another_failure(begin):
    codec = begin(ready=False, session=Resume(id="00000000-0000-4000-8000-000000000001"))
    told = {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "num_turns": 0,
        "errors": ["No conversation"],
    }
    actions, _ = given(codec, line(told))
    assert actions[0].ending.reason is Reason.SESSION_NOT_FOUND
    assert actions[0].ending.message == "No conversation"
