"""Text for a terminal is made safe; bytes for anything else stay as they are."""

import os
import sys
import unicodedata
from collections.abc import Iterator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock_adapters.cli.output import Sink, safe_line, safe_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("\x1b]0;title\x1b\\", r"\x1b]0;title\x1b" + "\\"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("over\rwritten", r"over\x0dwritten"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("back\bspace\x7f", r"back\x08space\x7f"),
        ("line\u2028end", r"line\u2028end"),
    ],
)
def test_what_moves_hides_or_reorders_is_shown_by_its_number(text: str, shown: str) -> None:
    assert safe_text(text) == shown.replace(r"\x0d", r"\r")


def test_plain_text_of_every_script_stays_as_it_is() -> None:
    text = "tab\there\nnaïve 日本語 עברית नमस्ते 👩\u200d💻 \\backslash"
    assert safe_text(text) == text
    assert safe_text("dos\r\nlines") == "dos\nlines"


@given(st.text())
def test_nothing_that_a_terminal_acts_on_is_left(text: str) -> None:
    for char in safe_text(text):
        assert char in "\n\t\u200c\u200d" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert "\n" not in safe_line(text)


def test_every_control_and_format_character_is_escaped() -> None:
    every = (chr(code) for code in range(sys.maxunicode + 1))
    bad = [c for c in every if unicodedata.category(c) in {"Cc", "Cf"} and c not in "\n\t\u200c\u200d"]
    assert len(bad) > 200
    assert all(safe_text(char).startswith("\\") for char in bad)


def test_a_long_line_is_cut_and_says_how_long_it_was() -> None:
    assert safe_line("x" * 100, 10) == "x" * 10 + "... (100 characters)"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


@pytest.mark.anyio
async def test_a_slow_reader_holds_up_the_writing_and_nothing_else(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    sink = Sink(writer)
    data = b"x" * 1_000_000
    ticks = 0
    read = b""
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sink.write, data)
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
                ticks += 1
            while len(read) < len(data):
                await anyio.wait_readable(reader)
                read += os.read(reader, 65536)
    assert ticks == 100
    assert read == data


@pytest.mark.anyio
async def test_a_reader_who_is_gone_breaks_the_sink_and_raises_nothing(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(reader)
    sink = Sink(writer)
    with anyio.fail_after(5):
        await sink.write(b"x" * 100_000)
        await sink.write(b"more")
    assert sink.broken
    assert sink.trouble == ""


@pytest.mark.anyio
async def test_a_full_disk_breaks_the_sink_and_says_so() -> None:
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123, ASYNC230 -- a device, and no time is spent
        sink = Sink(full.fileno())
        await sink.write(b"x")
    assert sink.broken
    assert "space" in sink.trouble
