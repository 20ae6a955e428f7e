"""The doctor on this machine: what every run of every agent needs."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import anyio

from interlock.engine.home import default_state
from interlock.engine.hooks_file import ADMINISTRATORS_FILE, read_hooks_file, users_file
from interlock.engine.policy_file import ADMINISTRATORS_POLICY, read_policy, users_policy
from interlock.engine.process import GuardianLost, spawn
from interlock.engine.workspace import programs_named_by
from interlock.errors import ConfigurationError
from interlock_adapters.cli.checks import Check, ok, problem, warning

__all__ = ["configuration", "machine"]

WITHIN = 10.0
"""Seconds that the guardian has to start a program."""
ROOT = 0
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


async def machine(folder: Path) -> list[Check]:
    """All checks that concern no agent, in order; an agent would work in `folder`, which is a real path."""
    return [
        _platform(),
        await _guardian(),
        _state(default_state(), folder),
        await anyio.to_thread.run_sync(_git, folder),
        *configuration((ADMINISTRATORS_FILE, ROOT), (ADMINISTRATORS_POLICY, ROOT)),
        _proxies(),
    ]


def _platform() -> Check:
    found: str = sys.platform
    said = f"{found}, Python {sys.version.split()[0]}"
    if found in {"linux", "darwin"}:
        return ok("platform", said)
    return problem("platform", f"{said}: agents cannot be started here", "use Linux or macOS")


async def _guardian() -> Check:
    """It starts a program and sees its end."""
    name = "guardian"
    way_out = "see that this Python can start itself, and that processes and sockets are not at their limit (ulimit)"
    code: int | None = None
    try:
        with anyio.move_on_after(WITHIN) as limit:
            process = await spawn(["/bin/sh", "-c", "exit 0"], cwd="/", env={"PATH": os.defpath})
            try:
                code = (await process.wait()).code
            finally:
                await process.kill_tree()
                for stream in (process.stdin, process.stdout, process.stderr):
                    stream.close()
    except (OSError, GuardianLost) as error:
        return problem(name, f"no program can be started under it: {error}", way_out)
    if limit.cancelled_caught or code != 0:
        return problem(name, f"a program under it did not end as it should within {WITHIN:g} s", way_out)
    return ok(name, "starts programs and ends them")


# ---- Folders --------------------------------------------------------------------------------------------------------


def _state(state: Path, cwd: Path) -> Check:
    """Where runs keep their guards and sessions: writable by us, by nobody else, and out of an agent's reach."""
    name, elsewhere = "state folder", "set XDG_STATE_HOME to a folder of yours"
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=state):
            facts = state.stat()
    except OSError as error:
        return problem(name, f"{state} cannot be written: {error.strerror or error}", elsewhere)
    real = state.resolve()
    if real.is_relative_to(cwd):
        reason = f"{state} lies inside {cwd}, which an agent there could write"
        return problem(name, reason, f"{elsewhere}, or work in a narrower directory (-C DIR)")
    if facts.st_uid != os.geteuid():
        return problem(name, f"{state} belongs to user {facts.st_uid}", elsewhere)
    if stat.S_IMODE(facts.st_mode) & 0o022:
        return problem(name, f"{state} is writable by others", f"chmod 700 {state}")
    if any(real.is_relative_to(place) for place in _shared_places()):
        return warning(name, f"{state} lies in a place for temporary files, which agents may write", elsewhere)
    if stat.S_IMODE(facts.st_mode) & 0o077:
        return warning(name, f"{state} can be read by others", f"chmod 700 {state}")
    return ok(name, str(state))


def _shared_places() -> Iterator[Path]:
    for place in ("/tmp", "/var/tmp", os.environ.get("TMPDIR", "")):  # noqa: S108 -- it is what must not be
        if place:
            yield Path(place).resolve()


def _git(cwd: Path) -> Check:
    name = "workspace"
    if not cwd.is_dir():
        return problem(name, f"there is no directory {cwd}", "make it, or name another with -C DIR")
    found = programs_named_by(str(cwd))
    if not found:
        return ok(name, f"the git configuration of {cwd} names no programs")
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    said = f"the git configuration of {cwd} names programs that agents run unasked: {'; '.join(found[:3])}{more}"
    return problem(name, said, "remove them, or run with --trust-workspace")


# ---- Configuration --------------------------------------------------------------------------------------------------


def configuration(administrators_hooks: tuple[str, int], administrators_policy: tuple[str, int]) -> list[Check]:
    """The files that hold for every run: the administrator's (path and owner), and the user's."""
    home = str(Path.home())
    return [
        _hooks("administrator's hooks", *administrators_hooks),
        _policy("administrator's policy", *administrators_policy),
        _hooks("your hooks", users_file(os.environ, home), None),
        _policy("your policy", users_policy(os.environ, home), None),
    ]


def _hooks(name: str, path: str, owner: int | None) -> Check:
    try:
        found = read_hooks_file(path, owner=owner)
    except ConfigurationError as error:
        return problem(name, str(error), "set the file right; see: interlock hooks check FILE")
    if not Path(path).exists():
        return ok(name, f"none ({path})")
    return ok(name, f"{path}: {', '.join(one.spec.name for one in found) or 'no hooks'}")


def _policy(name: str, path: str, owner: int | None) -> Check:
    try:
        found = read_policy(path, owner=owner)
    except ConfigurationError as error:
        return problem(name, str(error), "set the file right; docs/policy.md has its grammar")
    return ok(name, f"none ({path})" if found is None else path)


# ---- Network --------------------------------------------------------------------------------------------------------


def _proxies() -> Check:
    """Agents get the proxy variables; ours on loopback must not be sought behind a proxy."""
    name = "proxies"
    found = {variable: os.environ[variable] for variable in _PROXIES if os.environ.get(variable)}
    if not found:
        return ok(name, "none")
    said = ", ".join(f"{variable} {_shown(value)}" for variable, value in found.items())
    if unread := [variable for variable, value in found.items() if _shown(value) == "(unreadable)"]:
        return warning(name, f"{said}; agents get them", f"set {unread[0]} to a URL, as http://proxy:8080")
    around = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    if "*" not in around and "127.0.0.1" not in around:
        reason = "NO_PROXY does not name 127.0.0.1, where some agents call our side"
        return warning(
            name, f"{said}; {reason}", f"export NO_PROXY={around + ',' if around else ''}127.0.0.1,localhost"
        )
    return ok(name, f"{said}; agents get them")


def _shown(url: str) -> str:
    """Host and port: a proxy's URL may hold a password."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return "(unreadable)"
    return (f"{host}:{port}" if port else host) if host else "(unreadable)"
