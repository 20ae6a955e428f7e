"""The variables of the child: what we set, and what never reaches it.

Copilot reads some two hundred variables of its own, and more with every version: `COPILOT_ALLOW_ALL` runs everything
unasked and trusts the workspace, others name folders of skills and instructions, or programs. So of its own names only
those that were looked at are let through (1.0.102).

The config home is the run's own. The package that the executable unpacks at its first start, 235 MB, is shared by all
runs; it lies outside of what an agent is told of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from interlock.adapter import Order
from interlock.capabilities import Unmet
from interlock_adapters.copilot.login import KEYS, chosen_login

__all__ = ["CONFIG_HOME", "dropped_variables", "set_variables", "unmet_variables"]

CONFIG_HOME = "copilot"
"""The private config home, relative to the run's folder."""
PACKAGES = "copilot/packages"
"""The unpacked package, in the state folder."""

_ALWAYS: Mapping[str, str] = {
    "COPILOT_HOME": "{home}/" + CONFIG_HOME,
    "COPILOT_CACHE_HOME": "{home}/cache",
    "COPILOT_PKG_CACHE_HOME": "{state}/" + PACKAGES,
    "COPILOT_AUTO_UPDATE": "false",
}
_REPLACING: Mapping[str, str] = {"COPILOT_LARGE_OUTPUT_THRESHOLD_BYTES": "1073741824"}
"""Set where outputs may be replaced: a long one would be spilled to a file before the hook after the call is asked, and
the model told its name."""
_HARMLESS = frozenset({*KEYS, *_ALWAYS, *_REPLACING, "COPILOT_PROXY_KERBEROS_SPN"})
_PREFIXES = ("COPILOT_", "GITHUB_COPILOT_")


def set_variables(order: Order) -> dict[str, str]:
    """What the adapter sets for this order; with a provider the CLI wants the model here too."""
    model = order.request.model
    named = {} if model is None else {"COPILOT_MODEL": model}
    return dict(_ALWAYS) | (dict(_REPLACING) if order.needs.replace else {}) | named


def dropped_variables(order: Order) -> frozenset[str]:
    """Names that never reach the child, whoever sets them."""
    present = {*order.host.environ, *order.request.env}
    unwanted = {name for name in present if _is_unwanted(name)}
    return frozenset({"COPILOT_ALLOW_ALL", *unwanted}) | chosen_login(order).dropped


def unmet_variables(order: Order) -> Iterator[Unmet]:
    """Variables that the request sets and that the child must not see, or must see otherwise."""
    ours = {**_ALWAYS, **_REPLACING, **set_variables(order)}
    for name, value in sorted(order.request.env.items()):
        if _is_unwanted(name) or ours.get(name, value) != value:
            reason = "is set by the adapter, or may weaken what guards the run"
            yield Unmet(field="env", value=name, reason=reason, alternatives=("leave it out",))


def _is_unwanted(name: str) -> bool:
    return name not in _HARMLESS and name.startswith(_PREFIXES)
