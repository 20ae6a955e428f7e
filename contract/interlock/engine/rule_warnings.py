"""What `plan` says about rules that cannot do what they seem to say.

None of it is an error: a rule that does not bind may be meant as a reminder. Whether a rule is understood at all is
told by `compile_rule`.
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.engine.postures import is_internal
from interlock.engine.rules import CHANGES
from interlock.engine.shell_words import may_run_others, program, simple_words
from interlock.permission import Otherwise, Permission, Posture, rule_parts
from interlock.tools import ToolKind

__all__ = ["warnings"]

_READS = frozenset({ToolKind.READ, ToolKind.SEARCH})
_FETCHERS = frozenset({"curl", "wget", "http", "https", "xh", "aria2c", "nc", "ncat", "ssh", "scp", "rsync"})
_PROGRAMS = """
    python python3 node deno bun ruby perl php lua awk gawk sed make npm npx pnpm yarn cargo go docker podman kubectl uv
    poetry git find fd vim emacs tmux screen gdb pytest tox nox java gradle mvn rake bundle cmake
"""
_ANY_CODE = frozenset(_PROGRAMS.split())
"""Programs that run code that their words or the workspace name."""


def warnings(permission: Permission, *, confined: bool = False) -> tuple[str, ...]:
    """One sentence for each rule that binds less, or allows more, than it seems to.

    `confined`: the agent's sandbox enforces the posture on commands, which then run unasked. It knows no rules.
    """
    return tuple(
        dict.fromkeys(
            [
                *_unbound(permission, confined=confined),
                *_shadowed(permission),
                *_covered(permission),
                *_open_ended(permission),
            ]
        )
    )


def _unbound(permission: Permission, *, confined: bool) -> Iterator[str]:
    """Deny rules over files and hosts that a command can go round."""
    way = _way_round(permission, confined=confined)
    for rule in permission.deny:
        kind, pattern = _parts(rule)
        if kind in {*_READS, *CHANGES} and way is not None:
            yield f"deny rule {rule!r} cannot bind what a command opens, and {way}"
        if kind is ToolKind.FETCH and (net := _net(permission)) is not None and permission.network is not False:
            yield f"deny rule {rule!r} cannot bind what a command fetches, and {net}"
        if kind is ToolKind.SHELL and pattern is not None and way is not None:
            runners = [allowed for allowed in permission.allow if _runs_any_code(allowed)]
            if runners:
                yield f"deny rule {rule!r} does not see what runs inside {runners[0]!r}"


def _way_round(permission: Permission, *, confined: bool) -> str | None:
    if permission.posture is Posture.FULL:
        return "posture full runs every command"
    if confined and permission.posture is not Posture.NONE:
        return "the sandbox, which knows no rules, lets every command run"
    for rule in permission.allow:
        kind, _ = _parts(rule)
        if kind is ToolKind.SHELL or rule == "*":
            return f"allow rule {rule!r} runs commands"
    if permission.otherwise in {Otherwise.ASK, Otherwise.CHAIN, Otherwise.AGENT}:
        return f"commands may run where `otherwise` is {permission.otherwise}"
    return None


def _net(permission: Permission) -> str | None:
    if permission.posture is Posture.FULL:
        return "posture full runs every command"
    for rule in permission.allow:
        kind, pattern = _parts(rule)
        if rule == "*" or (kind is ToolKind.SHELL and (pattern is None or _name(pattern) in _FETCHERS | _ANY_CODE)):
            return f"allow rule {rule!r} lets commands reach the network"
    return None


def _shadowed(permission: Permission) -> Iterator[str]:
    """Allow rules that a deny rule leaves nothing of."""
    for rule in permission.allow:
        kind, pattern = _parts(rule)
        for denied in permission.deny:
            other, wanted = _parts(denied)
            same = denied == "*" or (kind is not None and other is not None and _meets(other, kind))
            if same and (wanted is None or (pattern is not None and _includes(kind, wanted, pattern))):
                yield f"allow rule {rule!r} never matters: deny rule {denied!r} covers it"


def _meets(denied: ToolKind, allowed: ToolKind) -> bool:
    if denied in CHANGES:
        return allowed in CHANGES
    return denied is allowed or (denied is ToolKind.READ and allowed is ToolKind.SEARCH)


def _includes(kind: ToolKind | None, wide: str, narrow: str) -> bool:
    """Whether one pattern is surely a part of the other; only plain cases are seen."""
    wide, narrow = wide.strip(), narrow.strip()
    if wide == narrow:
        return True
    if kind is ToolKind.SHELL:
        start = _prefix(wide)
        words = simple_words(_prefix(narrow) or narrow)
        wanted = simple_words(start) if start is not None else None
        return wanted is not None and words is not None and words[: len(wanted)] == wanted
    return wide.endswith("/**") and narrow.startswith(wide.removesuffix("**")) and ".." not in narrow


def _covered(permission: Permission) -> Iterator[str]:
    """Allow rules for what runs anyway."""
    for rule in permission.allow:
        kind, pattern = _parts(rule)
        if permission.posture is Posture.FULL:
            yield f"allow rule {rule!r} adds nothing: posture full runs everything"
        elif kind is not None and is_internal(kind):
            yield f"allow rule {rule!r} adds nothing: what is internal to the agent runs under every posture"
        elif kind is not None and _runs_inside(permission.posture, kind) and _is_inside(kind, pattern):
            yield f"allow rule {rule!r} adds nothing: posture {permission.posture} runs it"


def _runs_inside(posture: Posture, kind: ToolKind) -> bool:
    reading = posture in {Posture.READ, Posture.EDIT} and kind in {*_READS, ToolKind.AGENT}
    return reading or (posture is Posture.EDIT and kind in CHANGES)


def _is_inside(kind: ToolKind, pattern: str | None) -> bool:
    """Whether the pattern is relative to the workspace; of changes, hidden names stay, since postures protect some."""
    if kind is ToolKind.AGENT:
        return True
    if pattern is None or pattern.strip().startswith(("/", "~")):
        return False
    return kind not in CHANGES or not any(part.startswith(".") for part in pattern.strip().split("/") if part != ".")


def _open_ended(permission: Permission) -> Iterator[str]:
    """Allow rules that say less than they look: the program runs whatever it is told."""
    for rule in permission.allow:
        if permission.posture is not Posture.FULL and _runs_any_code(rule):
            yield f"allow rule {rule!r} lets that program run any code: no deny rule looks inside it"


def _runs_any_code(rule: str) -> bool:
    kind, pattern = _parts(rule)
    if kind is not ToolKind.SHELL or pattern is None:
        return False
    start = _prefix(pattern)
    words = simple_words(start) if start is not None else None
    return words is not None and len(words) == 1 and (program(words) in _ANY_CODE or may_run_others(words))


def _parts(rule: str) -> tuple[ToolKind | None, str | None]:
    word, pattern = rule_parts(rule)
    kind = ToolKind(word) if word in set(ToolKind) else None
    if kind is ToolKind.SHELL and pattern is not None and pattern.strip() == "*":
        return kind, None
    return kind, pattern


def _prefix(pattern: str) -> str | None:
    """The words in front of `:*`."""
    text = pattern.strip()
    for end in (":*", " *"):
        if text.endswith(end):
            return text.removesuffix(end).strip()
    return None


def _name(pattern: str) -> str:
    words = simple_words(_prefix(pattern) or pattern)
    return program(words) if words else ""
