"""What a decision costs inside Interlock: the chain alone, without an agent."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from interlock.engine.chain import Chain, assemble
from interlock.hooks import Allow, HookCall, HookOutcome, HookSpec
from interlock.request import Request
from interlock.tools import Subject, ToolKind

__all__ = ["chain", "hook", "resident"]

Figures = dict[str, Any]

ONCE = '#!/bin/sh\nread -r call\nprintf \'{"decision":"allow"}\'\n'
RESIDENT = f"""#!{sys.executable} -IS
import sys
for line in sys.stdin:
    id = line.partition('"id":')[2].split(",", 1)[0].rstrip("}}\\n")
    print('{{"id":' + id + ',"decision":"allow"}}', flush=True)
"""


class Watcher:
    """An interceptor that looks at each call and lets it pass."""

    def __init__(self, number: int) -> None:
        self.name = f"watcher-{number}"

    async def before(self, call: HookCall) -> HookOutcome:
        """Look at the command."""
        assert call.subject.command
        return Allow()


async def chain(folder: str, participants: int, times: int) -> Figures:
    """Seconds of one call through a chain of so many interceptors."""
    return await _timed(
        _assembled(folder, interceptors=[Watcher(number) for number in range(participants)]), folder, times
    )


async def resident(folder: str, times: int) -> Figures:
    """Seconds of one call through one resident hook."""
    spec = HookSpec(name="resident", command=(_program(folder, "resident", RESIDENT),), resident=True)
    return await _timed(_assembled(folder, hooks=[spec]), folder, times)


async def hook(folder: str, times: int) -> Figures:
    """Seconds of one call through one program, by turns with the bare spawn of it."""
    program = _program(folder, "once", ONCE)
    question = _call(folder).wire()
    asked, spawned = [], []
    async with _assembled(folder, hooks=[HookSpec(name="once", command=(program,))]).running() as chain:
        for _ in range(times):
            began = time.perf_counter()
            subprocess.run([program], input=question, capture_output=True, check=True)  # noqa: ASYNC221
            between = time.perf_counter()
            await _ask(chain, folder)
            asked.append(time.perf_counter() - between)
            spawned.append(between - began)
    return {"ask": sorted(asked)[times // 2], "spawn": sorted(spawned)[times // 2]}


async def _timed(chain: Chain, folder: str, times: int) -> Figures:
    took = []
    async with chain.running():
        for _ in range(times // 10 + 1):
            await _ask(chain, folder)
        for _ in range(times):
            began = time.perf_counter()
            await _ask(chain, folder)
            took.append(time.perf_counter() - began)
    took.sort()
    return {"median": took[times // 2], "p95": took[times * 95 // 100], "least": took[0]}


async def _ask(chain: Chain, folder: str) -> None:
    verdict = await chain.before(_call(folder), rewrite=lambda call, _: call, forbids=lambda _: None)
    assert not verdict.denied, verdict


def _assembled(folder: str, **who: Any) -> Chain:
    given = {"interceptors": (), "hooks": None, **who}
    request = Request(agent="claude", prompt="go", cwd=folder)
    return assemble(request=request, workspace=folder, scratch=str(Path(folder).with_name("scratch")), **given)


def _program(folder: str, name: str, text: str) -> str:
    path = Path(folder).with_name(name)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def _call(folder: str) -> HookCall:
    return HookCall(
        event="pre_tool_use",
        workspace=folder,
        agent_id="main",
        tool_call_id="toolu_1",
        tool_name="Bash",
        input={"command": "grep -rn pattern src | head -20", "description": "Search the sources"},
        agent="claude",
        run_id="run-1",
        cwd=folder,
        tool_kind=ToolKind.SHELL,
        subject=Subject(command="grep -rn pattern src | head -20"),
    )
