"""Outputs that may not be shown: replaced in each tool's own shape, or withheld by an interrupt."""

import base64
import json

import pytest

from interlock.actions import Ask, Consult, Keep, Refuse, Substitute
from interlock.approval import Answer
from interlock.events import ToolFinished
from interlock.model import FrozenMap
from interlock.outcome import Reason, Status
from interlock.request import Resume
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn, Usage

pytestmark = pytest.mark.live
SECRET = "tiger-lily-4711"
DONE = Turn(Text("done"))
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def redact(asked):
    """Put another text in the place of every output."""
    if isinstance(asked, Consult) and asked.stage == "after":
        return Substitute("[redacted]")
    return None


def everything(model):
    """Every byte that the model was sent."""
    return b"".join(request.raw for request in model.requests).decode()


CALLS = {
    "bash": ToolCall("Bash", {"command": f"echo {SECRET[:6]}''{SECRET[6:]}"}, id="t1"),
    "long bash": ToolCall("Bash", {"command": f"yes {SECRET[:6]}''{SECRET[6:]} | head -9000"}, id="t1"),
    "read": ToolCall("Read", {"file_path": "secret.txt"}, id="t1"),
    "grep": ToolCall("Grep", {"pattern": "lily", "output_mode": "content"}, id="t1"),
    "grep files": ToolCall("Grep", {"pattern": "heron"}, id="t1"),
    "glob": ToolCall("Glob", {"pattern": "*lily*"}, id="t1"),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_replaced_output_is_all_that_the_model_sees(driver, case):
    (driver.cwd / "secret.txt").write_text(f"{SECRET}\n")
    (driver.cwd / SECRET).write_text("heron\n")
    request = driver.request(extra_args=("--tools=Bash,Read,Grep,Glob",))
    with ScriptedModel([Turn(CALLS[case]), DONE]) as model:
        talk = driver.run(model, request, redact)
        assert "[redacted]" in driver.shown(model, "t1").content
        assert SECRET not in everything(model)
    assert SECRET in json.dumps([asked.output for asked in talk.consults if asked.stage == "after"])
    assert SECRET not in str(talk.of(ToolFinished))
    assert talk.ending.status is Status.COMPLETED


@pytest.mark.parametrize("name", ["Write", "Edit"])
def test_of_a_changed_file_the_model_sees_only_what_stands_in_place_of_its_path(driver, name):
    (driver.cwd / "f.txt").write_text("one\n")
    native = {"content": "two\n"} if name == "Write" else {"old_string": "one", "new_string": "two"}
    read = ToolCall("Read", {"file_path": str(driver.cwd / "f.txt")}, id="t0")
    call = ToolCall(name, {"file_path": str(driver.cwd / "f.txt"), **native}, id="t1")
    with ScriptedModel([Turn(read), Turn(call), DONE]) as model:
        talk = driver.run(model, decide=lambda asked: redact(asked) if asked.key.call == "t1" else None)
        shown = driver.shown(model, "t1")
        assert "[redacted]" in shown.content
        assert "f.txt" not in shown.content
    assert (driver.cwd / "f.txt").read_text() == "two\n"
    assert talk.ending.status is Status.COMPLETED


def test_the_source_of_a_changed_notebook_cell_is_replaced(driver):
    path = driver.cwd / "n.ipynb"
    cell = {"cell_type": "code", "id": "c1", "metadata": {}, "source": "1", "outputs": [], "execution_count": None}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    read = ToolCall("Read", {"file_path": str(path)}, id="t0")
    native = {"notebook_path": str(path), "cell_id": "c1", "new_source": "print(2)"}
    with ScriptedModel([Turn(read), Turn(ToolCall("NotebookEdit", native, id="t1")), DONE]) as model:
        driver.run(model, decide=lambda asked: redact(asked) if asked.key.call == "t1" else None)
        shown = driver.shown(model, "t1").content
    assert "[redacted]" in shown
    assert "print(2)" not in shown
    assert "print(2)" in path.read_text()


@pytest.mark.parametrize("form", ["an image", "a notebook", "a second read"])
def test_what_is_read_in_another_form_than_text_is_replaced_too(driver, form):
    path = driver.cwd / {"an image": "i.png", "a notebook": "n.ipynb", "a second read": "f.txt"}[form]
    cell = {"cell_type": "code", "id": "c1", "metadata": {}, "source": SECRET, "outputs": [], "execution_count": None}
    notebook = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    path.write_bytes({"an image": PIXEL, "a notebook": notebook, "a second read": SECRET.encode()}[form])
    reads = [Turn(ToolCall("Read", {"file_path": str(path)}, id=f"t{n}")) for n in (1, 2)]
    with ScriptedModel([*reads, DONE]) as model:
        talk = driver.run(model, decide=redact)
        assert "[redacted]" in driver.shown(model, "t1").content
        assert "[redacted]" in driver.shown(model, "t2").content
        assert SECRET not in everything(model)
        assert base64.b64encode(PIXEL).decode() not in everything(model)
    assert talk.ending.status is Status.COMPLETED


def test_an_answer_of_the_user_is_replaced(driver):
    options = [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]
    asked = {"questions": [{"question": "Which?", "header": "Pick", "options": options, "multiSelect": False}]}
    answer = Answer(answers=FrozenMap({"1": (SECRET,)}))
    with ScriptedModel([Turn(ToolCall("AskUserQuestion", asked, id="t1")), DONE]) as model:
        driver.run(model, decide=lambda one: answer if isinstance(one, Ask) else redact(one))
        assert "[redacted]" in driver.shown(model, "t1").content
        assert SECRET not in everything(model)


def test_the_report_of_a_sub_agent_is_replaced(driver):
    call = ToolCall("Agent", {"description": "d", "prompt": "p", "subagent_type": "general-purpose"}, id="t1")
    with ScriptedModel([Turn(call), Turn(Text(SECRET)), DONE]) as model:
        driver.run(model, decide=redact)
        shown = driver.shown(model, "t1")
    assert "[redacted]" in shown.content
    assert SECRET not in shown.content


def test_a_web_search_is_replaced(driver):
    call = ToolCall("WebSearch", {"query": "lilies"}, id="t1")
    with ScriptedModel([Turn(call), Turn(Text(SECRET)), DONE]) as model:
        driver.run(model, decide=redact)
        shown = driver.shown(model, "t1")
    assert "[redacted]" in shown.content
    assert SECRET not in shown.content


def test_a_refusal_after_a_shell_command_shows_its_reason_as_an_error(driver):
    with ScriptedModel([Turn(CALLS["bash"]), DONE]) as model:
        driver.run(model, decide=lambda asked: Refuse("not for you") if asked.stage == "after" else None)
        shown = driver.shown(model, "t1")
    assert "not for you" in shown.content
    assert shown.is_error


FAILING = {
    "shell": ToolCall("Bash", {"command": f"echo {SECRET[:6]}''{SECRET[6:]}; exit 3"}, id="t1"),
    "no free text": ToolCall("TaskCreate", {"subject": "s", "description": "d"}, id="t1"),
}


@pytest.mark.parametrize("case", FAILING)
def test_an_output_that_cannot_be_replaced_is_withheld_by_stopping_the_run(driver, case):
    request = driver.request(extra_args=("--tools=Bash,TaskCreate",))
    with ScriptedModel([Turn(FAILING[case]), DONE]) as model:
        talk = driver.run(model, request, redact)
        assert model.shown == []
        assert SECRET not in everything(model)
    assert talk.ending.status is Status.FAILED
    assert talk.ending.reason is Reason.UNREPLACEABLE
    assert SECRET not in str(talk.events)


def test_an_output_that_is_kept_is_shown_unchanged(driver):
    with ScriptedModel([Turn(CALLS["bash"]), DONE]) as model:
        driver.run(model, decide=lambda asked: Keep() if asked.stage == "after" else None)
        assert driver.shown(model, "t1").content == SECRET


def test_no_byte_of_a_redacted_file_reaches_the_model_when_the_file_changes_on_disk(driver):
    (driver.cwd / "secret.txt").write_text(f"{SECRET}\nsecond\n")
    path = str(driver.cwd / "secret.txt")
    script = [
        Turn(ToolCall("Read", {"file_path": path}, id="t1")),
        Turn(ToolCall("Bash", {"command": f"echo {SECRET[:6]}''{SECRET[6:]}-again >> {path}"}, id="t2")),
        Turn(ToolCall("Bash", {"command": "sleep 0.1; true"}, id="t3")),
        DONE,
    ]
    with ScriptedModel(script) as model:
        talk = driver.run(model, decide=redact)
        assert SECRET not in everything(model)
    assert talk.ending.status is Status.COMPLETED


def test_a_full_context_is_not_compacted_where_outputs_may_be_replaced(driver):
    (driver.cwd / "secret.txt").write_text(f"{SECRET}\n")
    path = str(driver.cwd / "secret.txt")
    script = [
        Turn(ToolCall("Read", {"file_path": path}, id="t1"), usage=Usage(input_tokens=990_000)),
        DONE,
    ]
    with ScriptedModel(script) as model:
        talk = driver.run(model, decide=redact)
        assert [request.kind for request in model.requests].count("turn") == 1
        assert SECRET not in everything(model)
    assert talk.ending.reason is Reason.CONTEXT


def test_a_redacted_file_is_not_read_again_when_the_session_is_resumed(driver):
    (driver.cwd / "secret.txt").write_text(f"{SECRET}\n")
    path = str(driver.cwd / "secret.txt")
    with ScriptedModel([Turn(ToolCall("Read", {"file_path": path}, id="t1")), DONE]) as model:
        first = driver.run(model, decide=redact)
    (driver.cwd / "secret.txt").write_text(f"{SECRET} is still there\n")
    with ScriptedModel([Turn(ToolCall("Bash", {"command": "true"}, id="t2")), DONE]) as model:
        again = driver.run(model, driver.request(session=Resume(id=first.ending.session_id)), redact)
        assert "[redacted]" in everything(model)
        assert SECRET not in everything(model)
    assert again.ending.session_id == first.ending.session_id


def test_tools_that_show_output_past_the_after_hook_are_not_offered_where_outputs_may_be_replaced(driver):
    call = ToolCall("Monitor", {"command": f"echo {SECRET}", "description": "d", "timeout_ms": 1000}, id="t1")
    background = ToolCall("Bash", {"command": f"echo {SECRET[:6]}''{SECRET[6:]}", "run_in_background": True}, id="t2")
    with ScriptedModel([Turn(call, background), DONE]) as model:
        driver.run(model, decide=redact)
        assert driver.shown(model, "t1").is_error
        assert driver.shown(model, "t2").is_error
