"""Newline-delimited messages: bytes in, whole lines out.

A line ends at byte 0x0A and nowhere else: U+2028, U+0085, VT and FF are ordinary characters inside JSON
strings, and a lone carriage return is data. One carriage return right before the newline is dropped.
Characters are never decoded here, so a multi-byte character cut by a chunk border is joined again before
anybody looks at it.

Blank lines come out as `b""`: what they mean is for the codec to say.

A line over the limit is dropped alone. Of it only the first `HEAD` bytes and its length are kept, so
memory stays bounded however long it grows, and the lines after it arrive as if nothing had happened.
"""

from dataclasses import dataclass

HEAD = 512
DEFAULT_LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Oversized:
    """A dropped message over the limit: its true length in bytes without the newline, and its first 512."""

    length: int
    head: bytes


class LineFramer:
    """Cuts a byte stream at 0x0A; a line of over `limit` bytes, carriage return counted, is `Oversized`."""

    __slots__ = ("_buffer", "_length", "_limit")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._length = 0

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Take the next chunk of any size and return the lines that it completes, oldest first."""
        if b"\n" not in data:
            self._hold(data)
            return []
        lines = data.split(b"\n")
        rest = lines.pop()
        done: list[bytes | Oversized] = []
        if self._length:
            self._hold(lines[0])
            done.append(self._take())
            del lines[0]
        if b"\r" in data or len(data) > self._limit:
            done += [self._line(line) for line in lines]
        else:
            done += lines
        self._hold(rest)
        return done

    def close(self) -> list[bytes | Oversized]:
        """Return the unterminated rest at the end of the stream as its last line, if there is one."""
        return [self._take()] if self._length else []

    def _hold(self, data: bytes) -> None:
        self._length += len(data)
        if self._length <= self._limit:
            self._buffer += data
            return
        del self._buffer[HEAD:]
        self._buffer += data[: HEAD - len(self._buffer)]

    def _take(self) -> bytes | Oversized:
        held, length = bytes(self._buffer), self._length
        self._buffer = bytearray()
        self._length = 0
        return Oversized(length, held) if length > self._limit else held.removesuffix(b"\r")

    def _line(self, line: bytes) -> bytes | Oversized:
        if len(line) > self._limit:
            return Oversized(len(line), line[:HEAD])
        return line.removesuffix(b"\r")
