"""GitHub's Copilot CLI, driven over its server and over prompts."""

from interlock_adapters.copilot.adapter import adapter

__all__ = ["adapter"]
