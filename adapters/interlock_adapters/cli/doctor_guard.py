"""`interlock doctor --guard`: do the promises of the guard hold with the very program that is installed?

The program plays a scripted session as a run would start it, in folders that are thrown away, with a model on loopback
in place of a service and with proxies that lead nowhere. What cannot be shown counts as broken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import anyio

from interlock.adapter import Adapter, Transport
from interlock.engine.host import find_binary
from interlock.engine.registry import find_adapter
from interlock.errors import InterlockError
from interlock.request import Request
from interlock_adapters.cli.agent_facts import Version, dead_ends, tested, version_of
from interlock_adapters.cli.doctor_agent import thrown_away
from interlock_adapters.cli.options import UsageProblem
from interlock_adapters.cli.output import print_line, safe_line
from interlock_adapters.cli.problems import COMPLETED, INTERRUPTED, UNGUARDED, USAGE, explain
from interlock_adapters.cli.rows import Row, print_rows
from interlock_fixtures.proving import Dialect, Finding, Place, dialects_of, prove

__all__ = ["Session", "doctor_guard"]

SHOWN = 8
"""How many broken promises the last line names."""
_COLOURS = {"holds": "green", "broken": "red", "not claimed": "cyan"}


@dataclass(frozen=True, slots=True)
class Session:
    """What is to be proven."""

    agent: str | None
    others: tuple[str, ...]
    """Agents that were named beside it, which is a mistake."""
    binary: str | None
    transport: str | None


@dataclass(frozen=True, slots=True)
class _Subject:
    """The program, and the ways in which it is driven."""

    adapter: Adapter
    path: str
    version: Version
    transports: tuple[Transport, ...]
    dialects: tuple[Dialect, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """The findings of one transport, for models of one style."""

    transport: str
    style: str
    findings: Sequence[Finding]

    @property
    def broken(self) -> list[str]:
        """The promises that do not hold."""
        return [one.promise for one in self.findings if one.verdict == "broken"]


def doctor_guard(session: Session, *, as_json: bool) -> int:
    """Print a line for every promise; returns the exit code."""
    try:
        subject, parts = anyio.run(partial(_examine, session))
    except (UsageProblem, InterlockError) as error:
        for line in explain(error):
            print_line(line, 2)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    if as_json:
        print_line(json.dumps(_as_json(subject, parts)))
    else:
        _print(subject, parts)
    return UNGUARDED if any(part.broken for part in parts) else COMPLETED


# ---- What is to be proven --------------------------------------------------------------------------------------------


async def _subject(session: Session) -> _Subject:
    if session.agent is None:
        raise UsageProblem("--transport goes with --guard AGENT")
    if session.others:
        raise UsageProblem(f"--guard proves one agent, {session.agent}: leave out {' '.join(session.others)}")
    adapter = find_adapter(session.agent)
    dialects = dialects_of(adapter.name)
    if not dialects:
        raise UsageProblem(f"no scripted session is known for {adapter.title}, so its guard cannot be proven here")
    transports = _transports(adapter, session.transport)
    path = find_binary(adapter, Request(agent=adapter.name, prompt="-", binary=session.binary))
    if not path:
        sought = session.binary or ", ".join(adapter.programs)
        raise UsageProblem(f"not found: {sought}; {adapter.install_hint}, or name it with --binary PATH")
    version = await version_of(adapter, path)
    if version.standing in {"older", "unknown"}:
        said = version.problem or f"{version.number} is older than what was tested and is refused"
        raise UsageProblem(f"{path}: {said}; tested: {tested(adapter.versions)}")
    return _Subject(adapter, path, version, transports, dialects)


def _transports(adapter: Adapter, wanted: str | None) -> tuple[Transport, ...]:
    chosen = tuple(one for one in adapter.transports if wanted in {None, one.name})
    if not chosen:
        known = ", ".join(one.name for one in adapter.transports)
        raise UsageProblem(f"{adapter.title} has no transport {wanted!r}, only {known}")
    return chosen


async def _examine(session: Session) -> tuple[_Subject, list[_Part]]:
    """One session after the other: side by side they would slow each other down."""
    subject = await _subject(session)
    parts: list[_Part] = []
    with thrown_away() as folder:
        for transport, dialect in _ways(subject):
            place = Place(subject.adapter, subject.path, folder, dead_ends())
            style = dialect.style if transport.capabilities.sees_before == "all" else ""
            parts.append(_Part(transport.name, style, await prove(place, transport, dialect)))
    return subject, parts


def _ways(subject: _Subject) -> Iterator[tuple[Transport, Dialect]]:
    """Styles of models make no difference to a transport that shows nothing."""
    for transport in subject.transports:
        sees = transport.capabilities.sees_before == "all"
        yield from ((transport, one) for one in (subject.dialects if sees else subject.dialects[:1]))


# ---- What is said ----------------------------------------------------------------------------------------------------


def _print(subject: _Subject, parts: Sequence[_Part]) -> None:
    print_line(safe_line(f"{subject.adapter.title} {_version(subject)}: {subject.path}"))
    for part in parts:
        title = f"{subject.adapter.name} over {part.transport}" + (f", {part.style} models" if part.style else "")
        print_rows(title, [Row(one.verdict, tuple(_words(one)), _COLOURS[one.verdict]) for one in part.findings])
    print_line(safe_line(_sum(parts)))


def _version(subject: _Subject) -> str:
    if subject.version.standing == "newer":
        return f"{subject.version.number} (newer than what was tested: {tested(subject.adapter.versions)})"
    return subject.version.number


def _words(finding: Finding) -> Iterator[str]:
    yield f"{finding.promise}: {finding.says}"
    if finding.seen:
        yield f"-> {finding.seen}"


def _sum(parts: Sequence[_Part]) -> str:
    broken = [f"{promise} ({part.transport})" for part in parts for promise in part.broken]
    if broken:
        more = f" and {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
        return f"broken: {', '.join(broken[:SHOWN])}{more}"
    held = sum(one.verdict == "holds" for part in parts for one in part.findings)
    return f"every promise that is claimed holds: {held} were shown"


def _as_json(subject: _Subject, parts: Sequence[_Part]) -> dict[str, object]:
    findings = [
        {"transport": part.transport, "style": part.style, **asdict(one)} for part in parts for one in part.findings
    ]
    return {
        "agent": subject.adapter.name,
        "path": subject.path,
        "version": subject.version.number,
        "standing": subject.version.standing,
        "ok": not any(part.broken for part in parts),
        "promises": findings,
    }
