"""Codex' tools in the shared vocabulary: the names that its hooks give, and their inputs, to kind and subject.

The names are those of Codex 0.171.0. A tool that the table lacks is `unknown`, which only the posture `full` lets run
unasked.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.framing.patch import touched
from interlock.model import JsonValue
from interlock.tools import Subject, ToolCall, ToolKind

__all__ = ["HIDDEN", "MCP_PREFIX", "PATCH", "SHELL", "describe", "kind_of", "mcp_name", "subject_of"]

SHELL = "Bash"
PATCH = "apply_patch"
MCP_PREFIX = "mcp__"
COLLABORATION = "collaboration"
"""What the names of the tools for sub-agents begin with in code mode."""

KINDS: Mapping[str, ToolKind] = {
    SHELL: ToolKind.SHELL,
    PATCH: ToolKind.PATCH,
    "view_image": ToolKind.READ,
    "write_stdin": ToolKind.SHELL_INPUT,
    "web_search": ToolKind.WEB_SEARCH,
    "request_user_input": ToolKind.QUESTION,
    "update_plan": ToolKind.INTERNAL,
    "tool_search": ToolKind.INTERNAL,
    "get_goal": ToolKind.INTERNAL,
    "create_goal": ToolKind.INTERNAL,
    "update_goal": ToolKind.INTERNAL,
    "list_mcp_resources": ToolKind.MCP,
    "list_mcp_resource_templates": ToolKind.MCP,
    "read_mcp_resource": ToolKind.MCP,
}
_AGENT_TOOLS = frozenset({
    "close_agent", "followup_task", "interrupt_agent", "list_agents", "resume_agent", "send_input", "send_message",
    "spawn_agent", "wait_agent",
})  # fmt: skip

HIDDEN: Mapping[str, tuple[str, ...]] = {
    SHELL: ("tty", "yield_time_ms", "max_output_tokens", "login", "shell", "sandbox_permissions"),
}
"""Parameters that hooks are not told."""

Fields = Mapping[str, JsonValue]


def mcp_name(server: str, tool: str) -> str:
    """What hooks call a tool of a server."""
    return f"{MCP_PREFIX}{server}__{tool}"


def kind_of(name: str) -> ToolKind:
    """What a native tool does."""
    if name.startswith(MCP_PREFIX):
        return ToolKind.MCP
    if name.removeprefix(COLLABORATION) in _AGENT_TOOLS or name.rpartition("__")[2] in _AGENT_TOOLS:
        return ToolKind.AGENT
    return KINDS.get(name, ToolKind.UNKNOWN)


def subject_of(name: str, native: JsonValue) -> Subject:
    """What a call is about; empty where the input lacks what the tool needs."""
    fields: Fields = native if isinstance(native, dict) else {}
    if name.startswith(MCP_PREFIX):
        server, _, tool = name.removeprefix(MCP_PREFIX).partition("__")
        return Subject(mcp=f"{server}/{tool}")
    match name:
        case "Bash":
            return Subject(command=_text(fields, "command"))
        case "apply_patch":
            return Subject(paths=tuple(dict.fromkeys(one.path for one in touched(_text(fields, "command") or ""))))
        case "view_image":
            path = _text(fields, "path")
            return Subject(paths=(path,) if path else ())
        case "read_mcp_resource" | "list_mcp_resources" | "list_mcp_resource_templates":
            asked = _text(fields, "server")
            return Subject(mcp=f"{asked}/resource" if asked else None)
        case _:
            return Subject()


def describe(call: ToolCall) -> ToolCall:
    """The call with kind and subject read anew from its native name and input."""
    kind, subject = kind_of(call.tool_name), subject_of(call.tool_name, call.input)
    return call.model_copy(update={"tool_kind": kind, "subject": subject})


def _text(fields: Fields, key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) else None
