"""The permission in the words of the command line (Copilot CLI 1.0.102).

No flag lets anything run: what is asked about is granted by a hook, call by call, for what was decided. So without our
hooks, or with hooks that are too slow or say nothing that is understood, what is asked about does not run: every
command that does more than read, every change of a file, every tool of a server. What is not asked about is decided by
the hook before the call alone: reading inside, sub-agents and the agent's own tools. Reading outside asks nobody: the
flags forbid it, unless the permission may let it run.

What the permission denies as a whole is denied by a flag too.
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.permission import Otherwise, Permission, Posture, rule_parts
from interlock.request import Request
from interlock.tools import ToolKind

__all__ = ["HIDDEN", "permission_flags"]

HIDDEN = ("skill", "fetch_copilot_cli_documentation")
"""Tools that the model is not offered: skills are files of the workspace that nobody chose; the other fetches pages."""
_OUTSIDE = frozenset(
    {"*", ToolKind.READ, ToolKind.SEARCH, ToolKind.SHELL, ToolKind.WRITE, ToolKind.EDIT, ToolKind.PATCH}
)
_WHOLE = {
    ToolKind.SHELL: "shell",
    ToolKind.WRITE: "write",
    ToolKind.FETCH: "url",
}
"""What the agent calls a kind of which every call is denied."""


def permission_flags(request: Request) -> Iterator[str]:
    """The flags for a request."""
    permission = request.permission
    yield from _denied(permission)
    yield f"--excluded-tools={','.join(HIDDEN)}"
    if _may_leave(request):
        yield "--allow-all-paths"
    else:
        yield "--disallow-temp-dir"
    if permission.posture is Posture.FULL:
        yield "--allow-all-urls"


def _denied(permission: Permission) -> Iterator[str]:
    for rule in permission.deny:
        kind, pattern = rule_parts(rule)
        word = _WHOLE.get(ToolKind(kind)) if kind != "*" and pattern is None else None
        if word is not None:
            yield f"--deny-tool={word}"


def _may_leave(request: Request) -> bool:
    """Whether a path outside may be let through. (`--add-dir` would load agents and skills of that directory.)"""
    permission = request.permission
    if request.add_dirs or permission.posture is Posture.FULL or permission.otherwise is Otherwise.CHAIN:
        return True
    return any(rule_parts(rule)[0] in _OUTSIDE for rule in permission.allow)
