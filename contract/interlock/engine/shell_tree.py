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
from interlock.engine.shell_leaves import DEEPEST, STATEMENTS, WORDS, Command, Feed, Leaves, Redirect
from interlock.engine.shell_text import Word
from interlock.engine.shell_words import KEYWORDS

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Walk"]


_HARMLESS = re.compile(
    r"(?!npm_|argv|status|prompt|options|watch|commands|builtins|parameters|modules|signals|keymap|history|words)"
    r"[a-z](?!\w*(?:path|proxy|functions|aliases|dirs|stat[eu]s|chars|stack|groups|trace)\Z)[a-z0-9_]*\Z"
)
"""Names of variables that mean nothing to shells and programs."""
_GAP = re.compile(r"(?:[ \t]|\\\n)*\Z")
_LINES = re.compile(r"(?:[ \t\n]|\\\n)*\Z")
_ACTIVE = re.compile(r"[;&|<>$`()'\"\\!\r]")
_OPENERS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "{", "(", "$(", "<(", ">(", "&&", "||"})
_PIPES = frozenset({"|", "|&"})
_CLOSERS = frozenset({"then", "else", "elif", "do", "done", "fi", "}"})
_CLAUSES = frozenset({"elif_clause", "else_clause"})
_REDIRECTS = frozenset({"<", ">", ">>", ">|", "&>", "&>>", ">&", "<&"})
_TESTS = re.compile(r"-[fdezns rwxLh]|==?|!=|!")
_RUNS = re.compile(
    r"(?:COMMAND|EDITOR|PAGER|VISUAL|BROWSER|SSH|ASKPASS|ENV)\Z|\ALESS(?:OPEN|CLOSE)\Z|\APS[0-4]\Z",
)
"""Variables that hold a command, or the name of a file with commands."""
_REDIRECTIONS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})


@dataclass(slots=True)
class Walk(Leaves):
    """Reads one tree. `complete` and `hidden` hold for all that was read."""

    commands: list[Command] = field(default_factory=list[Command])
    redirects: list[Redirect] = field(default_factory=list[Redirect])

    def statement(self, node: Node, feed: Feed | None = None) -> None:
        """Read one statement, or a whole program."""
        self._depth += 1
        if self._depth > DEEPEST or node.is_missing or node.is_error:
            self._hide()
        if self._depth <= DEEPEST:
            self._statement(node, feed)
        self._depth -= 1

    def _statement(self, node: Node, feed: Feed | None) -> None:
        match node.type:
            case "program" | "list" | "pipeline" | "do_group" | "while_statement":
                self._sequence(node, feed)
            case "if_statement" | "elif_clause" | "else_clause":
                self._sequence(node, feed)
            case "compound_statement" | "subshell":
                self._grouped(node, feed)
            case "negated_command":
                self._negated(node, feed)
            case "for_statement":
                self._for(node, feed)
            case "case_statement":
                self._case(node, feed)
            case "function_definition":
                self._function(node)
            case "redirected_statement":
                self._redirected(node, feed)
            case "command":
                self._command(node, feed)
            case "declaration_command" | "unset_command":
                self._declaration(node, feed)
            case "test_command":
                self._test(node, feed)
            case "variable_assignments":
                self._assignments(node)
            case "variable_assignment":
                self._assignment(node)
            case _:
                self._other(node, feed)

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

    def _grouped(self, node: Node, feed: Feed | None) -> None:
        """`{ }` and `( )`; what begins with two parentheses is arithmetic for some shells and commands for others."""
        if not self._said(node).startswith("(("):
            self._sequence(node, feed)
            return
        if node.type == "subshell" or not self._said(node).endswith("))"):
            self._hide()
        self.scripts.append(self._said(node)[2:-2])
        self._other(node, feed)

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
            elif child.type in WORDS:
                self._word(child)
            else:
                self._later(child)

    def _function(self, node: Node) -> None:
        """What it is called with, and what it reads, is not known here."""
        self._doubt()
        for child in node.named_children:
            if child.type not in {"word", "comment"}:
                self.statement(child, Feed())

    def _other(self, node: Node, feed: Feed | None) -> None:
        """What has no form of its own here: never fit for an allow rule, yet what it runs is looked for."""
        self._doubt()
        for child in node.named_children:
            if child.type in STATEMENTS:
                self.statement(child, feed)
            elif child.type in WORDS:
                self._word(child)
            elif child.type != "comment":
                self._depth += 1
                if self._depth > DEEPEST or child.is_error:
                    self._hide()
                else:
                    self._other(child, feed)
                self._depth -= 1
        self._residue(node)

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
        """The children of a command are separated by blanks, but for a redirection that begins with its operator.

        `&>` ends a command in some shells, so that what follows is another.
        """
        position: int | None = None
        for child in node.children:
            if position is not None:
                gap = self._slice(position, child.start_byte)
                touches = child.type in _REDIRECTIONS and self.text[child.start_byte : child.start_byte + 1] in b"<>&"
                if not _GAP.match(gap) or not (touches or " " in gap or "\t" in gap):
                    self._hide()
            position = child.end_byte
            if child.type == "file_redirect" and "&>" in self._said(child) and child.end_byte != node.end_byte:
                self._hide()

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
        numbered = descriptor.type == "file_descriptor"
        if numbered and (kind.startswith("&") or not re.fullmatch(r"[0-9]", self._said(descriptor))):
            self._hide()
        if kind.startswith("&") and len(targets) > 1:
            self._hide()
        extra.extend(targets[1:])
        return self._opened(kind, targets[0] if targets else None)

    def _opened(self, kind: str, target: Word | None) -> Feed | None:
        if kind in {">&-", "<&-"}:
            if target is not None:
                self._hide()
            return None
        if kind == "<<<" and target is not None:
            return Feed(target)
        if kind not in _REDIRECTS or target is None:
            self._hide()
            return Feed()
        copies = kind in {">&", "<&"} and re.fullmatch(r"[0-9]|-", target.literal or "")
        if kind in {">&", "<&"} and not copies:
            self._doubt()
            if not re.match(r"[\w/.]", "".join(piece or "/" for piece in target.pieces)):
                self._hide()
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
            elif child.type in WORDS:
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
            if child.type in WORDS:
                found.append(self._word(child))
            elif child.type in {"unary_expression", "binary_expression"}:
                found.extend(self._operands(child))
            elif child.type not in {"[", "]", "[[", "]]"} and not _TESTS.fullmatch(self._said(child)):
                self._doubt()
                self._later(child)
        return found

    def _assignments(self, node: Node) -> None:
        self._blanks(node)
        for child in node.children:
            self._assignment(child)

    def _assignment(self, node: Node) -> str:
        name, value = node.children[0], node.children[-1]
        if not re.fullmatch(r"\w+\+?=", self._slice(node.start_byte, node.children[1].end_byte)):
            self._doubt()
        if name.type == "subscript":
            self._later(name)
        if value.is_named and value.start_byte == node.children[1].end_byte and value.type in WORDS:
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
