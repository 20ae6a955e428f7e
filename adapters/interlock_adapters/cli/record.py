"""`interlock record`: a run as `interlock run` makes it, and its conversation kept as a recording.

A small program stands between the engine and the CLI and notes what passes. Paths, names, ids, ports and keys are
replaced, and so is what an agent says of the person's account; what still looks like a secret is not saved at all.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio

from interlock.engine.client import Client
from interlock.engine.host import find_binary
from interlock.engine.registry import find_adapter
from interlock.errors import InterlockError
from interlock.model import JsonValue
from interlock.request import Request
from interlock_adapters.cli.agent_facts import version_of
from interlock_adapters.cli.options import Options, UsageProblem, read_prompt, request_of
from interlock_adapters.cli.output import print_line, safe_line
from interlock_adapters.cli.plan import client_of, complain, is_answered, settled
from interlock_adapters.cli.problems import FAILED, INTERRUPTED
from interlock_adapters.cli.run import follow
from interlock_fixtures.record import Recorder
from interlock_fixtures.recording import save_recording
from interlock_fixtures.redaction import LooksSecret

__all__ = ["record"]

HIDDEN = "[redacted]"
REPLACED = ("what is said of the person's account is replaced, and mail addresses are",)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_CASE = re.compile(r"[a-z0-9][a-z0-9._-]*")


def record(options: Options, out: str, case: str) -> int:
    """Run the agent, save what passed, and return the exit code of the run."""
    request: Request | None = None
    try:
        _check_name(case)
        request, _ = settled(options, request_of(options, read_prompt(options)))
        client = client_of(options, request)
        client.plan(request, answered=is_answered(options))
        return anyio.run(partial(_record, options, client, request, Path(out), case))
    except (UsageProblem, InterlockError) as error:
        return complain(error, options, request)
    except KeyboardInterrupt:
        return INTERRUPTED


def _check_name(case: str) -> None:
    if not _CASE.fullmatch(case):
        raise UsageProblem(f"--case {case!r}: use lower-case letters, digits, and . _ - between them")


async def _record(options: Options, client: Client, request: Request, out: Path, case: str) -> int:
    adapter = find_adapter(request.agent)
    binary = find_binary(adapter, request)
    version = (await version_of(adapter, binary)).number or "unknown"
    place = out / adapter.name / version / case
    if await anyio.Path(place).exists():
        raise UsageProblem(f"--out {str(out)!r}: {place} is there already; name another --case, or remove it")
    paths = {binary: "/usr/bin/agent"}
    with Recorder(adapter, Path(binary), version, _without_account, REPLACED, paths) as recorder:
        watched = request.model_copy(update={"binary": str(recorder.program)})
        code = await follow(options, client, watched)
        return _save(recorder, out, case) or code


def _save(recorder: Recorder, out: Path, case: str) -> int:
    try:
        folder = save_recording(recorder.recording(case, recorded_by="interlock record"), out)
    except LooksSecret as error:
        print_line(safe_line(f"interlock: nothing was saved: {error}"), 2)
        return FAILED
    except OSError as error:
        print_line(safe_line(f"interlock: --out {str(out)!r}: {error}; name a folder that can be written"), 2)
        return FAILED
    print_line(safe_line(f"recorded: {folder} (read it before you give it to anybody)"), 2)
    return 0


def _without_account(message: dict[str, Any]) -> dict[str, Any]:
    return cast("dict[str, Any]", _cleaned(message, inside=False))


def _cleaned(value: JsonValue, *, inside: bool) -> JsonValue:
    """The same value; `inside` what is said of an account no string is left."""
    match value:
        case dict():
            return {name: _cleaned(one, inside=inside or name == "account") for name, one in value.items()}
        case list():
            return [_cleaned(one, inside=inside) for one in value]
        case str():
            return HIDDEN if inside else _MAIL.sub("user@example.com", value)
        case _:
            return value
