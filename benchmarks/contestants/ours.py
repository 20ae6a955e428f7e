"""Interlock."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

from interlock import ApprovalRequested, Approve, Client, Permission, Request


async def stream(program: str, folder: str) -> AsyncGenerator[object]:
    """Every event; what the run ended with is checked."""
    async with Client(state=Path(folder).with_name("state")).stream(_request(program, folder, "full")) as run:
        async for event in run:
            yield event
        await run.outcome(check=True)


async def approve(program: str, folder: str) -> None:
    """Answer every question with yes."""
    async with Client(state=Path(folder).with_name("state")).stream(_request(program, folder, "ask")) as run:
        async for event in run:
            if isinstance(event, ApprovalRequested):
                run.respond(event.approval.id, Approve())
        await run.outcome(check=True)


def _request(program: str, folder: str, permission: str) -> Request:
    given = Permission(posture="full") if permission == "full" else Permission(otherwise="ask")
    return Request(agent="claude", prompt="go", cwd=folder, binary=program, login="env", permission=given)
