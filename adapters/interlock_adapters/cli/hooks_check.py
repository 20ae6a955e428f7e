"""`interlock hooks check`: reads a hooks file as a run would, and has each of its programs answer once.

Reading, resolving and digesting are the engine's own. The call is a harmless one, and any answer that counts will do.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio

from interlock.engine.chain import chain_of, program_of
from interlock.engine.hooks_file import FoundSpec, read_hooks_file
from interlock.errors import InterlockError
from interlock.hooks import HookCall, HookEvent
from interlock.tools import MAIN_AGENT, Subject, ToolKind
from interlock_adapters.cli.output import print_line, safe_line
from interlock_adapters.cli.problems import COMPLETED, USAGE, code_of, explain

__all__ = ["check_file"]


@dataclass(frozen=True, slots=True)
class Checked:
    """One hook that was asked once for one event."""

    name: str
    event: HookEvent
    may: tuple[str, ...]
    resident: bool
    command: tuple[str, ...]
    digest: str
    decision: str
    problem: str
    """Why its answer does not count."""
    milliseconds: float


def check_file(file: str, cwd: str, *, as_json: bool) -> int:
    """Print a table of the hooks; returns the exit code."""
    workspace = str(Path(cwd).resolve())
    try:
        found = read_hooks_file(str(Path(file).absolute()), must_exist=True)
        with tempfile.TemporaryDirectory(prefix="interlock-") as scratch:
            checked = anyio.run(_check, found, workspace, scratch)
    except InterlockError as error:
        for line in explain(error):
            print_line(line, 2)
        return code_of(error)
    if as_json:
        print_line(json.dumps({"file": file, "hooks": [asdict(one) for one in checked]}))
    else:
        _print(file, checked)
    return USAGE if any(one.problem for one in checked) else COMPLETED


async def _check(found: tuple[FoundSpec, ...], workspace: str, scratch: str) -> list[Checked]:
    """All of the file is resolved before anything is started."""
    programs = [program_of(one, (workspace,), workspace) for one in found]
    checked: list[Checked] = []
    for one, program in zip(found, programs, strict=True):
        async with chain_of([one], workspace=workspace, scratch=scratch, every_call=True).running() as chain:
            for event in one.spec.events:
                call = sample(event, workspace)
                if event == "pre_tool_use":
                    verdict = await chain.before(call, rewrite=lambda same, _: same, forbids=lambda _: None)
                else:
                    verdict = await chain.after(call)
                record = verdict.records[0]
                checked.append(
                    Checked(
                        name=one.spec.name,
                        event=event,
                        may=one.spec.may,
                        resident=one.spec.resident,
                        command=program.argv,
                        digest=program.digest,
                        decision="broken" if record.broken else record.decision,
                        problem=record.reason if record.broken else "",
                        milliseconds=round(record.duration * 1000, 1),
                    )
                )
    return checked


def sample(event: HookEvent, workspace: str) -> HookCall:
    """A call that does nothing."""
    ran = event == "post_tool_use"
    return HookCall(
        event=event,
        workspace=workspace,
        agent_id=MAIN_AGENT,
        tool_call_id="sample",
        tool_name="Bash",
        input={"command": "true"},
        agent="claude",
        run_id="sample",
        cwd=workspace,
        tool_kind=ToolKind.SHELL,
        subject=Subject(command="true"),
        output="" if ran else None,
        is_error=False if ran else None,
    )


def _print(file: str, checked: list[Checked]) -> None:
    if not checked:
        print_line(safe_line(f"{file}: no hooks"))
    width = max((len(one.name) for one in checked), default=0)
    for one in checked:
        kind = "resident" if one.resident else "one call"
        row = f"{one.name:<{width}}  {one.event:<13}  {kind}  {one.decision:<7}  {one.milliseconds:7.1f} ms"
        print_line(safe_line(f"{row}  may {', '.join(one.may)}"))
        print_line(safe_line(f"{'':<{width}}  {' '.join(one.command)}  {one.digest[:19]}"))
    for one in checked:
        if one.problem:
            print_line(safe_line(f"interlock: {file}: hook {one.name!r}, {one.event}: {one.problem}"), 2)
