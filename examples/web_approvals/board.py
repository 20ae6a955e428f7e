"""The runs of the page: started, followed, answered. The page shows a picture of this, so a reload loses nothing."""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from anyio.abc import TaskGroup

from interlock import Approval, Approve, Client, Deny, InterlockError, NotOpen, Run
from interlock.events import ApprovalResolved, BaseEvent, Text, ToolDecided, ToolFinished
from web_approvals.agents import Agent

LINES = 40


@dataclass
class Entry:
    """One run as it is shown."""

    number: int
    agent: str
    prompt: str
    status: str = "starting"
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LINES))
    run: Run | None = None


class Board:
    """All runs since the page was served."""

    def __init__(self, agents: Sequence[Agent], client: Client, tasks: TaskGroup) -> None:
        self._agents = {agent.name: agent for agent in agents}
        self._client = client
        self._tasks = tasks
        self._entries: list[Entry] = []

    def start(self, name: str, prompt: str) -> int:
        """Begin a run; KeyError for an agent that is not offered."""
        agent = self._agents[name]
        entry = Entry(len(self._entries), name, prompt)
        self._entries.append(entry)
        self._tasks.start_soon(self._follow, agent, entry)
        return entry.number

    async def cancel(self, number: int) -> None:
        """End a run; IndexError for one that never was."""
        run = self._entries[number].run
        if run is not None:
            await run.cancel()

    def answer(self, approval_id: str, decision: Approve | Deny) -> None:
        """Answer whichever run asked; `NotOpen` if none waits for it any more."""
        for _, run, approval in self._waiting():
            if approval.id == approval_id:
                run.respond(approval_id, decision)
                return
        raise NotOpen(approval_id, "no run waits for it")

    def picture(self) -> dict[str, Any]:
        """All that the page shows."""
        return {
            "agents": [{"name": agent.name, "note": agent.note} for agent in self._agents.values()],
            "approvals": [_shown(name, approval) for name, _, approval in self._waiting()],
            "runs": [
                {
                    "number": entry.number,
                    "agent": entry.agent,
                    "prompt": entry.prompt,
                    "status": entry.status,
                    "lines": list(entry.lines),
                    "over": entry.run is None and entry.status != "starting",
                }
                for entry in self._entries
            ],
        }

    def _waiting(self) -> list[tuple[str, Run, Approval]]:
        going = [(entry.agent, entry.run) for entry in self._entries if entry.run]
        return [(name, run, approval) for name, run in going for approval in run.open_approvals]

    async def _follow(self, agent: Agent, entry: Entry) -> None:
        """One run to its end; what cannot be started is said on the page and ends nothing else."""
        try:
            with agent.order(entry.prompt) as request:
                async with self._client.stream(request) as run:
                    entry.run, entry.status = run, "running"
                    async for event in run:
                        entry.lines.extend(_line(event))
                    outcome = await run.outcome()
                    entry.status = "completed" if outcome.ok else outcome.describe()
        except InterlockError as error:
            entry.status = str(error)
        finally:
            entry.run = None


def _shown(name: str, approval: Approval) -> dict[str, Any]:
    """An approval for the page. `display` is what will run, escaped; `input` is JSON in ASCII, to be edited."""
    return {
        "id": approval.id,
        "agent": name,
        "display": approval.display(),
        "reason": approval.reason,
        "cwd": approval.call.cwd,
        "deadline": approval.deadline,
        "input": json.dumps(approval.call.input, indent=2),
        "editable": isinstance(approval.call.input, dict),
    }


def _line(event: BaseEvent) -> Sequence[str]:
    match event:
        case Text(text=text):
            return (f"says: {text}",)
        case ApprovalResolved(decision=decision, by=by, reason=reason):
            return (f"{decision} by {by}: {reason}" if reason else f"{decision} by {by}",)
        case ToolDecided(decision="deny", tool_name=name, reason=reason):
            return (f"{name} was denied: {reason}",)
        case ToolFinished(tool_name=name, status="ok" | "error" as status):
            return (f"{name} ran: {status}",)
        case _:
            return ()
