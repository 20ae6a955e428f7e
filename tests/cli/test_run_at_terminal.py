"""`interlock run` with a person at a real terminal and the scripted agent behind the whole engine."""

import signal
from typing import Any

import pexpect
import pytest

ASKED = r"allow\? \[y\]es, \[n\]o, \[e\]dit, \[r\]emember for this run, \[q\]uit: "
TOUCH = {"tool": "Bash", "input": {"command": "touch made"}}
SCRIPT = [{"text": "I make it."}, TOUCH, {"text": "Done."}]


def ends(child: Any) -> int:
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus)


def test_at_a_terminal_the_rest_is_asked_by_default(cli: Any, typed: Any) -> None:
    child = typed(*cli.arguments(SCRIPT, "hello"))
    child.expect(ASKED)
    assert "I make it." in child.before
    assert "| touch made" in child.before
    assert not (cli.workspace / "made").exists()
    child.send("y\n")
    assert ends(child) == 0
    assert (cli.workspace / "made").exists()
    assert child.before.count("Done.") == 1


def test_no_keeps_the_call_from_running_and_the_model_reads_the_reason(cli: Any, typed: Any) -> None:
    child = typed(*cli.arguments(SCRIPT, "hello"))
    child.expect(ASKED)
    child.send("n\n")
    child.expect("reason")
    child.send("not today\n")
    assert ends(child) == 0
    assert 'denied: Bash "touch made" (user): not today' in child.before
    assert not (cli.workspace / "made").exists()


def test_an_edited_command_is_what_runs(cli: Any, typed: Any) -> None:
    child = typed(*cli.arguments(SCRIPT, "hello"))
    child.expect(ASKED)
    child.send("e\n")
    child.expect("new> touch made")
    child.send("-otherwise\n")
    child.expect("run this instead")
    assert "| touch made-otherwise" in child.before
    child.send("y\n")
    assert ends(child) == 0
    assert [path.name for path in cli.workspace.iterdir()] == ["made-otherwise"]


def test_a_remembered_rule_spares_the_next_question(cli: Any, typed: Any) -> None:
    child = typed(*cli.arguments([TOUCH, TOUCH, {"text": "Done."}], "hello"))
    child.expect(ASKED)
    child.send("r\n")
    child.expect("number; empty: none")
    assert "1) shell(touch made)" in child.before
    child.send("1\n")
    assert ends(child) == 0
    assert "allow?" not in child.before


def test_quit_ends_the_run_with_130(cli: Any, typed: Any) -> None:
    child = typed(*cli.arguments([*SCRIPT, {"sleep": 60}], "hello"))
    child.expect(ASKED)
    child.send("q\n")
    assert ends(child) == 130
    assert not (cli.workspace / "made").exists()


def test_calls_in_parallel_are_asked_one_at_a_time(cli: Any, typed: Any) -> None:
    calls = [{"tool": "Bash", "input": {"command": f"touch {name}"}} for name in "abc"]
    child = typed(*cli.arguments([{"tools": calls}, {"text": "Done."}], "hello"))
    for answer in ("y", "n", "y"):
        child.expect(ASKED)
        child.send(f"{answer}\n")
        if answer == "n":
            child.expect("reason")
            child.send("\n")
    assert ends(child) == 0
    assert len(list(cli.workspace.iterdir())) == 2


@pytest.mark.parametrize("key", ["\x03", None])
def test_an_interrupt_at_the_question_ends_the_run_with_130(cli: Any, typed: Any, key: str | None) -> None:
    child = typed(*cli.arguments(SCRIPT, "hello"))
    child.expect(ASKED)
    if key is None:
        child.kill(signal.SIGTERM)
    else:
        child.send(key)
    assert ends(child) == 130
    assert "Traceback" not in child.before
    assert not (cli.workspace / "made").exists()


def test_nothing_that_the_agent_says_steers_the_terminal(cli: Any, typed: Any) -> None:
    evil = "\x1b]52;c;aGk=\x07\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
    script = [
        {"text": f"before {evil}", "thinking": evil},
        {"tool": "Bash", "input": {"command": f"echo {evil}", "description": evil}},
        {"tool": f"Tool{evil}", "input": {evil: evil}, "output": evil},
        {"stderr": evil},
        {"unknown_event": {"type": evil}},
        {"error_result": {"result": evil}},
    ]
    child = typed(*cli.arguments(script, "hello"), NO_COLOR="1", TERM="dumb")
    seen = ""
    while child.expect([ASKED, pexpect.EOF]) == 0:
        seen += child.before
        child.send("n\n")
        child.expect("reason")
        child.send("\n")
    seen += child.before
    assert "before " in seen
    for raw in ("\x1b", "\x07", "\u202e", "\x9b"):
        assert raw not in seen
    assert r"\x1b]52;c;aGk=\x07" in seen


def test_with_json_at_a_terminal_approvals_are_asked_only_on_request(cli: Any, typed: Any) -> None:
    assert ends(typed(*cli.arguments(SCRIPT, "--json", "hello"))) == 0
    child = typed(*cli.arguments(SCRIPT, "--json", "--otherwise", "ask", "hello"))
    child.expect(ASKED)
    child.send("y\n")
    assert ends(child) == 0
    assert (cli.workspace / "made").exists()


def test_a_question_of_the_agent_is_answered(cli: Any, typed: Any) -> None:
    asked = {"ask_question": [{"question": "Which?", "header": "h", "options": [{"label": "red"}, {"label": "blue"}]}]}
    child = typed(*cli.arguments([asked, {"text": "Good."}], "hello"))
    child.expect("your answer")
    assert "2) blue" in child.before
    child.send("2\n")
    assert ends(child) == 0
    assert "Good." in child.before


def test_without_a_prompt_at_a_terminal_it_is_asked_for(cli: Any, typed: Any) -> None:
    child = typed(*cli.arguments(SCRIPT))
    assert ends(child) == 2
    assert "no prompt" in child.before
