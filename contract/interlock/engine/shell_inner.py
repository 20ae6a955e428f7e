"""What one simple command runs besides itself: through wrappers, shells, `find -exec`, `git -c`, `eval`..."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from interlock.engine.shell_leaves import Command
from interlock.engine.shell_text import Word, literals
from interlock.engine.shell_words import KEYWORDS, RUN_OTHERS
from interlock.engine.shell_wrappers import (
    LOOSE,
    SHELLS,
    STRICT,
    Wrapper,
    options,
    read_shell,
    replaced,
    starts,
    unwrap,
)

__all__ = ["Inner", "Role", "look_into"]


Role = Literal["plain", "through", "wrapper", "remote", "guess"]
"""`through`: it only runs another command. `wrapper`: it also changes how. `guess`: words that could be a command."""


@dataclass(slots=True)
class Inner:
    """What a command runs."""

    role: Role = "plain"
    commands: list[tuple[Word, ...]] = field(default_factory=list[tuple[Word, ...]])
    texts: list[str] = field(default_factory=list[str])
    remote_texts: list[str] = field(default_factory=list[str])
    guesses: list[tuple[Word, ...]] = field(default_factory=list[tuple[Word, ...]])
    guessed_texts: list[str] = field(default_factory=list[str])
    complete: bool = True
    hidden: bool = False

    def hide(self) -> None:
        """Something could run that cannot be told."""
        self.complete, self.hidden = False, True

    def script(self, text: str | None) -> None:
        """A text that a shell reads here."""
        if text is None:
            self.hide()
        elif text.strip():
            self.texts.append(text)


def look_into(command: Command) -> Inner:
    """Everything that the command runs besides itself."""
    inner = Inner()
    words = command.words
    if not words or words[0].literal is None:
        inner.complete = False
        return inner
    name = words[0].literal.rpartition("/")[2].casefold()
    _special(name, command, inner)
    return inner


def _special(name: str, command: Command, inner: Inner) -> None:
    words = command.words
    if name in _OWN:
        inner.role = "wrapper"
        inner.complete = False
        _OWN[name](command, inner)
    elif name in SHELLS:
        _shell(command, inner)
    elif name in STRICT:
        _wrapper(name, words, inner)
    elif name in _FINDERS:
        _find(words, inner)
    elif name == "git":
        _git(words, inner)
    elif name in {"rsync", "tar", "scp", "sftp"}:
        _transports(words, inner)
    elif name in LOOSE:
        _loose(words, LOOSE[name].split(), inner)
    elif name in RUN_OTHERS:
        inner.role = "wrapper"
        inner.complete = False
        _loose(words, [], inner)
    if name in _EVALUATES and any(piece and _LATER.search(piece) for word in words[1:] for piece in word.pieces):
        inner.hide()


MOST_WORDS = 400
"""Words of a command past which nobody guesses which of them begins another."""
_LATER = re.compile(r"\$\(|`")
_EVALUATES = frozenset(
    {"test", "[", "printf", "read", "unset", "let", "wait", "declare", "typeset", "local", "export", "readonly"}
)
"""Builtins that evaluate the subscript of a variable that they are given by name."""
_FINDERS = frozenset({"find", "gfind", "fd", "fdfind"})


def _shell(command: Command, inner: Inner) -> None:
    call = read_shell(command.words)
    inner.role = "wrapper"
    inner.complete = False
    match call.kind:
        case "text" if call.word is not None:
            inner.script(call.word.literal)
            if call.plain and command.words[0].literal in SHELLS and command.feed is None:
                inner.role, inner.complete = "through", True
        case "input":
            _fed(command, inner)
        case "script":
            pass
        case _:
            inner.hide()


def _fed(command: Command, inner: Inner) -> None:
    """A shell that reads its commands."""
    if command.feed is not None:
        inner.script(command.feed.word.literal if command.feed.word is not None else None)


def _wrapper(name: str, words: tuple[Word, ...], inner: Inner) -> None:
    wrapped = unwrap(name, words)
    inner.role = "through" if STRICT[name].through and words[0].literal == name else "wrapper"
    inner.complete = inner.role == "through"
    if name == "command" and len(words) > 1 and words[1].literal in {"-v", "-V"}:
        inner.role, inner.complete = "plain", False
    elif wrapped.words is None:
        inner.role, inner.complete = "wrapper", False
        _loose(words, [], inner)
        if name == "xargs":
            inner.hide()
        if name == "env" and any((word.pieces[:1] or [""])[0] in {None, "-S"} for word in words[1:]):
            inner.hide()
    elif wrapped.words:
        inner.commands.append(wrapped.words)
        if wrapped.assigned:
            inner.role, inner.complete = "wrapper", False
        if wrapped.words[0].bare and wrapped.words[0].literal in KEYWORDS - {"!"}:
            inner.hide()
    else:
        inner.role, inner.complete = "wrapper", False


def _find(words: tuple[Word, ...], inner: Inner) -> None:
    """`find -exec` and its kin; `{}` is anything."""
    position = 1
    marks = {"-exec", "-execdir", "-ok", "-okdir", "--exec", "--exec-batch", "-x", "-X"}
    while position < len(words):
        if words[position].literal not in marks:
            position += 1
            continue
        end = position + 1
        while end < len(words) and words[end].literal not in {";", "+"}:
            end += 1
        found = tuple(replaced(word, "{}") for word in words[position + 1 : end])
        if found:
            inner.commands.append(found)
        position = end
    if any(word.splits or word.blank for word in words[1:]):
        inner.complete = inner.complete and not inner.commands


def _git(words: tuple[Word, ...], inner: Inner) -> None:
    """Commands in git's own options: configuration on the command line, `!` aliases, `--exec`, `foreach`."""
    texts = [word.literal for word in words]
    for before, text in pairwise(texts):
        if text is None:
            continue
        value = text.partition("=")[2] if before in {"-c", "--config-env"} or text.startswith("-c") else ""
        if before in {"--exec", "-x", "foreach", "run", "--tree-filter", "--index-filter", "--msg-filter", "--extcmd"}:
            value = text
        if text.startswith(("--exec=", "--upload-pack=", "--receive-pack=", "--extcmd=")):
            value = text.partition("=")[2]
        if text.startswith("!") or value:
            inner.complete = False
            inner.guesses.extend(starts(words[texts.index(text) - 1 :]))
            inner.guessed_texts.append((value or text).lstrip("!"))


def _transports(words: tuple[Word, ...], inner: Inner) -> None:
    texts = [word.literal for word in words]
    for before, text in pairwise(texts):
        if text is None:
            continue
        found = re.match(r"(?:--(?:rsh|rsync-path|to-command|use-compress-program|checkpoint-action)=)(?:exec=)?", text)
        ssh = _SSH_RUNS.match(text.removeprefix("-o"))
        if found or ssh or (before in {"-e", "-I", "-S"} and not text.startswith("-")):
            inner.complete = False
            inner.guessed_texts.append(text[found.end() if found else ssh.end() if ssh else 0 :])
            inner.guesses.append((Word((text,)),))


_SSH_RUNS = re.compile(r"(?:ProxyCommand|LocalCommand|KnownHostsCommand)[= ]", re.IGNORECASE)
_SSH = Wrapper(
    frozenset(f"-{letter}" for letter in "46AaCfGgKkMNnqsTtVvXxYy"),
    frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOopQRSWw"),
)


def _ssh(command: Command, inner: Inner) -> None:
    words = command.words
    _transports(words, inner)
    position = options(words, _SSH)
    if position is None:
        inner.hide()
        return
    remote = literals(words[position + 1 :])
    behind = options(words[position:], _SSH) if position < len(words) else None
    if remote is None or (remote and remote[0].startswith("-") and behind is not None):
        inner.hide()
    elif remote:
        inner.remote_texts.append(" ".join(remote))
    elif command.feed is not None and "-N" not in {word.literal for word in words}:
        fed = command.feed.word.literal if command.feed.word is not None else None
        if fed is None:
            inner.hide()
        else:
            inner.remote_texts.append(fed)


def _loose(words: tuple[Word, ...], after: list[str], inner: Inner) -> None:
    """Every word behind one of `after`, or every word at all, could begin a command or be a text of its own."""
    begin = 1
    if after:
        found = [index for index, word in enumerate(words) if index and any(word.could_be(text) for text in after)]
        if not found:
            return
        begin = found[0] + 1
    rest = words[begin - 1 :]
    if len(rest) > MOST_WORDS:
        inner.hide()
        return
    inner.guesses.extend(starts(rest))
    texts = [word.literal for word in rest[1:]]
    inner.guessed_texts.extend(text for text in texts if text and re.search(r"[\s;&|]", text))


def _eval(command: Command, inner: Inner) -> None:
    texts = literals(command.words[1:])
    inner.script(" ".join(texts) if texts is not None else None)


def _alias(command: Command, inner: Inner) -> None:
    for word in command.words[1:]:
        text = word.literal
        if text is None:
            inner.hide()
        elif "=" in text:
            inner.script(text.partition("=")[2])


def _trap(command: Command, inner: Inner) -> None:
    rest = [word for word in command.words[1:] if word.literal != "--"]
    if len(rest) > 1 and rest[0].literal not in {"-", "-p", "-l"}:
        inner.script(rest[0].literal)


def _watch(command: Command, inner: Inner) -> None:
    _loose(command.words, [], inner)
    if any(word.splits or word.blank for word in command.words):
        inner.hide()


def _source(command: Command, inner: Inner) -> None:
    if len(command.words) > 1 and (command.words[1].splits or command.words[1].blank):
        inner.hide()
    elif len(command.words) > 1 and (command.words[1].literal or "").startswith(("/dev/", "/proc/")):
        _fed(command, inner)


def _fed_text(command: Command, inner: Inner) -> None:
    _loose(command.words, [], inner)
    if command.feed is not None:
        _fed(command, inner)


def _opaque(command: Command, inner: Inner) -> None:
    if len(command.words) > 1:
        inner.hide()


def _with_option(*letters: str) -> Callable[[Command, Inner], None]:
    def read(command: Command, inner: Inner) -> None:
        if any((word.literal or "").startswith(letters) for word in command.words[1:]):
            inner.hide()

    return read


def _nothing(command: Command, inner: Inner) -> None:
    """It prepares what later commands mean; it runs nothing itself."""


_OWN: dict[str, Callable[[Command, Inner], None]] = {
    **dict.fromkeys(
        ("export", "declare", "typeset", "local", "readonly", "unset", "set", "shopt", "unalias"), _nothing
    ),
    "ssh": _ssh,
    "autossh": _ssh,
    "eval": _eval,
    "alias": _alias,
    "trap": _trap,
    "watch": _watch,
    ".": _source,
    "source": _source,
    "at": _fed_text,
    "batch": _fed_text,
    "parallel": _fed_text,
    "su": _fed_text,
    "chroot": _fed_text,
    "unshare": _fed_text,
    "fish": _opaque,
    "csh": _opaque,
    "tcsh": _opaque,
    "hash": _with_option("-p"),
    "enable": _with_option("-f"),
    "bind": _with_option("-x"),
    "complete": _with_option("-C"),
    "compgen": _with_option("-C"),
    "mapfile": _with_option("-C"),
    "readarray": _with_option("-C"),
    "fc": _opaque,
    "zmodload": _opaque,
    "autoload": _opaque,
}
