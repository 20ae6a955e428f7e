"""GitHub's Copilot CLI as an adapter: who it is, and its transports."""

from __future__ import annotations

from interlock.adapter import Transport, VersionRange
from interlock.tools import ToolCall
from interlock_adapters.copilot.attach import Attach
from interlock_adapters.copilot.login import CREDENTIALS_FILE, KEYS
from interlock_adapters.copilot.prompt.transport import Prompt
from interlock_adapters.copilot.server.transport import Server
from interlock_adapters.copilot.tools import describe
from interlock_adapters.copilot.versions import NEWEST, OLDEST

__all__ = ["CopilotAdapter", "adapter"]


class CopilotAdapter:
    """GitHub's Copilot CLI."""

    name = "copilot"
    title = "Copilot CLI"
    programs = ("copilot",)
    install_hint = "npm install -g @github/copilot"
    versions = VersionRange(OLDEST, NEWEST)
    key_variables = KEYS
    login_folder = ".copilot"
    login_variable = "COPILOT_HOME"
    login_files = (CREDENTIALS_FILE,)
    transports: tuple[Transport, ...] = (Prompt(), Server())
    attached: Transport = Attach()
    login_arguments = ("login",)

    def describe(self, call: ToolCall) -> ToolCall:
        """The call with kind and subject read anew."""
        return describe(call)


adapter = CopilotAdapter()
