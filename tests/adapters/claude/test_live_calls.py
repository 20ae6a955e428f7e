"""Verdicts on real calls of both pinned CLIs: they run, are refused, are changed, are asked about, as decided."""

import sys

import pytest

from interlock.actions import Ask, Consult, Defer, Proceed, Refuse, Substitute
from interlock.approval import Answer
from interlock.events import (
    FilesChanged,
    Notice,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    ToolRequested,
)
from interlock.model import FrozenMap
from interlock.outcome import Reason, Status
from interlock.permission import Backstop
from interlock_fixtures.scripted_model import ScriptedModel, Stall, Text, ToolCall, Turn

pytestmark = pytest.mark.live
DONE = Turn(Text("done"))


def bash(command, call_id="t1"):
    """A turn that runs one command."""
    return Turn(ToolCall("Bash", {"command": command}, id=call_id))


def refuse_before(reason, **more):
    """Refuse every call before it runs."""
    return lambda asked: Refuse(reason, **more) if isinstance(asked, Consult) and asked.stage == "before" else None


def stages(talk):
    """Who was asked about what, in order."""
    return [(asked.key.call, asked.stage if isinstance(asked, Consult) else "ask") for asked in talk.consults]


def test_an_allowed_call_runs_after_both_questions_and_is_shown_once(driver):
    with ScriptedModel([bash("echo hi > made"), DONE]) as model:
        talk = driver.run(model)
    assert stages(talk) == [("t1", "before"), ("t1", "confirm"), ("t1", "after")]
    assert (driver.cwd / "made").read_text() == "hi\n"
    assert [event.status for event in talk.of(ToolFinished)] == ["ok"]
    assert len(talk.of(ToolRequested)) == 1
    assert talk.ending.status is Status.COMPLETED
    assert talk.ending.text == "done"
    assert talk.code == 0
    assert talk.suspicions() == []


def test_a_refused_call_does_not_run_and_the_model_reads_the_reason(driver):
    with ScriptedModel([bash("touch made"), DONE]) as model:
        talk = driver.run(model, decide=refuse_before("out of bounds"))
        assert "out of bounds" in driver.shown(model, "t1").content
    assert not (driver.cwd / "made").exists()
    assert stages(talk) == [("t1", "before")]
    assert [event.status for event in talk.of(ToolFinished)] == ["denied"]
    assert talk.ending.status is Status.COMPLETED


def test_a_call_that_is_refused_at_the_second_gate_does_not_run(driver):
    with ScriptedModel([bash("touch made"), DONE]) as model:
        talk = driver.run(model, decide=lambda asked: Refuse("gate") if asked.stage == "confirm" else None)
        assert driver.shown(model, "t1").content == "gate"
    assert not (driver.cwd / "made").exists()
    assert [event.status for event in talk.of(ToolFinished)] == ["denied"]


@pytest.mark.parametrize("stage", ["before", "confirm", "after"])
def test_a_refusal_that_ends_the_run_ends_it(driver, stage):
    def decide(asked):
        return Refuse("enough", interrupt=True) if asked.stage == stage else None

    with ScriptedModel([bash("touch made"), DONE]) as model:
        talk = driver.run(model, decide=decide)
        assert len([request for request in model.requests if request.kind == "turn"]) == 1
    assert (driver.cwd / "made").exists() == (stage == "after")
    assert talk.ending.status is Status.FAILED
    assert talk.ending.reason is Reason.DENIED
    assert talk.ending.message == "enough"


MODIFIED = {
    "Bash": ({"command": "touch made"}, {"command": "touch other"}, "other"),
    "Write": ({"file_path": "{cwd}/made", "content": "a"}, {"file_path": "{cwd}/other", "content": "b"}, "other"),
    "Agent": (
        {"description": "d", "prompt": "first", "subagent_type": "general-purpose"},
        {"description": "d", "prompt": "touched", "subagent_type": "general-purpose"},
        None,
    ),
}


@pytest.mark.parametrize("stage", ["before", "confirm"])
@pytest.mark.parametrize("name", MODIFIED)
def test_a_changed_input_is_what_runs_and_what_is_confirmed(driver, name, stage):
    original, changed, made = MODIFIED[name]
    fill = lambda native: {key: value.replace("{cwd}", str(driver.cwd)) for key, value in native.items()}  # noqa: E731
    original, changed = fill(original), fill(changed)

    def decide(asked):
        return Proceed(changed, changed=True) if asked.stage == stage and asked.key.call == "t1" else None

    with ScriptedModel([Turn(ToolCall(name, original, id="t1")), DONE, DONE]) as model:
        talk = driver.run(model, decide=decide)
        assert (name != "Agent") or any(b"touched" in request.raw for request in model.requests)
    assert not (driver.cwd / "made").exists()
    assert made is None or (driver.cwd / made).exists()
    seen = {asked.stage: asked.call.input for asked in talk.consults if asked.key.call == "t1"}
    assert seen["after"] == changed
    assert seen["confirm"] == (changed if stage == "before" else original)
    assert talk.ending.status is Status.COMPLETED


def test_an_input_changed_to_nothing_runs_nothing(driver):
    with ScriptedModel([bash("touch made"), DONE]) as model:
        driver.run(model, decide=lambda asked: Proceed({}, changed=True) if asked.stage == "before" else None)
        assert driver.shown(model, "t1").is_error
    assert not (driver.cwd / "made").exists()


def test_parallel_calls_that_change_nothing_are_asked_together_and_answered_in_any_order(driver):
    """Both versions ask about calls that may change something one after another, hooks included."""
    held = []

    def decide(asked):
        if asked.stage != "before":
            return None
        held.append(asked.key)
        return "hold"

    def when(talk, codec):
        if len(held) < 3:
            return ()
        keys, held[:] = held[::-1], []
        verdicts = {"t2": Refuse("not this one")}
        return [action for key in keys for action in codec.decided(key, "before", verdicts.get(key.call, Proceed()))]

    calls = [ToolCall("Bash", {"command": f"echo said-{n}"}, id=f"t{n}") for n in (1, 2, 3)]
    with ScriptedModel([Turn(*calls), DONE]) as model:
        talk = driver.run(model, decide=decide, when=when)
        assert driver.shown(model, "t1").content == "said-1"
        assert driver.shown(model, "t3").content == "said-3"
    assert {event.tool_call_id: event.status for event in talk.of(ToolFinished)} == {
        "t1": "ok",
        "t2": "denied",
        "t3": "ok",
    }


def test_calls_of_a_sub_agent_are_asked_about_under_its_own_id(driver):
    call = ToolCall("Agent", {"description": "look", "prompt": "p", "subagent_type": "general-purpose"}, id="t1")
    with ScriptedModel([Turn(call), bash("touch made", "t2"), DONE, DONE]) as model:
        talk = driver.run(model, decide=lambda asked: Refuse("no") if asked.key.call == "t2" else None)
    (started,), (finished,) = talk.of(SubagentStarted), talk.of(SubagentFinished)
    inner = next(asked for asked in talk.consults if asked.key.call == "t2")
    assert started.subagent_id == finished.subagent_id == inner.key.agent_id != "main"
    assert started.tool_call_id == finished.tool_call_id == "t1"
    assert {event.tool_call_id: (event.agent_id, event.status) for event in talk.of(ToolFinished)} == {
        "t2": (started.subagent_id, "denied"),
        "t1": ("main", "ok"),
    }
    assert not (driver.cwd / "made").exists()


def offers(text, header, several, *labels):
    """One question of the ask-the-user tool."""
    options = [{"label": label, "description": label.lower()} for label in labels]
    return {"question": text, "header": header, "options": options, "multiSelect": several}


QUESTION = {"questions": [offers("Which?", "Pick", False, "A", "B"), offers("Why?", "Say", True, "C", "D")]}


def test_a_question_is_asked_and_its_answer_reaches_the_model(driver):
    given = Answer(answers=FrozenMap({"1": ("B",), "2": ("C", "my own words")}))
    with ScriptedModel([Turn(ToolCall("AskUserQuestion", QUESTION, id="t1")), DONE]) as model:
        talk = driver.run(model, decide=lambda asked: given if isinstance(asked, Ask) else None)
        content = driver.shown(model, "t1").content
    assert '"Which?"="B"' in content
    assert '"Why?"="C, my own words"' in content
    (asked,) = [one for one in talk.consults if isinstance(one, Ask)]
    assert [(item.text, [choice.label for choice in item.choices], item.several) for item in asked.items] == [
        ("Which?", ["A", "B"], False),
        ("Why?", ["C", "D"], True),
    ]
    assert stages(talk) == [("t1", "before"), ("t1", "ask"), ("t1", "after")]


@pytest.mark.parametrize("answer", [Answer(declined=True, reason="not now"), Answer()])
def test_a_question_that_nobody_answers_is_denied(driver, answer):
    with ScriptedModel([Turn(ToolCall("AskUserQuestion", QUESTION, id="t1")), DONE]) as model:
        talk = driver.run(model, decide=lambda asked: answer if isinstance(asked, Ask) else None)
        shown = driver.shown(model, "t1")
    assert shown.is_error
    assert shown.content == ("not now" if answer.declined else "the question was left unanswered")
    assert [event.status for event in talk.of(ToolFinished)] == ["denied"]


def test_without_a_gate_a_harmless_call_that_nobody_objects_to_is_not_asked_about_again(driver):
    request = driver.request(permission={"posture": "none", "otherwise": "agent"})
    decide = lambda asked: Defer() if asked.stage == "before" else None  # noqa: E731
    calls = [ToolCall("Bash", {"command": "ls"}, id="t1"), ToolCall("Bash", {"command": "touch made"}, id="t2")]
    with ScriptedModel([Turn(calls[0]), Turn(calls[1]), DONE]) as model:
        talk = driver.run(model, request, decide, backstop=Backstop.NONE)
    assert stages(talk) == [
        ("t1", "before"),
        ("t1", "after"),
        ("t2", "before"),
        ("t2", "confirm"),
        ("t2", "after"),
    ]


def test_the_agent_accepts_edits_by_itself_where_the_posture_says_so(driver):
    request = driver.request(permission={"posture": "edit", "otherwise": "agent"})
    call = ToolCall("Write", {"file_path": str(driver.cwd / "made"), "content": "a"}, id="t1")
    decide = lambda asked: Defer() if asked.stage == "before" else None  # noqa: E731
    with ScriptedModel([Turn(call), DONE]) as model:
        talk = driver.run(model, request, decide, backstop=Backstop.NONE)
    assert stages(talk) == [("t1", "before"), ("t1", "after")]
    (changed,) = talk.of(FilesChanged)
    assert [(change.path, change.change) for change in changed.changes] == [(str(driver.cwd / "made"), "add")]


def test_an_interrupt_ends_a_running_command_and_the_run_is_cancelled(driver):
    sent = []

    def when(talk, codec):
        if sent or ("t1", "confirm") not in stages(talk):
            return ()
        sent.append(True)
        return codec.interrupt()

    with ScriptedModel([bash("sleep 60"), DONE]) as model:
        talk = driver.run(model, when=when)
    assert talk.ending.status is Status.CANCELLED
    assert talk.ending.reason is None


def test_an_interrupt_while_a_call_is_asked_about_withdraws_the_question(driver):
    def when(talk, codec):
        return codec.interrupt() if talk.consults and not codec._intent.interrupted else ()

    with ScriptedModel([bash("touch made"), DONE]) as model:
        talk = driver.run(model, decide=lambda _: "hold", when=when)
    assert [type(action).__name__ for action in talk.others if type(action).__name__ == "Withdraw"] == ["Withdraw"]
    assert talk.ending.status is Status.CANCELLED
    assert not (driver.cwd / "made").exists()


def test_an_interrupt_right_after_the_prompt_is_not_lost(driver):
    def when(talk, codec):
        return codec.interrupt() if codec._prompted and not codec._intent.interrupted else ()

    with ScriptedModel([Turn(Stall(), Text("never"))]) as model:
        talk = driver.run(model, when=when)
    assert talk.ending.status is Status.CANCELLED


def test_an_honest_corpus_of_odd_calls_raises_no_suspicion(driver):
    (driver.cwd / "f.txt").write_text("one\n")
    calls = [
        ToolCall("Read", {"file_path": "f.txt"}, id="t1"),
        ToolCall("Read", {"file_path": str(driver.cwd / "f.txt"), "limit": "1"}, id="t2"),
        ToolCall("Edit", {"file_path": str(driver.cwd / "f.txt"), "old_string": "one", "new_string": "two"}, id="t3"),
        ToolCall("Bash", {"command": "echo x", "timeout": "5000"}, id="t4"),
        ToolCall("NoSuchTool", {"a": 1}, id="t5"),
        ToolCall("Bash", {"cmd": "echo x"}, id="t6"),
        ToolCall("Bash", {"command": "cat <<'E'\nx\nE"}, id="t7"),
        ToolCall("Read", {"file_path": "~/nothing"}, id="t8"),
    ]
    with ScriptedModel([*[Turn(call) for call in calls], DONE]) as model:
        talk = driver.run(model)
    before = {asked.key.call: asked.call.input for asked in talk.consults if asked.stage == "before"}
    for stage in ("confirm", "after"):
        seen = {asked.key.call: asked.call.input for asked in talk.consults if asked.stage == stage}
        assert {call: before[call] for call in seen} == seen
    assert {event.tool_call_id for event in talk.of(ToolRequested)} == {call.id for call in calls}
    assert {event.tool_call_id for event in talk.of(ToolFinished)} == {call.id for call in calls}
    assert talk.suspicions() == []


SCHEMA = {
    "type": "object",
    "properties": {"bird": {"type": "string"}},
    "required": ["bird"],
    "additionalProperties": False,
}


def test_a_structured_answer_is_asked_about_and_given_back(driver):
    call = ToolCall("StructuredOutput", {"bird": "heron"}, id="t1")
    with ScriptedModel([Turn(call), DONE]) as model:
        talk = driver.run(model, driver.request(output_schema=SCHEMA))
    assert talk.ending.status is Status.COMPLETED
    assert talk.ending.structured == {"bird": "heron"}
    assert ("t1", "before") in stages(talk)


def test_a_structured_answer_that_is_not_given_is_a_failure(driver):
    with ScriptedModel([DONE] * 4) as model:
        talk = driver.run(model, driver.request(output_schema=SCHEMA))
    assert talk.ending.reason is Reason.INVALID_OUTPUT


SERVER = """
import json, sys
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOL = {"name": "say", "description": "d", "inputSchema": SCHEMA}
ME = {"name": "s", "version": "1"}
def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": ME}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "said " + params["arguments"]["text"]}]}
    return {}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize(
    ("verdicts", "shown"),
    [
        ({}, "said heron"),
        ({"before": Refuse("no birds")}, "no birds"),
        ({"before": Proceed({"text": "stork"}, changed=True)}, "said stork"),
        ({"confirm": Proceed({"text": "crane"}, changed=True)}, "said crane"),
        ({"after": Substitute("[redacted]")}, "[redacted]"),
    ],
)
def test_a_tool_of_an_mcp_server_is_guarded_like_any_other(driver, verdicts, shown):
    (driver.folder / "server.py").write_text(SERVER)
    server = {
        "type": "stdio",
        "command": sys.executable,
        "args": [str(driver.folder / "server.py")],
        "env": {"K": "secret"},
    }
    with ScriptedModel([Turn(ToolCall("mcp__birds__say", {"text": "heron"}, id="t1")), DONE]) as model:
        talk = driver.run(model, driver.request(mcp_servers={"birds": server}), lambda asked: verdicts.get(asked.stage))
        assert shown in driver.shown(model, "t1").content
    assert talk.consults[0].call.subject.mcp == "birds/say"
    assert talk.of(Notice) == []
    assert [event.tool_kind for event in talk.of(ToolRequested)] == ["mcp"]
