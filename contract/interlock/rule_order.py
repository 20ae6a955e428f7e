"""Whether one rule lies within another, read from their texts alone.

Bounds are made of this: a rule that may be added is one that lies within a rule that was left open. What cannot be
seen from the texts counts as not within, so a bound may refuse too much and never too little.
"""

from __future__ import annotations

import re

from interlock.permission import rule_parts
from interlock.tools import ToolKind

__all__ = ["within"]

_CHANGES = frozenset({ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH})
_READS = frozenset({ToolKind.READ, ToolKind.SEARCH})
_OPEN_END = re.compile(r"(?::\*|[ \t]+\*)\Z")
_WILD = re.compile(r"[*?]")


def within(rule: str, room: str) -> bool:
    """Whether all that the allow rule `rule` matches is surely matched by `room`."""
    if room in {rule, "*"}:
        return True
    (kind, pattern), (open_kind, limit) = rule_parts(rule), rule_parts(room)
    if "*" in {kind, open_kind} or not _kinds(kind) <= _kinds(open_kind):
        return False
    if limit is None or (open_kind == ToolKind.SHELL and limit.strip() == "*"):
        return True
    return pattern is not None and _narrower(ToolKind(open_kind), pattern.strip(), limit.strip())


def _kinds(word: str) -> frozenset[ToolKind]:
    kind = ToolKind(word)
    if kind in _CHANGES:
        return _CHANGES
    if kind is ToolKind.READ:
        return _READS
    return frozenset({ToolKind.SHELL, ToolKind.SHELL_INPUT}) if kind is ToolKind.SHELL else frozenset({kind})


def _narrower(kind: ToolKind, pattern: str, limit: str) -> bool:
    if pattern == limit:
        return True
    if kind is ToolKind.SHELL:
        return _command_within(pattern, limit)
    if kind in _CHANGES | _READS:
        return _path_within(pattern, limit)
    return kind is ToolKind.MCP and _tool_within(pattern, limit)


def _command_within(pattern: str, limit: str) -> bool:
    """`git push:*` holds `git push`, and whatever goes on after a space."""
    start = _OPEN_END.sub("", limit)
    if start == limit:
        return False
    rest = pattern.removeprefix(start)
    return pattern.startswith(start) and (not rest or rest[0] in " \t" or rest == ":*")


def _path_within(pattern: str, limit: str) -> bool:
    """Below a literal folder of the workspace; what is absolute may lead anywhere by links, so it must be the same."""
    if {pattern[:1], limit[:1]} & {"/", "~"} or ".." in pattern.split("/"):
        return False
    if limit in {"**", "./**"}:
        return True
    folder = limit.removeprefix("./")
    folder = folder.removesuffix("**") if folder.endswith("/**") else folder
    if not folder.endswith("/") or _WILD.search(folder):
        return False
    return pattern.removeprefix("./").startswith(folder)


def _tool_within(pattern: str, limit: str) -> bool:
    """A tool of a server that is wholly open."""
    server, _, tools = limit.partition("/")
    return tools in {"", "*"} and not _WILD.search(server) and pattern.partition("/")[0] == server
