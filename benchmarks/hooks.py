"""What hooks cost: a chain of interceptors, a program for each call over its bare spawn, a resident program.

    python benchmarks/hooks.py [--json]

Each figure is the best of many rounds, since the machine is rarely alone; the targets stand beside it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from interlock.engine.chain import Chain, chain_of
from interlock.engine.exchange import end
from interlock.engine.hooks_file import FoundSpec
from interlock.engine.participants import from_interceptor
from interlock.engine.process import spawn
from interlock.hooks import Allow, HookCall, HookSpec
from interlock.tools import Subject, ToolKind

EXAMPLES = Path(__file__).parents[1] / "examples/hooks"
ONE_CALL = '#!/bin/sh\nread -r call\necho \'{"decision":"allow"}\'\n'
CALL = HookCall(
    event="pre_tool_use",
    workspace="/ws",
    agent_id="main",
    tool_call_id="t1",
    tool_name="Bash",
    input={"command": "git status --short", "description": "Show the status", "timeout": 1000},
    agent="claude",
    run_id="r",
    cwd="/ws",
    tool_kind=ToolKind.SHELL,
    subject=Subject(command="git status --short"),
)


class Guard:
    """An interceptor that has no objection."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def before(self, _: HookCall) -> Allow:
        return Allow()


async def best(work: Callable[[], Awaitable[object]], *, rounds: int, times: int) -> float:
    """Microseconds of one `work`, in the best of the rounds."""
    found: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(times):
            await work()
        found.append((time.perf_counter() - began) / times)
    return min(found) * 1e6


async def asked(chain: Chain) -> None:
    verdict = await chain.before(CALL, rewrite=lambda call, _: call, forbids=lambda _: None)
    if verdict.denied:
        raise RuntimeError(verdict.reason)


async def of_program(scratch: str, *command: str, resident: bool) -> float:
    spec = HookSpec(name="h", command=command, resident=resident, timeout=60)
    chain = chain_of([FoundSpec(spec, "benchmark", None)], workspace="/nowhere", scratch=scratch)
    async with chain.running():
        await asked(chain)
        return await best(lambda: asked(chain), rounds=20, times=20 if resident else 5)


async def bare(*command: str) -> float:
    """The same program without a hook round it: started, waited for, cleared away."""

    async def once() -> None:
        process = await spawn(command, cwd="/", env={"PATH": "/usr/bin:/bin"})
        await process.stdin.send(CALL.wire())
        process.stdin.send_eof()
        while await process.stdout.receive():
            pass
        await process.wait()
        await end(process)

    return await best(once, rounds=20, times=5)


async def measured(scratch: str) -> list[tuple[str, float, float | None]]:
    """Name, microseconds, target."""
    interceptors = Chain([from_interceptor(Guard(f"g{number}"), 5.0) for number in range(10)])
    found: list[tuple[str, float, float | None]] = [
        ("chain of 10 interceptors", await best(lambda: asked(interceptors), rounds=200, times=20), 50.0)
    ]
    program = Path(scratch) / "one-call"
    program.write_text(ONE_CALL, encoding="utf-8")
    program.chmod(0o755)
    alone = await bare(str(program))
    hook = await of_program(scratch, str(program), resident=False)
    found += [("program, bare spawn", alone, None), ("program, as a hook over that", hook - alone, 1000.0)]
    examples = {"sh": ("sh", "push_guard.sh"), "python": (sys.executable, "push_guard.py"), "js": ("node", "redact.js")}
    for language, (interpreter, file) in examples.items():
        script = str(EXAMPLES / file)
        found.append(
            (f"example in {language}, one call", await of_program(scratch, interpreter, script, resident=False), None)
        )
        found.append(
            (f"example in {language}, resident", await of_program(scratch, interpreter, script, resident=True), 300.0)
        )
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        found = anyio.run(measured, scratch)
    if "--json" in sys.argv[1:]:
        print(json.dumps([{"what": what, "us": round(us, 1), "target_us": target} for what, us, target in found]))
        return
    for what, us, target in found:
        print(f"{what:<32} {us:10.1f} us" + (f"   (target {target:g} us)" if target is not None else ""))


if __name__ == "__main__":
    main()
