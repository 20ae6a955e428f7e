"""What an agent writes to a terminal, as lines and as a picture."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.framing.screen import LONGEST, REMEMBERED, Line, Screen


def screen(*pieces: bytes, rows: int = 6, columns: int = 40) -> Screen:
    made = Screen(rows, columns)
    for piece in pieces:
        made.feed(piece)
    return made


def test_printed_lines_are_exactly_what_was_printed() -> None:
    made = screen(b"one\r\n  two \t\xc3\xa9\xf0\x9f\x98\x80\r\n\r\nthree? ")
    expected = [Line("one", "bare"), Line("  two \té\U0001f600", "bare"), Line("", "bare"), Line("three? ", "bare")]
    assert list(made.recent) == expected


def test_a_line_wider_than_the_window_is_one_line() -> None:
    made = screen(b"x" * 500 + b"\r\n", columns=40)
    assert made.take() == [Line("x" * 500, "bare")]


@pytest.mark.parametrize(
    "trick",
    [
        b"\x1b]52;c;cm0gLXJm\x07",  # the clipboard
        b"\x1b]0;title\x1b\\",
        b"\x1b]8;;http://evil.example\x1b\\",  # a link
        b"\x1bPq#0;2;0;0;0\x1b\\",  # a picture
        b"\x1b_hidden\x1b\\",
        b"\x9dhidden\x9c".decode("latin-1").encode(),
    ],
)
def test_strings_that_a_terminal_obeys_are_no_text_and_leave_their_line_inexact(trick: bytes) -> None:
    made = screen(b"before\r\nls " + trick + b"x\r\n")
    first, second = made.take()
    assert first == Line("before", "bare")
    assert second == Line("ls x", "drawn")
    assert "hidden" not in made.picture()


@pytest.mark.parametrize(
    "trick", [b"\x1b[2K", b"\x1b[5D", b"\x08", b"\x07", b"\x00", b"\rls", b"\x1bc", b"\xc2\x85", b"\xff"]
)
def test_whatever_else_a_line_holds_makes_it_inexact(trick: bytes) -> None:
    made = screen(b"rm -rf x" + trick + b"\r\n")
    assert [line.look for line in made.take()] == ["drawn"]


def test_colours_are_known_as_such() -> None:
    made = screen(b"\x1b[1;31mred\x1b[0m\r\nplain\r\n\x1b[?25l\x1b[?2004h?")
    assert list(made.recent) == [Line("red", "styled"), Line("plain", "bare"), Line("?", "styled")]


def test_moving_the_cursor_makes_all_that_could_be_seen_inexact() -> None:
    made = screen(b"a\r\n" * 10 + b"\x1b[3Arewritten\r\n", rows=6)
    looks = [line.look for line in made.recent]
    assert looks == ["bare"] * 4 + ["drawn"] * 7 + ["bare"]


def test_redraws_end_as_what_stands_there_at_last() -> None:
    made = screen(b"working 1%\rworking 50%\rdone       \r\n")
    assert [line.text for line in made.take()] == ["done"]
    made = screen(b"\x1b[2J\x1b[H+--+\r\n|ab|\r\n+--+\x1b[2;2Hxy")
    assert made.picture() == "+--+\n|xy|\n+--+"


def test_the_picture_is_a_screenful() -> None:
    made = screen(*(b"%d\r\n" % number for number in range(100_000)), rows=6)
    assert made.picture() == "99995\n99996\n99997\n99998\n99999"
    assert len(made.take()) == REMEMBERED


def test_a_typed_end_of_line_ends_the_line() -> None:
    made = screen(b"sure? ")
    made.entered()
    made.feed(b"\r\nls\r\n")
    assert [line.text for line in made.take()] == ["sure? ", "", "ls"]
    assert made.ended == 3


def test_a_line_without_end_is_bounded() -> None:
    made = screen(*[b"y" * 100_000] * 20)
    assert len(made.current.text) == LONGEST
    assert made.current.look == "drawn"


def test_a_string_that_never_ends_takes_no_memory_and_what_ends_it_is_seen() -> None:
    made = screen(b"\x1b]0;", *[b"z" * 65_536] * 100)
    assert made.current.text == ""
    made.feed(b"\x1b")
    made.feed(b"\\back")
    assert made.current == Line("back", "drawn")


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "flood", [b"\x1b[1J\x1b[50;200H", b"\x1b[2J", b"\x1b7", b"\x1b[9999L", b"\x1b[?3h", b"\x1b[5i"]
)
def test_a_flood_of_sequences_does_not_hold_up_the_reader(flood: bytes) -> None:
    made = screen(b"x" * 2000, rows=50, columns=200)
    made.feed(flood * (262_144 // len(flood)))
    assert made.picture() is not None  # it came back: without a bound that takes minutes


PIECES = st.sampled_from(
    [
        b"text ",
        "é".encode(),
        b"\r\n",
        b"\r",
        b"\n",
        b"\x1b[31m",
        b"\x1b[2K",
        b"\x1b]0;t\x07",
        b"\x1b",
        b"[",
        b"\x1b[1;",
        b"\xff",
    ]
)


@given(st.lists(PIECES, max_size=30), st.integers(1, 5))
def test_however_it_is_cut_the_same_comes_of_it(pieces: list[bytes], size: int) -> None:
    whole = b"".join(pieces)
    at_once, cut = screen(whole), screen(*(whole[at : at + size] for at in range(0, len(whole), size)))
    assert at_once.recent == cut.recent
    assert at_once.take() == cut.take()
    assert at_once.picture() == cut.picture()


@given(st.binary(max_size=400))
def test_nothing_makes_it_raise_and_no_control_character_comes_out(data: bytes) -> None:
    made = screen(data)
    shown = made.picture() + "".join(line.text for line in made.recent)
    assert not any((ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160 for char in shown)
