"""`interlock agents`: which agents are here, in which version, logged in or not, and what each transport can do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import anyio

from interlock.engine.registry import find_adapter, known_agents
from interlock_adapters.cli.agent_facts import AgentFacts, Version, abilities, facts_of, key_names, no_login
from interlock_adapters.cli.output import print_line
from interlock_adapters.cli.problems import COMPLETED
from interlock_adapters.cli.rows import Row, print_rows

__all__ = ["agents", "version_words"]

_STANDINGS = {
    "tested": "tested",
    "older": "older than what was tested: refused",
    "newer": "newer than what was tested: a run warns",
    "unknown": "unknown: refused",
}


def agents(*, as_json: bool) -> int:
    """Print a table of all installed adapters; 0 whatever was found."""
    found = anyio.run(facts_of, known_agents())
    if as_json:
        print_line(json.dumps({"agents": [_as_json(one) for one in found]}))
        return COMPLETED
    if not found:
        print_line("no adapters are installed")
    for one in found:
        print_rows(f"{one.name} ({one.title})", [Row(name, (text,)) for name, text in _rows(one)])
        for can in one.transports:
            print_rows(f"{one.name} over {can.transport}", [Row(name, (text,)) for name, text in abilities(can)])
    return COMPLETED


def _rows(facts: AgentFacts) -> Iterator[tuple[str, str]]:
    if facts.problem:
        yield "problem", facts.problem
        return
    yield "program", facts.path or f"not found; to install it: {facts.install_hint}"
    if facts.path:
        yield "version", version_words(facts.version)
    yield "tested", facts.tested
    yield "login", "; ".join(facts.login) or _no_login(facts)


def _no_login(facts: AgentFacts) -> str:
    return no_login(facts.title, key_names(find_adapter(facts.name)))


def version_words(version: Version) -> str:
    """The version and where it stands, or why it is not known."""
    return version.problem or f"{version.number} ({_STANDINGS[version.standing]})"


def _as_json(facts: AgentFacts) -> dict[str, Any]:
    transports: Sequence[Any] = [can.model_dump(mode="json") for can in facts.transports]
    plain = asdict(facts) | {"transports": transports, "found": bool(facts.path)}
    return plain | {"login": list(facts.login), "logged_in": bool(facts.login)}
