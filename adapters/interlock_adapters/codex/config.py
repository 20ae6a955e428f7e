"""The configuration of a run: what stands in argv as `-c KEY=VALUE`, and what only the server's stdin is told.

Nothing of the user's or the project's takes part: the config home is the run's own and the workspace is said to be
untrusted, since a server that is given a sandbox that writes trusts, where nothing else is said, by itself. What is
hosted, loads code or calls elsewhere is off, and so are instructions that lie about: `AGENTS.md`, and skills, which
load from the workspace and from the person's home even where nothing is trusted (features of Codex 0.171.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from interlock.adapter import Argument, Order
from interlock.capabilities import Unmet
from interlock.model import JsonValue
from interlock.request import HttpServer, StdioServer
from interlock_adapters.codex import hooks
from interlock_adapters.codex.login import KEYS, store_of

__all__ = ["arguments", "mcp_servers", "quiet_arguments", "toml", "unmet_servers"]

_OFF = (
    *("api_key_model_discovery", "apps", "browser_use", "browser_use_external", "computer_use", "goals"),
    *("image_generation", "in_app_browser", "memories", "plugins", "remote_plugin", "shell_snapshot"),
    *("skill_mcp_dependency_install", "tool_suggest"),
)
"""Hosted or self-installing tools, calls to other hosts, and a snapshot of the shell that commands could change."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


def quiet_arguments(order: Order) -> Iterator[Argument]:
    """What every run sets: nothing hosted, no calls elsewhere, no instructions but those of the request."""
    return _as_arguments(_quiet(order))


def arguments(order: Order) -> Iterator[Argument]:
    """The settings of this order where hooks and questions are served; no secret is among them."""
    settings = _quiet(order)
    settings["features.default_mode_request_user_input"] = order.needs.answered
    if order.needs.chain_after:
        settings["features.view_image"] = False
    return _as_arguments(settings | hooks.settings())


def _quiet(order: Order) -> dict[str, JsonValue]:
    return {
        "analytics.enabled": False,
        "check_for_update_on_startup": False,
        "web_search": "disabled",
        "projects": {order.request.cwd: {"trust_level": "untrusted"}},
        "project_doc_max_bytes": 0,
        "cli_auth_credentials_store": store_of(order),
        "shell_environment_policy.exclude": [*KEYS],
        "skills.include_instructions": False,
        "skills.bundled.enabled": False,
        "features.unbounded_connection_retries": False,
        **{f"features.{name}": False for name in _OFF},
    }


def _as_arguments(settings: Mapping[str, JsonValue]) -> Iterator[Argument]:
    for key, value in settings.items():
        yield Argument("-c")
        yield Argument(f"{key}={toml(value)}")


def toml(value: JsonValue) -> str:
    """A value as TOML on one line; raises TypeError for null, which TOML has not."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return "[" + ",".join(map(toml, value)) + "]"
        case dict():
            return "{" + ",".join(f"{_key(key)}={toml(each)}" for key, each in value.items()) + "}"
        case None:
            raise TypeError("TOML has no null")


def _key(key: str) -> str:
    return key if _BARE_KEY.match(key) else json.dumps(key, ensure_ascii=False)


def mcp_servers(servers: Mapping[str, StdioServer | HttpServer], *, asked: bool = False) -> dict[str, JsonValue]:
    """The request's own MCP servers. Their calls are decided by hooks, so that Codex asks about them only as a gate.

    Then it is told to: by itself it trusts a tool whose annotations call it harmless (0.171.0).
    """
    mode: dict[str, JsonValue] = {"default_tools_approval_mode": "prompt" if asked else "approve"}
    return {name: {**_server(server), **mode} for name, server in servers.items()}


def _server(server: StdioServer | HttpServer) -> dict[str, JsonValue]:
    match server:
        case StdioServer():
            return {"command": server.command, "args": [*server.args], "env": {**server.env}}
        case HttpServer():
            return {"url": server.url, "http_headers": {**server.headers}}


def unmet_servers(order: Order) -> Iterator[Unmet]:
    """Names that would make a tool's name ambiguous."""
    for name in order.request.mcp_servers:
        if name == hooks.SERVER or not re.fullmatch(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*", name):
            reason = f"a name is letters, digits, `-`, and single `_` between them, and not `{hooks.SERVER}`"
            yield Unmet(field=f"mcp_servers.{name}", value=name, reason=reason, alternatives=("another name",))
