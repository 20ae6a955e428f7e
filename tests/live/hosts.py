"""A host in a process of its own, which tests end by force, and the wait for what then becomes of its agent."""

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
