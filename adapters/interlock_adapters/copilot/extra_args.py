"""What may stand in `Request.extra_args`: options that were looked at one by one, and nothing else.

A closed list, since an option that nobody has looked at may run calls unasked (`--yolo`), load hooks (`--plugin-dir`)
or name another session. Options of Copilot CLI 1.0.102; each takes its value in the same word or in the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from interlock.capabilities import Unmet

__all__ = ["unmet_arguments"]

ALLOWED: Mapping[str, Literal["none", "one"]] = {
    "--disable-client-telemetry": "none",
    "--log-level": "one",
    "--no-experimental": "none",
    "--no-remote": "none",
    "--no-remote-export": "none",
}
_FIELDS: Mapping[str, str] = {
    "--add-dir": "add_dirs",
    "--additional-mcp-config": "mcp_servers",
    "--attachment": "images",
    "--continue": "session",
    "--effort": "effort",
    "--model": "model",
    "--plan": "mode",
    "--prompt": "prompt",
    "--reasoning-effort": "effort",
    "--resume": "session",
    "--session-id": "session",
    "-C": "cwd",
    "-p": "prompt",
    "-r": "session",
}
_GUARDS = (
    *("--acp", "--agent", "--allow", "--ask", "--assisted", "--auto", "--available", "--bash-env", "--config-dir"),
    *("--deny", "--enable", "--excluded", "--experimental", "--extension", "--headless", "--mode", "--plugin"),
    *("--remote", "--stdio", "--trust", "--yolo"),
)


def unmet_arguments(extra: Sequence[str]) -> Iterator[Unmet]:
    """Everything in `extra` that may not stand there."""
    words = iter(extra)
    for word in words:
        option, equals, _ = word.partition("=")
        if option not in ALLOWED:
            yield _refused(word, option)
        elif ALLOWED[option] == "none" and equals:
            yield _unmet(word, "takes no value", option)
        elif ALLOWED[option] == "one" and not equals and next(words, "-").startswith("-"):
            yield _unmet(word, "needs a value", f"{option}=VALUE")


def _refused(word: str, option: str) -> Unmet:
    if not word.startswith("-"):
        return _unmet(word, "is no option", "put it into the prompt")
    if option in _FIELDS:
        return _unmet(word, "stands for a field of the request", _FIELDS[option])
    if option.startswith(_GUARDS):
        return _unmet(word, "weakens or replaces what guards the run", "leave it out")
    return _unmet(word, "is not among the options that may be added", *sorted(ALLOWED))


def _unmet(value: str, reason: str, *alternatives: str) -> Unmet:
    return Unmet(field="extra_args", value=value, reason=reason, alternatives=alternatives)
