"""From the syntax tree of a command line to the simple commands in it.

The tree is a proposal. What it says counts only as far as the text bears it out: between two things stands nothing but
blanks, words hold only characters that every shell takes alike, statements are separated, keywords stand where keywords
can. Whatever is not on the lists here makes the whole unfit for an allow rule; whatever could hide a command makes it
`hidden`, so that a deny rule takes it for everything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.engine.shell_heredocs import index_of
from interlock.engine.shell_text import Word, joined, read_bare

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

__all__ = ["KEYWORDS", "Command", "Feed", "Redirect", "Walk"]

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


KEYWORDS = frozenset(
    ["if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function", "in", "{", "}", "[[", "]]", "!", "repeat", "foreach", "end"]
)
_STEADY = frozenset(["HOME", "PWD", "OLDPWD", "USER", "LOGNAME", "HOSTNAME", "TMPDIR", "VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOPATH"])
"""Variables that hold one word unless the command line says otherwise."""
_HARMLESS = re.compile(
    r"(?!npm_|argv|status|prompt|options|watch|commands|builtins|parameters|modules|signals|keymap|history|words)"
    r"[a-z](?!\w*(?:path|proxy|functions|aliases|dirs|stat[eu]s|chars|stack|groups|trace)\Z)[a-z0-9_]*\Z"
)
"""Names of variables that mean nothing to shells and programs."""
_GAP = re.compile(r"(?:[ \t]|\\\n)*\Z")
_LINES = re.compile(r"(?:[ \t\n]|\\\n)*\Z")
_ACTIVE = re.compile(r"[;&|<>$`()'\"\\!\r]")
_PLAIN_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-])\Z")
_PLAIN_EXPANSION = re.compile(
    r"\$\{(?:#?[A-Za-z_][A-Za-z0-9_]*|[A-Za-z_][A-Za-z0-9_]*(?::?[-+][\w ./:,@=-]*|##?[\w*?./:@-]*|%%?[\w*?./:@-]*))\}\Z"
)
_NUMBERS = re.compile(r"\$\(\([\d\s+*/%()-]*\)\)\Z")
_LATER = re.compile(r"\$\(|`[^`]*`|`|\(e:")
"""What a shell would run if it ever read the text once more."""
_SUBSTITUTED = frozenset({"command_substitution", "process_substitution"})
_OPENERS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "{", "(", "$(", "<(", ">(", "&&", "||"})
_PIPES = frozenset({"|", "|&"})
_CLOSERS = frozenset({"then", "else", "elif", "do", "done", "fi", "}"})
_CLAUSES = frozenset({"elif_clause", "else_clause"})
_REDIRECTS = frozenset({"<", ">", ">>", ">|", "&>", "&>>", ">&", "<&"})
_TESTS = re.compile(r"-[fdezns rwxLh]|==?|!=|!")


@dataclass(slots=True)
class Walk:
    """Reads one tree. `complete` and `hidden` hold for all that was read."""

    text: bytes
    commands: list[Command] = field(default_factory=list[Command])
    redirects: list[Redirect] = field(default_factory=list[Redirect])
    scripts: list[str] = field(default_factory=list[str])
    """Text in it that a shell reads once more."""
    complete: bool = True
    hidden: bool = False
    _depth: int = 0

    def statement(self, node: Node, feed: Feed | None = None) -> None:
        """Read one statement, or a whole program."""
        self._depth += 1
        if self._depth > DEEPEST or node.is_missing or node.is_error:
            self._hide()
        if self._depth <= DEEPEST:
            _STATEMENTS.get(node.type, Walk._other)(self, node, feed)
        self._depth -= 1

    def _doubt(self) -> None:
        self.complete = False

    def _hide(self) -> None:
        self.complete = False
        self.hidden = True

    def _slice(self, start: int, end: int) -> str:
        return self.text[start:end].decode(errors="replace")

    def _said(self, node: Node) -> str:
        return self._slice(node.start_byte, node.end_byte)

    # ---- statements -------------------------------------------------------------------------------------------------

    def _sequence(self, node: Node, feed: Feed | None) -> None:
        """Statements, keywords and operators in a row."""
        position, separate = node.start_byte, True
        for child in node.children:
            gap = self._slice(position, child.start_byte)
            position = child.end_byte
            if not _LINES.match(gap):
                self._hide()
            lines = "\n" in gap.replace("\\\n", "")
            if child.type == "comment":
                self._comment(child)
                continue
            if child.is_named:
                if not (separate or lines):
                    self._hide()
                self.statement(child, feed)
                separate = child.type in _CLAUSES and self._said(child).rstrip().endswith((";", "&"))
                continue
            feed, separate = self._operator(child.type, feed, separate=separate, lines=lines)
        if node.type == "program" and not (_LINES.match(self._slice(0, node.start_byte)) and self._ends(position)):
            self._hide()

    def _ends(self, position: int) -> bool:
        return _LINES.match(self._slice(position, len(self.text))) is not None

    def _operator(self, text: str, feed: Feed | None, *, separate: bool, lines: bool) -> tuple[Feed | None, bool]:
        if text in _CLOSERS and not (separate or lines):
            self._hide()
        if text in {";", "&"}:
            if text == "&" or separate or lines:
                self._doubt()
            return feed, True
        if text in _PIPES or text in {"&&", "||"}:
            if lines:
                self._hide()
            return (Feed() if text in _PIPES else feed), True
        if text not in _OPENERS and text not in _CLOSERS and text not in {")", "\n"}:
            self._doubt()
        return feed, text in _OPENERS

    def _comment(self, node: Node) -> None:
        before = self._slice(max(0, node.start_byte - 1), node.start_byte)
        if before not in {"", " ", "\t", "\n"}:
            self._hide()
        if _ACTIVE.search(self._said(node)) or self.text[: node.start_byte].rpartition(b"\n")[2].strip(b" \t"):
            self._doubt()

    def _subshell(self, node: Node, feed: Feed | None) -> None:
        if self._said(node).startswith("(("):
            self._hide()
        self._sequence(node, feed)

    def _compound(self, node: Node, feed: Feed | None) -> None:
        if self._said(node).startswith("(("):
            self._other(node, feed)
        else:
            self._sequence(node, feed)

    def _negated(self, node: Node, feed: Feed | None) -> None:
        if not re.match(r"![ \t]+[^!\s]", self._said(node)):
            self._doubt()
        for child in node.named_children:
            self.statement(child, feed)

    def _for(self, node: Node, feed: Feed | None) -> None:
        head = self._slice(node.start_byte, node.children[-1].start_byte)
        if not re.match(r"for[ \t]+\w+[ \t]+in[ \t]", head) or not re.search(r"[;\n][ \t\n]*\Z", head):
            self._doubt()
        position = node.start_byte
        for child in node.children:
            gap = self._slice(position, child.start_byte)
            position = child.end_byte
            if child.type == "comment" or not (_LINES if child.type in {"do_group", "do"} else _GAP).match(gap):
                self._doubt()
            if child.type == "variable_name":
                self._assigns(self._said(child))
            elif child.type == "do_group":
                self.statement(child, feed)
            elif child.is_named:
                self._word(child)

    def _case(self, node: Node, feed: Feed | None) -> None:
        self._doubt()
        for child in node.named_children:
            if child.type == "case_item":
                self._case_item(child, feed)
            elif child.type != "comment":
                self._word(child)

    def _case_item(self, node: Node, feed: Feed | None) -> None:
        in_body = False
        for child in node.children:
            in_body = in_body or child.type == ")"
            if not child.is_named or child.type == "comment":
                continue
            if in_body:
                self.statement(child, feed)
            elif child.type in _WORDS:
                self._word(child)
            else:
                self._later(child)

    def _function(self, node: Node, feed: Feed | None) -> None:
        """What it is called with, and what it reads, is not known here."""
        del feed
        self._doubt()
        for child in node.named_children:
            if child.type not in {"word", "comment"}:
                self.statement(child, Feed())

    def _other(self, node: Node, feed: Feed | None) -> None:
        """What has no form of its own here: never fit for an allow rule, yet what it runs is looked for."""
        self._doubt()
        for child in node.named_children:
            if child.type in _STATEMENTS:
                self.statement(child, feed)
            elif child.type in _WORDS:
                self._word(child)
            elif child.type != "comment":
                self._depth += 1
                if self._depth > DEEPEST or child.is_error:
                    self._hide()
                else:
                    self._other(child, feed)
                self._depth -= 1
        self._residue(node)

    def _residue(self, node: Node) -> None:
        """Hidden, if there is a substitution in the text of a node that none of its descendants accounts for."""
        if len(_LATER.findall(self._said(node))) > _count(node):
            self._hide()

    # ---- commands ---------------------------------------------------------------------------------------------------

    def _redirected(self, node: Node, feed: Feed | None) -> None:
        body = [child for child in node.children if child.type not in _REDIRECTIONS]
        extra: list[Word] = []
        self._blanks(node)
        for child in node.children:
            if child.type in _REDIRECTIONS:
                feed = self._redirect(child, extra) or feed
        if not body:
            self._null_command(feed)
        if len(body) > 1 or (extra and (not body or body[0].type != "command")):
            self._hide()
        for child in body:
            if child.type == "command":
                self._command(child, feed, tuple(extra))
            else:
                self.statement(child, feed)

    def _null_command(self, feed: Feed | None) -> None:
        """A redirection alone opens its file; zsh runs `cat` or `more` with it."""
        self._doubt()
        self.commands.extend(Command((Word((name,)),), feed) for name in ("cat", "more"))

    def _blanks(self, node: Node) -> None:
        """The children of a command are separated by blanks, but for a redirection that begins with its operator."""
        position: int | None = None
        for child in node.children:
            if position is not None:
                gap = self._slice(position, child.start_byte)
                touches = child.type in _REDIRECTIONS and self.text[child.start_byte : child.start_byte + 1] in b"<>&"
                if not _GAP.match(gap) or not (touches or " " in gap or "\t" in gap):
                    self._hide()
            position = child.end_byte

    def _command(self, node: Node, feed: Feed | None, extra: tuple[Word, ...] = ()) -> None:
        words: list[Word] = []
        assigned: list[str] = []
        self._blanks(node)
        for child in node.children:
            if child.type in _REDIRECTIONS:
                feed = self._redirect(child, words) or feed
            elif child.type == "variable_assignment" and not words:
                assigned.append(self._assignment(child))
            elif child.type == "command_name":
                words.extend(map(self._word, child.children))
            else:
                words.append(self._word(child))
        words.extend(extra)
        if words and words[0].bare and words[0].literal in KEYWORDS:
            self._hide()
        if any(word.bare and word.literal in {"{", "}"} for word in words):
            self._hide()
        if words:
            self.commands.append(Command(tuple(words), feed, tuple(assigned)))
        elif len(assigned) < node.child_count:
            self._null_command(feed)

    def _redirect(self, node: Node, extra: list[Word]) -> Feed | None:
        """The input that a redirection gives; words behind its target belong to the command."""
        operator = next((child for child in node.children if not child.is_named), None)
        kind = operator.type if operator is not None else ""
        position = node.start_byte
        targets: list[Word] = []
        for child in node.children:
            gap = self._slice(position, child.start_byte)
            if not _GAP.match(gap) or (gap and child is operator) or (targets and not gap):
                self._hide()
            position = child.end_byte
            if child.is_named and child.type != "file_descriptor":
                targets.append(self._word(child))
        descriptor = node.children[0]
        if descriptor.type == "file_descriptor" and not re.fullmatch(r"[0-9]", self._said(descriptor)):
            self._hide()
        extra.extend(targets[1:])
        return self._opened(kind, targets[0] if targets else None)

    def _opened(self, kind: str, target: Word | None) -> Feed | None:
        if kind in {">&-", "<&-"}:
            return None
        if kind == "<<<" and target is not None:
            return Feed(target)
        if kind not in _REDIRECTS or target is None:
            self._hide()
            return Feed()
        copies = kind in {">&", "<&"} and re.fullmatch(r"[0-9]|-", target.literal or "")
        if kind == "<&" and not copies:
            self._doubt()
        here = index_of(target.literal) if kind == "<" else None
        if here is not None:
            return Feed(here=here)
        if not copies:
            self.redirects.append(Redirect(target, writes=kind not in {"<", "<&"}))
        return None if ">" in kind else Feed()

    def _declaration(self, node: Node, feed: Feed | None) -> None:
        self._doubt()
        words = [Word((self._said(node.children[0]),))]
        for child in node.named_children:
            if child.type == "variable_assignment":
                words.append(Word((self._assignment(child), None)))
            elif child.type == "variable_name":
                words.append(Word((self._said(child),)))
            elif child.type in _WORDS:
                words.append(self._word(child))
            else:
                self._later(child)
        self.commands.append(Command(tuple(words), feed))

    def _test(self, node: Node, feed: Feed | None) -> None:
        """`[` and `[[` count as `test`; what compares numbers can run what a variable holds."""
        operands = self._operands(node)
        self.commands.append(Command((Word(("test",)), *operands), feed))

    def _operands(self, node: Node) -> list[Word]:
        found: list[Word] = []
        position: int | None = None
        for child in node.children:
            if position is not None and not _GAP.match(self._slice(position, child.start_byte)):
                self._hide()
            position = child.end_byte
            if child.type in _WORDS:
                found.append(self._word(child))
            elif child.type in {"unary_expression", "binary_expression"}:
                found.extend(self._operands(child))
            elif child.type not in {"[", "]", "[[", "]]"} and not _TESTS.fullmatch(self._said(child)):
                self._doubt()
                self._later(child)
        return found

    def _assignments(self, node: Node, feed: Feed | None) -> None:
        del feed
        self._blanks(node)
        for child in node.children:
            self._assignment(child)

    def _assign(self, node: Node, feed: Feed | None) -> None:
        del feed
        self._assignment(node)

    def _assignment(self, node: Node) -> str:
        name, value = node.children[0], node.children[-1]
        if not re.fullmatch(r"\w+\+?=", self._slice(node.start_byte, node.children[1].end_byte)):
            self._doubt()
        if name.type == "subscript":
            self._later(name)
        if value.is_named and value.start_byte == node.children[1].end_byte and value.type in _WORDS:
            word = self._word(value)
            if _RUNS.search(self._said(name)):
                self._script(word)
        elif value.is_named:
            self._later(value)
            self._doubt()
        self._residue(value)
        self._assigns(self._said(name))
        return self._said(name)

    def _assigns(self, name: str) -> None:
        if not _HARMLESS.match(name):
            self._doubt()

    def _script(self, word: Word) -> None:
        self._doubt()
        if word.literal is None:
            self._hide()
        elif word.literal:
            self.scripts.append(word.literal.lstrip("!"))

    # ---- words ------------------------------------------------------------------------------------------------------

    def _later(self, node: Node) -> None:
        """Look for what runs inside something that is no word."""
        self._depth += 1
        if self._depth > DEEPEST or node.is_error or node.is_missing:
            self._hide()
        elif node.type in _STATEMENTS:
            self._doubt()
            self.statement(node, Feed())
        else:
            _READERS.get(node.type, Walk._opaque)(self, node)
        self._depth -= 1

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
        if re.search(r"\$[\w{(\[@*#?$!-]|[\"`]", re.sub(r"\\.", "", text, flags=re.DOTALL)):
            self._hide()
        if "!" in text or "$" in text:
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

    def _ansi(self, node: Node) -> None:
        del node
        self._doubt()

    def _raw(self, node: Node) -> None:
        """Text in single quotes runs nothing, here."""

    def _in_word(self, node: Node) -> None:
        self._word(node)


_RUNS = re.compile(r"COMMAND\Z|EDITOR\Z|PAGER\Z|VISUAL\Z|BROWSER\Z|SSH\Z|ASKPASS\Z|\ALESS(?:OPEN|CLOSE)\Z|\APS[0-4]\Z|ENV\Z")
"""Variables that hold a command, or the name of a file with commands."""
_REDIRECTIONS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_STATEMENTS: dict[str, Callable[[Walk, Node, Feed | None], None]] = {
    **dict.fromkeys(
        ("program", "list", "pipeline", "do_group", "if_statement", "elif_clause", "else_clause", "while_statement"),
        Walk._sequence,
    ),
    "compound_statement": Walk._compound,
    "subshell": Walk._subshell,
    "negated_command": Walk._negated,
    "for_statement": Walk._for,
    "case_statement": Walk._case,
    "function_definition": Walk._function,
    "redirected_statement": Walk._redirected,
    "command": Walk._command,
    "declaration_command": Walk._declaration,
    "unset_command": Walk._declaration,
    "test_command": Walk._test,
    "variable_assignments": Walk._assignments,
    "variable_assignment": Walk._assign,
}
_READERS: dict[str, Callable[[Walk, Node], None]] = {
    "simple_expansion": Walk._variable,
    "expansion": Walk._expansion,
    "arithmetic_expansion": Walk._arithmetic,
    "command_substitution": Walk._substitution,
    "process_substitution": Walk._substitution,
    "ansi_c_string": Walk._ansi,
    "raw_string": Walk._raw,
    **dict.fromkeys(("word", "string", "concatenation"), Walk._in_word),
}
_WORDS = frozenset({*_READERS, "number", "brace_expression", "translated_string", "extglob_pattern"})


def _count(node: Node) -> int:
    """How many substitutions the tree sees below a node."""
    own = node.type in _SUBSTITUTED or node.type == "arithmetic_expansion"
    return own + sum(map(_count, node.named_children))
