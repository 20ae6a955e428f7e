"""The syntax of git's configuration files, and which of their keys name a program.

Strategy: the parser takes what git takes, character for character (config.c of git 2.39: `git_parse_source` and what it
calls), and raises for the rest; the tests hold it against `git config --list`. The judgement leans to the safe side: a
closed table of the keys that git is known to run, and beside it the endings (`...command`, `...cmd`, `...program`, ...)
by which git and its companions name such keys, so that a key of a later git is found too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BadLine", "Setting", "is_boolean", "names_program", "settings"]

_SPACE = frozenset(" \t\r\n")
_LETTER = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_KEY = _LETTER | frozenset("0123456789-")
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "\\": "\\", '"': '"', "\n": ""}
_BOOLEANS = frozenset({"", "true", "yes", "on", "1", "false", "no", "off", "0"})

_ENDINGS = (
    "askpass",
    "cmd",
    "command",
    "driver",
    "editor",
    "helper",
    "hook",
    "pager",
    "program",
    "textconv",
)
_PROGRAM_KEYS = {
    "browser": frozenset({"path"}),
    "core": frozenset({"fsmonitor", "gitproxy", "hookspath"}),
    "diff": frozenset({"external"}),
    "difftool": frozenset({"path"}),
    "filter": frozenset({"clean", "process", "smudge"}),
    "imap": frozenset({"tunnel"}),
    "include": frozenset({"path"}),
    "includeif": frozenset({"path"}),
    "init": frozenset({"templatedir"}),
    "instaweb": frozenset({"browser", "httpd"}),
    "interactive": frozenset({"difffilter"}),
    "lfs": frozenset({"clean", "path", "smudge"}),
    "man": frozenset({"path"}),
    "mergetool": frozenset({"path"}),
    "remote": frozenset({"receivepack", "uploadpack", "vcs"}),
}
_GIT_LFS = frozenset(
    {
        "git-lfs clean -- %f",
        "git-lfs smudge -- %f",
        "git-lfs smudge --skip -- %f",
        "git-lfs filter-process",
        "git-lfs filter-process --skip",
    }
)


class BadLine(Exception):
    """Line number `line` is not in git's syntax; git itself would refuse the file."""

    def __init__(self, line: int) -> None:
        self.line = line
        super().__init__(f"line {line}")


class Setting(NamedTuple):
    """One key with its value; None is a key without `=`, which git takes for true."""

    name: str
    """Whole and as git lists it: section and key in lower case, the subsection as it stands."""
    value: str | None

    @property
    def section(self) -> str:
        return self.name.partition(".")[0]

    @property
    def subsection(self) -> str:
        return self.name.partition(".")[2].rpartition(".")[0]

    @property
    def key(self) -> str:
        return self.name.rpartition(".")[2]


def settings(text: str) -> Iterator[Setting]:
    """The settings of a file in their order; raises BadLine at the first place that git would not take."""
    source = _Source(text)
    stem = ""
    while (char := source.next()) is not None:
        if char in _SPACE:
            continue
        if char in "#;":
            source.skip_line()
        elif char == "[":
            stem = _section(source)
        elif char in _LETTER:
            yield _setting(source, stem + char.lower())
        else:
            raise BadLine(source.line)


def is_boolean(value: str | None) -> bool:
    """Whether a value is one of the words for true and false, or missing, so that it names no program."""
    return value is None or value.lower() in _BOOLEANS


def names_program(setting: Setting) -> bool:
    """Whether git, or a companion that it calls, would take this value for a program, or for a file that names one."""
    value = setting.value or ""
    if "ext::" in (value[:5].lower(), setting.subsection[:5].lower()):
        return True
    match setting.section, setting.key:
        case "core", "hookspath":
            return value != "/dev/null"
        case "alias", _:
            return value.lstrip().startswith(("!", "-"))
        case "protocol", "allow":
            return setting.subsection.lower() in ("", "ext") and value.lower() != "never"
        case "submodule", "update":
            return value.lstrip().startswith("!")
        case "diff", "submodule":
            # git then runs itself in whatever folder a commit calls a submodule
            return value.lower() == "diff"
        case "filter", _ if value in _GIT_LFS:
            return False
        case _:
            return not is_boolean(value) and _is_program_key(setting)


def _is_program_key(setting: Setting) -> bool:
    section, key = setting.section, setting.key
    return section == "pager" or key in _PROGRAM_KEYS.get(section, ()) or key.endswith(_ENDINGS)


class _Source:
    """The characters of a file with CRLF as LF, and the number of the line they are on."""

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        self._at = 0
        if "\0" in self._text:
            # git would cut names and values there: what it lists is not what it obeys
            raise BadLine(self._text[: self._text.index("\0")].count("\n") + 1)

    @property
    def line(self) -> int:
        return self._text.count("\n", 0, max(self._at - 1, 0)) + 1

    def next(self) -> str | None:
        """The next character, None at the end."""
        if self._at >= len(self._text):
            return None
        self._at += 1
        return self._text[self._at - 1]

    def next_or_newline(self) -> str:
        """The next character; the end counts as the end of a line."""
        return self.next() or "\n"

    def skip_line(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end + 1


def _section(source: _Source) -> str:
    """What stands between the brackets, as the stem of the names that follow."""
    name: list[str] = []
    while (char := source.next()) != "]":
        if char is None or (char not in _SPACE and char not in _KEY and char != "."):
            raise BadLine(source.line)
        if char in _SPACE:
            name += (".", _subsection(source, char))
            break
        name.append(char.lower())
    if not name:
        raise BadLine(source.line)
    return "".join((*name, "."))


def _subsection(source: _Source, char: str) -> str:
    """The quoted second part of a section's header, up to and with the closing bracket."""
    while char in _SPACE:
        if char == "\n":
            raise BadLine(source.line)
        char = source.next_or_newline()
    if char != '"':
        raise BadLine(source.line)
    name: list[str] = []
    while (char := source.next_or_newline()) != '"':
        if char == "\\":
            char = source.next_or_newline()
        if char == "\n":
            raise BadLine(source.line)
        name.append(char)
    if source.next() != "]":
        raise BadLine(source.line)
    return "".join(name)


def _setting(source: _Source, name: str) -> Setting:
    """One key whose first character has been read, with its value."""
    rest: list[str] = []
    while (char := source.next_or_newline()) in _KEY:
        rest.append(char.lower())
    name += "".join(rest)
    while char in " \t":
        char = source.next_or_newline()
    if char == "\n":
        return Setting(name, None)
    if char != "=":
        raise BadLine(source.line)
    return Setting(name, _value(source))


def _value(source: _Source) -> str:
    """The rest of the line after `=`, its quotes, escapes, continuations and comment resolved."""
    value: list[str] = []
    quoted, spaces = False, 0
    while (char := source.next_or_newline()) != "\n":
        if not quoted and char in _SPACE:
            spaces += bool(value)
            continue
        if not quoted and char in "#;":
            source.skip_line()
            break
        value += " " * spaces
        spaces = 0
        if char == '"':
            quoted = not quoted
        else:
            value += _escape(source) if char == "\\" else char
    if quoted:
        raise BadLine(source.line)
    return "".join(value)


def _escape(source: _Source) -> str:
    char = source.next_or_newline()
    if char not in _ESCAPES:
        raise BadLine(source.line)
    return _ESCAPES[char]
