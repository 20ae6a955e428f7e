"""Bodies come out whole, once and alike; a bad header costs what it touches and nothing else."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.framing.content_length import (
    MAX_HEADER,
    BadHeader,
    ContentLengthFramer,
    Frame,
    Unfinished,
)
from interlock.framing.lines import Oversized

MIB = 1024 * 1024

parts = st.lists(
    st.sampled_from(
        [
            b"Content-Length: 5\r\n\r\nhello",
            b"content-length:2\r\nX: y\r\n\r\n{}",
            b"Content-Length: 0\r\n\r\n",
            b"Content-Length: 40\r\n\r\n" + b"z" * 40,
            b"Content-Length: 600\r\n\r\n" + b"z" * 600,
            b"Content-Length: x\r\n\r\n",
            b"Content-Length: 7\r\nContent-Length: 5\r\n\r\nhello",
            b"warning: noise\n",
            b"\r\n\r\n",
            b"\r\n",
            b"\x00\xff",
            b"n" * (MAX_HEADER + 10),
            b"Content-Length: 9",
        ]
    ),
    max_size=8,
)
cuts = st.lists(st.integers(min_value=1, max_value=700), max_size=40)


def message(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def frame(*chunks: bytes, limit: int = MIB) -> list[Frame]:
    framer = ContentLengthFramer(limit)
    found = [part for chunk in chunks for part in framer.feed(chunk)]
    return found + framer.close()


@given(stream=parts.map(b"".join), sizes=cuts)
@example(stream=b"n" * (MAX_HEADER - 2) + b"\r\n\r\n" + message(b"{}"), sizes=[MAX_HEADER])
@example(stream=b"bad\r\n\r\n" + message(b"{}") + b"tail", sizes=[1] * 40)
def test_every_chunking_gives_the_same_frames(stream: bytes, sizes: list[int]) -> None:
    chunks: list[bytes] = []
    rest = stream
    for size in sizes:
        chunks.append(rest[:size])
        rest = rest[size:]

    assert frame(*chunks, rest, limit=100) == frame(stream, limit=100)
    assert frame(*[bytes([byte]) for byte in stream], limit=100) == frame(stream, limit=100)


@given(bodies=st.lists(st.binary(max_size=50)))
def test_any_bytes_pass_as_bodies(bodies: list[bytes]) -> None:
    assert frame(b"".join(map(message, bodies))) == bodies


def test_the_name_is_read_in_any_case_and_other_headers_are_ignored() -> None:
    assert frame(b"Content-Type: a; b=c\r\nCONTENT-length:  2 \r\nX-Other:\r\n\r\n{}") == [b"{}"]


def test_text_that_looks_like_a_header_inside_a_body_stays_in_it() -> None:
    body = json.dumps({"text": "}Content-Length: 5\r\n\r\nhello"}).encode()

    assert frame(message(body)) == [body]


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: x",
        b"Content-Length: -1",
        b"Content-Length: +5",
        b"Content-Length: 5, 5",
        b"Content-Length: 0x10",
        b"Content-Length:",
        b"Content-Length : 5",
        b"Content-Length: " + b"9" * 19,
        b"Content-Length: \xd9\xa5",
        b"Content-Type: json",
        b"no colon",
        b" Content-Length: 5",
    ],
)
def test_a_bad_header_is_one_error_and_the_next_message_arrives(header: bytes) -> None:
    glued = header + b'\r\n\r\n{"lost":1}' + message(b"{}") + message(b"[]")

    assert frame(glued) == [BadHeader(header), b"{}", b"[]"]


def test_noise_before_a_header_costs_nothing_but_itself() -> None:
    assert frame(b"Migrating database...\n" + message(b"{}")) == [
        BadHeader(b"Migrating database...\nContent-Length: 2"),
        b"{}",
    ]


def test_two_lengths_in_one_header_are_an_error() -> None:
    found = frame(b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ")

    assert found[0] == BadHeader(b"Content-Length: 2\r\nContent-Length: 3")


def test_a_resynchronised_header_is_never_the_tail_of_another_name() -> None:
    assert frame(b"bad\r\n\r\nX-Content-Length: 2\r\n\r\n{}")[1:] == [
        Unfinished(None, 32, b"bad\r\n\r\nX-Content-Length: 2\r\n\r\n{}")
    ]


def test_a_header_without_an_end_is_bounded_and_the_end_of_the_stream_tells_that_none_came() -> None:
    framer = ContentLengthFramer()
    found = [part for _ in range(100) for part in framer.feed(b"n" * 4096)]

    assert found == [BadHeader(b"n" * 512)]
    assert framer.close() == [Unfinished(None, 100 * 4096, b"n" * 512)]
    assert framer.close() == []


def test_a_body_past_the_limit_is_skipped_alone_and_reported_with_its_length() -> None:
    body = b"x" * (3 * MIB)
    stream = message(b"{}") + message(body) + message(b"[]")
    pieces = [stream[at : at + 65536] for at in range(0, len(stream), 65536)]

    assert frame(*pieces) == [b"{}", Oversized(3 * MIB, b"x" * 512), b"[]"]


def test_an_announced_length_allocates_nothing() -> None:
    assert frame(b"Content-Length: 999999999999999999\r\n\r\nab") == [Unfinished(999999999999999999, 2, b"ab")]


def test_a_body_cut_by_the_end_of_the_stream_is_never_a_message() -> None:
    assert frame(message(b'{"a":1}')[:-1]) == [Unfinished(7, 6, b'{"a":1')]
    assert frame(b"Content-Le") == [Unfinished(None, 10, b"Content-Le")]
    assert frame() == []


def test_a_12_mib_body_in_4_kib_pieces_arrives_whole() -> None:
    body = b"x" * (12 * MIB)
    stream = message(body) + message(b"{}")
    pieces = [stream[at : at + 4096] for at in range(0, len(stream), 4096)]

    assert frame(*pieces, limit=64 * MIB) == [body, b"{}"]
