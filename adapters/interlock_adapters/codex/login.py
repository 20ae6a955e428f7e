"""The credentials of Codex, and how a key of the environment reaches it (0.171.0).

`exec` takes one key from its environment, under one name; the app-server takes none from there, but over the protocol,
and keeps it in memory if it is told to. A provider of one's own names its key's variable itself: that one stands in the
request. A login is refreshed where it lies: Codex follows the link to the file, locks it, and puts a new one there.
"""

from __future__ import annotations

from typing import Literal

from interlock.adapter import Order
from interlock.login import Credentials

__all__ = ["CREDENTIALS", "CREDENTIALS_FILE", "EXEC_KEY", "KEYS", "key_of", "store_of"]

CREDENTIALS_FILE = "auth.json"
EXEC_KEY = "CODEX_API_KEY"
"""The only variable that `exec` takes a key from."""
KEYS = (EXEC_KEY, "OPENAI_API_KEY")
CREDENTIALS = Credentials(CREDENTIALS_FILE, KEYS)


def key_of(order: Order) -> str | None:
    """The key of the environment, if that is what the run logs in with; those of the request come first."""
    if CREDENTIALS.chosen(order).source != "environment":
        return None
    for given in (order.request.env, order.host.environ):
        for name in KEYS:
            if given.get(name):
                return given[name]
    return None


def store_of(order: Order) -> Literal["file", "ephemeral"]:
    """Where Codex keeps what it logs in with: in the file that is linked, or in memory alone."""
    return "file" if CREDENTIALS.chosen(order).source == "file" else "ephemeral"
