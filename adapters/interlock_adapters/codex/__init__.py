"""OpenAI's Codex CLI, driven over `exec` and `app-server`."""

from interlock_adapters.codex.adapter import adapter

__all__ = ["adapter"]
