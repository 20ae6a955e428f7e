"""Messages framed by a `Content-Length` header: bytes in, bodies out.

A header block is lines of `Name: value`, ended by an empty line, CR LF throughout. Exactly one of them
must be Content-Length, in any case; the others are ignored. A body over the limit is skipped and reported
with its length.

A block that breaks these rules, or does not end within `MAX_HEADER` bytes, is one `BadHeader`. Everything
is then dropped up to the next bytes that are a whole Content-Length line. JSON cannot hold those by
accident or by design: a raw CR LF is illegal inside its strings. If none comes, the end of the stream
says so with `Unfinished`.

Each state looks at no more bytes than it needs and keeps no more than a body or a header may have, so
nothing grows and nothing loops, and the answer does not depend on how the stream was cut.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias, assert_never

from interlock.framing.lines import DEFAULT_LIMIT, HEAD, Oversized

MAX_HEADER = 8 * 1024

_END = b"\r\n\r\n"
_NAME = b"content-length"
# The byte before it must be in sight, so that neither a cut nor the bad header itself can pass for a good one.
_HEADER_LINE = re.compile(rb"(?<=[^\w \t-])content-length:[ \t]{0,8}[0-9]{1,18}[ \t]{0,8}\r\n", re.IGNORECASE)
_HEADER_LINE_MAX = 64


@dataclass(frozen=True, slots=True)
class BadHeader:
    """A header that cannot be read, by its first 512 bytes; bytes are dropped up to the next good one."""

    head: bytes


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The stream ended inside a message, or before a good header came after a bad one.

    `expected` is the announced length in bytes, None where no header stood; `received` is how much came
    of it.
    """

    expected: int | None
    received: int
    head: bytes


Frame: TypeAlias = bytes | Oversized | BadHeader | Unfinished


class _State(Enum):
    HEADER = auto()
    BODY = auto()
    SKIP = auto()
    LOST = auto()


class ContentLengthFramer:
    """Cuts a byte stream by its Content-Length headers; a body of more than `limit` bytes is `Oversized`."""

    __slots__ = ("_buffer", "_expected", "_head", "_limit", "_received", "_state")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._state = _State.HEADER
        self._expected = 0
        self._received = 0
        self._head = b""

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next chunk of any size and return the messages that it completes, oldest first."""
        self._buffer += data
        frames: list[Frame] = []
        while self._advance(frames):
            pass
        return frames

    def close(self) -> list[Frame]:
        """Return what the end of the stream leaves unfinished, if there is anything."""
        held = bytes(self._buffer)
        state, expected, received, head = self._state, self._expected, self._received, self._head
        self._buffer = bytearray()
        self._enter(_State.HEADER)
        match state:
            case _State.HEADER:
                return [Unfinished(None, len(held), held[:HEAD])] if held else []
            case _State.BODY:
                return [Unfinished(expected, len(held), held[:HEAD])]
            case _State.SKIP:
                return [Unfinished(expected, received, head)]
            case _State.LOST:
                return [Unfinished(None, received + len(held), (head + held)[:HEAD])]
        assert_never(state)

    def _advance(self, frames: list[Frame]) -> bool:
        """Do one step with what is held; False when more bytes are needed."""
        match self._state:
            case _State.HEADER:
                return self._header(frames)
            case _State.BODY:
                return self._body(frames)
            case _State.SKIP:
                return self._skip(frames)
            case _State.LOST:
                return self._search()
        assert_never(self._state)

    def _enter(self, state: _State, expected: int = 0) -> None:
        self._state = state
        self._expected = expected
        self._received = 0
        self._head = b""

    def _header(self, frames: list[Frame]) -> bool:
        end = self._buffer.find(_END, 0, MAX_HEADER)
        if end < 0 and len(self._buffer) < MAX_HEADER:
            return False
        length = _announced(bytes(self._buffer[:end])) if end >= 0 else None
        if length is None:
            frames.append(BadHeader(bytes(self._buffer[: min(HEAD, end if end >= 0 else HEAD)])))
            self._enter(_State.LOST)
            return True
        del self._buffer[: end + len(_END)]
        self._enter(_State.BODY if length <= self._limit else _State.SKIP, length)
        return True

    def _body(self, frames: list[Frame]) -> bool:
        if len(self._buffer) < self._expected:
            return False
        frames.append(bytes(self._buffer[: self._expected]))
        del self._buffer[: self._expected]
        self._enter(_State.HEADER)
        return True

    def _skip(self, frames: list[Frame]) -> bool:
        self._drop(min(len(self._buffer), self._expected - self._received))
        if self._received < self._expected:
            return False
        frames.append(Oversized(self._expected, self._head))
        self._enter(_State.HEADER)
        return True

    def _search(self) -> bool:
        found = _HEADER_LINE.search(self._buffer)
        if found is None:
            self._drop(max(0, len(self._buffer) - _HEADER_LINE_MAX))
            return False
        start = found.start()
        # The match holds an export of the buffer, which then could not shrink.
        del found
        del self._buffer[:start]
        self._enter(_State.HEADER)
        return True

    def _drop(self, count: int) -> None:
        self._head += bytes(self._buffer[: min(count, HEAD - len(self._head))])
        self._received += count
        del self._buffer[:count]


def _announced(block: bytes) -> int | None:
    """Return the length that a header block announces, None if it is not a good block."""
    lengths: list[bytes] = []
    for line in block.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if not colon or not name or not name.isascii() or any(byte <= 0x20 for byte in name):
            return None
        if name.lower() == _NAME:
            lengths.append(value.strip(b" \t"))
    if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 18:
        return None
    return int(lengths[0])
