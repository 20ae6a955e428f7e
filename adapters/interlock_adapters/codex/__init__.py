"""OpenAI's Codex CLI, driven over its `app-server` protocol."""

from interlock_adapters.codex.adapter import adapter

__all__ = ["adapter"]
