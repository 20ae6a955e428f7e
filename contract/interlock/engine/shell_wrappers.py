"""Programs that run another command which their own words name, and which words those are.

The table is closed, per program and option. A wrapper that was understood is looked through: what it runs is a command
of its own. In one that was not, every later word could begin a command; that is enough for a deny rule and never for an
allow rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from interlock.engine.shell_text import UNKNOWN, Word, literals

__all__ = ["LOOSE", "SHELLS", "STRICT", "Wrapped", "Wrapper", "options", "read_shell", "starts", "unwrap"]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The options of one wrapper."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    operands: int = 0
    """How many words stand between the options and the command."""
    assigns: bool = False
    """`NAME=value` may stand there too, for `time` and its like since they are words of the shell's own grammar."""
    through: bool = False
    """It changes nothing but when and how long the command runs."""
    number: bool = False
    """`-5` is an option."""


def _wrapper(flags: str = "", valued: str = "", **more: bool | int) -> Wrapper:
    operands = int(more.pop("operands", 0))
    switches = {name: bool(value) for name, value in more.items()}
    return Wrapper(frozenset(flags.split()), frozenset(valued.split()), operands, **switches)


STRICT = {
    "env": _wrapper("-i - -0 -v --ignore-environment --null --debug", "-u -C --unset --chdir", assigns=True),
    "sudo": _wrapper(
        "-n -E -H -k -K -S -b -A -P -B --preserve-env --non-interactive --set-home --stdin --background",
        "-u -g -p -C -h -r -t -T -U -D -R --user --group --prompt --chdir",
        assigns=True,
    ),
    "doas": _wrapper("-n", "-u -C"),
    "nohup": _wrapper(),
    "setsid": _wrapper("-c -f -w --fork --wait --ctty"),
    "nice": _wrapper("", "-n --adjustment", through=True, number=True),
    "ionice": _wrapper("-t", "-c -n --class --classdata", through=True),
    "timeout": _wrapper(
        "-v --verbose --foreground --preserve-status", "-k -s --kill-after --signal", operands=1, through=True
    ),
    "gtimeout": _wrapper("--foreground --preserve-status", "-k -s --kill-after --signal", operands=1, through=True),
    "stdbuf": _wrapper("", "-i -o -e --input --output --error", through=True),
    "time": _wrapper("-p -v", "-f", assigns=True, through=True),
    "command": _wrapper(through=True),
    "builtin": _wrapper(),
    "exec": _wrapper("-c -l", "-a"),
    "noglob": _wrapper(assigns=True),
    "nocorrect": _wrapper(assigns=True),
    "-": _wrapper(assigns=True),
    "!": _wrapper(assigns=True),
    "xargs": _wrapper(
        "-0 -r -t -x -p --null --no-run-if-empty --verbose",
        "-n -P -L -I -J -d -E -s -a --max-args --max-procs --max-lines --replace --delimiter --arg-file",
        through=True,
    ),
    "busybox": _wrapper(),
    "toybox": _wrapper(),
}
"""Wrappers whose options are known. Only those that are `through` spare an allow rule."""

SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash"])

LOOSE = {
    "docker": "exec run",
    "podman": "exec run",
    "nerdctl": "exec run",
    "docker-compose": "exec run",
    "kubectl": "exec run",
    "oc": "exec run",
    "uv": "run",
    "poetry": "run",
    "pipenv": "run",
    "pdm": "run",
    "rye": "run",
    "hatch": "run",
    "conda": "run",
    "mamba": "run",
    "bundle": "exec",
    "direnv": "exec",
    "mise": "exec x",
    "npm": "exec x",
    "pnpm": "exec dlx",
    "yarn": "exec dlx",
    "npx": "",
    "bunx": "",
    "uvx": "",
    "pipx": "run",
    "nix": "develop shell run",
    "nix-shell": "",
    "hyperfine": "",
    "tmux": "new new-session new-window neww send send-keys split-window splitw respawn-pane run run-shell if if-shell",
    "screen": "",
    "entr": "",
    "vagrant": "ssh",
    "adb": "shell",
    "heroku": "run",
    "fly": "ssh",
    "multipass": "exec",
    "lxc": "exec",
}
"""Programs that run a command after one of these words, or anywhere: judged by their own name, yet looked into."""

_NUMBER = re.compile(r"-[0-9]+\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELL_FLAGS = re.compile(r"[-+][abefhiklmnprtuvxBCEHPT]*[cslo]*[abefhiklmnprtuvxBCEHPTc]*\Z")
_SHELL_WORDS = frozenset({"--login", "--norc", "--noprofile", "--posix", "--verbose", "--restricted"})


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What a wrapper runs: the words of a command, or None where it could not be told."""

    words: tuple[Word, ...] | None
    assigned: bool = False
    """It sets variables for it."""


def unwrap(name: str, words: tuple[Word, ...]) -> Wrapped:
    """The command that a wrapper of the strict table runs."""
    wrapper = STRICT[name]
    position = options(words, wrapper)
    if position is None:
        return Wrapped(None)
    assigned = False
    while wrapper.assigns and position < len(words) and _ASSIGNMENT.match(words[position].pieces[0] or ""):
        position, assigned = position + 1, True
    if any(word.literal is None for word in words[position : position + wrapper.operands]):
        return Wrapped(None)
    command = words[position + wrapper.operands :]
    if name == "xargs":
        command = _filled(words[1:position], command)
    return Wrapped(command, assigned)


def options(words: tuple[Word, ...], wrapper: Wrapper) -> int | None:
    """Where the options of a command end; None for one that is not known."""
    position = 1
    while position < len(words):
        text = words[position].literal
        start = words[position].pieces[0] if words[position].pieces else ""
        if text is None and (start is None or start.startswith("-")):
            return None
        if text == "--":
            return position + 1
        if text is None or not text.startswith("-") or (text == "-" and text not in wrapper.flags):
            return position
        step = _option(text, wrapper)
        if step is None:
            return None
        if step == 2 and (position + 1 >= len(words) or words[position + 1].splits or words[position + 1].many):
            return None
        position += step
    return position


def _option(text: str, wrapper: Wrapper) -> int | None:
    """How many words the option takes with its value."""
    if text in wrapper.flags or (wrapper.number and _NUMBER.match(text)):
        return 1
    if text in wrapper.valued:
        return 2
    if text.startswith("--"):
        return 1 if text.partition("=")[0] in wrapper.valued else None
    if text[:2] in wrapper.valued:
        return 1
    letters = [f"-{letter}" for letter in text[1:]]
    if all(letter in wrapper.flags for letter in letters):
        return 1
    if all(letter in wrapper.flags for letter in letters[:-1]) and letters[-1] in wrapper.valued:
        return 2
    return None


def _filled(given: tuple[Word, ...], command: tuple[Word, ...]) -> tuple[Word, ...]:
    """What xargs runs: its input stands behind the command, or wherever the mark stands."""
    texts = [word.literal or "" for word in given]
    marks = {text[2:] for text in texts if text.startswith(("-I", "-J")) and len(text) > 2}
    marks |= {after for text, after in pairwise(texts) if text in {"-I", "-J", "--replace"}}
    marks |= {text.partition("=")[2] or "{}" for text in texts if text.startswith("--replace=")}
    if not command:
        return (Word(("echo",)), UNKNOWN)
    for mark in marks:
        command = tuple(replaced(word, mark) for word in command)
    return command if marks else (*command, UNKNOWN)


def replaced(word: Word, mark: str) -> Word:
    """The word with anything in the place of `mark`."""
    if not mark or not any(piece and mark in piece for piece in word.pieces):
        return word
    pieces: list[str | None] = []
    for piece in word.pieces:
        if piece is None:
            pieces.append(None)
            continue
        first, *others = piece.split(mark)
        pieces.append(first)
        for other in others:
            pieces += [None, other]
    return Word(tuple(piece for piece in pieces if piece != ""), splits=word.splits, many=word.many)


def starts(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """Every command that could begin behind the first word."""
    for position in range(1, len(words)):
        text = words[position].literal
        if text is None or not text.startswith("-"):
            yield words[position:]


# ---- Shells ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShellCall:
    """What a shell was started for: the text of `-c`, a script, its input, or nothing that can be told."""

    kind: str
    """text, script, input or unknown."""
    word: Word | None = None
    plain: bool = False
    """Started in a way that changes nothing of what the text means."""


def read_shell(words: tuple[Word, ...]) -> ShellCall:
    """What a call of a shell runs."""
    position = 1
    texted = False
    plain = True
    while position < len(words):
        option = words[position].literal
        if option is None:
            break
        if option in {"--", "-"}:
            position += 1
            break
        if not option.startswith(("-", "+")):
            break
        if option not in _SHELL_WORDS and not _SHELL_FLAGS.match(option):
            return ShellCall("unknown")
        short = "" if option.startswith("--") else option[1:]
        plain = plain and re.fullmatch(r"-[cleux]+", option) is not None
        texted = texted or ("c" in short and option.startswith("-"))
        if "s" in short:
            return ShellCall("input")
        position += 2 if "o" in short else 1
    rest = words[position:]
    if not rest:
        return ShellCall("unknown" if texted else "input")
    first = rest[0]
    if first.splits or first.many or first.blank:
        return ShellCall("unknown")
    if texted:
        return ShellCall("text", first, plain and literals(rest[1:]) is not None)
    return ShellCall("input" if first.literal in {"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"} else "script", first)
