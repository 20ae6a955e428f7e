"""Reading an audit file back: record by record, with what cannot be read named and passed over; and what it sums up to.

Memory does not grow with the file: records are handed on one by one, and of durations only counts in narrow bands are
kept, so that a median or a 95th percentile is right within a hundredth.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from pydantic import ValidationError

from interlock.engine.rules import name_glob
from interlock.errors import ConfigurationError
from interlock.framing.json_objects import NotJson, parse_object
from interlock.framing.lines import LineFramer, Oversized
from interlock.hooks import AuditRecord

__all__ = ["BadLine", "Entry", "Filter", "Summary", "Tally", "read_audit"]

CHUNK = 1 << 18
LONGEST_LINE = 16 * 1024 * 1024
MOST_PARTICIPANTS = 1000
"""Names that are counted one by one; what comes after them is counted together."""
OTHERS = ("others", "")
_FIELDS = frozenset(AuditRecord.model_fields)


@dataclass(frozen=True, slots=True)
class Entry:
    """One record and the number of its line, from 1."""

    line: int
    record: AuditRecord


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no record. `torn`: the last one, which a writer was killed in the middle of, or still writes."""

    line: int
    problem: str
    torn: bool = False


def read_audit(path: str) -> Iterator[Entry | BadLine]:
    """The lines of an audit file, oldest first; raises `ConfigurationError` if it cannot be read at all."""
    framer, number = LineFramer(LONGEST_LINE), 0
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # as it was named
            while data := file.read(CHUNK):
                for line in framer.feed(data):
                    number += 1
                    if line:
                        yield _read(number, line)
    except OSError as error:
        raise ConfigurationError(os.fspath(path), f"it cannot be read: {error.strerror}") from error
    for line in framer.close():
        last = _read(number + 1, line)
        yield BadLine(last.line, last.problem, torn=True) if isinstance(last, BadLine) else last


def _read(number: int, line: bytes | Oversized) -> Entry | BadLine:
    if isinstance(line, Oversized):
        return BadLine(number, f"it is longer than {LONGEST_LINE} bytes")
    value = parse_object(line)
    if isinstance(value, NotJson):
        return BadLine(number, f"it is not one JSON object: {value.reason}")
    known = {name: given for name, given in value.items() if name in _FIELDS}
    try:
        return Entry(number, AuditRecord.model_validate(known, strict=True))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = cast("tuple[object, ...]", first["loc"])[0]
        return BadLine(number, f"`{place}`: {first['msg']}")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records are wanted; None: whichever."""

    run: str | None = None
    """A run's id, or its beginning or end."""
    tool: str | None = None
    """A glob over the native name."""
    decision: str | None = None
    participant: str | None = None
    since: float | None = None
    """Seconds since the epoch."""

    def wants(self, record: AuditRecord) -> bool:
        """Whether the record is one of them."""
        return (
            (self.run is None or record.run_id.startswith(self.run) or record.run_id.endswith(self.run))
            and (self.tool is None or name_glob(self.tool, fold=True).match(record.tool_name) is not None)
            and (self.decision is None or self.decision in _decisions(record))
            and (self.participant is None or record.participant == self.participant)
            and (self.since is None or record.time >= self.since)
        )


def _decisions(record: AuditRecord) -> tuple[str, ...]:
    return (record.decision, "broken") if record.broken else (record.decision,)


# ---- Sums -----------------------------------------------------------------------------------------------------------

_BAND = math.log(1.02)


@dataclass(slots=True)
class Tally:
    """What one participant, rule, policy or person decided; durations in seconds."""

    asked: int = 0
    allowed: int = 0
    denied: int = 0
    modified: int = 0
    replaced: int = 0
    broken: int = 0
    """Among those denied or allowed."""
    passed_on: int = 0
    """Left to a person or to the agent's own rules."""
    longest: float = 0.0
    _shortest: float = math.inf
    _bands: dict[int, int] = field(default_factory=dict[int, int])

    def add(self, record: AuditRecord) -> None:
        """Count one record."""
        self.asked += 1
        self.broken += record.broken
        match record.decision:
            case "allow" | "grant":
                self.allowed += 1
            case "deny":
                self.denied += 1
            case "modify":
                self.modified += 1
            case "replace":
                self.replaced += 1
            case _:
                self.passed_on += 1
        seconds = max(record.duration, 0.0)
        self.longest, self._shortest = max(self.longest, seconds), min(self._shortest, seconds)
        band = math.floor(math.log(max(seconds, 1e-9)) / _BAND)
        self._bands[band] = self._bands.get(band, 0) + 1

    def quantile(self, share: float) -> float | None:
        """The duration that this share of the records stayed within; None where none was measured."""
        if self.longest <= 0:
            return None
        wanted, seen = math.ceil(share * self.asked), 0
        for band in sorted(self._bands):
            seen += self._bands[band]
            if seen >= wanted:
                return min(max(math.exp((band + 0.5) * _BAND), self._shortest), self.longest)
        return self.longest


@dataclass(slots=True)
class Summary:
    """Tallies by participant and binding, in the order in which they first spoke."""

    records: int = 0
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict[tuple[str, str], Tally])

    def add(self, record: AuditRecord) -> None:
        """Count one record."""
        self.records += 1
        key: tuple[str, str] = (record.participant, record.binding)
        if key not in self.tallies and len(self.tallies) >= MOST_PARTICIPANTS:
            key = OTHERS
        self.tallies.setdefault(key, Tally()).add(record)
