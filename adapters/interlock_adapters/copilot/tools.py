"""Copilot's tools in the shared vocabulary: native name and input to kind and subject.

The names are those of Copilot CLI 1.0.102; which of them a model has depends on the model. A tool that the table lacks
is `unknown`, which only the posture `full` lets run unasked. A tool of an MCP server is called `SERVER-TOOL`: it is one
only if the server is one of the run, since the name alone could be split in several ways.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping

from interlock.capabilities import Unmet
from interlock.framing.patch import touched
from interlock.model import JsonValue
from interlock.tools import Subject, ToolCall, ToolKind

__all__ = ["ASK_USER", "PATCH", "SHELL", "Tools", "describe", "unmet_server_names"]

SHELL = "bash"
PATCH = "apply_patch"
ASK_USER = "ask_user"

KINDS: Mapping[str, ToolKind] = {
    SHELL: ToolKind.SHELL,
    "read_bash": ToolKind.SHELL_INPUT,
    "write_bash": ToolKind.SHELL_INPUT,
    "stop_bash": ToolKind.SHELL_INPUT,
    "list_bash": ToolKind.SHELL_INPUT,
    "view": ToolKind.READ,
    "create": ToolKind.WRITE,
    "edit": ToolKind.EDIT,
    PATCH: ToolKind.PATCH,
    "grep": ToolKind.SEARCH,
    "rg": ToolKind.SEARCH,
    "glob": ToolKind.SEARCH,
    "web_fetch": ToolKind.FETCH,
    "web_search": ToolKind.WEB_SEARCH,
    "task": ToolKind.AGENT,
    "read_agent": ToolKind.AGENT,
    "write_agent": ToolKind.AGENT,
    "list_agents": ToolKind.AGENT,
    ASK_USER: ToolKind.QUESTION,
    "exit_plan_mode": ToolKind.PLAN,
    "report_intent": ToolKind.INTERNAL,
    "sql": ToolKind.INTERNAL,
}
"""`sql` asks the session's own database of tasks, which refuses to open or write any file (1.0.102)."""
Fields = Mapping[str, JsonValue]


class Tools:
    """The vocabulary of one run, which knows the MCP servers."""

    def __init__(self, servers: Iterable[str] = ()) -> None:
        self._servers = tuple(servers)

    def mcp(self, name: str) -> str | None:
        """`server/tool` for a tool of a server of this run."""
        fitting = [server for server in self._servers if name.startswith(f"{server}-") and name not in KINDS]
        if len(fitting) != 1:
            return None
        return f"{fitting[0]}/{name.removeprefix(fitting[0] + '-')}"

    def kind_of(self, name: str) -> ToolKind:
        """What a native tool does."""
        return ToolKind.MCP if self.mcp(name) is not None else KINDS.get(name, ToolKind.UNKNOWN)

    def subject_of(self, name: str, native: JsonValue) -> Subject:
        """What a call is about; empty where the input lacks what the tool needs."""
        if (mcp := self.mcp(name)) is not None:
            return Subject(mcp=mcp)
        return _subject_of(name, native)


def describe(call: ToolCall) -> ToolCall:
    """The call with kind and subject read anew; of an MCP tool both follow from its name, which stays."""
    if call.tool_kind is ToolKind.MCP and call.tool_name not in KINDS:
        return call
    kind = KINDS.get(call.tool_name, ToolKind.UNKNOWN)
    return call.model_copy(update={"tool_kind": kind, "subject": _subject_of(call.tool_name, call.input)})


def unmet_server_names(servers: Iterable[str]) -> Iterator[Unmet]:
    """Names that would make a tool's name ambiguous."""
    names = sorted(servers)
    for name in names:
        field = f"mcp_servers.{name}"
        if not name or not all(char.isascii() and (char.isalnum() or char in "_-") for char in name):
            reason = "a name is letters, digits, `_` and `-`"
            yield Unmet(field=field, value=name, reason=reason, alternatives=("another name",))
        elif any(name != other and name.startswith(f"{other}-") for other in names):
            reason = "begins with the name of another server, so that its tools could be that one's"
            yield Unmet(field=field, value=name, reason=reason, alternatives=("another name",))


def _subject_of(name: str, native: JsonValue) -> Subject:
    if name == PATCH:
        return Subject(paths=tuple(dict.fromkeys(one.path for one in touched(_patch_text(native)))))
    fields: Fields = native if isinstance(native, dict) else {}
    read = _SUBJECTS.get(name)
    return read(fields) if read else Subject()


def _patch_text(native: JsonValue) -> str:
    """The patch, which is the whole input; an object is read too, for a rule about a path must see it."""
    if isinstance(native, dict):
        return "\n".join(value for value in native.values() if isinstance(value, str))
    return native if isinstance(native, str) else ""


def _text(fields: Fields, key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) else None


def _command(fields: Fields) -> Subject:
    return Subject(command=_text(fields, "command"))


def _path(fields: Fields) -> Subject:
    path = _text(fields, "path")
    return Subject(paths=(path,) if path else ())


def _searched(fields: Fields) -> Iterator[str]:
    for key in ("path", "paths"):
        given = fields.get(key)
        yield from (one for one in given if isinstance(one, str)) if isinstance(given, list) else ()
        if isinstance(given, str):
            yield given


def _search(fields: Fields) -> Subject:
    return Subject(paths=tuple(_searched(fields)) or (".",))


def _glob(fields: Fields) -> Subject:
    """The folders that are searched, and the pattern where it can leave them."""
    bases, pattern = tuple(_searched(fields)) or (".",), _text(fields, "pattern") or ""
    leaves = pattern.startswith(("/", "~")) or ".." in pattern
    return Subject(paths=(*bases, *(posixpath.join(base, pattern) for base in bases if leaves)))


def _url(fields: Fields) -> Subject:
    url = _text(fields, "url")
    return Subject(urls=(url,) if url else ())


_SUBJECTS: Mapping[str, Callable[[Fields], Subject]] = {
    SHELL: _command,
    "view": _path,
    "create": _path,
    "edit": _path,
    "grep": _search,
    "rg": _search,
    "glob": _glob,
    "web_fetch": _url,
}
