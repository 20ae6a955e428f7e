"""Which environment variables an agent is started with.

Strategy: three layers, of which a later one wins: the host's, the request's, the adapter's. The host's layer is a short
list (`minimal`) or everything (`inherit`). Of both, and of the request's layer, nothing passes that switches a guard
off, claims that we are nested in another agent or in a sandbox, or makes git, a shell or a runtime load code of its
choice: those names are listed one by one, so that a key beside them (`CLAUDE_CODE_OAUTH_TOKEN`) is not lost. For git's
own it is the other way round: what is known to be harmless passes, since most of the rest names programs or files.

Under `minimal` the variables for proxies and certificate authorities pass too: behind a company's proxy no agent
reaches its service without them. A proxy's URL can hold a password; the agent needs it there, and so do the tools that
it runs.

PATH and HOME always stay. Of PATH the entries that are not absolute go: they would be looked up in the workspace.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

__all__ = ["child_environment", "refused_variables"]

_KEPT = frozenset({"HOME", "PATH"})
_MINIMAL = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)

_SWITCHES = (
    *("COPILOT_ALLOW_ALL", "COPILOT_HOOK_ALLOW_LOCALHOST", "GEMINI_CLI_TRUST_WORKSPACE", "OPENCODE_PERMISSION"),
    *("CLAUDE_CODE_SIMPLE", "GOOSE_MODE", "AIDER_YES", "AIDER_YES_ALWAYS", "IS_SANDBOX"),
)
"""They turn asking, hooks or a refusal off (Claude Code 2.1.197, Copilot 1.0.102, gemini-cli 0.61, opencode 1.18)."""

_MARKERS = (
    *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT", "CLAUDE_PROJECT_DIR"),
    *("CODEX_SANDBOX*", "CODEX_THREAD_ID", "COPILOT_PROJECT_DIR", "COPILOT_PLUGIN_ROOT", "COPILOT_HOOK_DIR"),
    *("GEMINI_CLI", "GEMINI_CWD", "GEMINI_PROJECT_DIR", "GEMINI_SESSION_ID", "OPENCODE", "QWEN_CODE"),
    *("QWEN_PROJECT_DIR", "INTERLOCK_*"),
)
"""What agents tell the programs that they run, hooks included; an agent that sees them behaves as a nested one."""

_LOADERS = (
    *("LD_PRELOAD", "LD_AUDIT", "DYLD_*", "NODE_OPTIONS", "BUN_OPTIONS", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT"),
    *("BASH_ENV", "ENV", "SHELLOPTS", "BASH_FUNC_*", "CLAUDE_ENV_FILE", "CLAUDE_CODE_SHELL_PREFIX"),
    *("GEMINI_CLI_SYSTEM_*", "QWEN_CODE_SYSTEM_*", "OPENCODE_CONFIG*"),
)
"""They name code, or a configuration with code in it, that runs before or within every command of the agent."""

_DENIED = (*_SWITCHES, *_MARKERS, *_LOADERS)

_GIT = "GIT_*"
_HARMLESS_GIT = (
    *("GIT_AUTHOR_*", "GIT_COMMITTER_*", "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_CEILING_DIRECTORIES"),
    *("GIT_CONFIG_NOSYSTEM", "GIT_ATTR_NOSYSTEM", "GIT_MERGE_AUTOEDIT", "GIT_PROTOCOL_FROM_USER", "GIT_NO_LAZY_FETCH"),
)


def child_environment(
    *,
    host: Mapping[str, str],
    request_env: Mapping[str, str],
    policy: Literal["minimal", "inherit"],
    key_variables: Iterable[str],
    set_: Mapping[str, str],
    drop: Collection[str],
) -> dict[str, str]:
    """The agent's whole environment: `host`, over it `request_env`, over it `set_`.

    `key_variables` pass from the host under `minimal` too. Names in `drop` (a final `*` stands for any ending) and
    those that are never passed on are missing whoever set them, except the adapter in `set_`.
    """
    wanted = (*_MINIMAL, *key_variables) if policy == "minimal" else ("*",)
    passed = {name: value for name, value in host.items() if _matches(name, wanted)} | dict(request_env)
    env = {name: value for name, value in passed.items() if not _is_refused(name, drop)}
    env["PATH"] = _absolute_only(env.get("PATH", os.defpath))
    return env | dict(set_)


def refused_variables(request_env: Mapping[str, str], drop: Collection[str]) -> tuple[str, ...]:
    """The names in a request's environment that would not reach the agent as they are, sorted: for a plan to report."""
    return tuple(sorted(name for name, value in request_env.items() if _is_refused(name, drop) or _bends(name, value)))


def _is_refused(name: str, drop: Collection[str]) -> bool:
    if name in _KEPT:
        return False
    is_git = _matches(name, (_GIT,)) and not _matches(name, _HARMLESS_GIT)
    return is_git or _matches(name, _DENIED) or _matches(name, drop)


def _bends(name: str, value: str) -> bool:
    return name == "PATH" and _absolute_only(value) != value


def _absolute_only(path: str) -> str:
    """A search path without what depends on the folder one stands in; the system's own if nothing is left."""
    entries = (entry for entry in path.split(os.pathsep) if entry.startswith("/"))
    return os.pathsep.join(entries) or os.defpath


def _matches(name: str, patterns: Iterable[str]) -> bool:
    names, beginnings = _sorted_out(tuple(patterns))
    return name in names or name.startswith(beginnings)


@lru_cache(maxsize=64)
def _sorted_out(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The whole names among the patterns, and the beginnings: every run asks for the same few lists."""
    beginnings = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    return frozenset(pattern for pattern in patterns if not pattern.endswith("*")), beginnings
