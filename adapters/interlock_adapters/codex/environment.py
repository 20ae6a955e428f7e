"""The variables of the child: what we set, and what never reaches it.

The config home is the run's own, so that neither the user's configuration, rules and hooks nor what an earlier run left
there takes part; so is the temporary folder, the only one that the sandbox leaves writable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from interlock.adapter import Order
from interlock.capabilities import Unmet
from interlock_adapters.codex.login import CREDENTIALS, EXEC_KEY, KEYS, key_of

__all__ = ["CONFIG_HOME", "TEMPORARY", "dropped_variables", "exec_variables", "set_variables", "unmet_variables"]

CONFIG_HOME = "codex"
"""The private config home, relative to the run's folder."""
TEMPORARY = "tmp"

_ALWAYS: Mapping[str, str] = {
    "CODEX_HOME": "{home}/" + CONFIG_HOME,
    "TMPDIR": "{home}/" + TEMPORARY,
}
_PREFIXES = ("CODEX_", "RUST_")
_HARMLESS = frozenset({*KEYS, *_ALWAYS, "CODEX_CA_CERTIFICATE"})


def set_variables() -> dict[str, str]:
    """What the adapter sets."""
    return dict(_ALWAYS)


def exec_variables(order: Order) -> dict[str, str]:
    """The same and, where the run logs in with a key, that key under the one name that `exec` knows."""
    key = key_of(order)
    return set_variables() if key is None else {**set_variables(), EXEC_KEY: key}


def dropped_variables(order: Order) -> frozenset[str]:
    """Names that never reach the child, whoever sets them."""
    present = {*order.host.environ, *order.request.env}
    return frozenset(name for name in present if _is_unwanted(name)) | CREDENTIALS.chosen(order).dropped


def unmet_variables(order: Order) -> Iterator[Unmet]:
    """Variables that the request sets and that the child must not see, or must see otherwise."""
    for name, value in sorted(order.request.env.items()):
        if _is_unwanted(name) or _ALWAYS.get(name, value) != value:
            reason = "is set by the adapter, or may weaken what guards the run"
            yield Unmet(field="env", value=name, reason=reason, alternatives=("leave it out",))


def _is_unwanted(name: str) -> bool:
    return name not in _HARMLESS and name.startswith(_PREFIXES)
