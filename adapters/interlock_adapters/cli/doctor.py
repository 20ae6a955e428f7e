"""`interlock doctor`: can agents be run here, and if not, what is to be done?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import anyio

from interlock.engine.host import find_binary
from interlock.engine.registry import find_adapter, known_agents
from interlock.errors import ConfigurationError, InterlockError, UnknownAgent
from interlock.request import Request
from interlock_adapters.cli.checks import Check, problem
from interlock_adapters.cli.doctor_agent import agent
from interlock_adapters.cli.doctor_machine import machine
from interlock_adapters.cli.output import print_line
from interlock_adapters.cli.problems import COMPLETED, FAILED, USAGE, explain
from interlock_adapters.cli.rows import Row, print_rows

__all__ = ["Visit", "doctor", "print_checks"]

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@dataclass(frozen=True, slots=True)
class Visit:
    """What is to be looked at."""

    names: tuple[str, ...]
    """Empty: every installed adapter."""
    binary: str | None
    folder: Path
    """Where an agent would work; a real path."""


def doctor(visit: Visit, *, as_json: bool) -> int:
    """Print every check; returns the exit code."""
    if visit.binary is not None and len(visit.names) != 1:
        print_line("interlock: --binary is the program of one agent: name that one, as in: doctor claude --binary P", 2)
        return USAGE
    try:
        for name in visit.names:
            if name not in known_agents():
                raise UnknownAgent(name, known_agents())
        checks = anyio.run(partial(_examine, visit))
    except InterlockError as error:
        for line in explain(error):
            print_line(line, 2)
        return USAGE
    if as_json:
        sound = all(one.verdict != "problem" for one in checks)
        print_line(json.dumps({"ok": sound, "checks": [asdict(one) for one in checks]}))
    else:
        print_checks(checks)
    return FAILED if any(one.verdict == "problem" for one in checks) else COMPLETED


async def _examine(visit: Visit) -> list[Check]:
    """The machine, then agent by agent: handshakes side by side would slow each other down."""
    checks = await machine(visit.folder)
    names = visit.names or known_agents()
    if not visit.names and not any(map(_is_here, names)):
        checks.append(problem("agents", "none of the agents was found", "install one, or name it with --binary PATH"))
    for name in names:
        try:
            adapter = find_adapter(name)
        except ConfigurationError as error:
            checks.append(problem("adapter", str(error), "install its package anew, or remove it", name))
            continue
        checks += await agent(adapter, visit.binary, wanted=bool(visit.names))
    return checks


def _is_here(name: str) -> bool:
    try:
        return bool(find_binary(find_adapter(name), Request(agent=name, prompt="-")))
    except ConfigurationError:
        return False


def print_checks(checks: list[Check]) -> None:
    """Print them by agent, and their sum."""
    for owner in dict.fromkeys(one.agent for one in checks):
        ours = [one for one in checks if one.agent == owner]
        print_rows(
            owner or "this machine", [Row(one.verdict, tuple(_words(one)), _COLOURS[one.verdict]) for one in ours]
        )
    print_line(_sum(checks))


def _words(check: Check) -> Iterator[str]:
    yield f"{check.name}: {check.says}"
    if check.way_out:
        yield f"-> {check.way_out}"


def _sum(checks: list[Check]) -> str:
    counts = {verdict: sum(one.verdict == verdict for one in checks) for verdict in _COLOURS}
    problems, warnings = counts["problem"], counts["warning"]
    if not problems and not warnings:
        return "all is well"
    return f"{problems} problem{'' if problems == 1 else 's'}, {warnings} warning{'' if warnings == 1 else 's'}"
