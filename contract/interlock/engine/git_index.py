"""Which folders git would enter because its index says so: submodules, and folders that a sparse index leaves out.

Strategy: one pass over the entries (versions 2 to 4, gitformat-index of git 2.39) that keeps modes and names only.
Whatever could make git see other entries than this pass does (a name that does not fill its length, an extension that
gives other offsets to the threads that git loads an index with) is an error.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Entries", "entries"]

_HEADER = struct.Struct(">4sII")
_EXTENSION = struct.Struct(">4sI")
_EXTENDED, _LENGTH = 0x4000, 0x0FFF


@dataclass(frozen=True, slots=True)
class Entries:
    """Paths from the top of the work tree, as bytes; a split index holds them without a name."""

    submodules: list[bytes] = field(default_factory=list[bytes])
    left_out: list[bytes] = field(default_factory=list[bytes])
    """Folders that stand for all that is in them; git looks inside as soon as one exists on disk."""


def entries(data: bytes, hash_size: int | None) -> Entries:
    """What an index file names that git may enter; ValueError where that cannot be told with certainty."""
    if hash_size is None:
        raise ValueError("its object format is unknown")
    try:
        return _entries(data, hash_size)
    except (struct.error, IndexError) as error:
        raise ValueError("it is cut short") from error


def _entries(data: bytes, hash_size: int) -> Entries:
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("it is not of version 2, 3 or 4")
    found, starts, at, name = Entries(), list[tuple[int, int]](), _HEADER.size, b""
    fixed = struct.Struct(f">24xI12x{hash_size}xH")
    for _ in range(count):
        mode, flags = fixed.unpack_from(data, at)
        start = at + fixed.size + (2 if flags & _EXTENDED else 0)
        kept, start = _kept(data, start, len(name)) if version == 4 else (0, start)
        end = data.find(b"\0", start)
        name = name[:kept] + data[start:end]
        if end < 0 or min(len(name), _LENGTH) != flags & _LENGTH:
            raise ValueError("a name does not fill its length")
        match mode >> 12 & 0o17:
            case 0o16:
                found.submodules.append(name)
            case 0o04:
                found.left_out.append(name)
            case _:
                pass
        starts.append((at, kept))
        at = end + 1 if version == 4 else at + (end - at + 8 & ~7)
    _check_extensions(data, at, hash_size, starts)
    return found


def _kept(data: bytes, at: int, length: int) -> tuple[int, int]:
    """Version 4: how much of the name before stays, and where the rest of this one begins."""
    byte = data[at]
    stripped = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        stripped = (stripped + 1 << 7) + (byte & 0x7F)
        if stripped > length:
            break
    if stripped > length:
        raise ValueError("a name is cut by more than it has")
    return length - stripped, at + 1


def _check_extensions(data: bytes, end: int, hash_size: int, starts: list[tuple[int, int]]) -> None:
    """See that the extensions by which git loads an index in parallel lead to the same entries."""
    last = data[len(data) - 2 * hash_size - 12 :]
    if last.startswith(b"EOIE") and struct.unpack_from(">I", last, _EXTENSION.size)[0] != end:
        raise ValueError("its entries end elsewhere than it says")
    for signature, body in _extensions(data, end, hash_size):
        if signature == b"IEOT":
            _check_offsets(body, starts)


def _extensions(data: bytes, at: int, hash_size: int) -> Iterator[tuple[bytes, bytes]]:
    while at + _EXTENSION.size <= len(data) - hash_size:
        signature, size = _EXTENSION.unpack_from(data, at)
        at += _EXTENSION.size
        yield signature, data[at : at + size]
        at += size


def _check_offsets(table: bytes, starts: list[tuple[int, int]]) -> None:
    first = 0
    for offset, count in struct.iter_unpack(">II", table[4:]):
        if count == 0 or first + count > len(starts) or starts[first] != (offset, 0):
            raise ValueError("its table of offsets leads elsewhere")
        first += count
    if first != len(starts):
        raise ValueError("its table of offsets leaves entries out")
