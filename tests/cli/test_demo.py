"""`interlock demo` shows the engine at work, with a person or without."""

import time
from typing import Any

import pexpect


def test_the_demo_says_yes_by_itself_and_shows_every_power(cli: Any) -> None:
    begin = time.monotonic()
    done = cli.interlock("demo", "--yes")
    assert done.returncode == 0
    assert time.monotonic() - begin < 10
    text = done.stdout.decode()
    for words in (
        "the model was shown: ",
        "[taken out]",
        "denied by interceptor 'guard': nothing is deleted here",
        "| umask 077; echo hello > greeting.txt",
        "allow? yes",
        "completed in",
        "build/, greeting.txt (mode 600), settings.env",
        "What to try next:",
    ):
        assert words in text
    assert "sk-demo" not in text
    assert done.stderr == b""
    assert 20 <= len(text.splitlines()) <= 32


def test_without_a_terminal_the_demo_asks_for_yes(cli: Any) -> None:
    done = cli.interlock("demo")
    assert done.returncode == 2
    assert b"demo --yes" in done.stderr


def test_at_a_terminal_the_person_answers(cli: Any, typed: Any) -> None:
    child = typed("demo")
    child.expect(r"\[q\]uit: ")
    assert "umask 077; echo hello" in child.before
    child.send("n\n")
    child.expect("reason")
    child.send("\n")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "greeting.txt (mode" not in child.before


def test_the_demo_leaves_nothing_behind(cli: Any, tmp_path: Any) -> None:
    cli.interlock("demo", "--yes", TMPDIR=str(cli.workspace))
    assert not list(cli.workspace.iterdir())
    assert not list((tmp_path / "home").rglob("*"))
