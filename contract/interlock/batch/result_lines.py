"""`results.jsonl`: one line a counted run, synced before the journal counts it.

It is derived, and made anew where it does not fit. It is also the copy of an outcome that outlives a power failure, for
`outcome.json` is not synced; which of the two is believed, the digest in the journal decides.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from interlock.batch.journal import whole_lines
from interlock.batch.results import RunStatus

__all__ = ["ResultLines", "digest_of", "result_line"]


def digest_of(outcome: bytes) -> str:
    """What the journal says of an outcome."""
    return f"sha256:{hashlib.sha256(outcome).hexdigest()}"


def result_line(run: str, attempt: str | None, status: RunStatus, outcome: bytes) -> bytes:
    """The line of a counted run, whose outcome is given as JSON."""
    return _beginning(run, attempt, status) + outcome + b"}\n"


def _beginning(run: str, attempt: str | None, status: str) -> bytes:
    name = f'"{attempt}"' if attempt is not None else "null"
    return f'{{"run":"{run}","status":"{status}","attempt":{name},"outcome":'.encode()


class ResultLines:
    """The file, for reading: where the line of each run begins is learned when one is wanted, and no sooner."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "results.jsonl"
        self._begins: dict[bytes, int] = {}
        self._known = 0
        """Bytes whose lines are in `_begins`."""

    def fit(self, runs: Iterable[str]) -> bool:
        """Whether there is a line for each of these runs, in their order, and no other; raises OSError."""
        expected = (_naming(run) for run in runs)
        pairs = itertools.zip_longest(whole_lines(self._path), expected)
        return all(line is not None and head is not None and line.startswith(head) for line, head in pairs)

    def outcome(self, run: str, attempt: str, status: str, digest: str) -> bytes | None:
        """The outcome of a run as JSON, if it is here and has that digest."""
        line = b""
        with suppress(OSError):
            self._learn()
            if (begin := self._begins.get(_naming(run))) is not None:
                line = next(whole_lines(self._path, begin), b"")
        content = line.removeprefix(_beginning(run, attempt, status)).removesuffix(b"}")
        return content if digest_of(content) == digest else None

    def forget(self) -> None:
        """The file was made anew."""
        self._begins, self._known = {}, 0

    def _learn(self) -> None:
        for line in whole_lines(self._path, self._known):
            self._begins[line[: line.find(b",") + 1]] = self._known
            self._known += len(line) + 1


def _naming(run: str) -> bytes:
    return b'{"run":"%s",' % run.encode()
