"""Calls for guards, described as the adapter of Claude Code describes them."""

from typing import Any

from interlock.engine.registry import find_adapter
from interlock.hooks import HookCall
from interlock.model import JsonValue
from interlock.tools import ToolCall

WORKSPACE = "/ws"


def call(tool: str, given: JsonValue, *, workspace: str = WORKSPACE, **more: Any) -> HookCall:
    described = find_adapter("claude").describe(ToolCall(tool_call_id="t", tool_name=tool, input=given))
    fields: dict[str, Any] = {
        "event": "pre_tool_use",
        "workspace": workspace,
        "agent_id": "main",
        "tool_call_id": "t",
        "tool_name": tool,
        "input": given,
        "agent": "claude",
        "run_id": "r",
        "cwd": workspace,
        "tool_kind": described.tool_kind,
        "subject": described.subject,
        **more,
    }
    return HookCall.model_validate(fields)


def shell(command: str, **more: Any) -> HookCall:
    return call("Bash", {"command": command}, **more)


def ran(output: JsonValue, *, is_error: bool = False) -> HookCall:
    return shell("cat x", event="post_tool_use", output=output, is_error=is_error)
