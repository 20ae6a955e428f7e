"""The variables of the child: what we set, and what never reaches it.

Claude Code reads several hundred variables, and more with every version: nesting markers, switches that turn off hooks
(`CLAUDE_CODE_SIMPLE` is `--bare`), prefixes for the shell. So of its own names only those that were looked at are let
through; everything else of its prefixes is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from interlock.adapter import Order
from interlock.capabilities import Unmet
from interlock_adapters.claude.login import CREDENTIALS, KEYS, SERVICE

__all__ = ["CONFIG_HOME", "dropped_variables", "set_variables", "unmet_variables"]

CONFIG_HOME = "claude"
"""The private config home, relative to the run's folder."""

_ALWAYS: Mapping[str, str] = {
    "CLAUDE_CONFIG_DIR": "{home}/" + CONFIG_HOME,
    "CLAUDE_CODE_ENTRYPOINT": "interlock",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_CRON": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
"""Notes that the agent keeps beside its sessions would speak to later runs (2.1.197 loads them): they are off."""

_REPLACING: Mapping[str, str] = {
    "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1",
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
    "DISABLE_AUTO_COMPACT": "1",
    "DISABLE_COMPACT": "1",
}
"""Set where outputs may be replaced, since what these show goes past the after-hook: files read again from disk; the
branch, the changed files and the last commits in the first request; where `cd` led, in 2.1.332. So every command begins
in the workspace."""

_HARMLESS = frozenset({
    "CLAUDE_CODE_ATTRIBUTION_HEADER", "CLAUDE_CODE_CLIENT_CERT", "CLAUDE_CODE_CLIENT_KEY",
    "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE", "CLAUDE_CODE_DISABLE_1M_CONTEXT", "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS",
    "CLAUDE_CODE_DISABLE_THINKING", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH", "CLAUDE_CODE_SKIP_VERTEX_AUTH", "CLAUDE_CODE_SUBAGENT_MODEL",
    "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_STREAM_IDLE_TIMEOUT_MS",
})  # fmt: skip
"""Names of the agent's own that tune or choose the service and touch no guard."""

_PREFIXES = ("CLAUDE", "BUN_")
_NAMES = frozenset({"AI_AGENT", "ENABLE_CLAUDEAI_MCP_SERVERS", "IS_DEMO", "IS_SANDBOX", "NODE_OPTIONS"})


def set_variables(order: Order) -> dict[str, str]:
    """What the adapter sets for this order."""
    return dict(_ALWAYS) | (dict(_REPLACING) if order.needs.replace else {})


def dropped_variables(order: Order) -> frozenset[str]:
    """Names that never reach the child, whoever sets them."""
    present = {*order.host.environ, *order.request.env}
    unwanted = {name for name in present if _is_unwanted(name)}
    return frozenset({*_NAMES, "CLAUDECODE", "CLAUDE_CODE_SIMPLE", *unwanted}) | CREDENTIALS.chosen(order).dropped


def unmet_variables(order: Order) -> Iterator[Unmet]:
    """Variables that the request sets and that the child must not see, or must see otherwise."""
    for name, value in sorted(order.request.env.items()):
        if _is_unwanted(name) or _ALWAYS.get(name, value) != value:
            yield Unmet(
                field="env",
                value=name,
                reason="is set by the adapter, or may weaken what guards the run",
                alternatives=("leave it out",),
            )


def _is_unwanted(name: str) -> bool:
    if name in _ALWAYS or name in _REPLACING or name in _HARMLESS or name in KEYS or name in SERVICE:
        return False
    return name in _NAMES or name.startswith(_PREFIXES)
