"""Streams are cut into messages without losing a byte."""

import pytest

from interlock_fixtures.message_framing import body, framed, framing_of, messages, reframed, split

pytestmark = pytest.mark.behaviour("kit:recording")

SAID = '{"a":"b\u2028\r\nContent-Length: 3\r\n\r\n"}'.encode()
FRAME = framed("content_length", SAID)


def test_a_frame_announces_the_bytes_of_what_it_says() -> None:
    assert b"Content-Length: %d\r\n\r\n%b" % (len(SAID), SAID) == FRAME
    assert body(FRAME) == SAID
    assert body(b'{"content-length": 1}\n') == b'{"content-length": 1}\n'
    assert framed("lines", b"{}") == framed("lines", b"{}\n") == b"{}\n"


def test_a_stream_is_told_by_how_it_begins() -> None:
    assert framing_of(FRAME + b"more") == "content_length"
    assert framing_of(b"Content-Type: x\r\ncontent-LENGTH:2\r\n\r\n{}") == "content_length"
    assert framing_of(b'{"Content-Length":2}\n') == framing_of(b"") == "lines"


@pytest.mark.parametrize("cut", range(0, 2 * len(FRAME), 7))
def test_a_frame_is_whole_when_its_last_byte_is_there(cut: int) -> None:
    data = FRAME + FRAME
    whole, rest = split("content_length", data[:cut])
    assert whole == [FRAME] * (cut // len(FRAME))
    assert b"".join(whole) + rest == data[:cut]
    assert split("content_length", rest + data[cut:])[1] == b""


def test_what_stands_between_frames_is_a_message_of_its_own() -> None:
    data = b"warning: x\n" + FRAME + b"\xbb{\n" + FRAME + b"Content-Length: 9\r\n\r\nhalf"
    told = [b"warning: x\n", FRAME, b"\xbb{\n", FRAME]
    assert split("content_length", data) == (told, b"Content-Length: 9\r\n\r\nhalf")
    assert messages("content_length", data) == [*told, b"Content-Length: 9\r\n\r\nhalf"]


def test_other_headers_and_empty_bodies_are_kept_as_they_are() -> None:
    odd = b"content-type: x\r\nCONTENT-length:\t2 \r\nX-More: y\r\n\r\n{}"
    assert split("content_length", odd + framed("content_length", b"")) == ([odd, b"Content-Length: 0\r\n\r\n"], b"")
    assert body(odd) == b"{}"


def test_a_message_that_says_something_else_announces_that() -> None:
    assert reframed(FRAME, b"{}") == b"Content-Length: 2\r\n\r\n{}"
    assert reframed(b"{}\n", b"[]\n") == b"[]\n"


def test_lines_are_cut_at_newlines_alone() -> None:
    assert split("lines", b"a\r\n\nb\x0bc\nrest") == ([b"a\r\n", b"\n", b"b\x0bc\n"], b"rest")
    assert messages("lines", b"a\nrest") == [b"a\n", b"rest"]
