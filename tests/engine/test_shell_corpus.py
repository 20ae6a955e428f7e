"""Everyday commands are read and not denied for nothing; every disguise of one command is seen through or not allowed.

The corpora hold one command a line, with `␤` for a line break.
"""

from pathlib import Path

import pytest

from interlock.engine.places import Place
from interlock.engine.rules import Effect, Rules
from interlock.engine.shell_split import split
from interlock.tools import Subject, ToolCall, ToolKind

CORPUS = Path(__file__).parent / "corpus"
PLACE = Place.of("/ws", home="/home/me")
ELSEWHERE = ["shell(reboot:*)", "shell(rm:*)", "shell(git push --force:*)", "shell(shutdown)", "shell(mkfs:*)"]
"""Deny rules that no everyday command of the corpus is about."""
OTHERS = """
    ls cat echo find git fd curl tr printf rev base64 chmod docker kubectl npx tmux nix-shell rsync tar test cd tee a f
    l x true sort awk
"""
"""Programs that the allow rules of the test name: every one that a disguise uses but those that run any code."""


def commands(name: str) -> list[str]:
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    return [line.replace("␤", "\n") for line in lines]


def match(effect: Effect, rules: list[str], command: str) -> str | None:
    subject = Subject(command=command)
    call = ToolCall(tool_call_id="1", tool_name="Bash", input={}, tool_kind=ToolKind.SHELL, subject=subject)
    return Rules(rules, effect, PLACE).match(call)


EVERYDAY = commands("everyday.txt")


def test_everyday_commands_are_many_and_different() -> None:
    assert len(set(EVERYDAY)) == len(EVERYDAY) >= 1_000


def test_no_everyday_command_is_denied_without_a_deny_rule() -> None:
    assert [command for command in EVERYDAY if match("deny", [], command)] == []


def test_under_two_percent_of_everyday_commands_cannot_be_read() -> None:
    assert len([command for command in EVERYDAY if split(command).hidden]) < len(EVERYDAY) * 0.02


def test_deny_rules_about_something_else_leave_everyday_commands_alone() -> None:
    denied = [command for command in EVERYDAY if match("deny", ELSEWHERE, command)]
    assert len(denied) <= len(EVERYDAY) * 0.005, denied


def test_most_everyday_commands_can_be_allowed_part_by_part() -> None:
    assert len([command for command in EVERYDAY if split(command).complete]) > len(EVERYDAY) * 0.9


OBFUSCATIONS = commands("obfuscations.txt")


def test_disguises_are_many_and_different() -> None:
    assert len(set(OBFUSCATIONS)) == len(OBFUSCATIONS) >= 100


FOREIGN = ("python -c", "perl -e", "awk", "node -e", "make -f", "vim -c")
"""What hides a command in a language that is no shell's."""


@pytest.mark.parametrize("command", OBFUSCATIONS)
def test_a_disguise_runs_into_the_deny_rule_or_is_not_allowed(command: str) -> None:
    denied = match("deny", ["shell(rm:*)"], command) is not None
    assert denied or command.startswith(FOREIGN)
    allowed = match("allow", [f"shell({name}:*)" for name in OTHERS.split() if name != "awk"], command)
    assert denied or allowed is None


@pytest.mark.parametrize(
    "command", [line for line in OBFUSCATIONS if "function ls" not in line and "alias" not in line]
)
def test_no_disguise_is_allowed_beside_rules_for_all_the_other_programs(command: str) -> None:
    assert match("allow", [f"shell({name}:*)" for name in OTHERS.split() if name not in _RUNNERS], command) is None


_RUNNERS = {"docker", "kubectl", "npx", "tmux", "nix-shell", "awk"}
"""Programs that may be allowed by name although they run others; only a deny rule looks into them."""
