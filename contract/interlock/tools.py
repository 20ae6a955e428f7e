"""One vocabulary over the tools of every agent.

An adapter says of each native call what kind it is and what it is about; rules, postures and hooks read only that, so
one rule serves every agent. The native name and input stay beside it, unchanged.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from interlock.model import JsonValue, Model

__all__ = ["MAIN_AGENT", "Subject", "ToolCall", "ToolKind"]

MAIN_AGENT = "main"
"""The `agent_id` of a run's main agent; a sub-agent has an id of its own."""


class ToolKind(StrEnum):
    """What a tool does, whatever an agent calls it; from our own tables, never from an agent's annotation."""

    SHELL = "shell"
    """Runs a command."""
    SHELL_INPUT = "shell_input"
    """Types into a command that is already running, or reads from it or stops it."""
    READ = "read"
    """Reads files or lists directories."""
    SEARCH = "search"
    """Searches in files or for files."""
    EDIT = "edit"
    """Changes a part of an existing file."""
    WRITE = "write"
    """Writes a whole file."""
    PATCH = "patch"
    """Applies a patch that may touch several files."""
    FETCH = "fetch"
    """Fetches a URL."""
    WEB_SEARCH = "web_search"
    """Searches the web."""
    MCP = "mcp"
    """Calls a tool of an MCP server; `Subject.mcp` names it."""
    AGENT = "agent"
    """Starts or talks to a sub-agent, whose own calls are judged one by one."""
    PLAN = "plan"
    """Enters or leaves the agent's planning mode."""
    QUESTION = "question"
    """Asks the user something."""
    INTERNAL = "internal"
    """Touches nothing outside the agent: a todo list, structured output, tool search."""
    UNKNOWN = "unknown"
    """A tool that our table does not have."""


class Subject(Model):
    """What a call is about, read out of the native input; paths and URLs as the agent wrote them."""

    command: str | None = None
    """The shell command line."""
    paths: tuple[str, ...] = ()
    """The files and directories that the call names."""
    urls: tuple[str, ...] = ()
    """The URLs that the call fetches."""
    mcp: str | None = None
    """`server/tool` for a call of an MCP tool."""


class ToolCall(Model):
    """One call of one tool, as the agent is about to make it or has made it."""

    tool_call_id: str
    """The agent's own id of the call, unique within its `agent_id`."""
    tool_name: str
    """The native name."""
    input: JsonValue
    """The native input, or the raw string where the agent sent something that is no JSON."""
    tool_kind: ToolKind = ToolKind.UNKNOWN
    subject: Subject = Field(default_factory=Subject)
    agent_id: str = MAIN_AGENT
    """`main`, or the id of the sub-agent that makes the call."""
    cwd: str | None = None
    """The directory the call runs in, where the agent says so."""
    hidden: tuple[str, ...] = ()
    """Parameters of the call that this agent does not show."""
