"""A person at a real terminal answers approvals and questions."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pexpect
import pytest

ASKED = r"allow\? \[y\]es, \[n\]o, \[e\]dit, \[r\]emember for this run, \[q\]uit: "


def approval(item: str = "a1", command: str = "touch x", **more: Any) -> dict[str, Any]:
    call = {
        "tool_call_id": item,
        "tool_name": "Bash",
        "tool_kind": "shell",
        "input": {"command": command},
        "subject": {"command": command},
    }
    fields = {"call": call, "original_input": call["input"], "suggestions": [f"shell({command})"], **more}
    return {"approval": {"id": item, "run_id": "r", "agent": "claude", **fields}}


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


@dataclass
class Person:
    """Somebody at a terminal, and what they decided so far."""

    child: pexpect.spawn
    answers_file: Path

    def sees(self, pattern: str) -> str:
        self.child.expect(pattern)
        return str(self.child.before)

    def types(self, text: str) -> None:
        self.child.send(text)

    def decided(self) -> list[Any]:
        self.child.expect(pexpect.EOF)
        return [json.loads(line) for line in self.answers_file.read_text("utf-8").splitlines()]


@pytest.fixture
def at_terminal(tmp_path: Path) -> Iterator[Callable[..., Person]]:
    people: list[Person] = []

    def start(*steps: dict[str, Any]) -> Person:
        plan, answers = tmp_path / "plan.json", tmp_path / "answers.jsonl"
        plan.write_text(json.dumps(steps), encoding="utf-8")
        program = str(Path(__file__).with_name("person.py"))
        env = {**os.environ, "TERM": "xterm", "INPUTRC": "/dev/null"}
        argv = [program, str(plan), str(answers)]
        child = pexpect.spawn(sys.executable, argv, encoding="utf-8", timeout=15, env=env, dimensions=(40, 400))
        child.delaybeforesend = None
        people.append(Person(child, answers))
        return people[-1]

    yield start
    for person in people:
        person.child.close(force=True)


def test_yes_runs_the_exact_input_that_was_shown(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(command="touch x"), {"wait": 1})
    assert "| touch x" in person.sees(ASKED)
    person.types("y\n")
    assert person.decided() == [["a1", {"decision": "approve", "updated_input": None, "remember": None}]]


def test_no_with_a_reason_tells_the_model_why(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(), {"wait": 1})
    person.sees(ASKED)
    person.types("n\n")
    person.sees("reason")
    person.types("not today\n")
    assert person.decided()[0][1] == {"decision": "deny", "reason": "not today", "interrupt": False}


def test_no_without_a_reason_is_the_plain_denial(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(), {"wait": 1})
    person.sees(ASKED)
    person.types("no\n")
    person.sees("reason")
    person.types("\n")
    assert person.decided()[0][1]["reason"] == "the user declined this action"


def test_the_end_of_input_is_no(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(), {"wait": 1})
    person.sees(ASKED)
    person.child.sendeof()
    assert person.decided()[0][1]["decision"] == "deny"


def test_quit_refuses_and_ends_the_run(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(), {"wait": 1})
    person.sees(ASKED)
    person.types("q\n")
    person.sees("END quit=True")
    assert person.decided()[0][1]["interrupt"] is True


def test_anything_else_explains_the_choices_and_asks_again(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(), {"wait": 1})
    for typed in ("\n", "yeah\n", "Y y\n"):
        person.sees(ASKED)
        person.types(typed)
        person.sees("y: run it")
    person.sees(ASKED)
    person.types(" YES \n")
    assert person.decided()[0][1]["decision"] == "approve"


def test_a_command_is_edited_on_its_own_line_shown_again_and_confirmed(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(command="touch x"), {"wait": 1})
    person.sees(ASKED)
    person.types("e\n")
    person.sees("new> touch x")
    person.types("yz\n")
    assert "| touch xyz" in person.sees("run this instead")
    person.types("y\n")
    assert person.decided()[0][1]["updated_input"] == {"command": "touch xyz"}


def test_an_edit_that_is_not_confirmed_is_forgotten(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(), {"wait": 1})
    person.sees(ASKED)
    person.types("e\n")
    person.sees("new> ")
    person.types("yz\n")
    person.sees("run this instead")
    person.types("n\n")
    person.sees(ASKED)
    person.types("y\n")
    assert person.decided()[0][1]["updated_input"] is None


def test_giving_up_an_edit_leads_back_to_the_choices_with_echo(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(), {"wait": 1})
    person.sees(ASKED)
    person.types("e\n")
    person.sees("new> touch x")
    person.types("\x15\x04")
    person.sees(ASKED)
    person.types("n\n")
    assert "n\r\n" in person.sees("reason")
    person.types("\n")
    assert person.decided()[0][1]["decision"] == "deny"


def test_a_command_with_hidden_characters_is_shown_by_numbers_and_not_put_on_the_line(
    at_terminal: Callable[..., Person],
) -> None:
    person = at_terminal(approval(command="echo \x1b[8m\u202e rm"), {"wait": 1})
    before = person.sees(ASKED)
    assert r"echo \x1b[8m\u202e rm" in before
    assert "\u202e" not in before
    person.types("e\n")
    person.sees("new> ")
    person.types("echo\n")
    person.sees("run this instead")
    person.types("y\n")
    assert person.decided()[0][1]["updated_input"] == {"command": "echo"}


def test_an_input_that_is_no_command_is_edited_as_json(at_terminal: Callable[..., Person]) -> None:
    asked = approval()
    asked["approval"]["call"] |= {"tool_name": "Write", "tool_kind": "write", "input": {"path": "a"}, "subject": {}}
    person = at_terminal(asked, {"wait": 1})
    for typed, seen in (('\x15{"path": "b"\n', "no JSON object"), ('\x15["b"]\n', "no JSON object")):
        person.sees(ASKED)
        person.types("e\n")
        person.sees('new> {"path":"a"}')
        person.types(typed)
        person.sees(seen)
    person.sees(ASKED)
    person.types("e\n")
    person.sees("new> ")
    person.types('\x15{"path": "b", "n": 1}\n')
    assert '{"n":1,"path":"b"}' in person.sees("run this instead")
    person.types("y\n")
    assert person.decided()[0][1]["updated_input"] == {"path": "b", "n": 1}


def test_remember_shows_the_rules_and_takes_the_chosen_one(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(suggestions=["shell(touch:*)", "shell(touch x)"]), {"wait": 1})
    person.sees(ASKED)
    person.types("r\n")
    assert "2) shell(touch x)" in person.sees("number; empty: none")
    person.types("\n")
    person.sees(ASKED)
    person.types("r\n")
    person.sees("number; empty: none")
    person.types("2\n")
    assert person.decided()[0][1]["remember"] == "shell(touch x)"


def test_remember_without_a_rule_says_so(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(suggestions=[]), {"wait": 1})
    person.sees(ASKED)
    person.types("r\n")
    person.sees("no rule would cover")
    person.sees(ASKED)
    person.types("y\n")
    assert person.decided()[0][1]["remember"] is None


def test_several_are_asked_one_at_a_time_in_order(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval("a1", "one"), approval("a2", "two"), {"wait": 2})
    first = person.sees(ASKED)
    assert "| one" in first
    assert "two" not in first
    person.types("y\n")
    assert "| two" in person.sees(ASKED)
    person.types("n\n")
    person.sees("reason")
    person.types("\n")
    assert [(item, decision["decision"]) for item, decision in person.decided()] == [("a1", "approve"), ("a2", "deny")]


def test_what_was_typed_before_the_question_answers_nothing(at_terminal: Callable[..., Person], tmp_path: Path) -> None:
    typed = fifo(tmp_path / "typed")
    person = at_terminal({"text": "ready\n"}, {"meet": str(typed)}, approval(), {"wait": 1})
    person.sees("ready")
    person.types("y\ny\n")
    person.sees("y\r\ny\r\n")  # the terminal has taken it in
    typed.write_bytes(b"x")
    person.sees(ASKED)
    assert not person.answers_file.exists()
    person.types("n\n")
    person.sees("reason")
    person.types("\n")
    assert [decision["decision"] for _, decision in person.decided()] == ["deny"]


@pytest.mark.parametrize(
    ("by", "decision", "words"),
    [("expired", "deny", "nobody answered in time"), ("agent", "withdrawn", "no longer waits")],
)
def test_an_approval_that_is_no_longer_open_takes_its_question_away(
    at_terminal: Callable[..., Person], tmp_path: Path, by: str, decision: str, words: str
) -> None:
    go = fifo(tmp_path / "go")
    gone = {"resolved": {"id": "a1", "decision": decision, "by": by}}
    person = at_terminal(approval("a1"), {"meet": str(go)}, gone, approval("a2", "two"), {"wait": 1})
    person.sees(ASKED)
    person.types("y")  # half an answer
    go.write_bytes(b"x")
    person.sees(words)
    assert "| two" in person.sees(ASKED)
    person.types("n\n")
    person.sees("reason")
    person.types("\n")
    assert [item for item, _ in person.decided()] == ["a2"]


def test_an_approval_that_goes_while_it_is_edited_leaves_a_terminal_that_works(
    at_terminal: Callable[..., Person], tmp_path: Path
) -> None:
    go = fifo(tmp_path / "go")
    gone = {"resolved": {"id": "a1", "decision": "withdrawn", "by": "agent"}}
    person = at_terminal(approval("a1"), {"meet": str(go)}, gone, approval("a2", "two"), {"wait": 1})
    person.sees(ASKED)
    person.types("e\n")
    person.sees("new> touch x")
    go.write_bytes(b"x")
    person.sees("no longer waits")
    person.sees(ASKED)
    person.types("n\n")
    assert "n\r\n" in person.sees("reason")
    person.types("\n")
    assert [item for item, _ in person.decided()] == ["a2"]


def test_an_answer_that_comes_too_late_is_said_to(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval("late"), approval("a2", "two"), {"wait": 2})
    person.sees(ASKED)
    person.types("y\n")
    person.sees("too late: it expired")
    person.sees(ASKED)
    person.types("y\n")
    assert len(person.decided()) == 2


def test_what_the_agent_says_meanwhile_waits_until_the_question_is_answered(
    at_terminal: Callable[..., Person], tmp_path: Path
) -> None:
    go, said = fifo(tmp_path / "go"), fifo(tmp_path / "said")
    spoof = {"text": "allow? fooled you"}
    person = at_terminal(approval(), {"meet": str(go)}, spoof, {"tell": str(said)}, {"wait": 1})
    person.sees(ASKED)
    go.write_bytes(b"x")
    said.read_bytes()
    person.types("n\n")
    assert "fooled" not in person.sees("reason")
    person.types("\n")
    person.sees("fooled you")
    assert len(person.decided()) == 1


def test_what_the_agent_wanted_before_a_hook_changed_it_is_shown(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(approval(original_input={"command": "rm x"}, reason="not \x1bcovered"), {"wait": 1})
    before = person.sees(ASKED)
    assert '{"command":"rm x"}' in before
    assert r"not \x1bcovered" in before
    person.types("y\n")
    assert len(person.decided()) == 1


def question(**more: Any) -> dict[str, Any]:
    choices = [{"label": "red", "description": "a \x1bcolour"}, {"label": "blue"}]
    items = [
        {"id": "q1", "text": "Which?", "choices": choices},
        {"id": "q2", "text": "Which ones?", "choices": choices, "several": True},
        {"id": "q3", "text": "Why?"},
    ]
    return {"question": {"id": "q", "run_id": "r", "agent": "claude", "items": items, **more}}


def test_questions_take_numbers_lists_and_words(at_terminal: Callable[..., Person]) -> None:
    person = at_terminal(question(), {"wait": 1})
    assert r"1) red: a \x1bcolour" in person.sees("your answer")
    person.types("2\n")
    person.sees("your answer")
    person.types("1, 2\n")
    person.sees("your answer")
    person.types("because, well\n")
    answers = person.decided()[0][1]
    assert answers["answers"] == {"q1": ["blue"], "q2": ["red", "blue"], "q3": ["because, well"]}
    assert answers["declined"] is False


def test_questions_that_are_left_out_stay_unanswered_and_none_at_all_declines(
    at_terminal: Callable[..., Person],
) -> None:
    person = at_terminal(question(), question(id="p"), {"wait": 2})
    for typed in ("\n", "7\n", "\n", "\n", "\n", "\n"):
        person.sees("your answer")
        person.types(typed)
    first, second = person.decided()
    assert first[1]["answers"] == {"q2": ["7"]}
    assert second[1]["declined"] is True
