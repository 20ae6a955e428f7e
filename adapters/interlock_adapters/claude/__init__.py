"""Claude Code, driven over its `stream-json` protocol."""

from interlock_adapters.claude.adapter import adapter

__all__ = ["adapter"]
