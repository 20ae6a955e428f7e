"""Every file that a call names lies in the workspace, and what names none that can be known does not run.

Paths are compared with links resolved. Of shell commands only readers show their files, so only they pass unless the
shell is left to something else, such as a sandbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, assert_never

from interlock.engine.places import Place
from interlock.engine.postures import reader_operands
from interlock.hooks import Allow, DenyCall, HookCall
from interlock.tools import ToolKind

__all__ = ["WorkspaceConfinement"]


class WorkspaceConfinement:
    """Denies calls that reach, or could reach, a file outside the run's workspace and `add_dirs` (absolute paths).

    `shell`: "readers" lets pass commands that only read files inside, "deny" none, "allow" all. `tools` lists native
    names, of MCP tools `server/tool`, that may run although their files cannot be known.
    """

    name = "workspace-confinement"
    may = ("deny",)

    def __init__(
        self,
        *,
        add_dirs: Sequence[str] = (),
        shell: Literal["readers", "deny", "allow"] = "readers",
        tools: Sequence[str] = (),
    ) -> None:
        self._add_dirs = tuple(add_dirs)
        self._shell: Literal["readers", "deny", "allow"] = shell
        self._tools = frozenset(tools)

    async def before(self, call: HookCall) -> Allow | DenyCall:
        """Deny what is not inside."""
        problem = self._problem(call)
        return Allow() if problem is None else DenyCall(reason=f"{problem}; stay inside {call.workspace}")

    def _problem(self, call: HookCall) -> str | None:
        place = Place.of(call.workspace, self._add_dirs)
        match call.tool_kind:
            case ToolKind.INTERNAL | ToolKind.PLAN | ToolKind.QUESTION | ToolKind.AGENT | ToolKind.WEB_SEARCH:
                return None
            case ToolKind.FETCH:
                return _no_web_address(call)
            case ToolKind.READ | ToolKind.EDIT | ToolKind.WRITE | ToolKind.PATCH:
                return _outside(place, call.subject.paths, call) if call.subject.paths else "it names no path"
            case ToolKind.SEARCH:
                return _outside(place, call.subject.paths or (call.cwd,), call)
            case ToolKind.SHELL:
                return self._command(place, call)
            case ToolKind.SHELL_INPUT:
                return None if self._shell == "allow" else "what is typed into a running command cannot be checked"
            case ToolKind.MCP | ToolKind.UNKNOWN:
                known = {call.tool_name, call.subject.mcp} & self._tools
                return None if known else f"the files of {call.tool_name} cannot be known"
            case _:
                assert_never(call.tool_kind)

    def _command(self, place: Place, call: HookCall) -> str | None:
        match self._shell:
            case "allow":
                return None
            case "deny":
                return "no shell commands are allowed"
            case "readers":
                operands = reader_operands(call.subject.command)
                if operands is None:
                    return "the files of this command cannot be known, only simple readers can be checked"
                return _outside(place, (call.cwd, *operands), call)
            case _:
                assert_never(self._shell)


def _outside(place: Place, paths: Sequence[str], call: HookCall) -> str | None:
    for path in paths:
        spellings = place.spellings(path, call.cwd)
        if spellings is None or not place.is_inside(spellings):
            return f"{path} lies outside the workspace"
    return None


def _no_web_address(call: HookCall) -> str | None:
    if all(url.lower().startswith(("http://", "https://")) for url in call.subject.urls):
        return None
    return "it fetches something other than http or https"
