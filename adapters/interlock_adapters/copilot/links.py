"""What outlives a run of Copilot, linked into its private home: the sessions, and the login where one is used."""

from __future__ import annotations

import re
from collections.abc import Iterator

from interlock.adapter import LaunchLink, Order
from interlock.capabilities import Unmet
from interlock.request import NewSession
from interlock_adapters.copilot.environment import CONFIG_HOME
from interlock_adapters.copilot.login import CREDENTIALS_FILE, chosen_login

__all__ = ["links", "session_file", "unmet_session"]

SESSIONS = "copilot/session-state"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")


def links(order: Order) -> tuple[LaunchLink, ...]:
    """The sessions, and the file of the login if that is what was chosen."""
    sessions = LaunchLink(f"{CONFIG_HOME}/session-state", f"{{state}}/{SESSIONS}", make="folder")
    if chosen_login(order).source != "file":
        return (sessions,)
    credentials = f"{order.host.login_folder}/{CREDENTIALS_FILE}"
    return (sessions, LaunchLink(f"{CONFIG_HOME}/{CREDENTIALS_FILE}", credentials))


def session_file(order: Order) -> str | None:
    """Where the session that the run goes on with must lie: an unknown id would begin an empty one."""
    session = order.request.session
    return None if isinstance(session, NewSession) else f"{{state}}/{SESSIONS}/{session.id}/events.jsonl"


def unmet_session(order: Order) -> Iterator[Unmet]:
    """A session is a folder of its id: one that is no plain name could be another."""
    chosen = order.request.session.id
    if chosen is not None and not _ID.match(chosen):
        reason = "an id is letters, digits, `_` and `-`"
        yield Unmet(field="session.id", value=chosen, reason=reason, alternatives=("a UUID",))
