"""What the server confirms before the prompt goes out: its version, our hooks, whose settings are in force, the login,
the thread and its sandbox.

A skill that a prompt names (`$NAME`) is inlined, though no skill is told to the model: so each that is found, in the
workspace or in the person's home, is switched off by its path. A key is said over the protocol, and kept in memory.

A hook that is not trusted is skipped without a word, and a sandbox that another setting overrides is a smaller promise:
so both are read back and compared. That the thread begins proves that the server reached our endpoint and knew its
token (`required`), for Codex 0.171.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from interlock.actions import Action, Ready, Send, Stop
from interlock.adapter import Order, Place
from interlock.capabilities import Unmet
from interlock.framing.jsonrpc import Failure, Peer, Reply
from interlock.framing.reports import warning
from interlock.model import JsonValue, same_json
from interlock.outcome import Reason
from interlock.permission import Backstop
from interlock.request import Fork, NewSession, Resume
from interlock_adapters.codex import hooks, sandbox
from interlock_adapters.codex.app_server.wire import ConfigAnswer, SkillsAnswer, ThreadAnswer
from interlock_adapters.codex.config import mcp_servers
from interlock_adapters.codex.extra_args import is_harmless
from interlock_adapters.codex.login import KEYS, key_of
from interlock_adapters.codex.versions import NEWEST, OLDEST, TESTED, version_in

__all__ = ["Handshake"]

Object = Mapping[str, JsonValue]


@dataclass(slots=True)
class Handshake:
    """The requests that go out before the prompt, each after the answer to the one before."""

    order: Order
    peer: Peer
    places: Mapping[str, Place] = field(default_factory=dict[str, Place])
    version: str | None = None
    thread: str | None = None
    model: str | None = None
    stopped: bool = False
    _key_told: bool = False
    _skills: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether everything is confirmed."""
        return self.thread is not None and not self.stopped

    def start(self) -> Iterator[Action]:
        """`initialize` comes first."""
        client: JsonValue = {"name": "interlock", "title": "Interlock", "version": "1"}
        capabilities: JsonValue = {"experimentalApi": True, "requestAttestation": False}
        yield self._ask("initialize", {"clientInfo": client, "capabilities": capabilities})

    def expects(self, method: str) -> bool:
        """Whether the answer to such a request belongs to the handshake."""
        return method in {"initialize", "hooks/list", "config/read", "skills/list", *_ACCOUNTS, *_THREADS.values()}

    def failed(self, failure: Failure) -> Iterator[Action]:
        """The server says no to one of the requests; that it cannot tell who is logged in, the first turn will show."""
        if failure.method == "account/read":
            yield warning("login_unconfirmed", failure.message)
            yield self._begin()
            return
        self.stopped = True
        if failure.method in {"thread/resume", "thread/fork"} and "rollout" in failure.message:
            yield Stop(Reason.SESSION_NOT_FOUND, failure.message)
        elif failure.method == "account/login/start":
            yield Stop(Reason.AUTH, "the agent did not take the key of the environment")
        else:
            yield self._stop("transport", failure.method, f"the agent refused {failure.method}: {failure.message}")

    def answered(self, reply: Reply) -> Iterator[Action]:
        """The answer to one of them; `Ready` comes with the last, if nothing is wrong."""
        told = reply.result
        result: Object = cast("Object", told) if isinstance(told, dict) else {}
        match reply.method:
            case "initialize":
                yield from self._initialized(result)
            case "hooks/list":
                yield from self._hooks(result)
            case "config/read":
                yield from self._settings(ConfigAnswer.model_validate(result))
            case "skills/list":
                found = SkillsAnswer.model_validate(result)
                self._skills = tuple(skill.path for place in found.data for skill in place.skills)
                yield self._ask("account/read", {})
            case "account/read":
                yield from self._account(result)
            case "account/login/start":
                yield self._ask("account/read", {})
            case _:
                yield from self._thread(ThreadAnswer.model_validate(result))

    def _initialized(self, result: Object) -> Iterator[Action]:
        self.version = version_in(str(result.get("userAgent", "")))
        match TESTED.judge(self.version or ""):
            case "older" | "unknown":
                reason = f"Codex {self.version} is older than {OLDEST}, the oldest that was tested"
                yield self._stop("binary", str(self.version), reason)
                return
            case "newer":
                message = f"Codex {self.version} is newer than {NEWEST}, the newest that was tested"
                yield warning("untested_version", message)
            case "tested":
                pass
        yield Send(self.peer.notify("initialized") + b"\n")
        yield self._ask("hooks/list", {"cwds": [self.order.request.cwd]})

    def _hooks(self, result: Object) -> Iterator[Action]:
        found = list(_listed(result))
        for event, known in hooks.EVENTS.items():
            ours = [one for one in found if one.get("eventName") == known.camel and _is_ours(one, event)]
            if len(ours) != 1:
                reason = f"the agent does not confirm our hook of {known.camel}: it lists {len(ours)} that is trusted"
                yield self._stop("hooks", known.camel, reason)
        if strangers := len(found) - len(hooks.EVENTS):
            yield self._stop("hooks", str(strangers), "hooks are in force that are not ours")
        if not self.stopped:
            yield self._ask("config/read", {"cwd": self.order.request.cwd, "includeLayers": True})

    def _settings(self, answer: ConfigAnswer) -> Iterator[Action]:
        """Ours are in force, and of an administrator's those on which no guard hangs."""
        for layer in answer.layers:
            kind = layer.name.type
            if kind in _OUR_LAYERS or layer.disabled is not None:
                continue
            foreign = kind in {"project", "user"}
            if found := sorted(key for key in layer.config if foreign or not is_harmless(key)):
                reason = "settings that are not ours are in force, and may void our rules or hooks"
                yield self._stop("user_config", f"{kind}: {', '.join(found)}", reason)
        if not self.stopped:
            yield self._ask("skills/list", {"cwds": [self.order.request.cwd]})

    def _account(self, result: Object) -> Iterator[Action]:
        if result.get("account") is not None or result.get("requiresOpenaiAuth") is not True:
            yield self._begin()
        elif not self._key_told and (key := key_of(self.order)) is not None:
            self._key_told = True
            yield self._ask("account/login/start", {"type": "apiKey", "apiKey": key})
        else:
            self.stopped = True
            yield Stop(Reason.AUTH, f"nobody is logged in: run `codex login` once, or set {' or '.join(KEYS)}")

    def _begin(self) -> Send:
        request = self.order.request
        place = self.places[hooks.ENDPOINT]
        servers = mcp_servers(request.mcp_servers, asked=self.order.backstop is Backstop.GATE)
        servers[hooks.SERVER] = hooks.server(place.url, place.token)
        unwanted: list[JsonValue] = [{"path": path, "enabled": False} for path in self._skills]
        params: dict[str, JsonValue] = {
            "cwd": request.cwd,
            "sandbox": sandbox.mode(request.permission),
            "approvalPolicy": sandbox.approval_policy(self.order),
            "approvalsReviewer": "user",
            "config": {"mcp_servers": servers, "skills.config": unwanted, **sandbox.settings(self.order)},
        }
        if request.model is not None:
            params["model"] = request.model
        if request.instructions is not None:
            params["developerInstructions"] = request.instructions
        if not isinstance(request.session, NewSession):
            params["threadId"] = request.session.id
        return self._ask(_THREADS[type(request.session)], params)

    def _thread(self, answer: ThreadAnswer) -> Iterator[Action]:
        request = self.order.request
        compared: tuple[tuple[str, JsonValue, JsonValue], ...] = (
            ("permission.sandbox", sandbox.policy(self.order), answer.sandbox),
            ("permission.approval", sandbox.approval_policy(self.order), answer.approval_policy),
            ("permission.reviewer", "user", answer.approvals_reviewer),
            ("cwd", request.cwd, answer.cwd),
            ("model", request.model or answer.model, answer.model),
        )
        for name, wanted, found in compared:
            if not same_json(wanted, found):
                yield self._stop(name, str(wanted), f"the agent says that {found!r} is in force")
        if not self.stopped:
            self.thread, self.model = answer.thread.id, answer.model
            yield Ready(version=self.version, session_id=self.thread, model=self.model)

    def _ask(self, method: str, params: JsonValue) -> Send:
        _, message = self.peer.request(method, params)
        return Send(message + b"\n")

    def _stop(self, name: str, value: str, reason: str) -> Stop:
        self.stopped = True
        return Stop(Reason.UNSUPPORTED, reason, (Unmet(field=name, value=value, reason=reason),))


_OUR_LAYERS = ("sessionFlags", "packagedDefaults")
_ACCOUNTS = ("account/read", "account/login/start")
_THREADS: Mapping[type, str] = {NewSession: "thread/start", Resume: "thread/resume", Fork: "thread/fork"}


def _listed(result: Object) -> Iterator[Object]:
    data = result.get("data")
    for place in data if isinstance(data, list) else ():
        listed = place.get("hooks") if isinstance(place, dict) else None
        yield from (one for one in listed if isinstance(one, dict)) if isinstance(listed, list) else ()


def _is_ours(listed: Object, event: str) -> bool:
    wanted = {
        "source": "sessionFlags",
        "server": hooks.SERVER,
        "tool": hooks.EVENTS[event].tool,
        "trustStatus": "trusted",
        "currentHash": hooks.hash_of(event),
        "enabled": True,
    }
    return all(listed.get(key) == value for key, value in wanted.items())
