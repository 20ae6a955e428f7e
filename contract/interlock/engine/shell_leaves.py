"""The words of a syntax tree, down to the last character, and what their expansions run.

A word counts as what the tree says only where every character of it is accounted for: plain ones, quotes, and
expansions of a form that does nothing but put a value in. Arithmetic, subscripts and indirection can run what a value
says.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.engine.shell_text import Word, joined, read_bare

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["DEEPEST", "STATEMENTS", "WORDS", "Command", "Feed", "Leaves", "Redirect"]

DEEPEST = 40
"""Levels of nesting past which a command line is not read."""


@dataclass(frozen=True, slots=True)
class Feed:
    """What a command reads on its standard input."""

    word: Word | None = None
    """The text, where it is known."""
    here: int | None = None
    """The number of a here-document."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """A file that the shell opens for a command."""

    target: Word
    writes: bool


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command as it is written."""

    words: tuple[Word, ...]
    feed: Feed | None = None
    """None: the input of the shell itself."""
    assigned: tuple[str, ...] = ()
    """The variables that are set for this command alone."""


_STEADY = frozenset(
    [
        "HOME",
        "PWD",
        "OLDPWD",
        "USER",
        "LOGNAME",
        "HOSTNAME",
        "TMPDIR",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "JAVA_HOME",
        "GOPATH",
    ]
)
"""Variables that hold one word unless the command line says otherwise."""
_PLAIN_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-])\Z")
_PLAIN_EXPANSION = re.compile(
    r"\$\{(?:#?[A-Za-z_][A-Za-z0-9_]*"
    r"|[A-Za-z_][A-Za-z0-9_]*(?::?[-+][\w ./:,@=-]*|##?[\w*?./:@-]*|%%?[\w*?./:@-]*))\}\Z"
)
_NUMBERS = re.compile(r"\$\(\([\d\s+*/%()-]*\)\)\Z")
_LATER = re.compile(r"\$\(|`[^`]*`|`|\(e:")
"""What a shell would run if it ever read the text once more."""
_SUBSTITUTED = frozenset({"command_substitution", "process_substitution"})
_NAMES = """
    program list pipeline do_group if_statement elif_clause else_clause while_statement compound_statement subshell
    negated_command for_statement case_statement function_definition redirected_statement command declaration_command
    unset_command test_command variable_assignments variable_assignment
"""
STATEMENTS = frozenset(_NAMES.split())
"""The kinds of nodes that are statements, or hold some."""


@dataclass(slots=True)
class Leaves(ABC):
    """Reads words. `complete` and `hidden` hold for all that was read."""

    text: bytes
    scripts: list[str] = field(default_factory=list[str])
    """Text in it that a shell reads once more."""
    complete: bool = True
    hidden: bool = False
    _depth: int = 0

    @abstractmethod
    def statement(self, node: Node, feed: Feed | None = None) -> None:
        """Read one statement, or a whole program."""

    @abstractmethod
    def _sequence(self, node: Node, feed: Feed | None) -> None:
        """Read statements, keywords and operators in a row."""

    def _doubt(self) -> None:
        self.complete = False

    def _hide(self) -> None:
        self.complete = False
        self.hidden = True

    def _slice(self, start: int, end: int) -> str:
        return self.text[start:end].decode(errors="replace")

    def _said(self, node: Node) -> str:
        return self._slice(node.start_byte, node.end_byte)

    def _residue(self, node: Node) -> None:
        """Hidden, if there is a substitution in the text of a node that none of its descendants accounts for."""
        if len(_LATER.findall(self._said(node))) > _count(node):
            self._hide()

    def _later(self, node: Node) -> None:
        """Look for what runs inside something that is no word."""
        self._depth += 1
        if self._depth > DEEPEST or node.is_error or node.is_missing:
            self._hide()
        elif node.type in STATEMENTS:
            self._doubt()
            self.statement(node, Feed())
        else:
            self._look(node)
        self._depth -= 1

    def _look(self, node: Node) -> None:
        match node.type:
            case "simple_expansion":
                self._variable(node)
            case "expansion":
                self._expansion(node)
            case "arithmetic_expansion":
                self._arithmetic(node)
            case "command_substitution" | "process_substitution":
                self._substitution(node)
            case "ansi_c_string":
                self._doubt()
            case "raw_string":
                pass
            case "word" | "string" | "concatenation":
                self._word(node)
            case _:
                self._opaque(node)

    def _opaque(self, node: Node) -> None:
        self._doubt()
        for child in node.named_children:
            self._later(child)
        self._residue(node)

    def _word(self, node: Node) -> Word:
        pieces: list[str | None] = []
        skeleton: list[str] = []
        flags = {"splits": False, "many": False, "bare": True}
        position = node.start_byte
        for child in node.children if node.type == "concatenation" else [node]:
            if child.start_byte != position:
                self._hide()
            position = child.end_byte
            self._piece(child, pieces, skeleton, flags)
        return joined(pieces, "".join(skeleton), splits=flags["splits"], many=flags["many"], bare=flags["bare"])

    def _piece(self, node: Node, pieces: list[str | None], skeleton: list[str], flags: dict[str, bool]) -> None:
        match node.type:
            case "word" | "number" | "extglob_pattern" | "variable_name" | "test_operator" if not node.child_count:
                bare = read_bare(self._said(node))
                pieces.extend(bare.pieces)
                skeleton.append(self._said(node))
                flags["many"] = flags["many"] or bare.glob
                flags["bare"] = flags["bare"] and "\\" not in self._said(node)
                self.complete = self.complete and not bare.odd
                if bare.broken:
                    self._hide()
                return
            case "raw_string":
                pieces.append(self._said(node)[1:-1])
            case "string":
                pieces.extend(self._string(node, flags))
            case "command_substitution" | "simple_expansion" | "expansion":
                self._later(node)
                flags["splits"] = flags["splits"] or not self._is_steady(node)
                pieces.append(None)
            case _:
                self._later(node)
                flags["many"] = flags["many"] or node.type == "brace_expression"
                pieces.append(None)
        flags["bare"] = False
        skeleton.append("\0")

    def _string(self, node: Node, flags: dict[str, bool]) -> list[str | None]:
        """The pieces of a string in double quotes; every character of it is accounted for."""
        pieces: list[str | None] = []
        position = node.start_byte + 1
        if not self._said(node).startswith('"') or not self._said(node).endswith('"'):
            self._hide()
        for child in node.named_children:
            if child.type != "string_content":
                pieces += [self._quoted(self._slice(position, child.start_byte)), None]
                position = child.end_byte
                flags["splits"] = flags["splits"] or self._said(child) in {"$@", "${@}"} or "[@]" in self._said(child)
                self._later(child)
        pieces.append(self._quoted(self._slice(position, node.end_byte - 1)))
        return pieces

    def _quoted(self, text: str) -> str:
        active = re.sub(r"\\.", "", text, flags=re.DOTALL)
        if re.search(r"\$[\w{(\[@*#?$!-]|[\"`]", active):
            self._hide()
        if re.search(r"\$[^\s\\]|![^\s=]", active):
            self._doubt()
        return re.sub(r"\\([\\$`\"\n])", lambda found: found[1].strip("\n"), text)

    def _is_steady(self, node: Node) -> bool:
        name = re.sub(r"[${}]", "", self._said(node))
        if self._said(node) in {"$#", "$?", "$$", "$!"}:
            return True
        elsewhere = rf"(?<![\w$]){name}(?!\w)" if name.isidentifier() else ""
        return name in _STEADY and not re.search(elsewhere, re.sub(r"\$\{", "$", self.text.decode()))

    def _variable(self, node: Node) -> None:
        following = self._slice(node.end_byte, node.end_byte + 1) if self.text[node.end_byte :][:1].isascii() else "é"
        if not _PLAIN_VARIABLE.match(self._said(node)) or re.match(r"\[|[^\W]|[^\x00-\x7f]", following):
            self._doubt()

    def _expansion(self, node: Node) -> None:
        if not _PLAIN_EXPANSION.match(self._said(node)):
            self._doubt()
            if re.search(r"@[A-Za-z]\}", self._said(node)):
                self._hide()
            for child in node.named_children:
                self._later(child)
            self._residue(node)

    def _arithmetic(self, node: Node) -> None:
        if not _NUMBERS.match(self._said(node)):
            self._opaque(node)

    def _substitution(self, node: Node) -> None:
        text = self._said(node)
        if text.startswith("`"):
            self._doubt()
            self.scripts.append(re.sub(r"\\([\\$`])", r"\1", text[1:-1]))
            return
        if not text.startswith(("$(", "<(", ">(")) or not text.endswith(")"):
            self._hide()
        if text.startswith("$(<"):
            self._doubt()
        self._sequence(node, Feed() if text.startswith(">(") else None)


_READ = frozenset({"simple_expansion", "expansion", "arithmetic_expansion", *_SUBSTITUTED})
WORDS = frozenset(
    {
        *_READ,
        *("word", "string", "raw_string", "ansi_c_string", "concatenation"),
        *("number", "brace_expression", "translated_string", "extglob_pattern"),
    }
)
"""The kinds of nodes that are words."""


def _count(node: Node) -> int:
    """How many substitutions the tree sees below a node."""
    own = node.type in _SUBSTITUTED or node.type == "arithmetic_expansion"
    return own + sum(map(_count, node.named_children))
