"""What may stand in `Request.extra_args`: options that were looked at one by one, and nothing else.

A closed list, since an option that nobody has looked at may replace our settings (`--settings`), drop our hooks
(`--bare`) or switch the questions off. Positional arguments are refused too: the CLI would take one as the prompt.
Options of Claude Code 2.1.197 to 2.1.332; its parser takes no abbreviations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from interlock.capabilities import Unmet

__all__ = ["unmet_arguments"]

Arity = Literal["none", "one"]

ALLOWED: Mapping[str, Arity] = {
    "--autocompact": "one",
    "--betas": "one",
    "--debug-file": "one",
    "--disable-slash-commands": "none",
    "--exclude-dynamic-system-prompt-sections": "none",
    "--fallback-model": "one",
    "--forward-subagent-text": "none",
    "--max-thinking-tokens": "one",
    "--name": "one",
    "--no-chrome": "none",
    "--no-session-persistence": "none",
    "--restricted": "none",
    "--safe-mode": "none",
    "--system-prompt": "one",
    "--tools": "one",
}

_OURS = "is set by the adapter; it must not stand there twice"
_GUARD = "weakens or replaces what guards the run"
_OTHER = "is not among the options that may be added"

_FIELDS: Mapping[str, str] = {
    "--add-dir": "add_dirs",
    "--append-system-prompt": "instructions",
    "--append-system-prompt-file": "instructions",
    "--continue": "session",
    "--effort": "effort",
    "--fork-session": "session",
    "--json-schema": "output_schema",
    "--max-budget-usd": "limits.budget_usd",
    "--max-turns": "limits.max_turns",
    "--mcp-config": "mcp_servers",
    "--model": "model",
    "--resume": "session",
    "--session-id": "session",
    "-c": "session",
    "-r": "session",
}
"""Options that a field of the request stands for."""

_SET_BY_US = frozenset({
    "--disallowed-tools", "--disallowedTools", "--include-partial-messages", "--input-format", "--output-format",
    "--print", "--replay-user-messages", "--verbose", "-p",
})  # fmt: skip

_GUARDS = ("--allow", "--bare", "--dangerously-", "--permission-", "--plugin-", "--setting", "--strict-mcp-config")


@dataclass(frozen=True, slots=True)
class _Word:
    option: str
    text: str
    has_value: bool


def unmet_arguments(extra: Sequence[str]) -> Iterator[Unmet]:
    """Everything in `extra` that may not stand there."""
    words = iter(extra)
    for text in words:
        if not text.startswith("-") or text in {"-", "--"}:
            yield _unmet(text, "is no option; the CLI would take it as the prompt", "put it into the prompt")
            continue
        option, equals, _ = text.partition("=")
        word = _Word(option, text, bool(equals))
        if option not in ALLOWED:
            yield _refused(word)
            if not word.has_value and option in _FIELDS:
                next(words, None)
        elif ALLOWED[option] == "none" and word.has_value:
            yield _unmet(text, "takes no value", option)
        elif ALLOWED[option] == "one" and not word.has_value and next(words, "-").startswith("-"):
            yield _unmet(text, "needs a value", f"{option}=VALUE")


def _refused(word: _Word) -> Unmet:
    if word.option in _FIELDS:
        return _unmet(word.text, "stands for a field of the request", _FIELDS[word.option])
    if word.option in _SET_BY_US:
        return _unmet(word.text, _OURS, "leave it out")
    if word.option.startswith(_GUARDS):
        return _unmet(word.text, _GUARD, "leave it out")
    return _unmet(word.text, _OTHER, *sorted(ALLOWED))


def _unmet(value: str, reason: str, *alternatives: str) -> Unmet:
    return Unmet(field="extra_args", value=value, reason=reason, alternatives=alternatives)
