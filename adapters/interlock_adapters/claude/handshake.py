"""What the CLI confirms before the prompt goes out: its version, our hooks, and the sources of its settings.

The settings' *sources* are judged, never the effective view: managed settings can void an ask rule, or all hooks, while
the effective view still shows ours (Claude Code 2.1.197 and 2.1.332).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from interlock.actions import Action, Ready, Send, Stop
from interlock.adapter import Order
from interlock.capabilities import Unmet
from interlock.framing.reports import warning
from interlock.model import JsonValue, same_json
from interlock.outcome import Reason
from interlock_adapters.claude import wire
from interlock_adapters.claude.launch import disallowed_tools, our_settings, permission_mode
from interlock_adapters.claude.versions import NEWEST, OLDEST, TESTED
from interlock_adapters.claude.wire import ControlReply, InitLine

__all__ = ["Handshake"]

INITIALIZE, SETTINGS = "initialize", "settings"
LONGEST_TIMEOUT = 2_147_483
"""Seconds: the longest timer of the CLI's runtime, 2**31 milliseconds; a longer one would end at once."""

Object = Mapping[str, JsonValue]


@dataclass(slots=True)
class Handshake:
    """Two requests that go out first, and the judgement of their answers."""

    order: Order
    version: str | None = None
    ready: bool = False
    _began: bool = False
    _waiting: set[str] = field(default_factory=lambda: {INITIALIZE, SETTINGS})

    def start(self) -> Iterator[Action]:
        """`initialize` must be the first line: hooks are taken from no later one."""
        body: dict[str, object] = {"subtype": "initialize"}
        if self.order.hooks:
            body["hooks"] = {event: [self._hook(name)] for event, name in _HOOKS.items()}
        if self.order.request.instructions is not None:
            body["appendSystemPrompt"] = self.order.request.instructions
        if self.order.needs.servers:
            body["sdkMcpServers"] = list(self.order.needs.servers)
        if (schema := self.order.request.json_schema()) is not None:
            body["jsonSchema"] = dict(schema)
        yield Send(wire.request(INITIALIZE, body) + wire.request(SETTINGS, {"subtype": "get_settings"}))

    def expects(self, request_id: str) -> bool:
        """Whether an answer to this request is still due."""
        return request_id in self._waiting

    def answered(self, reply: ControlReply) -> Iterator[Action]:
        """An answer to one of the two; `Ready` comes with the second, if nothing is wrong."""
        self._waiting.discard(reply.request_id)
        if reply.subtype != "success":
            yield _stop("transport", "stream-json", f"refused {reply.request_id}: {reply.error or 'no reason given'}")
            return
        body: Object = reply.response or {}
        problems = list(self._initialized(body) if reply.request_id == INITIALIZE else self._settings(body))
        yield from problems
        if any(isinstance(action, Stop) for action in problems):
            self._waiting.add("stopped")
        elif not self._waiting:
            self.ready = True
            yield Ready(version=self.version)

    def began(self, init: InitLine) -> Iterator[Action]:
        """`system/init` after each prompt: 2.1.197 tells its version only here.

        Between turns the mode may have changed, since the agent has tools to begin and end its planning.
        """
        if self.version is None and init.claude_code_version is not None:
            self.version = init.claude_code_version
            yield from _version(self.version)
        mode = permission_mode(self.order)
        changed = {"plan", "default"} if self._began else set[str]()
        if init.permission_mode not in {None, mode, *changed}:
            yield _stop("permission", mode, f"the agent runs in permission mode {init.permission_mode} instead")
        offered = sorted(set(init.tools) & set(disallowed_tools(self.order)))
        if offered:
            yield _stop("hooks", ", ".join(offered), "tools are offered that were to be left out")
        known = {*self.order.request.mcp_servers, *self.order.needs.servers}
        failed = [server.name for server in init.mcp_servers if server.name in known and server.status == "failed"]
        if failed and not self._began:
            yield warning("mcp_server_failed", f"MCP servers that do not work: {', '.join(failed)}")
        strangers = [server.name for server in init.mcp_servers if server.name not in known]
        if strangers:
            names = ", ".join(strangers)
            yield warning("unexpected_mcp_servers", f"MCP servers that were not asked for: {names}")
        self._began = True

    def _hook(self, name: str) -> dict[str, object]:
        seconds = min(int(-(-self.order.hook_timeout // 1)), LONGEST_TIMEOUT)
        return {"matcher": None, "hookCallbackIds": [name], "timeout": seconds, "onFailure": "block"}

    def _initialized(self, body: Object) -> Iterator[Action]:
        version = body.get("claude_code_version")
        if isinstance(version, str):
            self.version = version
            yield from _version(version)
        if not self.order.hooks:
            return
        for key in ("hooks_applied", "hook_on_failure_supported"):
            if body.get(key, True) is not True:
                yield _stop("hooks", key, f"the agent does not confirm our hooks: {key} is {body.get(key)!r}")

    def _settings(self, body: Object) -> Iterator[Action]:
        sources = body.get("sources")
        if not isinstance(sources, list):
            yield _stop("user_config", "settings", "the agent does not say which settings are in force")
            return
        found = [cast("Object", source) for source in sources if isinstance(source, dict)]
        ours = [source for source in found if source.get("source") == "flagSettings"]
        if len(ours) != 1 or not same_json(ours[0].get("settings"), our_settings(self.order)):
            yield _stop("user_config", "flagSettings", "the settings that we gave are not in force")
        for source in found:
            if source.get("source") != "flagSettings" and source.get("settings"):
                name = str(source.get("source"))
                yield _stop(
                    "user_config", name, "settings that are not ours are in force, and may void our rules or hooks"
                )


_HOOKS = {"PreToolUse": "before", "PostToolUse": "after", "PostToolUseFailure": "failed"}


def _version(version: str) -> Iterator[Action]:
    match TESTED.judge(version):
        case "older" | "unknown":
            yield _stop("binary", version, f"Claude Code {version} is older than {OLDEST}, the oldest that was tested")
        case "newer":
            yield warning(
                "untested_version", f"Claude Code {version} is newer than {NEWEST}, the newest that was tested"
            )
        case "tested":
            return


def _stop(name: str, value: str, reason: str) -> Stop:
    return Stop(Reason.UNSUPPORTED, reason, (Unmet(field=name, value=value, reason=reason),))
