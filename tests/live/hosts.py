"""A host in a process of its own, which tests end by force, and the wait for what then becomes of its agent."""

import os
import signal
import subprocess
import sys

import anyio

HOST = """
import asyncio, json, sys
from interlock import Client, Request

async def main():
    async with Client(state=sys.argv[2]).stream(Request.model_validate(json.loads(sys.argv[1]))) as run:
        await run.outcome()

asyncio.run(main())
"""
"""The program of a host; its arguments are the request as JSON and the state folder."""


async def until(holds) -> None:
    """Wait for a state of other processes, which announce nothing."""
    while not holds():  # noqa: ASYNC110  what other processes do sets no event of ours
        await anyio.sleep(0.02)


async def killed_host_leaves_nothing(live, request) -> None:
    """Run a request whose command starts three sleeps in a host of its own, and kill that host: all must be gone."""
    argv = [sys.executable, "-c", HOST, request.model_dump_json(), str(live.state)]
    with subprocess.Popen(argv) as host:  # noqa: ASYNC220  returns at once
        try:
            await until((live.workspace / "started").exists)
            await until(lambda: live.alive().count("sleep") == 3)
            os.kill(host.pid, signal.SIGKILL)
            await until(lambda: not live.alive())
        finally:
            host.kill()
