"""The credentials of Codex.

Of the keys only `CODEX_API_KEY` is looked at by the built-in provider (0.171.0). A provider of one's own names its
key's variable itself: that one stands in the request.
"""

from __future__ import annotations

from interlock.login import Credentials

__all__ = ["CREDENTIALS", "CREDENTIALS_FILE", "KEYS"]

CREDENTIALS_FILE = "auth.json"
KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")
CREDENTIALS = Credentials(CREDENTIALS_FILE, KEYS)
