"""Terminals on both sides: a person at one, and an agent that is only to be had on another."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

ASKED = r"\[q\]uit: "
COLOUR = r"\x1b\[[0-9;]*(?:[349][0-9]|10[0-9])[0-9;]*m"
EXAMPLE = Path(__file__).parents[2] / "examples" / "terminal"
TOUCH = {"tool": "Bash", "input": {"command": "touch made"}}
SCRIPT = [{"text": "I m\u00e4ke it."}, TOUCH, {"text": "D\u00f6ne \u2713."}]
EVIL = r"\033]52;c;aGk=\007\033]0;owned\007\033]8;;http://x\033\\link\033]8;;\033\\\033[?2004h\033[2J\033[6n\233"


@pytest.fixture
def notes(cli: Any) -> list[str]:
    """What follows `interlock` to run the example's program."""
    profile, program = EXAMPLE / "notes.toml", EXAMPLE / "notes.sh"
    return ["-a", f"terminal:{profile}", "--binary", str(program), "-C", str(cli.workspace)]


def ends(child: Any) -> int:
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus)


# ---- an agent on a terminal -----------------------------------------------------------------------------------------


def test_a_person_allows_what_a_program_asks(cli: Any, typed: Any, notes: list[str]) -> None:
    child = typed("run", *notes, "--otherwise", "ask", "water the plants")
    child.expect(ASKED)
    assert "| echo '- water the plants' >> notes.md" in child.before
    assert not (cli.workspace / "notes.md").exists()
    child.send("y\n")
    assert ends(child) == 0
    assert (cli.workspace / "notes.md").read_text("utf-8") == "- water the plants\n"


def test_a_person_refuses_it(cli: Any, typed: Any, notes: list[str]) -> None:
    child = typed("run", *notes, "--otherwise", "ask", "water the plants")
    child.expect(ASKED)
    child.send("n\n")
    child.expect("reason")
    child.send("\n")
    assert ends(child) == 0
    assert "not written" in child.before
    assert not (cli.workspace / "notes.md").exists()


def test_what_a_person_edits_cannot_be_run_and_is_refused(cli: Any, typed: Any, notes: list[str]) -> None:
    child = typed("run", *notes, "--otherwise", "ask", "water the plants")
    child.expect(ASKED)
    child.send("e\n")
    child.expect("new> ")
    child.send("-x\n")
    child.expect("run this instead")
    child.send("y\n")
    assert ends(child) == 0
    assert "not written" in child.before
    assert not (cli.workspace / "notes.md").exists()


def test_an_interrupt_at_the_question_ends_the_program_without_a_yes(cli: Any, typed: Any, notes: list[str]) -> None:
    child = typed("run", *notes, "--otherwise", "ask", "water the plants")
    child.expect(ASKED)
    child.send("\x03")
    assert ends(child) == 130
    assert not (cli.workspace / "notes.md").exists()


def test_without_a_person_it_is_refused_and_the_last_line_says_how(cli: Any, notes: list[str]) -> None:
    done = cli.interlock("run", *notes, "--json", "water the plants")
    assert done.returncode == 0
    assert [event["type"] for event in cli.events(done)].count("tool_decided") == 1
    assert b"--otherwise ask" in done.stderr.splitlines()[-1]
    assert not (cli.workspace / "notes.md").exists()


def test_a_chain_that_rewrites_ends_with_2_and_the_reasons(cli: Any, notes: list[str], tmp_path: Path) -> None:
    hooks = tmp_path / "hooks.json"
    hooks.write_text(json.dumps({"schema": 1, "hooks": [{"name": "r", "command": ["/bin/cat"]}]}), "utf-8")
    done = cli.interlock("plan", *notes, "--hooks", str(hooks), "hi")
    assert done.returncode == 2
    for reason in (b"does not show every call before it runs", b"cannot run a changed input of"):
        assert reason in done.stderr


def test_a_program_cannot_steer_the_terminal_of_the_person(cli: Any, typed: Any, tmp_path: Path) -> None:
    program, profile = tmp_path / "evil", tmp_path / "evil.toml"
    program.write_text(f"#!/bin/sh\nprintf 'start{EVIL}\\n'\nprintf 'end{EVIL}'\nexit 1\n", "utf-8")
    program.chmod(0o755)
    profile.write_text('name = "evil"\nprograms = ["evil"]\nprompt = { by = "arguments", arguments = ["{prompt}"] }\n')
    words = ["-a", f"terminal:{profile}", "--binary", str(program), "-C", str(cli.workspace)]
    child = typed("run", *words, "--otherwise", "deny", "hi", NO_COLOR="1", TERM="dumb")
    assert ends(child) == 1
    assert "exit 1" in child.before
    for raw in ("\x1b", "\x07", "\x9b", "52;c", "owned"):
        assert raw not in child.before


def test_the_example_is_run_as_its_page_says() -> None:
    page = (EXAMPLE / "README.md").read_text("utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("$ interlock run")]
    assert line == '$ interlock run -a terminal:./notes.toml --binary ./notes.sh --otherwise ask "water the plants"'
    profile = (EXAMPLE / "notes.toml").read_text("utf-8")
    assert len(profile.splitlines()) <= 10
    assert f"```toml\n{profile}```" in (EXAMPLE.parents[1] / "docs" / "terminal.md").read_text("utf-8")


# ---- a person at a terminal of any kind -----------------------------------------------------------------------------


def test_a_window_that_is_resized_at_the_question_changes_nothing(cli: Any, typed: Any) -> None:
    child = typed(*cli.arguments(SCRIPT, "hello"))
    child.expect(ASKED)
    child.setwinsize(10, 30)
    child.send("e\n")
    child.expect("new> ")
    child.setwinsize(50, 200)
    child.send("-else\n")
    child.expect("run this instead")
    assert "| touch made-else" in child.before
    child.send("y\n")
    assert ends(child) == 0
    assert [path.name for path in cli.workspace.iterdir()] == ["made-else"]


@pytest.mark.parametrize("locale", ["C", "POSIX", "nowhere.ISO-8859-1"])
def test_a_locale_that_is_not_utf_8_stops_no_question(cli: Any, typed: Any, locale: str) -> None:
    child = typed(*cli.arguments(SCRIPT, "hello"), LANG=locale, LC_ALL=locale, PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    child.expect(ASKED)
    child.send("y\n")
    assert ends(child) == 0
    assert (cli.workspace / "made").exists()
    assert "Traceback" not in child.before


@pytest.mark.parametrize(("env", "unwanted"), [({"NO_COLOR": "1"}, COLOUR), ({"TERM": "dumb"}, "\x1b")])
def test_without_colour_the_question_is_the_same(cli: Any, typed: Any, env: dict[str, str], unwanted: str) -> None:
    child = typed(*cli.arguments(SCRIPT, "hello"), **env)
    seen = ""
    child.expect(ASKED)
    seen += child.before
    child.send("y\n")
    assert ends(child) == 0
    assert not re.search(unwanted, seen + child.before)


def test_with_stdout_piped_the_person_is_asked_all_the_same(cli: Any, typed: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*cli.arguments(SCRIPT, "hello")]
    runner = "import os, sys; os.dup2(os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT), 1); "
    runner += "from interlock_adapters.cli import main; main()"
    child = pexpect.spawn(sys.executable, ["-c", runner, str(out), *words], encoding="utf-8", timeout=20, env=cli.env)
    child.expect(ASKED)
    child.send("y\n")
    assert ends(child) == 0
    assert out.read_text("utf-8") == "D\u00f6ne \u2713.\n"
    assert (cli.workspace / "made").exists()


def test_with_stdin_piped_nobody_is_asked_and_asking_is_refused(cli: Any) -> None:
    words = cli.arguments(SCRIPT, "--otherwise", "ask", "hello")
    done = cli.interlock(*words, stdin=b"y\n")
    assert done.returncode == 2
    assert b"nobody is there to answer approvals" in done.stderr
    assert not (cli.workspace / "made").exists()
