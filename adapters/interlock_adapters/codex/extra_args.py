"""What may stand in `Request.extra_args`: `-c KEY=VALUE` for keys that were looked at one by one, and nothing else.

A closed list, since a key that nobody has looked at may add hooks or servers, widen the sandbox, or switch a feature
on. Those that are let through choose the model's service or how it answers. Keys of Codex 0.171.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from interlock.capabilities import Unmet

__all__ = ["is_harmless", "unmet_arguments"]

_OPTIONS = ("-c", "--config")
_KEYS = re.compile(
    r"""
    model_provider | model_providers\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_.-]+)? | openai_base_url
    | model_reasoning_summary | model_verbosity | model_context_window | model_auto_compact_token_limit
    | service_tier | hide_agent_reasoning | show_raw_agent_reasoning | tool_output_token_limit
    """,
    re.VERBOSE,
)
_FIELDS = {
    "developer_instructions": "instructions",
    "mcp_servers": "mcp_servers",
    "model": "model",
    "model_instructions_file": "instructions",
    "model_reasoning_effort": "effort",
    "sandbox_mode": "permission",
    "sandbox_workspace_write": "permission",
}
_GUARDS = ("approval", "features", "hooks", "mcp_servers", "permissions", "profile", "projects", "rules", "sandbox")


def is_harmless(key: str) -> bool:
    """Whether the settings of an administrator may have a key of this name, since no guard hangs on it."""
    return key in {"model", "model_providers", "model_reasoning_effort"} or _KEYS.fullmatch(key) is not None


def unmet_arguments(extra: Sequence[str]) -> Iterator[Unmet]:
    """Everything in `extra` that may not stand there."""
    words = iter(extra)
    for word in words:
        option, equals, value = word.partition("=")
        if option not in _OPTIONS or (option == "-c" and equals):
            yield _unmet(word, "is not among the options that may be added: only `-c KEY=VALUE`", "a field")
            continue
        yield from _setting(value if equals else next(words, ""))


def _setting(text: str) -> Iterator[Unmet]:
    key, equals, _ = text.partition("=")
    head = key.partition(".")[0].strip()
    if not equals:
        yield _unmet(text, "needs a key and a value", "-c KEY=VALUE")
    elif _KEYS.fullmatch(key):
        return
    elif head in _FIELDS:
        yield _unmet(text, "stands for a field of the request", _FIELDS[head])
    elif head.startswith(_GUARDS):
        yield _unmet(text, "weakens or replaces what guards the run", "leave it out")
    else:
        yield _unmet(text, "is not among the keys that may be set", "leave it out")


def _unmet(value: str, reason: str, *alternatives: str) -> Unmet:
    return Unmet(field="extra_args", value=value, reason=reason, alternatives=alternatives)
