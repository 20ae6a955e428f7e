"""Which credentials a run uses: the login that the person already has, or keys from the environment, never both.

A stray key in the environment would win over the login (Claude Code 2.1.197 and 2.1.332), so the one that was not
chosen is kept from the child. Keys that the request itself sets are the most explicit choice of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interlock.adapter import Order
from interlock.capabilities import Unmet

__all__ = ["CREDENTIALS_FILE", "KEYS", "SERVICE", "Login", "chosen_login", "unmet_login"]

CREDENTIALS_FILE = ".credentials.json"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
SERVICE = ("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS")


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
    return Login("none", "no login was found: no credentials file, and none of " + ", ".join(KEYS))


def unmet_login(order: Order) -> tuple[Unmet, ...]:
    """What is wrong with the login that the request names."""
    login = order.request.login
    if login not in {"user", "env"} and CREDENTIALS_FILE not in order.host.login_files:
        return (_unmet(login, f"there is no {CREDENTIALS_FILE}", "login=user", "login=env"),)
    if login == "env" and chosen_login(order).source == "none":
        return (_unmet(login, f"none of {', '.join(KEYS)} is set", "login=user"),)
    return ()


def _unmet(value: str, reason: str, *alternatives: str) -> Unmet:
    return Unmet(field="login", value=value, reason=reason, alternatives=alternatives)
