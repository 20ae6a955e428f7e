"""The doctor on one agent: its program, version and login, and a handshake without a prompt.

The handshake starts the real program as a run would, in a state folder and a workspace that are thrown away, with a key
that opens nothing and a service where nobody listens: it shows that our hooks are confirmed and that no settings but
ours are in force, and nothing leaves this machine.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from interlock.adapter import Adapter
from interlock.engine.host import find_binary
from interlock.engine.probe import ProbeResult, probe
from interlock.errors import ConfigurationError, InterlockError, Unsupported
from interlock.outcome import Reason
from interlock.request import Request
from interlock_adapters.cli.agent_facts import (
    DEAD_END,
    Version,
    dead_ends,
    key_names,
    login_of,
    no_login,
    not_executable,
    tested,
    version_of,
)
from interlock_adapters.cli.checks import Check, ok, problem, warning

__all__ = ["agent", "login_check", "thrown_away"]

START_UP, TOTAL = 30.0, 60.0
"""Seconds for the handshake, and for it and the end of the process."""


async def agent(adapter: Adapter, binary: str | None, *, wanted: bool) -> list[Check]:
    """All checks of one agent, in order; `wanted`: somebody asked for this one, so it must be there."""
    request = Request(agent=adapter.name, prompt="-", binary=binary)
    path = find_binary(adapter, request)
    if not path:
        return [_missing(adapter, binary, wanted=wanted)]
    version = await version_of(adapter, path)
    checks = [ok("program", path, adapter.name), _version(adapter, version), login_check(adapter, request)]
    if not version.problem.startswith("it cannot be started"):
        checks.append(await _handshake(adapter, path))
    return checks


def _missing(adapter: Adapter, binary: str | None, *, wanted: bool) -> Check:
    if file := not_executable(adapter, binary):
        return problem("program", f"{file} is not executable", f"chmod +x {file}", adapter.name)
    sought = binary or ", ".join(adapter.programs)
    say = problem if wanted else warning
    return say(
        "program", f"not found: {sought}", f"{adapter.install_hint}, or name it with --binary PATH", adapter.name
    )


def _version(adapter: Adapter, version: Version) -> Check:
    range_ = tested(adapter.versions)
    way_out = f"install a version that was tested ({range_}): {adapter.install_hint}"
    if version.problem:
        return problem("version", version.problem, way_out, adapter.name)
    said = f"{version.number}; tested: {range_}"
    match version.standing:
        case "tested":
            return ok("version", said, adapter.name)
        case "newer":
            return warning("version", f"{said}; newer ones run with a warning", way_out, adapter.name)
        case "older" | "unknown":
            return problem("version", f"{said}; older ones are refused", way_out, adapter.name)


def login_check(adapter: Adapter, request: Request) -> Check:
    """Only what is there is looked at; nobody is asked whether it is good."""
    found = login_of(adapter, request)
    if found:
        return ok("login", "; ".join(found), adapter.name)
    keys = key_names(adapter)
    way_out = f"log in with {adapter.programs[0]} once, or set {keys[0]}" if keys else f"log in with {adapter.title}"
    return warning("login", no_login(adapter.title, keys), way_out, adapter.name)


# ---- The handshake --------------------------------------------------------------------------------------------------


async def _handshake(adapter: Adapter, path: str) -> Check:
    """Over a transport that asks: one that cannot takes its prompt with the start, and has nothing to say before."""
    name = "handshake"
    able = (one for one in adapter.transports if one.capabilities.asks and not one.capabilities.needs_prompt)
    transport = next((one.name for one in able), None)
    if transport is None:
        return ok(name, "none is made: no transport of it is ready before it has a prompt", adapter.name)
    with thrown_away() as folder:
        try:
            result = await probe(_request(adapter, transport, path, folder), state=folder / "state")
        except Unsupported as error:
            said = "; ".join(one.describe() for one in error.unmet)
            return problem(name, f"it was not started: {said}", "see the checks above", adapter.name)
        except ConfigurationError as error:
            return problem(name, str(error), "see the checks above", adapter.name)
        except InterlockError as error:
            return problem(name, str(error), adapter.install_hint, adapter.name)
    return _judged(adapter, result)


@contextmanager
def thrown_away() -> Generator[Path]:
    """A folder with a workspace, a home, and a place for temporary files, which agents take over from us."""
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="interlock-doctor-") as made:
        folder = Path(made).resolve()
        for part in ("workspace", "home", "temporary"):
            (folder / part).mkdir()
        os.environ["TMPDIR"] = str(folder / "temporary")
        try:
            yield folder
        finally:
            os.environ.pop("TMPDIR")
            if before is not None:
                os.environ["TMPDIR"] = before


def _request(adapter: Adapter, transport: str, path: str, folder: Path) -> Request:
    env, options = _offline(adapter)
    fields: dict[str, Any] = {
        "agent": adapter.name,
        "prompt": "-",
        "transport": transport,
        "binary": path,
        "cwd": str(folder / "workspace"),
        "login": "env",
        "env": {**env, "HOME": str(folder / "home")},
        "extra_args": options,
        "limits": {"start_up": START_UP, "total": TOTAL},
    }
    return Request.model_validate(fields)


def _offline(adapter: Adapter) -> tuple[dict[str, str], tuple[str, ...]]:
    """Variables and options that lead the agent to a service where nobody listens."""
    from interlock_fixtures.scripted_model.environment import arguments, environment  # noqa: PLC0415 -- rarely needed

    keys = dict.fromkeys(key_names(adapter)[:1], "opens-nothing")
    try:
        known = environment(adapter.name, DEAD_END)
        words = arguments(adapter.name, DEAD_END)
    except ValueError:
        return {**dead_ends(), **keys}, ()
    settings = [word for word in words if word.startswith("model_provider")]
    passed = {name: value for name, value in known.items() if name in {*adapter.key_variables, *keys}}
    return {**dead_ends(), **keys, **passed}, tuple(word for one in settings for word in ("-c", one))


def _judged(adapter: Adapter, result: ProbeResult) -> Check:
    name = "handshake"
    took = f"{result.transport}, {result.duration:.1f} s, no prompt was sent"
    if result.ready:
        said = f"our hooks are confirmed, and no settings but ours are in force ({took})"
        if result.warnings:
            return warning(
                name,
                f"{said}; it warns: {'; '.join(result.warnings)}",
                f"see the documentation of {adapter.title}",
                adapter.name,
            )
        return ok(name, said, adapter.name)
    said = f"{result.reason or 'failed'}: {result.message} ({took})"
    return problem(name, "; ".join((said, *_more(result))), _way_out(adapter, result), adapter.name)


def _more(result: ProbeResult) -> Iterator[str]:
    if result.exit_code is not None or result.signal is not None:
        yield f"exit code {result.exit_code}" if result.signal is None else f"signal {result.signal}"
    if tail := result.stderr_tail.strip():
        yield f"it said: {tail[-300:]}"


def _way_out(adapter: Adapter, result: ProbeResult) -> str:
    match result.reason:
        case Reason.UNSUPPORTED:
            return "what voids our rules or hooks must go: managed settings, or a version that was not tested"
        case Reason.AUTH:
            return f"log in with {adapter.programs[0]}"
        case _:
            return f"is {result.binary} {adapter.title}? else: {adapter.install_hint}"
