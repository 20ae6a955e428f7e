"""The official SDK for Claude Code, told to skip its version check, which would start the program once more a run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    ToolPermissionContext,
    query,
)


async def stream(program: str, folder: str) -> AsyncGenerator[object]:
    """Every message, partial ones too."""
    options = ClaudeAgentOptions(cli_path=program, cwd=folder, include_partial_messages=True)
    async with aclosing(query(prompt="go", options=options)) as messages:
        async for message in messages:
            yield message


async def approve(program: str, folder: str) -> None:
    """Answer every question with yes."""

    async def yes(_tool: str, _input: dict[str, object], _context: ToolPermissionContext) -> PermissionResultAllow:
        return PermissionResultAllow()

    async def prompts() -> AsyncIterator[dict[str, object]]:
        yield {"type": "user", "message": {"role": "user", "content": "go"}}

    options = ClaudeAgentOptions(cli_path=program, cwd=folder, can_use_tool=yes)
    async with ClaudeSDKClient(options) as client:
        await client.query(prompts())
        async for _ in client.receive_response():
            pass
