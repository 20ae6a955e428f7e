"""What a session is begun, or gone on with: the same in both, since nothing of it is remembered (1.0.102).

A key that the server does not know is ignored without a word, so a guard counts only once its effect was seen. Nothing
of the workspace's own is loaded: no hooks, instructions, skills or agents.
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.adapter import Order
from interlock.capabilities import Unmet
from interlock.model import JsonValue
from interlock.request import Fork, HttpServer, StdioServer
from interlock_adapters.copilot.login import provider, variable
from interlock_adapters.copilot.server.model_gate import gated

__all__ = ["excluded_tools", "message", "session_params", "unmet_fork"]

ROUND_THE_HOOKS = (
    *("read_bash", "stop_bash", "list_bash"),
    *("read_agent", "write_agent", "list_agents"),
)
"""Tools about work in the background, of which there is none where outputs are judged: what it says comes past the
hooks after calls."""

_FIXED: dict[str, JsonValue] = {
    "clientName": "interlock",
    "hooks": True,
    "requestPermission": True,
    "streaming": True,
    "envValueMode": "direct",
    "enableFileHooks": False,
    "enableConfigDiscovery": False,
    "enableOnDemandInstructionDiscovery": False,
    "enableSessionStore": False,
    "enableSkills": False,
    "skipCustomInstructions": True,
    "customAgentsLocalOnly": True,
    "manageScheduleEnabled": False,
    "memory": {"enabled": False},
}


def session_params(order: Order, session: str | None) -> dict[str, JsonValue]:
    """The params of `session.create` and `session.resume`; a key that is not asked for later stands in them."""
    request = order.request
    params: dict[str, JsonValue] = {
        **_FIXED,
        "workingDirectory": request.cwd,
        "requestUserInput": order.needs.answered,
        "excludedTools": [*excluded_tools(order)],
        "enableHostGitOperations": not order.needs.chain_after,
        "mcpServers": {name: _server(server) for name, server in request.mcp_servers.items()},
        "additionalDirectories": [*request.add_dirs],
    }
    optional: dict[str, JsonValue] = {
        "sessionId": session,
        "model": request.model or variable(order, "COPILOT_MODEL"),
        "reasoningEffort": request.effort,
        "provider": _provider(order),
    }
    params |= {key: value for key, value in optional.items() if value is not None}
    if request.instructions is not None:
        params["systemMessage"] = {"mode": "append", "content": request.instructions}
    return params


def excluded_tools(order: Order) -> tuple[str, ...]:
    """Tools that the model is not offered."""
    return ROUND_THE_HOOKS if order.needs.chain_after else ()


def unmet_fork(order: Order) -> Iterator[Unmet]:
    """The server names a forked session itself."""
    session = order.request.session
    if isinstance(session, Fork) and session.new_id is not None:
        reason = "a forked session is named by the agent"
        yield Unmet(field="session.new_id", value=session.new_id, reason=reason, alternatives=("leave it out",))


def message(order: Order, session: str | None, prompt: str, *, first: bool) -> dict[str, JsonValue]:
    """The params of `session.send` that begins a turn; images go with the first."""
    params: dict[str, JsonValue] = {"sessionId": session, "prompt": prompt}
    if first and order.request.images:
        params["attachments"] = [
            {"type": "blob", "data": image.data, "mimeType": image.media_type, "displayName": f"image-{number}"}
            for number, image in enumerate(order.request.images, start=1)
        ]
    if (schema := order.request.json_schema()) is not None:
        params["responseFormat"] = {"type": "json_schema", "jsonSchema": {"name": "answer", "schema": {**schema}}}
    return params


def _provider(order: Order) -> JsonValue:
    given = provider(order)
    return None if given is None else gated(given)[0]


def _server(server: StdioServer | HttpServer) -> JsonValue:
    match server:
        case StdioServer():
            local: dict[str, JsonValue] = {"type": "local", "command": server.command, "args": [*server.args]}
            return {**local, "env": {**server.env}, "tools": ["*"]}
        case HttpServer():
            return {"type": server.type, "url": server.url, "headers": {**server.headers}, "tools": ["*"]}
