"""What a person is shown before a yes: the exact input, harmless to a terminal, whole, and counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.approval import Approval, escape
from interlock.tools import Subject, ToolCall, ToolKind

HOSTILE = {
    "clear screen": "\x1b[2J",
    "bell": "\a",
    "carriage return": "rm -rf /\recho safe",
    "backspace": "rm\b\bls",
    "C1 control": "\x9b31m",
    "delete": "\x7f",
    "NUL": "a\0b",
    "right-to-left override": "\u202egnp.exe",
    "isolate": "\u2066x\u2069",
    "Hebrew letter": "\u05d0",
    "Arabic letter": "\u0627",
    "zero-width space": "a\u200bb",
    "zero-width joiner": "\u200d",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "no-break space": "\u00a0",
    "ideographic space": "\u3000",
    "line separator": "a\u2028b",
    "next line": "a\x85b",
    "vertical tab": "a\vb",
    "combining overlay": "a\u0338",
    "variation selector": "\ufe0f",
    "tag letter": "\U000e0061",
    "Hangul filler": "\u3164",
    "halfwidth Hangul filler": "\uffa0",
    "emoji": "\U0001f600",
    "private use": "\ue000",
}


def approval(command: str | None = None, given: JsonValue = None, **fields: object) -> Approval:
    input_ = {"command": command} if given is None else given
    call = ToolCall(
        tool_call_id="1", tool_name="Bash", input=input_, tool_kind=ToolKind.SHELL, subject=Subject(command=command)
    )
    return Approval.model_validate({"id": "a", "run_id": "r", "agent": "claude", "call": call, **fields})


def shown(command: str) -> list[str]:
    """The lines of the command as displayed, without their mark."""
    return [line.removeprefix("  | ") for line in approval(command).display().split("\n")[1:]]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("place", ["command", "tool name", "description", "other field", "raw input"])
def test_nothing_that_is_shown_can_move_hide_or_reorder_text(text: str, place: str) -> None:
    whole = {
        "command": approval(text),
        "tool name": approval("ls").model_copy(
            update={"call": approval("ls").call.model_copy(update={"tool_name": text})}
        ),
        "description": approval("ls", description=text),
        "other field": approval("ls", {"command": "ls", text: text}),
        "raw input": approval(None, text),
    }[place].display()
    assert all(char == "\n" or (char.isascii() and char.isprintable()) for char in whole)
    assert text not in whole


@given(st.text())
def test_what_is_shown_is_the_command_and_nothing_else(command: str) -> None:
    assert "\n".join(shown(command)).count("\n") == command.count("\n")
    back = "".join(_unescaped(line) + "\n" for line in shown(command))
    assert back == command + "\n"


def _unescaped(line: str) -> str:
    """The text of an escaped line; letters that are not ASCII stand for themselves."""
    return (
        line.encode("raw_unicode_escape").decode("unicode_escape")
        if line.isascii()
        else "".join(map(_one, _split(line)))
    )


def _split(line: str) -> list[str]:
    parts, rest = [], line
    while rest:
        size = {"\\x": 4, "\\u": 6, "\\U": 10}.get(rest[:2], 2 if rest[0] == "\\" else 1)
        parts.append(rest[:size])
        rest = rest[size:]
    return parts


def _one(part: str) -> str:
    return part.encode("ascii").decode("unicode_escape") if part.startswith("\\") else part


def test_letters_of_left_to_right_scripts_are_shown_as_they_are() -> None:
    assert escape("é ß 漢 Ж") == "é ß 漢 Ж"


def test_a_backslash_cannot_pass_for_an_escape() -> None:
    assert escape("\\x1b") == "\\\\x1b"


def test_ten_thousand_lines_are_shown_to_the_last_and_counted() -> None:
    command = "\n".join([*("true" for _ in range(9_999)), "rm -rf ~"])
    lines = approval(command).display().split("\n")
    assert lines[0] == f"Bash [shell] {len(command)} characters in 10000 line(s)"
    assert len(lines) == 10_001
    assert lines[-1] == "  | rm -rf ~"


def test_a_long_line_is_not_cut() -> None:
    assert approval("x" * 1_000_000 + "; rm").display().endswith("x; rm")


@pytest.mark.parametrize(
    ("command", "size"),
    [("", "0 characters in 1 line(s)"), ("ls\n", "3 characters in 2 line(s)"), ("é", "1 characters in 1 line(s)")],
)
def test_characters_and_lines_are_counted_as_they_are(command: str, size: str) -> None:
    assert approval(command).display().split("\n")[0] == f"Bash [shell] {size}"


def test_a_call_without_a_command_shows_its_whole_input() -> None:
    assert (
        approval(None, {"b": "x\ny", "a": 1}).display()
        == 'Bash [shell] 18 characters in 1 line(s)\n  | {"a":1,"b":"x\\\\ny"}'
    )


def test_what_stands_beside_the_command_is_shown_too() -> None:
    text = approval("ls", {"command": "ls", "run_in_background": True}).display()
    assert '  with {"run_in_background":true}' in text.split("\n")


@pytest.mark.parametrize("given", [{"command": ["ls", "-a"]}, {"cmd": "rm"}, {"command": "rm"}, "rm", ["rm"]])
def test_an_input_that_differs_from_the_command_that_was_read_out_of_it_is_shown(given: JsonValue) -> None:
    assert "\n  with " in approval("ls", given).display()


def test_the_words_of_the_agent_are_labelled_and_cannot_leave_their_line() -> None:
    lines = approval("rm", description="harmless\n  | ls").display().split("\n")
    assert lines[-1] == "  the agent says: harmless\\n  | ls"


def test_a_command_cannot_speak_as_a_label() -> None:
    lines = approval("ls\nthe agent says: fine").display().split("\n")
    assert lines[1:] == ["  | ls", "  | the agent says: fine"]


def test_leaving_the_sandbox_is_said() -> None:
    assert approval("ls", leaves_sandbox=True).display().endswith("\n  this asks to leave the sandbox")
    assert "sandbox" not in approval("ls").display()
