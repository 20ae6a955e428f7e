"""A tool call as it is typed: the agent's own (`Bash {"command": "ls"}`), or by kind (`shell: ls`).

By kind is for rules, which know nothing else; the agent's own goes through its adapter's table, as in a run.
"""

from __future__ import annotations

import re
from typing import cast

from interlock.engine.registry import find_adapter
from interlock.framing.json_objects import NotJson, parse_object
from interlock.model import JsonValue
from interlock.tools import Subject, ToolCall, ToolKind
from interlock_adapters.cli.options import UsageProblem

__all__ = ["parse_call"]

_BY_KIND = re.compile(r"\s*(?P<kind>[a-z_]+):(?:\s+(?P<rest>.*))?\Z", re.DOTALL)
_NATIVE = re.compile(r"\s*(?P<name>[\w.-]+)\s*(?P<input>\{.*\}\s*)?\Z", re.DOTALL)
_MCP = re.compile(r"(?P<tool>[^\s{]+)\s*(?P<input>\{.*\})?\Z", re.DOTALL)
_PATHS = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH})
_FORMS = (
    """write it as the agent's own, as in Bash {"command": "ls"}, or by kind, as in 'shell: ls', 'read: a.txt', """
    """'write: a.txt', 'fetch: https://example.com', 'mcp: server/tool {}'"""
)


def parse_call(text: str, agent: str, *, native: bool = False) -> ToolCall:
    """The call that the text spells; raises `UsageProblem`, and `UnknownAgent` for a native call of none.

    `native`: hooks are to read it, so it must be the agent's own.
    """
    by_kind = _BY_KIND.match(text)
    if by_kind is not None:
        if native:
            raise UsageProblem("--with-hooks needs the agent's own call, as in Bash {...}: that is what hooks read")
        return _by_kind(by_kind["kind"], (by_kind["rest"] or "").strip())
    found = _NATIVE.match(text)
    if found is None:
        raise UsageProblem(f"{text!r} is no call: {_FORMS}")
    call = ToolCall(tool_call_id="explain", tool_name=found["name"], input=_object(found["input"]))
    return find_adapter(agent).describe(call)


def _by_kind(word: str, rest: str) -> ToolCall:
    if word not in set(ToolKind):
        raise UsageProblem(f"{word!r} is no kind of tool; kinds: {', '.join(ToolKind)}")
    kind = ToolKind(word)
    if not rest and kind not in {ToolKind.INTERNAL, ToolKind.PLAN, ToolKind.QUESTION}:
        raise UsageProblem(f"'{word}:' says nothing about the call; {_FORMS}")
    made = ToolCall(tool_call_id="explain", tool_name=word, input={}, tool_kind=kind)
    match kind:
        case ToolKind.SHELL | ToolKind.SHELL_INPUT:
            return made.model_copy(update={"input": {"command": rest}, "subject": Subject(command=rest)})
        case ToolKind.FETCH:
            return made.model_copy(update={"input": {"url": rest}, "subject": Subject(urls=(rest,))})
        case ToolKind.MCP:
            return _mcp(made, rest)
        case _ if kind in _PATHS:
            return made.model_copy(update={"input": {"path": rest}, "subject": Subject(paths=(rest,))})
        case _:
            return made.model_copy(update={"tool_name": rest or word})


def _mcp(made: ToolCall, rest: str) -> ToolCall:
    found = _MCP.match(rest)
    if found is None or "/" not in found["tool"].strip("/"):
        raise UsageProblem(f"mcp {rest!r}: name server and tool, as in 'mcp: github/create_issue {{}}'")
    update = {"tool_name": found["tool"], "input": _object(found["input"]), "subject": Subject(mcp=found["tool"])}
    return made.model_copy(update=update)


def _object(text: str | None) -> JsonValue:
    value = parse_object((text or "{}").encode(errors="surrogateescape"))
    if isinstance(value, NotJson):
        raise UsageProblem(f"the input {(text or '').strip()!r} is not one JSON object: {value.reason}")
    return cast("JsonValue", value)
