"""What a posture lets run unasked, and the closed list of shell readers.

A reader is a command line whose every part is of literal words, of a program and options that only read what they name,
with operands that count as reads; it may pipe one part into the next and throw output away. The list is closed: what is
not on it is no reader. Programs that a repository can make run others (git, rg, find, sed, awk, sort, env, xargs) are
not on it, and no reader is trusted once another unsandboxed command ran in the session, since that could have replaced
what the names mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never

from interlock.engine.places import Place, Spellings, inside
from interlock.engine.shell_split import Part, split
from interlock.engine.shell_text import literals
from interlock.permission import Posture
from interlock.tools import ToolCall, ToolKind

__all__ = ["PROTECTED", "STREAMS", "covers", "is_internal", "reader_operands", "touched"]

_PROTECTED = """
    .git .gitmodules .gitconfig .claude .claude.json .codex .copilot .cursor .gemini .opencode .agents .interlock
    .mcp.json .vscode .idea .devcontainer .husky .githooks .direnv .envrc .bashrc .bash_profile .bash_login .profile
    .zshrc .zshenv .zprofile .ripgreprc
"""
PROTECTED = frozenset(_PROTECTED.split())
"""Names that no posture but `full` lets change anywhere: they configure or run programs. And `.github/hooks`."""

_INTERNAL = frozenset({ToolKind.INTERNAL, ToolKind.PLAN, ToolKind.QUESTION})


def is_internal(kind: ToolKind) -> bool:
    """Whether a call touches nothing outside the agent and its user, so that it runs under every posture."""
    return kind in _INTERNAL


def covers(posture: Posture, call: ToolCall, place: Place, *, confined: bool, readers_void: bool) -> bool:
    """Whether the posture lets the call run unasked.

    `confined` says that the agent's sandbox enforces this posture on commands; `readers_void` that another unsandboxed
    command has run in the session.
    """
    if posture is Posture.FULL or is_internal(call.tool_kind):
        return True
    if posture is Posture.NONE:
        return False
    match call.tool_kind:
        case ToolKind.READ | ToolKind.SEARCH:
            return _every_path(call, place, place.is_inside)
        case ToolKind.EDIT | ToolKind.WRITE | ToolKind.PATCH:
            return posture is Posture.EDIT and _every_path(call, place, lambda path: _may_change(path, place))
        case ToolKind.SHELL:
            return confined or (not readers_void and _reads_inside(call, place))
        case ToolKind.AGENT:
            return True
        case (
            ToolKind.SHELL_INPUT
            | ToolKind.FETCH
            | ToolKind.WEB_SEARCH
            | ToolKind.MCP
            | ToolKind.UNKNOWN
            | ToolKind.PLAN
            | ToolKind.QUESTION
            | ToolKind.INTERNAL
        ):
            return False
        case _:
            assert_never(call.tool_kind)


def _every_path(call: ToolCall, place: Place, fine: Callable[[Spellings], bool]) -> bool:
    found = [place.spellings(path, call.cwd) for path in call.subject.paths]
    return bool(found) and all(spellings is not None and fine(spellings) for spellings in found)


def _may_change(path: Spellings, place: Place) -> bool:
    roots = (*place.roots, *place.written_roots)
    below = [one[len(root.rstrip("/")) :] for one in path.all for root in roots if inside(one, root)]
    return place.is_inside(path) and not any(map(_is_protected, below))


def _is_protected(path: str) -> bool:
    names = [name.casefold().rstrip(". ") for name in path.split("/") if name]
    return not PROTECTED.isdisjoint(names) or (".github", "hooks") in pairwise(names)


# ---- Readers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reader:
    flags: str = ""
    """Letters that may stand alone or together after one `-`."""
    counts: str = ""
    """Letters that take a number, in the same word or the next."""
    operands: str = "files"
    """`files`: at least one; `folder`: the current one if none; `text`: words that are no paths; `none`."""


_READERS = {
    "pwd": _Reader("LP", operands="none"),
    "true": _Reader(operands="none"),
    "false": _Reader(operands="none"),
    "echo": _Reader("n", operands="text"),
    "basename": _Reader(operands="text"),
    "dirname": _Reader(operands="text"),
    "ls": _Reader("1aAlhtrSFdpn", operands="folder"),
    "cat": _Reader("nbsETvet"),
    "head": _Reader("qv", counts="nc"),
    "tail": _Reader("qv", counts="nc"),
    "wc": _Reader("lwcmL"),
    "stat": _Reader("t"),
}
_NUMBER = re.compile(r"[+-]?[0-9]{1,12}\Z")


STREAMS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
"""What a shell may open for any command."""


def reader_operands(command: str | None) -> tuple[str, ...] | None:
    """The paths that a reader's command line reads; None if any part of it is no reader."""
    found = split(command or "")
    if not found.complete or not found.parts or any(one.target.literal not in STREAMS for one in found.redirects):
        return None
    paths: list[str] = []
    for part in found.parts:
        operands = _read_by(part)
        if operands is None:
            return None
        paths.extend(operands)
    return tuple(dict.fromkeys(paths))


def touched(command: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths that a command line is sure to read, and those that it is sure to write, as far as they are plain."""
    found = split(command or "")
    reads = [path for part in found.parts for path in _read_by(part) or ()]
    opened = {one: one.target.literal for one in found.redirects if one.target.literal not in {None, *STREAMS}}
    reads += [path for one, path in opened.items() if path and not one.writes]
    return tuple(dict.fromkeys(reads)), tuple(path for one, path in opened.items() if path and one.writes)


def _read_by(part: Part) -> tuple[str, ...] | None:
    """The paths that one part reads; None if it is no reader."""
    words = literals(part.words)
    reader = _READERS.get(words[0]) if words else None
    if words is None or reader is None or part.role != "plain":
        return None
    operands = _operands(words[1:], reader)
    if operands is None:
        return None
    match reader.operands:
        case "none":
            return None if operands else ()
        case "text":
            return ()
        case "folder":
            return operands or (".",)
        case _:
            return operands or (() if part.fed else None)


def _operands(words: tuple[str, ...], reader: _Reader) -> tuple[str, ...] | None:
    """The words that are no options; None for an option that is not on the list."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            found.append(word)
        elif len(word) == 2 and word[1] in reader.counts:
            if not _NUMBER.match(next(rest, "")):
                return None
        elif not _is_option(word[1:], reader):
            return None
    return tuple(found) if all(found) else None


def _is_option(letters: str, reader: _Reader) -> bool:
    if not letters:
        return False
    if reader.counts and (letters.isdecimal() or (letters[0] in reader.counts and _NUMBER.match(letters[1:]))):
        return True
    return all(letter in reader.flags for letter in letters)


def _reads_inside(call: ToolCall, place: Place) -> bool:
    operands = reader_operands(call.subject.command)
    if operands is None:
        return False
    found = [place.spellings(path, call.cwd) for path in operands]
    return all(spellings is not None and place.is_inside(spellings) for spellings in found)
