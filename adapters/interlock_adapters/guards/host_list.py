"""Only these hosts: for tools that fetch, and as far as it can be seen for shell commands and MCP tools.

A URL passes if every parser reads the same allowed host in it. A shell command with a program that talks to the network
passes only as a plain curl to allowed hosts that follows no redirect; a command that cannot be read does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from interlock.engine.hosts import HostPattern, host_pattern
from interlock.engine.shell_split import Part, split
from interlock.engine.shell_text import could_run, literals
from interlock.errors import ConfigurationError
from interlock.hooks import Allow, DenyCall, HookCall
from interlock.tools import ToolKind
from interlock_adapters.guards.calls import texts

__all__ = ["NETWORK_PROGRAMS", "HostAllowList"]

NETWORK_PROGRAMS = (
    "curl", "wget", "aria2c", "http", "https", "xh", "lynx", "w3m", "links", "nc", "ncat", "netcat", "socat", "telnet",
    "ftp", "lftp", "tftp", "ssh", "scp", "sftp", "rsync", "mosh", "dig", "nslookup", "host", "drill", "ping", "openssl",
)  # fmt: skip
"""Programs that exist to talk to other hosts."""
_CURL_FLAGS = re.compile(r"-[sSfIviO046#]+|--(?:silent|show-error|fail|head|verbose|compressed|include)")
_CURL_VALUES = {"-H", "--header", "-o", "--output", "-X", "--request", "-A", "--user-agent", "-m", "--max-time"}
_URL = re.compile(r"\bhttps?://[^\s\"'<>)\]}]+", re.IGNORECASE)


class HostAllowList:
    """Denies what reaches, or could reach, other hosts than `hosts`: `host`, `*.host`, either with `:port` or `:*`.

    `web_search` lets the agent's web search run, whose hosts nobody sees. Raises `ConfigurationError`.
    """

    name = "host-allow-list"
    may = ("deny",)

    def __init__(self, hosts: Sequence[str], *, web_search: bool = False) -> None:
        self._patterns = [_pattern(host) for host in hosts]
        self._web_search = web_search
        self._shown = ", ".join(hosts) or "no host"

    async def before(self, call: HookCall) -> Allow | DenyCall:
        """Deny what is not on the list."""
        problem = self._problem(call)
        return Allow() if problem is None else DenyCall(reason=f"{problem}; allowed: {self._shown}")

    def _problem(self, call: HookCall) -> str | None:
        match call.tool_kind:
            case ToolKind.FETCH:
                return self._urls(call.subject.urls) if call.subject.urls else "it names no URL"
            case ToolKind.WEB_SEARCH:
                return None if self._web_search else "web search is not allowed"
            case ToolKind.SHELL:
                return self._command(call.subject.command)
            case ToolKind.MCP | ToolKind.UNKNOWN | ToolKind.SHELL_INPUT:
                return self._urls([url for text in texts(call.input) for url in _URL.findall(text)])
            case (
                ToolKind.READ
                | ToolKind.SEARCH
                | ToolKind.EDIT
                | ToolKind.WRITE
                | ToolKind.PATCH
                | ToolKind.AGENT
                | ToolKind.PLAN
                | ToolKind.QUESTION
                | ToolKind.INTERNAL
            ):
                return None
            case _:
                assert_never(call.tool_kind)

    def _urls(self, urls: Sequence[str]) -> str | None:
        return next((f"{url} is not on the list of hosts" for url in urls if not self._allows(url)), None)

    def _allows(self, url: str) -> bool:
        return any(pattern.allows(url) for pattern in self._patterns)

    def _command(self, command: str | None) -> str | None:
        found = split(command or "")
        if found.hidden or command is None:
            return "the command cannot be read"
        if "/dev/tcp/" in command or "/dev/udp/" in command:
            return "the command opens a connection of the shell's own"
        for part in found.parts:
            program = next((name for name in NETWORK_PROGRAMS if could_run(part.words, (name,), prefix=True)), None)
            if program is not None and not self._plain_curl(part, complete=found.complete):
                return f"it may run {program} with other hosts than are allowed"
        return None

    def _plain_curl(self, part: Part, *, complete: bool) -> bool:
        words = literals(part.words)
        if not complete or not words or words[0].rpartition("/")[2] != "curl" or part.role == "guess" or part.fed:
            return False
        urls = 0
        rest = iter(words[1:])
        for word in rest:
            if word in _CURL_VALUES:
                value = next(rest, "@")
                if value.startswith("@"):
                    return False
            elif not word.startswith("-"):
                if not self._allows(word) or set(word) & set("[]{}"):
                    return False
                urls += 1
            elif not _CURL_FLAGS.fullmatch(word):
                return False
        return urls > 0


def _pattern(host: str) -> HostPattern:
    pattern = host_pattern(host)
    if pattern is None:
        raise ConfigurationError("HostAllowList", f"{host!r} is no host; write it as in example.com or *.example.com")
    return pattern
