"""What outlives a run of Codex, linked into its private home: the sessions, and the login where one is used."""

from __future__ import annotations

from interlock.adapter import LaunchLink, Order
from interlock_adapters.codex.environment import CONFIG_HOME
from interlock_adapters.codex.login import CREDENTIALS, CREDENTIALS_FILE

__all__ = ["links"]

SESSIONS = "codex/sessions"


def links(order: Order) -> tuple[LaunchLink, ...]:
    """The sessions, and the file of the login if that is what was chosen."""
    sessions = LaunchLink(f"{CONFIG_HOME}/sessions", f"{{state}}/{SESSIONS}", make="folder")
    if CREDENTIALS.chosen(order).source != "file":
        return (sessions,)
    credentials = f"{order.host.login_folder}/{CREDENTIALS_FILE}"
    return (sessions, LaunchLink(f"{CONFIG_HOME}/{CREDENTIALS_FILE}", credentials))
