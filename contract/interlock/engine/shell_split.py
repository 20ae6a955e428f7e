"""All simple commands that a command line would run.

    split("cd a && GIT_DIR=x git push | tee $LOG")   the parts `cd a`, `git push` with a variable set, `tee` with a
                                                     word that nobody knows
    complete   everything was understood, down to the last character, in a way that bash, dash and zsh share
    hidden     something could run that no part names

Strategy: here-documents are cut out first, the rest is parsed with tree-sitter and checked against the text, then every
command is looked through for what it runs itself. An allow rule asks only for what is complete; a deny rule takes what
is hidden for anything.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from interlock.engine.shell_heredocs import NAME, Body, cut, substitutions
from interlock.engine.shell_inner import Inner, Role, look_into
from interlock.engine.shell_leaves import Command, Redirect
from interlock.engine.shell_text import Word
from interlock.engine.shell_tree import Walk
from interlock.engine.shell_words import KEYWORDS, LONGEST, simple_words

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

__all__ = ["Part", "Redirect", "Split", "Word", "split"]

PARSE_SECONDS = 1.0
"""A command line that takes longer to parse is not read: some inputs take a parser quadratic time."""
MOST_PARTS = 2_000
"""Commands that one command line may hold, those that only could be some included."""
MOST_HEREDOCS = 16
MOST_PIPES = 2_000
"""A parser takes quadratic time for long pipelines, and cannot be interrupted there."""
DEEPEST_TEXT = 6
"""How often a text may run a text."""


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command."""

    words: tuple[Word, ...]
    role: Role = "plain"
    fed: bool = False
    """It reads a pipe, a file or a text rather than the input of the shell."""


@dataclass(frozen=True, slots=True)
class Split:
    """The parts of a command line."""

    parts: tuple[Part, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    complete: bool = True
    hidden: bool = False


HIDDEN = Split(complete=False, hidden=True)


@lru_cache(maxsize=32)
def split(command: str) -> Split:
    """The parts of `command`; never raises."""
    work = _Work()
    try:
        work.text(command, "plain", 0)
    except Exception:  # noqa: BLE001  # what a hostile line breaks, too deep a tree above all, was not understood
        return HIDDEN
    found = tuple(dict.fromkeys(work.parts))
    return Split(found, tuple(dict.fromkeys(work.redirects)), work.complete and not work.hidden, work.hidden)


class _Work:
    """One splitting, with all the texts that run texts."""

    def __init__(self, budget: list[int] | None = None) -> None:
        self.budget = budget if budget is not None else [MOST_PARTS]
        self.parts: list[Part] = []
        self.redirects: list[Redirect] = []
        self.complete = True
        self.hidden = False

    def hide(self) -> None:
        self.complete, self.hidden = False, True

    def text(self, text: str, role: Role, depth: int) -> None:
        """Read one command line."""
        words = simple_words(text)
        if words is not None and words[0] not in KEYWORDS:
            self.command(Command(tuple(Word((word,)) for word in words)), role, depth)
            return
        if not text.strip():
            self.complete = False
            return
        if depth > DEEPEST_TEXT or len(text) > LONGEST or text.count("|") > MOST_PIPES or NAME in text:
            self.hide()
            return
        if not _is_text(text):
            self.hide()
            return
        self._parsed(text, role, depth)

    def _parsed(self, text: str, role: Role, depth: int) -> None:
        bodies: list[Body] = []
        tree = _parse(text)
        while tree is not None and (start := _heredoc(tree.root_node, text)) is not None:
            taken = cut(text, start, len(bodies)) if len(bodies) < MOST_HEREDOCS else None
            if taken is None:
                self.hide()
                break
            text, body = taken
            bodies.append(body)
            tree = _parse(text)
        if tree is None:
            self.hide()
            return
        self._walked(tree.root_node, text, bodies, role, depth)

    def _walked(self, root: Node, text: str, bodies: list[Body], role: Role, depth: int) -> None:
        walk = Walk(text.encode())
        walk.statement(root)
        self.complete = self.complete and walk.complete
        if walk.hidden or root.has_error:
            self.hide()
        self.redirects.extend(walk.redirects)
        for script in walk.scripts:
            self.text(script, role, depth + 1)
        for body in bodies:
            self._body(body, role, depth)
        for command in walk.commands:
            if command.assigned:
                self.complete = False
            self.command(_with_bodies(command, bodies), role, depth)
        self._written_and_run()

    def _body(self, body: Body, role: Role, depth: int) -> None:
        commands, all_found = ([], True) if body.literal else substitutions(body.text)
        if not all_found:
            self.hide()
        for command in commands:
            self.complete = False
            self.text(command, role, depth + 1)

    def _written_and_run(self) -> None:
        """A file that the line writes and then runs could hold anything."""
        written = {_base(redirect.target) for redirect in self.redirects if redirect.writes} - {"null", None}
        run = {_base(word) for part in self.parts for word in part.words[:1]}
        scripts = {_base(word) for part in self.parts if part.role == "wrapper" for word in part.words[1:]}
        if not written.isdisjoint(run | scripts):
            self.hide()

    def command(self, command: Command, role: Role, depth: int) -> None:
        """Read one command, and what it runs."""
        self.budget[0] -= 1
        if self.budget[0] < 0 or depth > DEEPEST_TEXT:
            self.hide()
            return
        inner = look_into(command)
        own: Role = inner.role if role == "plain" else role
        self.parts.append(Part(command.words, own, command.feed is not None))
        if role == "remote" or not inner.complete:
            self.complete = False
        if inner.hidden:
            self.hide()
            return
        self._inner(command, inner, role, depth + 1)

    def _inner(self, command: Command, inner: Inner, role: Role, depth: int) -> None:
        for words in inner.commands:
            self.command(replace(command, words=words), role, depth)
        for text in inner.texts:
            self.text(text, role, depth)
        for text in inner.remote_texts:
            self.text(text, "remote", depth)
        if inner.guesses:
            self._guess(command, inner, depth)

    def _guess(self, command: Command, inner: Inner, depth: int) -> None:
        """Words that could be commands. What they would hide is no news of a program that could do anything."""
        guess = _Work(self.budget)
        for words in inner.guesses:
            guess.command(replace(command, words=words), "guess", depth)
        for text in inner.guessed_texts:
            guess.text(text, "guess", depth)
        self.parts.extend(guess.parts)
        if self.budget[0] < 0:
            self.hide()


def _base(word: Word) -> str | None:
    last = word.pieces[-1] if word.pieces and not word.many else None
    return last.rpartition("/")[2].casefold() or None if last is not None else None


def _with_bodies(command: Command, bodies: list[Body]) -> Command:
    """The command with the text that a here-document feeds it, where it is fed as it stands."""
    feed = command.feed
    if feed is None or feed.here is None:
        return command
    body = bodies[feed.here]
    return replace(command, feed=replace(feed, word=Word((body.text,)) if body.literal else None))


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _heredoc(root: Node, text: str) -> int | None:
    """Where the operator of the first here-document stands, in characters."""
    pending = [root]
    first: int | None = None
    while pending:
        node = pending.pop()
        if node.type == "heredoc_start" or (node.type in {"<<", "<<-"} and _is_redirection(node)):
            at = node.start_byte if node.type != "heredoc_start" else _operator_before(text, node.start_byte)
            first = at if first is None else min(first, at)
        pending.extend(node.children)
    return len(text.encode()[:first].decode(errors="ignore")) if first is not None else None


def _is_redirection(node: Node) -> bool:
    return node.parent is not None and node.parent.type in {"heredoc_redirect", "ERROR"}


def _operator_before(text: str, start: int) -> int:
    return max(0, text.encode()[:start].rfind(b"<<"))


def _parse(text: str) -> Tree | None:
    """The tree; None if it takes too long."""
    from tree_sitter import Parser  # noqa: PLC0415  # loaded when a command line has to be read

    source = text.encode()
    deadline = time.monotonic() + PARSE_SECONDS
    try:
        return Parser(_language()).parse(
            lambda offset, _: source[offset : offset + LONGEST],
            progress_callback=lambda _offset, _error: time.monotonic() > deadline,
        )
    except ValueError:
        return None


@lru_cache(maxsize=1)
def _language() -> Language:
    import tree_sitter_bash  # noqa: PLC0415  # loaded when a command line has to be read
    from tree_sitter import Language  # noqa: PLC0415

    return Language(tree_sitter_bash.language())
