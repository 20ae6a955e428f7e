"""Claude Code's tools in the shared vocabulary: native name and input to kind and subject.

The names are those of Claude Code 2.1.197 to 2.1.332. A tool that the table lacks is `unknown`, which only the posture
`full` lets run unasked.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import cast

from interlock.model import JsonValue
from interlock.tools import Subject, ToolCall, ToolKind

__all__ = ["canonical_name", "describe", "kind_of", "subject_of"]

KINDS: Mapping[str, ToolKind] = {
    "Bash": ToolKind.SHELL,
    "PowerShell": ToolKind.SHELL,
    "Monitor": ToolKind.SHELL,
    "BashOutput": ToolKind.SHELL_INPUT,
    "KillBash": ToolKind.SHELL_INPUT,
    "KillShell": ToolKind.SHELL_INPUT,
    "TaskOutput": ToolKind.SHELL_INPUT,
    "TaskStop": ToolKind.SHELL_INPUT,
    "Read": ToolKind.READ,
    "LS": ToolKind.READ,
    "NotebookRead": ToolKind.READ,
    "Grep": ToolKind.SEARCH,
    "Glob": ToolKind.SEARCH,
    "Edit": ToolKind.EDIT,
    "MultiEdit": ToolKind.EDIT,
    "NotebookEdit": ToolKind.EDIT,
    "Write": ToolKind.WRITE,
    "WebFetch": ToolKind.FETCH,
    "WebSearch": ToolKind.WEB_SEARCH,
    "ListMcpResourcesTool": ToolKind.MCP,
    "ReadMcpResourceTool": ToolKind.MCP,
    "Agent": ToolKind.AGENT,
    "Task": ToolKind.AGENT,
    "SendMessage": ToolKind.AGENT,
    "EnterPlanMode": ToolKind.INTERNAL,
    "ExitPlanMode": ToolKind.PLAN,
    "AskUserQuestion": ToolKind.QUESTION,
    "TodoWrite": ToolKind.INTERNAL,
    "TaskCreate": ToolKind.INTERNAL,
    "TaskGet": ToolKind.INTERNAL,
    "TaskList": ToolKind.INTERNAL,
    "TaskUpdate": ToolKind.INTERNAL,
    "ToolSearch": ToolKind.INTERNAL,
    "ListAgents": ToolKind.INTERNAL,
    "ReportFindings": ToolKind.INTERNAL,
    "StructuredOutput": ToolKind.INTERNAL,
}

_MCP_PREFIX = "mcp__"
Fields = Mapping[str, JsonValue]


def canonical_name(name: str) -> str:
    """`Task` is the sub-agent tool's other name: the stream repeats the model's word, hooks say `Agent`."""
    return "Agent" if name == "Task" else name


def kind_of(name: str) -> ToolKind:
    """What a native tool does."""
    if name.startswith(_MCP_PREFIX):
        return ToolKind.MCP
    return KINDS.get(name, ToolKind.UNKNOWN)


def subject_of(name: str, native: JsonValue) -> Subject:
    """What a call is about; empty where the input is no object or lacks what the tool needs."""
    if name.startswith(_MCP_PREFIX):
        server, _, tool = name.removeprefix(_MCP_PREFIX).partition("__")
        return Subject(mcp=f"{server}/{tool}")
    fields: Fields = native if isinstance(native, dict) else {}
    read = _SUBJECTS.get(name)
    return read(fields) if read else Subject()


def describe(call: ToolCall) -> ToolCall:
    """The call with kind and subject read anew from its native name and input."""
    kind, subject = kind_of(call.tool_name), subject_of(call.tool_name, call.input)
    return call.model_copy(update={"tool_kind": kind, "subject": subject})


def _text(fields: Fields, key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) else None


def _command(fields: Fields) -> Subject:
    return Subject(command=_text(fields, "command"))


def _path(key: str) -> Callable[[Fields], Subject]:
    def read(fields: Fields) -> Subject:
        path = _text(fields, key)
        return Subject(paths=(path,) if path else ())

    return read


def _grep(fields: Fields) -> Subject:
    return Subject(paths=(_text(fields, "path") or ".",))


def _glob(fields: Fields) -> Subject:
    """The folder that is searched, and the pattern where it can leave that folder."""
    base, pattern = _text(fields, "path") or ".", _text(fields, "pattern") or ""
    leaves = pattern.startswith(("/", "~")) or ".." in pattern
    return Subject(paths=(base, posixpath.join(base, pattern)) if leaves else (base,))


def _url(fields: Fields) -> Subject:
    url = _text(fields, "url")
    return Subject(urls=(url,) if url else ())


def _resource(fields: Fields) -> Subject:
    server = _text(fields, "server")
    return Subject(mcp=f"{server}/resource") if server else Subject()


_SUBJECTS: Mapping[str, Callable[[Fields], Subject]] = {
    "Bash": _command,
    "PowerShell": _command,
    "Monitor": _command,
    "Read": _path("file_path"),
    "LS": _path("path"),
    "NotebookRead": _path("notebook_path"),
    "Grep": _grep,
    "Glob": _glob,
    "Edit": _path("file_path"),
    "MultiEdit": _path("file_path"),
    "NotebookEdit": _path("notebook_path"),
    "Write": _path("file_path"),
    "WebFetch": _url,
    "ListMcpResourcesTool": _resource,
    "ReadMcpResourceTool": _resource,
}


def changed_path(name: str, native: JsonValue) -> str | None:
    """The file that a successful call of this tool has written; None for tools that write none."""
    if kind_of(name) not in {ToolKind.EDIT, ToolKind.WRITE} or not isinstance(native, dict):
        return None
    fields = cast("Fields", native)
    return _text(fields, "file_path") or _text(fields, "notebook_path")
