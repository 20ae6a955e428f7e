"""Which credentials a run uses: the login that the person already has, or a key from the environment, never both.

Of the keys only `CODEX_API_KEY` is looked at by the built-in provider (Codex 0.171.0); a stray one would win over the
login, so the one that was not chosen is kept from the child. Keys that the request itself sets are the most explicit
choice of all. A provider of one's own names its key's variable itself: that one stands in the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interlock.adapter import Order
from interlock.capabilities import Unmet

__all__ = ["CREDENTIALS_FILE", "KEYS", "Login", "chosen_login", "unmet_login"]

CREDENTIALS_FILE = "auth.json"
KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True, slots=True)
class Login:
    """The source of the credentials; `described` is for people."""

    source: Literal["file", "environment", "none"]
    described: str
    dropped: frozenset[str] = frozenset()
    """Keys that the child must not see."""


def chosen_login(order: Order) -> Login:
    """The file if the request's login has one and sets no key itself, else the keys of the environment."""
    explicit = [name for name in KEYS if name in order.request.env]
    stray = [name for name in KEYS if name in order.host.environ]
    if explicit:
        return Login("environment", f"{', '.join(explicit)} of the request", frozenset(stray) - frozenset(explicit))
    if order.request.login != "env" and CREDENTIALS_FILE in order.host.login_files:
        kept_out = f"; {', '.join(stray)} of the environment is not used" if stray else ""
        return Login("file", f"the login in {order.host.login_folder}{kept_out}", frozenset(KEYS))
    if stray:
        return Login("environment", f"{', '.join(stray)} of the environment")
    return Login("none", f"no login was found: no {CREDENTIALS_FILE}, and none of {', '.join(KEYS)}")


def unmet_login(order: Order) -> tuple[Unmet, ...]:
    """What is wrong with the login that the request names. With `env`, the request may name a variable of its own."""
    login = order.request.login
    if login not in {"user", "env"} and CREDENTIALS_FILE not in order.host.login_files:
        reason = f"there is no {CREDENTIALS_FILE}"
        return (Unmet(field="login", value=login, reason=reason, alternatives=("login=user", "login=env")),)
    if login == "env" and chosen_login(order).source == "none" and not order.request.env:
        reason = f"none of {', '.join(KEYS)} is set"
        return (Unmet(field="login", value=login, reason=reason, alternatives=("login=user",)),)
    return ()
