"""What is wrong with the MCP servers of a request, whichever transport they are given over."""

from __future__ import annotations

import re
from collections.abc import Iterator

from interlock.adapter import Order
from interlock.capabilities import Unmet
from interlock_adapters.copilot.tools import unmet_server_names

__all__ = ["unmet_servers"]

_VARIABLE = re.compile(r"\$(?:\{|[A-Za-z_])")
"""The CLI puts variables of its environment into the whole configuration of a server (1.0.102)."""


def unmet_servers(order: Order) -> Iterator[Unmet]:
    """Names that would make a tool's name ambiguous, and values that would not be taken as they stand."""
    servers = order.request.mcp_servers
    yield from unmet_server_names(servers)
    for name, server in servers.items():
        for field, value in server.model_dump(mode="json").items():
            if _VARIABLE.search(str(value)):
                reason = "holds `$NAME` or `${NAME}`, which the agent would replace by the value of a variable"
                yield Unmet(
                    field=f"mcp_servers.{name}.{field}", value="...", reason=reason, alternatives=("its value",)
                )
