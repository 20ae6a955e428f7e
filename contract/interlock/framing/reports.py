"""What codecs report in the same words, whatever their agent: calls, warnings, noise between messages, a crash."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from interlock.actions import Action, Emit, Suspicion
from interlock.events import BaseEvent, Notice, ToolRequested
from interlock.framing.json_objects import readable
from interlock.framing.lines import Oversized
from interlock.outcome import Reason, Status
from interlock.tools import ToolCall

__all__ = ["NOISE_KEPT", "Noise", "how_ended", "joined", "not_ours", "requested", "too_long", "warning"]

NOISE_KEPT = 4096
"""Bytes that are kept of what was no message."""


class Noise:
    """The last of an agent's output that was no message: all that is known of an agent which never sent one."""

    def __init__(self) -> None:
        self._kept = b""

    def keep(self, data: bytes) -> None:
        """One more line of it."""
        self._kept = (self._kept + data + b"\n")[-NOISE_KEPT:]

    def crash(self, code: int | None, signal: int | None, *, spoke: bool) -> tuple[Status, Reason, str]:
        """Why a process is gone that gave no result; `spoke` says whether a message ever came."""
        how = how_ended(code, signal)
        if self._kept and not spoke:
            text = self._kept.decode("utf-8", "replace").strip()
            return Status.FAILED, Reason.PROTOCOL, f"no message came, only text ({how}): {text}"
        return Status.FAILED, Reason.CRASHED, f"the agent ended without a result ({how})"


def how_ended(code: int | None, signal: int | None) -> str:
    """How a process ended, in words."""
    return f"exit {code}" if signal is None else f"signal {signal}"


def warning(code: str, message: str) -> Emit:
    """A `Notice` that people are warned by."""
    return Emit([Notice(level="warning", code=code, message=message)])


def requested(call: ToolCall) -> ToolRequested:
    """The event of a call's first mention."""
    return ToolRequested(
        agent_id=call.agent_id,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        tool_kind=call.tool_kind,
        input=call.input,
        subject=call.subject,
    )


def too_long(dropped: Oversized, what: Literal["line", "message"] = "line") -> Emit:
    """A line or message was over the limit."""
    text = f"a {what} of {dropped.length} bytes is over the limit and was dropped: {readable(dropped.head)}"
    return warning("line_too_long", text)


def not_ours(channel: str, key: str) -> Suspicion:
    """A call came by an endpoint that the launch does not have."""
    return Suspicion("unknown_answer", f"a request {key!r} came by {channel!r}, which is not ours")


def joined(actions: Iterable[Action]) -> list[Action]:
    """The same actions, where events that follow each other are one `Emit`."""
    out: list[Action] = []
    events: list[BaseEvent] = []
    for action in actions:
        if isinstance(action, Emit):
            events += action.events
            continue
        if events:
            out.append(Emit(events))
            events = []
        out.append(action)
    if events:
        out.append(Emit(events))
    return out
