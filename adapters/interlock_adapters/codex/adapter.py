"""OpenAI's Codex CLI as an adapter: who it is, and its transports."""

from __future__ import annotations

from interlock.adapter import Transport, VersionRange
from interlock.tools import ToolCall
from interlock_adapters.codex.app_server.transport import AppServer
from interlock_adapters.codex.attach import Attach
from interlock_adapters.codex.exec.transport import Exec
from interlock_adapters.codex.login import CREDENTIALS_FILE, KEYS
from interlock_adapters.codex.tools import describe
from interlock_adapters.codex.versions import NEWEST, OLDEST

__all__ = ["CodexAdapter", "adapter"]


class CodexAdapter:
    """OpenAI's Codex CLI."""

    name = "codex"
    title = "Codex"
    programs = ("codex",)
    install_hint = "npm install -g @openai/codex"
    versions = VersionRange(OLDEST, NEWEST)
    key_variables = KEYS
    login_folder = ".codex"
    login_variable = "CODEX_HOME"
    login_files = (CREDENTIALS_FILE,)
    transports: tuple[Transport, ...] = (Exec(), AppServer())
    attached: Transport = Attach()
    login_arguments = ("login",)

    def describe(self, call: ToolCall) -> ToolCall:
        """The call with kind and subject read anew."""
        return describe(call)


adapter = CodexAdapter()
