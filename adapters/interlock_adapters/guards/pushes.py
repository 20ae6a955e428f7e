"""No pushes and no publications by the agent.

A shell command is split into all that it would run, and denied if one part could be such a command, or if something in
it cannot be read. Of tools whose input nobody knows, and of what is typed into a running shell, the text decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlock.engine.places import Place
from interlock.engine.rules import Rules
from interlock.hooks import Allow, DenyCall, HookCall
from interlock.tools import ToolKind
from interlock_adapters.guards.calls import as_tool_call, texts

__all__ = ["PUBLISHING", "PUBLISHING_TOOLS", "PushGuard"]

_PYTHONS = ("python", "python3")
PUBLISHING: tuple[str, ...] = (
    "git push",
    "git send-pack",
    "git svn dcommit",
    "hg push",
    "svn commit",
    *(
        f"{program} publish"
        for program in ("npm", "pnpm", "yarn", "bun", "cargo", "uv", "poetry", "flit", "hatch", "pdm")
    ),
    "yarn npm publish",
    "twine upload",
    *(f"{python} -m twine upload" for python in _PYTHONS),
    *(f"{python} setup.py upload" for python in _PYTHONS),
    "gem push",
    "dotnet nuget push",
    "nuget push",
    "mvn deploy",
    "gradle publish",
    "docker push",
    "podman push",
    "helm push",
    "gh release",
    "gh pr create",
    "gh pr merge",
    "glab mr create",
    "glab mr merge",
)
"""Commands that leave something where others get it; further words may stand between and behind these."""
PUBLISHING_TOOLS: tuple[str, ...] = ("*/*push*", "*/*publish*", "*/*release*", "*/*merge*", "*/create_pull_request")
"""Globs over `server/tool` of MCP."""
_BY_TEXT = {ToolKind.SHELL_INPUT, ToolKind.UNKNOWN}


class PushGuard:
    """Denies pushes and publications. `commands` and `tools` take the place of the defaults."""

    name = "push-guard"
    may = ("deny",)

    def __init__(
        self, *, commands: Sequence[str] = PUBLISHING, tools: Sequence[str] = PUBLISHING_TOOLS, reason: str = ""
    ) -> None:
        """Raises `ConfigurationError` for a command or glob that cannot be understood."""
        rules = [*(f"shell({command}:*)" for command in commands), *(f"mcp({glob})" for glob in tools)]
        self._rules = Rules(rules, "deny", Place.of("/"))
        self._texts = [
            re.compile(r"\b" + r"\b.*\b".join(map(re.escape, command.split())) + r"\b", re.IGNORECASE)
            for command in commands
        ]
        self._reason = reason or "pushing and publishing are left to people"

    async def before(self, call: HookCall) -> Allow | DenyCall:
        """Deny what is, or could be, a push."""
        rule = self._rules.match(as_tool_call(call))
        if rule is not None:
            return DenyCall(reason=f"{self._reason} ({rule})")
        if call.tool_kind in _BY_TEXT and any(self._says_push(text) for text in texts(call.input)):
            return DenyCall(reason=self._reason)
        return Allow()

    def _says_push(self, text: str) -> bool:
        return any(pattern.search(line) for line in text.splitlines() for pattern in self._texts)
