"""The credentials of Claude Code; a stray key would win over the login (2.1.197 and 2.1.332)."""

from __future__ import annotations

from interlock.login import Credentials

__all__ = ["CREDENTIALS", "CREDENTIALS_FILE", "KEYS", "SERVICE"]

CREDENTIALS_FILE = ".credentials.json"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
SERVICE = ("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS")
CREDENTIALS = Credentials(CREDENTIALS_FILE, KEYS)
