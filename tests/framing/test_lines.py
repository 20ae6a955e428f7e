"""Lines come out whole, once and alike, however the stream was cut."""

import json
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.framing.lines import HEAD, LineFramer, Oversized

MIB = 1024 * 1024
SEPARATORS = "\u2028\u2029\u0085\v\f"

streams = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"\x00", b"\xff", "\u2028é😀".encode(), b"x" * 30]))
cuts = st.lists(st.integers(min_value=1, max_value=40), max_size=30)


def frame(framer: LineFramer, *chunks: bytes) -> list[bytes | Oversized]:
    found = [line for chunk in chunks for line in framer.feed(chunk)]
    return found + framer.close()


def chunked(stream: bytes, sizes: list[int]) -> list[bytes]:
    chunks: list[bytes] = []
    for size in sizes:
        chunks.append(stream[:size])
        stream = stream[size:]
    return [*chunks, stream]


def reference(stream: bytes, limit: int) -> list[bytes | Oversized]:
    *lines, rest = stream.split(b"\n")
    return [
        Oversized(len(line), line[:HEAD]) if len(line) > limit else line.removesuffix(b"\r")
        for line in ([*lines, rest] if rest else lines)
    ]


@given(stream=streams.map(b"".join), sizes=cuts, limit=st.sampled_from([0, 1, 5, 31, 10_000]))
@example(stream=b"abc\r\n", sizes=[4], limit=10_000)
@example(stream=b"a\r\r\n", sizes=[3], limit=10_000)
@example(stream=b"12345\r\n", sizes=[5, 1], limit=5)
def test_every_chunking_gives_the_same_lines(stream: bytes, sizes: list[int], limit: int) -> None:
    assert frame(LineFramer(limit), *chunked(stream, sizes)) == reference(stream, limit)


@given(text=st.text(), sizes=cuts)
@example(text=SEPARATORS, sizes=[])
def test_json_text_survives_whatever_it_holds(text: str, sizes: list[int]) -> None:
    line = json.dumps({"text": text}, ensure_ascii=False).encode("utf-8", "surrogatepass")

    assert frame(LineFramer(), *chunked(line + b"\n", sizes)) == [line]


def test_only_0x0a_ends_a_line() -> None:
    line = ("{" + SEPARATORS + "\x1c\x1d\x1e\r}").encode()

    assert frame(LineFramer(), line + b"\n" + line) == [line, line]


def test_a_carriage_return_before_the_newline_is_dropped_even_when_cut() -> None:
    assert frame(LineFramer(), b"a\r", b"\nb\r\n", b"c\r") == [b"a", b"b", b"c"]


def test_blank_lines_come_out_empty() -> None:
    assert frame(LineFramer(), b"\n\r\n", b"\n") == [b"", b"", b""]


def test_an_emoji_cut_between_its_bytes_is_joined() -> None:
    line = "😀".encode()

    assert frame(LineFramer(), *[bytes([byte]) for byte in line], b"\n") == [line]


def test_an_unterminated_rest_is_the_last_line_and_the_framer_is_empty_after_it() -> None:
    framer = LineFramer()

    assert framer.feed(b"one\ntwo") == [b"one"]
    assert framer.close() == [b"two"]
    assert framer.close() == []


def test_an_ended_stream_has_no_last_line() -> None:
    assert frame(LineFramer(), b"one\n") == [b"one"]


def test_noise_is_never_joined_with_the_next_line() -> None:
    noise = [
        "🤖 hello".encode(),
        b"[x] sending {",
        b"\x1b[31mred\x1b[0m",
        b"\x00\x00",
        b"\xbb",
        b'garbage{"type":"a"}',
    ]
    stream = b"".join(line + b'\n{"type":"ok"}\n' for line in noise)

    assert frame(LineFramer(), stream) == [item for line in noise for item in (line, b'{"type":"ok"}')]


def test_a_12_mib_line_in_64_kib_pieces_arrives_whole() -> None:
    line = b'{"image":"' + b"x" * (12 * MIB) + b'"}'
    stream = line + b"\n" + b"y" * 100 + b"\nend\n"
    pieces = [stream[at : at + 65536] for at in range(0, len(stream), 65536)]

    assert frame(LineFramer(), *pieces) == [line, b"y" * 100, b"end"]


@pytest.mark.parametrize("piece", [4096, 65536, 64 * MIB])
def test_past_the_limit_that_line_alone_is_reported_with_its_true_length(piece: int) -> None:
    line = b'{"image":"' + b"x" * (12 * MIB)
    stream = b"before\n" + line + b"\nafter\nend\n"
    pieces = [stream[at : at + piece] for at in range(0, len(stream), piece)]

    assert frame(LineFramer(MIB), *pieces) == [b"before", Oversized(len(line), line[:512]), b"after", b"end"]


def test_an_oversized_line_is_reported_at_the_end_of_the_stream_too() -> None:
    assert frame(LineFramer(4), b"12", b"345", b"678") == [Oversized(8, b"12345678")]


def test_a_line_of_exactly_the_limit_is_kept() -> None:
    assert frame(LineFramer(4), b"1234\n12345\n") == [b"1234", Oversized(5, b"12345")]


def test_memory_stays_bounded_while_an_oversized_line_passes() -> None:
    framer, piece = LineFramer(MIB), b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(1024):
            framer.feed(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert framer.feed(b"\n") == [Oversized(64 * MIB, b"x" * 512)]
    assert peak < 4 * MIB
