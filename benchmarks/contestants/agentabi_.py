"""agentabi, which finds `claude` on the PATH; where it finds none it would take the official SDK with its real CLI."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from agentabi import Session


async def stream(program: str, folder: str) -> AsyncGenerator[object]:
    """Every event; one that reports an error ends it."""
    os.environ["PATH"] = f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}"
    session = Session(agent="claude_code", prefer="native")
    if type(session.provider).__name__ != "ClaudeNativeProvider":
        raise RuntimeError("agentabi would drive something else than the fake agent")
    async with aclosing(session.stream("go", working_dir=folder)) as events:
        async for event in events:
            if event["type"] == "error":
                raise RuntimeError(str(event))
            yield event
