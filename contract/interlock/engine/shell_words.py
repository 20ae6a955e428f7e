"""The words of one simple command, read so that a shell cannot read others; None for everything else.

Only what every shell understands alike is read: words of plain characters, whole or partly in plain quotes, separated
by spaces. Whatever expands, redirects, joins or hides a command (`$`, globs, `;`, `&&`, `>`, `#`, a backslash, a line
break, an assignment in front, a leading `~`) makes the whole command unreadable here, which no allow rule matches and
every deny rule does.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["KEYWORDS", "LONGEST", "RUN_OTHERS", "may_run_others", "program", "simple_words"]

_BLANK = re.compile(r"[ \t]+")
_PIECE = re.compile(r"""'([^'\\]*)'|"([^"\\$`!]*)"|([\w@%+:,./=~-]+)""")
_EXPANDS = re.compile(r"\A[~=]|[=:]~")
_FIRST = re.compile(r"[\w@+./-]+\Z")
LONGEST = 64 * 1024
"""Characters of a command line past which it is not read at all."""

_WRAPPERS = """
    if then else elif fi for while until do done case esac select function time coproc in
    . source eval exec command builtin trap alias unalias enable hash bind set shopt export declare typeset local
    readonly unset env sudo sudoedit doas su runuser setpriv pkexec run0 nohup nice ionice chrt taskset setsid setarch
    timeout stdbuf unbuffer script watch parallel xargs flock strace ltrace gdb perf chroot unshare nsenter bwrap
    firejail systemd-run at batch crontab ssh busybox toybox caffeinate sandbox-exec arch rlwrap expect noglob nocorrect
    sh bash dash zsh ksh mksh ash fish csh tcsh pwsh rbash
"""
RUN_OTHERS = frozenset(_WRAPPERS.split())
"""Words in front of a command that run, or prepare, another one: what they run is not what their name says."""

_WORDS_OF_THE_GRAMMAR = """
    if then else elif fi for while until do done case esac select function in { } [[ ]] ! repeat foreach end
"""
KEYWORDS = frozenset(_WORDS_OF_THE_GRAMMAR.split())
"""Words that are no programs where a command can begin."""
_EXECUTE = frozenset({"-exec", "-execdir", "-ok", "-okdir", "--exec", "--exec-batch", "-x", "-X"})
_FINDERS = frozenset({"find", "fd", "fdfind", "gfind"})


@lru_cache(maxsize=16)
def simple_words(command: str) -> tuple[str, ...] | None:
    """The words that any shell would make of `command`; None if it is more than one command of literal words."""
    text = command.strip(" \t")
    if not text or len(text) > LONGEST or not text.replace("\t", "").isprintable():
        return None
    words: list[str] = []
    position = 0
    while position < len(text):
        found = _word(text, position)
        if found is None:
            return None
        word, position = found
        words.append(word)
        blank = _BLANK.match(text, position)
        if blank is not None:
            position = blank.end()
    return tuple(words) if _FIRST.match(words[0]) else None


def _word(text: str, start: int) -> tuple[str, int] | None:
    """One word and where it ends; the pieces of a word touch each other."""
    pieces: list[str] = []
    position = start
    while position < len(text) and text[position] not in " \t":
        piece = _PIECE.match(text, position)
        if piece is None:
            return None
        bare = piece[3]
        if bare is not None and _EXPANDS.search(bare if not pieces else "_" + bare):
            return None
        pieces.append(next(part for part in piece.groups() if part is not None))
        position = piece.end()
    return "".join(pieces), position


def program(words: tuple[str, ...]) -> str:
    """The name of the program, without its folder, in lower case."""
    return words[0].rpartition("/")[2].casefold()


def may_run_others(words: tuple[str, ...]) -> bool:
    """Whether the command is a wrapper: it runs a program that another of its words names."""
    name = program(words)
    return name in RUN_OTHERS or (name in _FINDERS and not _EXECUTE.isdisjoint(words))
