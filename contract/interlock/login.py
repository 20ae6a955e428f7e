"""Which credentials a run uses: the login that the person already has, or keys from the environment, never both.

A stray key in the environment often wins over the login, so the one that was not chosen is kept from the child. Keys
that the request itself sets are the most explicit choice of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interlock.adapter import Order
from interlock.capabilities import Unmet

__all__ = ["Credentials", "Login"]


@dataclass(frozen=True, slots=True)
class Login:
    """The source of the credentials; `described` is for people."""

    source: Literal["file", "environment", "none"]
    described: str
    dropped: frozenset[str] = frozenset()
    """Keys that the child must not see."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What an agent takes as credentials: a file in its login folder, and variables."""

    file: str
    keys: tuple[str, ...]

    def chosen(self, order: Order) -> Login:
        """The file if the request's login has one and sets no key itself, else the keys of the environment."""
        explicit = [name for name in self.keys if name in order.request.env]
        stray = [name for name in self.keys if name in order.host.environ]
        if explicit:
            return Login("environment", f"{', '.join(explicit)} of the request", frozenset(stray) - frozenset(explicit))
        if order.request.login != "env" and self.file in order.host.login_files:
            kept_out = f"; {', '.join(stray)} of the environment is not used" if stray else ""
            return Login("file", f"the login in {order.host.login_folder}{kept_out}", frozenset(self.keys))
        if stray:
            return Login("environment", f"{', '.join(stray)} of the environment")
        return Login("none", f"no login was found: no {self.file}, and none of {', '.join(self.keys)}")

    def unmet(self, order: Order, *, own_variables: bool = False) -> tuple[Unmet, ...]:
        """What is wrong with the login that the request names. `own_variables`: it may bring a key of its own name."""
        login = order.request.login
        if login not in {"user", "env"} and self.file not in order.host.login_files:
            ways = ("login=user", "login=env")
            return (Unmet(field="login", value=login, reason=f"there is no {self.file}", alternatives=ways),)
        brings_its_own = own_variables and bool(order.request.env)
        if login == "env" and self.chosen(order).source == "none" and not brings_its_own:
            reason = f"none of {', '.join(self.keys)} is set"
            return (Unmet(field="login", value=login, reason=reason, alternatives=("login=user",)),)
        return ()
