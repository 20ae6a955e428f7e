"""Every simple command that a command line would run is found, or the line counts as not understood."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.shell_split import split
from interlock.engine.shell_text import Word, could_run, could_say


def shown(word: Word) -> str:
    text = "".join("?" if piece is None else piece for piece in word.pieces)
    return text + ("..." if word.splits or word.many else "")


def parts(command: str) -> list[str]:
    return [" ".join(map(shown, part.words)) for part in split(command).parts if part.role != "guess"]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("ls -l 'a b'", ["ls -l a b"]),
        ("ls && git push; cat a | wc -l", ["ls", "git push", "cat a", "wc -l"]),
        ('echo "$(git log)" `date`', ["date", "git log", "echo ? ?..."]),
        ("diff <(sort a) <(sort b)", ["sort a", "sort b", "diff ? ?"]),
        ('echo "a $X b" $Y ${Z:-z} *.py', ["echo a ? b ?... ?... ?.py..."]),
        ("(cd a; ls) && { pwd; }", ["cd a", "ls", "pwd"]),
        ("for f in a $(ls); do cat $f; done", ["ls", "cat ?..."]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while read x; do echo $x; done < f", ["read x", "echo ?..."]),
        ("case $x in a) ls;; *) $(pwd) b;; esac", ["ls", "pwd", "?... b"]),
        ("f() { ls; }; f a", ["ls", "f a"]),
        ("cat <<EOF && ls\n$(date) $X\nEOF\npwd", ["date", "cat", "ls", "pwd"]),
        ("cat <<'EOF' | sh\nrm x\nEOF", ["cat", "sh"]),
        ("sh <<'EOF'\nrm x\nEOF", ["sh", "rm x"]),
        ("bash -c 'ls; pwd' x", ["bash -c ls; pwd x", "ls", "pwd"]),
        ("sudo -u me env A=1 ls", ["sudo -u me env A=1 ls", "env A=1 ls", "ls"]),
        (
            "timeout -k 1 5 xargs -n1 git push",
            ["timeout -k 1 5 xargs -n1 git push", "xargs -n1 git push", "git push ?..."],
        ),
        ("xargs -I{} mv {} a{}b", ["xargs -I{} mv {} a{}b", "mv ? a?b"]),
        ("find . -exec rm {} + -print", ["find . -exec rm {} + -print", "rm ?"]),
        ("ssh -p 22 h 'ls; pwd'", ["ssh -p 22 h ls; pwd", "ls", "pwd"]),
        ("echo a > f rm", ["echo a rm"]),
        ("> f ls", ["ls"]),
        ("X=$(ls) Y=1", ["ls"]),
        ("echo $((1 + $(ls)))", ["ls", "echo ?"]),
        ("eval 'ls; pwd'", ["eval ls; pwd", "ls", "pwd"]),
        ("trap 'ls' EXIT", ["trap ls EXIT", "ls"]),
        ("[ -f a ] && [[ $b == c ]]", ["test a", "test ?... c"]),
    ],
)
def test_all_simple_commands_are_found(command: str, found: list[str]) -> None:
    result = split(command)
    assert sorted(parts(command)) == sorted(found)
    assert result.hidden is (command == "cat <<'EOF' | sh\nrm x\nEOF")


def test_files_that_the_shell_opens_are_found() -> None:
    opened = split("a > x 2>&1 < y | b <<< w >> z &>/dev/null; c > $V").redirects
    found = {(shown(one.target), one.writes) for one in opened}
    assert found == {("x", True), ("y", False), ("z", True), ("/dev/null", True), ("?...", True)}


def test_roles_say_what_an_allow_rule_may_judge() -> None:
    roles = {part.words[0].literal: part.role for part in split("timeout 5 ls; sudo pwd; ssh h who").parts}
    assert roles == {
        "timeout": "through",
        "ls": "plain",
        "sudo": "wrapper",
        "pwd": "plain",
        "ssh": "wrapper",
        "who": "remote",
    }


def test_a_command_of_plain_words_needs_no_parser() -> None:
    code = (
        "import sys; from interlock.engine.shell_split import split; split('a b'); print('tree_sitter' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    assert done.stdout == "False\n"


@given(text=st.text(max_size=80))
def test_splitting_never_fails(text: str) -> None:
    found = split(text)
    assert not (found.complete and found.hidden)


TOKENS = ["a", "$X", "$(", ")", "`", "'", '"', "\\", ";", "&&", "|", "<<EOF", "\nEOF\n", "{", "}", "\ud800", "é", " "]


@given(tokens=st.lists(st.sampled_from([*TOKENS, "if", "then", "fi", "do", "done", "<", ">", "((", "[[", "sh -c"])))
def test_splitting_soup_never_fails(tokens: list[str]) -> None:
    split("".join(tokens))
    split(" ".join(tokens))


@pytest.mark.parametrize(
    "text", ["$(" * 20_000, "a | " * 15_000, "(" * 60_000, "sh -c " * 5_000, "docker run " * 5_000]
)
def test_a_hostile_line_takes_bounded_time(text: str) -> None:
    assert not split(text).complete


@pytest.mark.parametrize(
    ("word", "wanted", "could"),
    [
        (Word(("rm",)), "rm", True),
        (Word(("/bin/RM",)), "rm", True),
        (Word(("rmx",)), "rm", False),
        (Word(("r", None)), "rm", True),
        (Word((None, "/rm")), "rm", True),
        (Word((None, "/ls")), "rm", False),
        (Word(("ls", None)), "rm", True),
        (Word((None, "ls")), "rm", False),
        (Word(("a/b/ls",)), "rm", False),
        (Word(("rm", None, "-rf"), splits=True), "rm", True),
        (Word(("a/r", None)), "rm", True),
        (Word(("x" * 2000,)), "rm", False),
    ],
)
def test_the_shape_of_a_word_says_which_program_it_could_be(word: Word, wanted: str, could: bool) -> None:
    assert could_run((word,), (wanted,), prefix=True) is could


letters = st.text("ab", max_size=3)


@given(
    pieces=st.lists(st.one_of(st.none(), letters), min_size=1, max_size=4),
    fill=st.lists(letters, min_size=4, max_size=4),
)
def test_a_word_could_be_whatever_fills_its_gaps(pieces: list[str | None], fill: list[str]) -> None:
    rest = iter(fill)
    text = "".join(next(rest) if piece is None else piece for piece in pieces)
    assert could_say((Word(tuple(pieces)),), (text,), skipping=False)
    assert could_say((Word(("c",)), Word(tuple(pieces)), Word((None,), splits=True)), (text, "x", "y"), skipping=True)
