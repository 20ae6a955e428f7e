"""The floor: what anybody would write in ten lines with anyio and json, with none of the promises."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator

import anyio

ALLOW = (
    b'{"type":"control_response","response":{"subtype":"success","request_id":"%s",'
    b'"response":{"behavior":"allow","updatedInput":{}}}}\n'
)


async def stream(program: str, folder: str) -> AsyncGenerator[object]:
    """Every line as an object."""
    argv = [program, "-p", "go", "--output-format", "stream-json"]
    async with await anyio.open_process(argv, cwd=folder, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        rest = b""
        async for data in process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield json.loads(line)


async def approve(program: str, folder: str) -> None:
    """Answer every question with yes."""
    argv = [program, "-p", "--input-format=stream-json", "--output-format=stream-json"]
    async with await anyio.open_process(argv, cwd=folder) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(b'{"type":"user","message":{"role":"user","content":"go"}}\n')
        rest = b""
        async for data in process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for message in map(json.loads, lines):
                if message["type"] == "control_request":
                    await process.stdin.send(ALLOW % message["request_id"].encode())
                elif message["type"] == "result":
                    await process.stdin.aclose()
