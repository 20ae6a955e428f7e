"""What is known of the agents of this machine without running any of them on a prompt.

A program is asked for nothing but its version, by `--version`, under a home folder of its own that is empty: no login
is read, no configuration takes part, and an agent that makes one makes it there.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from interlock.adapter import Adapter, VersionRange
from interlock.capabilities import EVERY_KIND, Capabilities
from interlock.engine.host import find_binary, survey
from interlock.engine.process import GuardianLost, Process, StreamClosed, spawn
from interlock.engine.registry import find_adapter
from interlock.errors import ConfigurationError
from interlock.request import Request
from interlock.tools import ToolKind

__all__ = ["DEAD_END", "AgentFacts", "Standing", "Version", "abilities", "dead_ends", "facts_of", "login_of"]

WITHIN = 10.0
"""Seconds that a program has to tell its version."""
LONGEST = 4096
DEAD_END = "http://127.0.0.1:9"
"""Nothing listens there: what would leave the machine goes nowhere."""
Standing = Literal["tested", "older", "newer", "unknown"]

_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_SECRET = re.compile(r"KEY|TOKEN")


@dataclass(frozen=True, slots=True)
class Version:
    """What a program says of its version; `problem` says why it told none."""

    number: str = ""
    standing: Standing = "unknown"
    problem: str = ""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """One installed adapter, and its agent on this machine."""

    name: str
    title: str
    tested: str
    install_hint: str
    path: str = ""
    """Empty where the program was not found."""
    version: Version = Version()
    login: tuple[str, ...] = ()
    """Where credentials were found; whether they are good is not asked."""
    transports: tuple[Capabilities, ...] = ()
    problem: str = ""
    """Why the adapter itself cannot be used."""


async def facts_of(names: Sequence[str]) -> list[AgentFacts]:
    """The facts of these adapters, in order."""
    found: dict[str, AgentFacts] = {}

    async def look(name: str) -> None:
        found[name] = await _facts(name)

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(look, name)
    return [found[name] for name in names]


async def _facts(name: str) -> AgentFacts:
    try:
        adapter = find_adapter(name)
        request = Request(agent=name, prompt="-")
        login = login_of(adapter, request)
    except ConfigurationError as error:
        return AgentFacts(name, name, "", "", problem=str(error))
    path = find_binary(adapter, request)
    return AgentFacts(
        name=name,
        title=adapter.title,
        tested=tested(adapter.versions),
        install_hint=adapter.install_hint,
        path=path,
        version=await version_of(adapter, path) if path else Version(),
        login=login,
        transports=tuple(transport.capabilities for transport in adapter.transports),
    )


def tested(versions: VersionRange) -> str:
    """The tested range in words."""
    return versions.oldest if versions.oldest == versions.newest else f"{versions.oldest} to {versions.newest}"


# ---- Version --------------------------------------------------------------------------------------------------------


async def version_of(adapter: Adapter, path: str) -> Version:
    """What `PATH --version` says, in bounded time; raises nothing."""
    with tempfile.TemporaryDirectory(prefix="interlock-version-") as home:
        try:
            process = await spawn([path, "--version"], cwd=home, env=_environment(adapter, home))
        except (OSError, ValueError, GuardianLost) as error:
            return Version(problem=f"it cannot be started: {error}")
        said = await _first_words(process)
    match = _NUMBERS.search(said or "")
    if match is not None:
        return Version(match[0], standing(match[0], adapter.versions))
    if said is None:
        return Version(problem=f"`--version` had not ended after {WITHIN:g} s")
    return Version(problem=f"`--version` says no version: {said.strip()[:100] or 'nothing'}")


def _environment(adapter: Adapter, home: str) -> dict[str, str]:
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home, **dead_ends()}
    return env | ({adapter.login_variable: home} if adapter.login_variable else {})


def dead_ends() -> dict[str, str]:
    """Variables by which nothing leaves this machine, as far as a program asks them; ours on loopback are reached."""
    loopback = "127.0.0.1,localhost,::1"
    dead = dict.fromkeys((*_PROXIES, *map(str.lower, _PROXIES)), DEAD_END)
    return {**dead, "NO_PROXY": loopback, "no_proxy": loopback}


async def _first_words(process: Process) -> str | None:
    """The beginning of stdout; None if the program took too long. Nothing of it is left afterwards."""
    said = b""
    ended = False
    try:
        process.stdin.send_eof()
        with anyio.move_on_after(WITHIN):
            while len(said) < LONGEST and (data := await process.stdout.receive(LONGEST)):
                said += data
            ended = True
    except StreamClosed:
        ended = True
    finally:
        await process.kill_tree()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
    return said.decode("utf-8", "replace") if ended or said else None


def standing(version: str, versions: VersionRange) -> Standing:
    """Where a version stands to the tested range."""
    found, oldest, newest = (_parts(text) for text in (version, versions.oldest, versions.newest))
    if not (found and oldest and newest):
        return "unknown"
    if found < oldest:
        return "older"
    return "newer" if found > newest else "tested"


def _parts(version: str) -> tuple[int, ...]:
    match = _NUMBERS.search(version)
    return tuple(map(int, match.groups())) if match else ()


# ---- Login ----------------------------------------------------------------------------------------------------------


def login_of(adapter: Adapter, request: Request) -> tuple[str, ...]:
    """Where credentials are: files of the login, and variables by name."""
    host = survey(adapter, request)
    files = [f"credentials file {host.login_folder}/{name}" for name in sorted(host.login_files)]
    keys = [name for name in adapter.key_variables if _SECRET.search(name) and host.environ.get(name)]
    return (*files, *keys)


def no_login(adapter_title: str, keys: Sequence[str]) -> str:
    """What is said where nothing was found."""
    hidden = "; a login in the keychain is not seen" if sys.platform == "darwin" else ""
    return f"none found: no credentials file of {adapter_title}, and none of {', '.join(keys)} is set{hidden}"


def key_names(adapter: Adapter) -> tuple[str, ...]:
    """The variables that carry keys, of all that the adapter lets through."""
    return tuple(name for name in adapter.key_variables if _SECRET.search(name))


def not_executable(adapter: Adapter, binary: str | None) -> str:
    """A file that would be the agent's program if it could be executed; empty if there is none."""
    if binary is not None and "/" in binary:
        places = [Path(binary).expanduser().absolute()]
    else:
        folders = os.environ.get("PATH", "").split(os.pathsep)
        names = (binary,) if binary is not None else adapter.programs
        places = [Path(folder) / name for folder in folders if folder for name in names]
    return next((str(place) for place in places if place.is_file() and not os.access(place, os.X_OK)), "")


# ---- Abilities ------------------------------------------------------------------------------------------------------

_EXTRAS: Sequence[tuple[str, Callable[[Capabilities], object]]] = (
    ("images", lambda can: can.images),
    ("output schema", lambda can: can.output_schema),
    ("plan mode", lambda can: can.plan_mode),
    ("instructions", lambda can: can.instructions),
    ("further directories", lambda can: can.add_dirs),
    ("MCP servers in process", lambda can: can.in_process_servers),
    ("messages mid-turn", lambda can: can.steer),
    ("interrupt", lambda can: can.interrupt),
    ("own configuration of the user", lambda can: can.user_config),
)


def abilities(can: Capabilities) -> Iterator[tuple[str, str]]:
    """What a transport can do, in rows of a name and words."""
    at_once = "yes, several at once" if can.asks_in_parallel else "yes, one by one"
    yield "asks", at_once if can.asks else "no"
    yield "questions", _yes(can.questions)
    yield "sees before", _sight(can.sees_before)
    yield "sees after", _sight(can.sees_after)
    yield "denies", _kinds(can.deny)
    yield "rewrites", _kinds(can.modify)
    yield "replaces", _kinds(can.replace)
    yield "replaces errors", _kinds(can.replace_failed)
    yield "backstop", ", ".join(can.backstops)
    yield "otherwise", ", ".join(sorted(can.otherwise))
    yield "sandbox", _yes(can.confines)
    yield "tamperable", _yes(can.tamperable)
    yield "sessions", _listed(("own id", can.new_session_id), ("resume", can.resume), ("fork", can.fork))
    yield "turns", "several in one process" if can.several_turns else "one"
    yield "bounds", _listed(("turns", can.max_turns), ("USD", can.budget_usd), ("tokens", can.budget_tokens))
    yield "MCP servers", ", ".join(sorted(can.mcp_servers)) or "none"
    yield "effort", ", ".join(can.efforts) or "none"
    yield "takes", _listed(*((name, has(can)) for name, has in _EXTRAS))
    yield "open holes", "; ".join(hole.what for hole in can.holes if not hole.closed_by) or "none known"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _sight(value: str) -> str:
    return {"all": "all calls", "asked": "asked calls only"}.get(value, "none")


def _kinds(kinds: frozenset[ToolKind]) -> str:
    if kinds == EVERY_KIND:
        return "all kinds"
    return ", ".join(sorted(kinds)) or "none"


def _listed(*offers: tuple[str, object]) -> str:
    return ", ".join(name for name, offered in offers if offered) or "none"
