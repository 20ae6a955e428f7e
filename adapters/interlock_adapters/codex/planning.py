"""What the processes of both transports have in common, and what neither can be asked for.

What outlives a run is linked into its private config home: the sessions, and the login where one is used.
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.adapter import Argument, Launch, LaunchFile, LaunchLink, Order
from interlock.capabilities import Unmet
from interlock_adapters.codex import sandbox
from interlock_adapters.codex.config import unmet_servers
from interlock_adapters.codex.environment import (
    CONFIG_HOME,
    TEMPORARY,
    dropped_variables,
    set_variables,
    unmet_variables,
)
from interlock_adapters.codex.extra_args import unmet_arguments
from interlock_adapters.codex.login import CREDENTIALS, CREDENTIALS_FILE, KEYS

__all__ = ["launch", "unmet"]

SESSIONS = "codex/sessions"


def unmet(order: Order) -> Iterator[Unmet]:
    """Everything that is wrong with the order over either transport."""
    yield from unmet_arguments(order.request.extra_args)
    yield from sandbox.unmet_sandbox(order)
    yield from unmet_servers(order)
    yield from CREDENTIALS.unmet(order, own_variables=True)
    yield from unmet_variables(order)


def launch(order: Order, argv: Iterator[Argument], *warnings: str) -> Launch:
    """The process, as far as it is the same over both; deterministic."""
    permission = order.request.permission
    return Launch(
        argv=tuple(argv),
        env=set_variables(),
        secret_env=frozenset(KEYS),
        drop_env=dropped_variables(order),
        files=(LaunchFile(f"{TEMPORARY}/.keep", ""),),
        links=tuple(_links(order)),
        confined=sandbox.mode(permission) != "danger-full-access",
        enforces_posture=sandbox.confines_posture(permission),
        warnings=(f"credentials: {CREDENTIALS.chosen(order).described}", *warnings),
    )


def _links(order: Order) -> Iterator[LaunchLink]:
    yield LaunchLink(f"{CONFIG_HOME}/sessions", f"{{state}}/{SESSIONS}", make="folder")
    if CREDENTIALS.chosen(order).source == "file":
        yield LaunchLink(f"{CONFIG_HOME}/{CREDENTIALS_FILE}", f"{order.host.login_folder}/{CREDENTIALS_FILE}")
