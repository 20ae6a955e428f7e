"""What guards read of a call beside its subject: all of its text, and the call as rules take it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from interlock.hooks import HookCall
from interlock.tools import ToolCall

__all__ = ["as_tool_call", "texts"]


def as_tool_call(call: HookCall) -> ToolCall:
    """The call as rules and postures take it."""
    return ToolCall(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        input=call.input,
        tool_kind=call.tool_kind,
        subject=call.subject,
        agent_id=call.agent_id,
        cwd=call.cwd,
        hidden=call.hidden,
    )


def texts(value: object) -> Iterator[str]:
    """Every text in a JSON value, the names of its fields too."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            for name, inner in cast("dict[str, object]", one).items():
                pending += [inner, name]
        elif isinstance(one, list):
            pending += cast("list[object]", one)
