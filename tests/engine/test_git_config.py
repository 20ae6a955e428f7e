"""Configuration is read as the real git reads it, and its keys that name programs are known."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.engine.git_config import BadLine, Setting, names_program
from interlock.engine.git_config import settings as parsed

PIECES = st.sampled_from(
    (
        *(
            "[core]",
            '[a "b"]',
            '[A "b\\"c"]',
            "[a.B]",
            "[",
            "]",
            '"',
            "\\",
            "\n",
            "\n",
            "\r\n",
            "\r",
            " ",
            "\t",
            "=",
            " = ",
        ),
        *(
            "#",
            ";",
            "key",
            "Key-2",
            "x",
            "1",
            "-",
            ".",
            "\\n",
            "\\t",
            "\\\\",
            '\\"',
            "\\\n",
            "é",
            "\ufeff",
            "\x0b",
            "_",
        ),
    )
)
LINES = st.sampled_from(
    ["[core]\n", '[diff "x y"]\n', "a = b\n", 'c="d ;" e # f\n', "g\n", "h = \\\n i\n", "j = k  l \n"]
)


def listed(path: Path) -> list[Setting] | None:
    """What git reads from the file; None where it refuses it."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "config", "--file", str(path), "--list", "-z"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    if done.returncode != 0:
        return None
    records = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    return [Setting(name, value if mark else None) for name, mark, value in (r.partition("\n") for r in records)]


def ours(text: str) -> list[Setting] | None:
    try:
        return list(parsed(text))
    except BadLine:
        return None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(st.one_of(PIECES, LINES), max_size=25).map("".join))
def test_what_git_lists_is_what_is_read_here(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(text.encode("utf-8"))
    assert ours(text) == listed(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[core]\nfsmonitor", [("core.fsmonitor", None)]),
        ("\ufeff[Core]FSMonitor = x", [("core.fsmonitor", "x")]),
        ('[diff "A.b \\"c"]\ncommand = "a ; b"c # d', [('diff.A.b "c.command', "a ; bc")]),
        ("[a.B]\nc = d\\\n  e", [("a.b.c", "d  e")]),
        ("key = before any section", [("key", "before any section")]),
        ("[a]\nb = c\r\nd = e\r\n", [("a.b", "c"), ("a.d", "e")]),
    ],
)
def test_sections_quotes_continuations_and_marks_are_resolved(text: str, expected: list[tuple[str, str]]) -> None:
    assert ours(text) == expected


def test_a_bad_line_is_named_by_its_number() -> None:
    with pytest.raises(BadLine) as caught:
        list(parsed("[a]\nb = c\n  d ? e\n"))
    assert caught.value.line == 3


def test_the_longest_file_is_read_in_a_moment() -> None:
    assert len(list(parsed("[a]\n" + "b = c\n" * 170_000))) == 170_000


NAMED = (
    "init.templateDir=x",
    "core.alternateRefsCommand=x",
    "filter.x.smudge=x",
    "filter.x.clean=git-lfs clean -- %f; x",
    "merge.x.driver=x",
    "mergetool.x.cmd=x",
    "mergetool.x.path=x",
    "gpg.ssh.defaultKeyCommand=x",
    "browser.x.cmd=x",
    "man.x.cmd=x",
    "interactive.diffFilter=x",
    "uploadpack.packObjectsHook=x",
    "remote.x.vcs=x",
    "remote.x.url=EXT::x",
    "submodule.x.update=!x",
    "trailer.x.cmd=x",
    "hook.x.command=x",
    "lfs.extension.x.clean=x",
    "lfs.customtransfer.x.path=x",
    "gc.recentObjectsHook=x",
    "core.hooksPath=",
    "protocol.ext.allow=user",
)
UNNAMED = (
    "core.fsmonitor=true",
    "core.fsmonitor=No",
    "core.hooksPath=/dev/null",
    "core.editor=",
    "pager.log=false",
    "color.pager=true",
    "filter.lfs.clean=git-lfs clean -- %f",
    "filter.lfs.smudge=git-lfs smudge --skip -- %f",
    "filter.lfs.process=git-lfs filter-process",
    "alias.st=status -sb",
    "submodule.x.update=rebase",
    "remote.origin.url=git@example.com:a/b.git",
    "remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*",
    "branch.main.remote=origin",
    "diff.submodule=log",
    "protocol.ext.allow=never",
    "user.name=diff --command",
)


def written_by_git(folder: Path, setting: str) -> Setting:
    """The setting as it comes back from a file that the real git wrote."""
    name, _, value = setting.partition("=")
    subprocess.run(["git", "config", "--file", str(folder / "config"), name, value], check=True)
    (setting_read,) = parsed((folder / "config").read_text(encoding="utf-8"))
    return setting_read


@pytest.mark.parametrize("setting", NAMED)
def test_a_key_by_which_git_runs_a_program_names_one(tmp_path: Path, setting: str) -> None:
    assert names_program(written_by_git(tmp_path, setting))


@pytest.mark.parametrize("setting", UNNAMED)
def test_a_key_by_which_git_runs_nothing_names_none(tmp_path: Path, setting: str) -> None:
    assert not names_program(written_by_git(tmp_path, setting))
