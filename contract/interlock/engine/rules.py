"""Rules over the tool vocabulary: `*`, `kind` or `kind(pattern)`.

An allow rule matches only what is certain; a deny rule matches whatever could be meant. A call that cannot be read (no
subject, a command line that does not parse, a path that is a URL) matches no allow rule with a pattern and every deny
rule with one. So the two sides read the same pattern differently, always towards no.

    *                      every call
    mcp                    every call of that kind
    shell(git status)      exactly these words, however they are spaced or quoted
    shell(git push:*)      these words first, anything behind; `shell(git push *)` is the same; `shell(*)` is `shell`
    read(docs/**)          paths: globs relative to the workspace, absolute, or from `~/`; also searches
    write(src/*.py)        changes: edit, write and patch mean the same three kinds
    mcp(github/*)          server and tool, `*` and `?` as wildcards; `mcp(github)` is the whole server
    fetch(example.com)     this host at its scheme's own port; `fetch(example.com:8080)`, `fetch(localhost:*)`
    fetch(*.example.com)   the hosts below it
    agent(Explore*)        any other kind: a glob over the tool's native name

A command line is split into all the simple commands that it would run: in lists, pipes, groups, loops and
substitutions, behind wrappers (timeout, xargs, `sh -c`, `find -exec`). Allow rules match a line if every part is
matched by one of them and the files that the shell opens are `/dev/null`, or covered by a path rule or the posture. `[`
and `[[` are `test`. A line that was not understood to its last character, in a way that bash, dash and zsh share,
matches none.

Near misses, for an allow rule:

    shell(git push:*)      not `git pushx`, `git -C . push`, `./git push`, `git push; ls` without a rule for ls,
                           `git push > f` where f may not be written, `git push &`; not `GIT_DIR=x git push`, `sudo git
                           push`, `$GIT push`, functions, arithmetic on variables, backquotes; no allow rule names what
                           runs others (env, sh, xargs)
    read(docs/**)          not `docs/../.env`, nor a link in docs that leads elsewhere
    write(src/*.py)        not `src/a/b.py`; not a patch that touches `src/a.py` and `setup.py`
    mcp(github/*)          not the server `github2`
    fetch(example.com)     not `example.com.evil.net`, `example.com@evil.net`, `api.example.com`, `example.com:8080`

What a deny rule matches beyond its words:

    shell(git push:*)      any part of a line, behind wrappers and remote shells: `cd x && git -C . push`, `sudo
                           /usr/bin/git push`; whatever could be it: `g*t push`, `$X push`, `eval $X`, `... | sh`; what
                           cannot be read; anything typed into a command that already runs. Not other programs' code:
                           `python -c`, `make`, a script
    read(**/.env)          `.env` in any folder, outside the workspace too, in any case; what lies below a folder of
                           that name; what a link leads to; what `cat .env` or `< .env` plainly opens; but not a search
                           that starts in a folder above
    fetch(example.com)     hosts below it, any port, any spelling of an address
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from interlock.engine.hosts import host_pattern
from interlock.engine.places import Place, folded, glob, inside, literal_start
from interlock.engine.postures import STREAMS, covers
from interlock.engine.shell_split import Part, Redirect, split
from interlock.engine.shell_text import could_run, literals
from interlock.engine.shell_words import may_run_others, simple_words
from interlock.errors import ConfigurationError
from interlock.permission import Posture, rule_parts
from interlock.tools import Subject, ToolCall, ToolKind

__all__ = ["CHANGES", "Effect", "Rules", "compile_rule", "name_glob"]

Effect = Literal["allow", "deny"]
Test = Callable[[ToolCall], bool]

CHANGES = frozenset({ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH})
"""The kinds that change files; a rule of one is a rule of all three."""

_KINDS = {kind: frozenset({kind}) for kind in ToolKind} | dict.fromkeys(CHANGES, CHANGES)
_KINDS[ToolKind.READ] = frozenset({ToolKind.READ, ToolKind.SEARCH})
_KINDS[ToolKind.SHELL] = frozenset({ToolKind.SHELL, ToolKind.SHELL_INPUT})
_MOVES = ("cd", "pushd", "popd", "chdir")
"""Commands after which a relative path means another file."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """One rule, ready to be asked."""

    text: str
    kinds: frozenset[ToolKind]
    test: Test | None
    """None: every call of these kinds."""
    part: Callable[[Part], bool] | None = None
    """For an allow rule over commands: whether it covers one part of a command line."""

    def matches(self, call: ToolCall) -> bool:
        """Whether the rule is about this call."""
        return call.tool_kind in self.kinds and (self.test is None or self.test(call))


class Rules:
    """The rules of one effect, in order; `posture` says which files an allowed command may open besides."""

    def __init__(self, rules: Iterable[str], effect: Effect, place: Place, posture: Posture = Posture.NONE) -> None:
        self._effect: Effect = effect
        self._place = place
        self._posture = posture
        self._rules = [compile_rule(rule, effect, place) for rule in rules]

    def add(self, rule: str) -> None:
        """One rule more; raises `ConfigurationError` if it cannot be understood."""
        self._rules.append(compile_rule(rule, self._effect, self._place))

    def match(self, call: ToolCall) -> str | None:
        """The rule that matches the call; for a command line of several parts, the rules that allow it together."""
        single = next((rule.text for rule in self._rules if rule.matches(call)), None)
        if single is None and self._effect == "allow" and call.tool_kind is ToolKind.SHELL:
            return self._together(call)
        return single

    def _together(self, call: ToolCall) -> str | None:
        """The rules that cover every part of a command that was understood completely."""
        found = split(call.subject.command or "")
        if not found.complete:
            return None
        names: list[str] = []
        for part in found.parts:
            if part.role in {"through", "guess"}:
                continue
            name = next((rule.text for rule in self._rules if rule.part is not None and rule.part(part)), None)
            if name is None:
                return None
            names.append(name)
        moves = any(could_run(part.words, (name,), prefix=True) for part in found.parts for name in _MOVES)
        opened = all(self._may_open(one, call, moves=moves) for one in found.redirects)
        return " + ".join(dict.fromkeys(names)) if opened and names else None

    def _may_open(self, redirect: Redirect, call: ToolCall, *, moves: bool) -> bool:
        """Whether a path rule or the posture lets the shell open this file."""
        target = redirect.target.literal
        if target is None or target.startswith(("/dev/tcp/", "/dev/udp/")) or (moves and not target.startswith("/")):
            return False
        if target in STREAMS:
            return True
        kind = ToolKind.WRITE if redirect.writes else ToolKind.READ
        asked = call.model_copy(update={"tool_kind": kind, "subject": Subject(paths=(target,))})
        if any(rule.matches(asked) for rule in self._rules):
            return True
        return covers(self._posture, asked, self._place, confined=False, readers_void=False)


def compile_rule(text: str, effect: Effect, place: Place) -> Compiled:
    """Make a rule ready; raises `ConfigurationError` for a pattern that would never mean what it says."""
    try:
        word, pattern = rule_parts(text)
    except ValueError as error:
        raise ConfigurationError(f"rule {text!r}", str(error)) from error
    if word == "*":
        return Compiled(text, frozenset(ToolKind), None)
    if word not in set(ToolKind):
        raise ConfigurationError(f"rule {text!r}", f"{word!r} is no kind of tool")
    kind = ToolKind(word)
    if pattern is None or (kind is ToolKind.SHELL and pattern.strip() == "*"):
        return Compiled(text, _KINDS[kind], None)
    try:
        if kind is ToolKind.SHELL:
            return _shell_rule(text, pattern.strip(), effect)
        return Compiled(text, _KINDS[kind], _test(kind, pattern, effect, place))
    except ValueError as error:
        raise ConfigurationError(f"rule {text!r}", str(error)) from error


def _test(kind: ToolKind, pattern: str, effect: Effect, place: Place) -> Test:
    match kind:
        case ToolKind.READ | ToolKind.SEARCH | ToolKind.EDIT | ToolKind.WRITE | ToolKind.PATCH:
            return _path_test(pattern, effect, place)
        case ToolKind.MCP:
            return _mcp_test(pattern, effect)
        case ToolKind.FETCH:
            return _fetch_test(pattern, effect)
        case _:
            names = name_glob(pattern, fold=effect == "deny")
            return lambda call: names.match(call.tool_name) is not None


# ---- Shell ----------------------------------------------------------------------------------------------------------


def _shell_rule(text: str, pattern: str, effect: Effect) -> Compiled:
    start = re.sub(r"(?::\*|[ \t]+\*)\Z", "", pattern)
    prefix = start != pattern
    wanted = simple_words(start)
    if wanted is None:
        raise ValueError(
            "a shell rule is one command of literal words, exact or with `:*` at its end; quote a word that holds"
            " other characters",
        )
    if effect == "deny":
        kinds = _KINDS[ToolKind.SHELL]
        return Compiled(text, kinds, lambda call: _denies_command(call, wanted, prefix=prefix))
    if may_run_others(wanted):
        raise ValueError(f"{wanted[0]!r} runs other commands, so no allow rule can say what it does")
    return Compiled(text, frozenset({ToolKind.SHELL}), lambda _: False, lambda part: _says(part, wanted, prefix=prefix))


def _says(part: Part, wanted: tuple[str, ...], *, prefix: bool) -> bool:
    """Whether the part is, beyond doubt, what an allow rule says; behind a prefix anything may stand."""
    words = literals(part.words[: len(wanted)])
    return words == wanted and (prefix or len(part.words) == len(wanted))


def _denies_command(call: ToolCall, wanted: tuple[str, ...], *, prefix: bool) -> bool:
    command = call.subject.command
    if call.tool_kind is ToolKind.SHELL_INPUT:
        return bool(command)
    if command is None or not command.strip():
        return True
    found = split(command)
    return found.hidden or any(could_run(part.words, wanted, prefix=prefix) for part in found.parts)


# ---- Paths ----------------------------------------------------------------------------------------------------------


def _path_test(pattern: str, effect: Effect, place: Place) -> Test:
    text = _checked_glob(pattern.strip())
    if effect == "allow":
        allowed = _allow_globs(text, place)
        return lambda call: _all_paths(call, allowed, place)
    denied = _deny_globs(text, place)
    return lambda call: _any_path(call, denied, place)


def _checked_glob(pattern: str) -> str:
    if ".." in pattern.split("/"):
        raise ValueError("`..` cannot stand in a path pattern; write the path absolute")
    if "{" in pattern or "}" in pattern:
        raise ValueError("braces are no part of a path pattern; write two rules")
    if pattern.startswith("~") and pattern != "~" and not pattern.startswith("~/"):
        raise ValueError("another user's home cannot be written with `~`; write the path absolute")
    text = re.sub(r"/(?:\./)+", "/", re.sub(r"\A(?:\./+)+(?=.)", "", pattern))
    return text + "**" if text.endswith("/") else text


def _absolute(text: str, place: Place) -> tuple[str, bool]:
    """The pattern as an absolute glob, and whether it is about the inside of the workspace."""
    if text == "." or not text.startswith(("/", "~")):
        return (place.workspace if text == "." else f"{place.workspace}/{text}"), True
    full = place.home + text[1:] if text.startswith("~") else text
    start, rest = literal_start(full)
    for root in (place.workspace, place.roots[0]):
        if inside(start, root):
            below = "/".join(filter(None, (start[len(root.rstrip("/")) + 1 :], rest)))
            return "/".join(filter(None, (place.workspace, below))), True
    return full, False


def _allow_globs(text: str, place: Place) -> list[re.Pattern[str]]:
    full, in_workspace = _absolute(text, place)
    if in_workspace:
        return [glob(full), glob(place.roots[0] + full[len(place.workspace) :])]
    return [glob(full), glob(_resolved(full, place))]


def _deny_globs(text: str, place: Place) -> list[re.Pattern[str]]:
    if text.startswith("**/"):
        return [glob(text, below=True, anywhere=True, fold=True)]
    full, in_workspace = _absolute(text, place)
    forms = {full, _resolved(full, place)}
    if in_workspace:
        forms.add(place.roots[0] + full[len(place.workspace) :])
    return [glob(form, below=True, fold=True) for form in sorted(forms)]


def _resolved(pattern: str, place: Place) -> str:
    start, rest = literal_start(pattern)
    return "/".join(filter(None, (place.resolve(start).rstrip("/"), rest))) if rest else place.resolve(start)


def _all_paths(call: ToolCall, globs: list[re.Pattern[str]], place: Place) -> bool:
    if not call.subject.paths:
        return False
    for path in call.subject.paths:
        spellings = place.spellings(path, call.cwd)
        if spellings is None or not all(_matches(one, globs) for one in spellings.all):
            return False
    return True


def _any_path(call: ToolCall, globs: list[re.Pattern[str]], place: Place) -> bool:
    if not call.subject.paths:
        return True
    for path in call.subject.paths:
        spellings = place.spellings(path, call.cwd)
        if spellings is None or any(_matches(folded(one), globs) for one in spellings.all):
            return True
    return False


def _matches(path: str, globs: list[re.Pattern[str]]) -> bool:
    return any(pattern.match(path) for pattern in globs)


# ---- Names and hosts ------------------------------------------------------------------------------------------------


def name_glob(pattern: str, *, fold: bool) -> re.Pattern[str]:
    """A glob over a name, `*` and `?` as wildcards, everything else itself."""
    wild = {"*": ".*", "?": "."}
    body = "".join(wild.get(char) or re.escape(char) for char in re.sub(r"\*+", "*", pattern.strip()))
    return re.compile(body + r"\Z", re.DOTALL | (re.IGNORECASE if fold else 0))


def _mcp_test(pattern: str, effect: Effect) -> Test:
    fold = effect == "deny"
    server, slash, tool = pattern.strip().partition("/")
    servers, tools = name_glob(server, fold=fold), name_glob(tool if slash else "*", fold=fold)

    def test(call: ToolCall) -> bool:
        found, split, called = (call.subject.mcp or "").partition("/")
        if not split or not found:
            return effect == "deny"
        return servers.match(found) is not None and tools.match(called) is not None

    return test


def _fetch_test(pattern: str, effect: Effect) -> Test:
    host = host_pattern(pattern)
    if host is None:
        raise ValueError("a fetch rule is a host: `example.com`, `*.example.com`, `localhost:8080`")

    def test(call: ToolCall) -> bool:
        urls = call.subject.urls
        if effect == "allow":
            return bool(urls) and all(map(host.allows, urls))
        return not urls or any(map(host.denies, urls))

    return test
