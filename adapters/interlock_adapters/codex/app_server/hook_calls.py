"""Hooks: what the agent calls our endpoint with becomes consults, and verdicts what the hook is told.

A hook after a call waits until the stream has said that it runs: by then the stream has also said how the call ended,
which the hook itself is not told. The two come by different ways and so in any order.

Of a call of an MCP tool that failed no hook is asked, and the stream alone tells what it said. Before each request to
the model there is a hook, though, and the request waits for it: so it is held until such outputs are judged, and for
good where one must not be shown, which the model then never sees (Codex 0.171.0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pydantic import ValidationError

from interlock.actions import Action, Consult, Emit, Key, Reply, Stage, Suspicion, Verdict, Wake, Withdraw
from interlock.framing.reports import requested, warning
from interlock.model import JsonValue
from interlock_adapters.codex import hooks
from interlock_adapters.codex.app_server.answers import FAULT, HookAnswer, HookAsked, Wrapping, answer_hook
from interlock_adapters.codex.app_server.calls import Calls, CallState, finished
from interlock_adapters.codex.app_server.intent import Intent
from interlock_adapters.codex.hooks import HookParams
from interlock_adapters.codex.tools import SHELL

__all__ = ["WITHHOLDING", "HookCalls", "shown"]

STREAM_LIMIT = 2.0
"""Seconds that a hook after a call waits for the stream to say that it runs."""
WAITING = "after:"
"""What the key of a `Wake` for a hook after a call begins with."""
ASKING = "request:"
"""What the key of a `Wake` for a hook before a request to the model begins with."""
FILLED_IN: dict[str, JsonValue] = {"environment_id": "local"}
"""Where an image is looked for."""
WITHHOLDING = "withholding"
"""The key of the `Wake` that ends a run whose interrupt the agent does not follow."""
WITHHOLDING_LIMIT = 5.0
"""Seconds."""


@dataclass(slots=True)
class HookCalls:
    """The hooks of one process, open and answered."""

    calls: Calls
    intent: Intent
    wrapping: Wrapping
    interrupt: Callable[[], Iterator[Action]]
    alive: bool = False
    """The agent has called a hook of this run."""
    _open: dict[tuple[Key, Stage], HookAsked] = field(default_factory=dict[tuple[Key, Stage], HookAsked])
    _waiting: dict[str, tuple[HookAsked, JsonValue]] = field(default_factory=dict[str, tuple[HookAsked, JsonValue]])
    """Hooks after a call, by HTTP request, of which the stream has not said yet that they run."""
    _asking: dict[str, str] = field(default_factory=dict[str, str])
    """Requests to the model, by HTTP request, of which the stream has not said so yet, and whose they are."""
    _told: Counter[str] = field(default_factory=Counter[str])
    """How many requests to the model the stream has told ahead of their hooks, by agent."""
    _held: dict[str, str] = field(default_factory=dict[str, str])
    """Requests to the model that wait until outputs are judged, and whose they are."""
    _unjudged: dict[Key, CallState] = field(default_factory=dict[Key, CallState])
    """Calls that failed without a hook, and whose output the model has not seen yet."""

    # ---- The agent calls --------------------------------------------------------------------------------------------

    def called(self, request: str, body: bytes) -> Iterator[Action]:
        """One call of a hook."""
        try:
            params = HookParams.model_validate_json(body)
        except ValidationError as error:
            yield Reply(hooks.ENDPOINT, request, hooks.REFUSAL)
            yield Suspicion("not_confirmed", f"a hook was called with what cannot be read: {error}")
            return
        self.alive = True
        match params.name:
            case "start":
                yield Reply(hooks.ENDPOINT, request, hooks.ALLOW)
            case "before":
                yield from self._before(request, params)
            case "after":
                yield from self._after(request, params)
            case "request":
                yield from self._request(request, self.calls.agent_of(params.meta.thread))
            case _:
                yield Reply(hooks.ENDPOINT, request, hooks.REFUSAL)

    def hung_up(self, request: str) -> Iterator[Action]:
        """The agent no longer waits."""
        for waiting in (self._waiting, self._asking, self._held):
            waiting.pop(request, None)
        for place, asked in list(self._open.items()):
            if asked.request == request:
                del self._open[place]
                yield Withdraw(asked.key, asked.stage)
                yield from self._let_ask(asked.key.agent_id)

    def runs_after(self, state: CallState) -> Iterator[Action]:
        """The stream says that the hook after this call runs."""
        state.hooked_after = True
        for request, (asked, _) in list(self._waiting.items()):
            if asked.state is state:
                yield from self._released(request)

    def woke(self, key: str) -> Iterator[Action]:
        """The stream has not said so in time."""
        if key.startswith(WAITING):
            yield from self._released(key.removeprefix(WAITING))
        elif key.startswith(ASKING):
            yield from self._may_ask(key.removeprefix(ASKING))

    # ---- Requests to the model, and outputs that no hook is asked about ---------------------------------------------

    def failed(self, state: CallState, output: JsonValue) -> Iterator[Action]:
        """A call failed, and no hook follows: what it said is judged before the model is asked again."""
        state.reported = output
        if not self.wrapping.at_once:
            yield Emit([finished(state)])
            return
        if state.consulted_after:
            yield Suspicion("second_consult", "a hook came after a call that has none", state.key, state.name)
            yield from self._withhold(state)
            return
        state.consulted_after = True
        self._unjudged[state.key] = state
        call = self.calls.describe(state, state.decided)
        self._open[state.key, "after"] = HookAsked("", state.key, "after", state, call)
        yield Consult(state.key, "after", call, output, is_error=True)

    def asks_model(self, agent_id: str) -> Iterator[Action]:
        """The stream says that the hook before a request to the model runs."""
        request = next((one for one, agent in self._asking.items() if agent == agent_id), None)
        if request is None:
            self._told[agent_id] += 1
        else:
            yield from self._may_ask(request)

    def _request(self, request: str, agent_id: str) -> Iterator[Action]:
        self._asking[request] = agent_id
        if self._told[agent_id]:
            self._told[agent_id] -= 1
            yield from self._may_ask(request)
        else:
            yield Wake(ASKING + request, STREAM_LIMIT)

    def _may_ask(self, request: str) -> Iterator[Action]:
        agent_id = self._asking.pop(request, None)
        if agent_id is not None:
            self._held[request] = agent_id
            yield from self._let_ask(agent_id)

    def _let_ask(self, agent_id: str) -> Iterator[Action]:
        """Unless something must not be shown, or a call waits: after 30 s Codex tells a model that calls tools from a
        script that it runs, and a turn that the model then ends takes the call with it (0.171.0)."""
        waiting = {key.agent_id for key in self._unjudged} | {key.agent_id for key, _ in self._open}
        if self.intent.unreplaceable is not None or agent_id in waiting:
            return
        for request in [one for one, agent in self._held.items() if agent == agent_id]:
            del self._held[request]
            yield Reply(hooks.ENDPOINT, request, hooks.ALLOW)

    def _judged(self, asked: HookAsked, answer: HookAnswer) -> Iterator[Action]:
        """What a failed call said may be shown as it is, or the model is never asked again."""
        del self._unjudged[asked.key]
        asked.state.shown = answer.shown
        yield Emit([finished(asked.state)])
        if answer.passed:
            yield from self._let_ask(asked.key.agent_id)
            return
        yield from self._withhold(asked.state)

    def _withhold(self, state: CallState) -> Iterator[Action]:
        """The model must not be asked again: it would be shown what this call said."""
        self.intent.unreplaceable = state.name
        yield from self.interrupt()
        yield Wake(WITHHOLDING, WITHHOLDING_LIMIT)

    # ---- Before and after a call -------------------------------------------------------------------------------------

    def _before(self, request: str, params: HookParams) -> Iterator[Action]:
        told = params.arguments
        state = self.calls.open(params.meta.thread, told.id, told.name)
        state.cwd = told.cwd
        call = self.calls.describe(state, told.input)
        if not state.announced:
            state.announced = True
            yield Emit([requested(call)])
        if state.consulted or not told.id:
            yield from self._second(request, state, "before")
            return
        state.consulted = True
        yield from self._consult(HookAsked(request, state.key, "before", state, call))

    def _after(self, request: str, params: HookParams) -> Iterator[Action]:
        told = params.arguments
        state = self.calls.open(params.meta.thread, told.id, told.name)
        if state.consulted_after:
            yield from self._second(request, state, "after")
            return
        state.consulted_after = True
        call = self.calls.describe(state, _as_decided(state, told.input))
        asked = HookAsked(request, state.key, "after", state, call)
        self._waiting[request] = (asked, told.output)
        if state.hooked_after:
            yield from self._released(request)
        else:
            yield Wake(WAITING + request, STREAM_LIMIT)

    def _released(self, request: str) -> Iterator[Action]:
        found = self._waiting.pop(request, None)
        if found is None:
            return
        asked, output = found
        item, asked.state.reported = asked.state.item, shown(output)
        failed = item is not None and (item.exit_code not in {None, 0} or item.status == "failed")
        yield from self._consult(asked, output=asked.state.reported, failed=failed)

    def _consult(self, asked: HookAsked, *, output: JsonValue = None, failed: bool = False) -> Iterator[Action]:
        self._open[asked.key, asked.stage] = asked
        yield Consult(asked.key, asked.stage, asked.call, output, failed)

    def _second(self, request: str, state: CallState, stage: Stage) -> Iterator[Action]:
        """The agent calls each hook of a call once: whoever called this one, or the one before, is not the agent."""
        yield Reply(hooks.ENDPOINT, request, hooks.REFUSAL)
        yield Suspicion("second_consult", f"a second hook came {stage} one call", state.key, state.name)

    # ---- Our answers ------------------------------------------------------------------------------------------------

    def decided(self, key: Key, stage: Stage, verdict: Verdict) -> Iterator[Action]:
        """What the hook is told; nothing where it no longer waits."""
        asked = self._open.pop((key, stage), None)
        if asked is None:
            return
        try:
            answer = answer_hook(asked, verdict, self.wrapping)
        except Exception as error:  # noqa: BLE001 -- whatever went wrong here, the call must not run for it
            shown = FAULT if stage == "after" else None
            answer = HookAnswer(hooks.REFUSAL, False, FAULT, shown)
            yield warning("unanswerable", f"{asked.state.name}: {error}")
        if key in self._unjudged and stage == "after":
            yield from self._judged(asked, answer)
            return
        yield Reply(hooks.ENDPOINT, asked.request, answer.data)
        yield from self._noted(asked, answer)
        yield from self._let_ask(key.agent_id)

    def _noted(self, asked: HookAsked, answer: HookAnswer) -> Iterator[Action]:
        state = asked.state
        if asked.stage == "after":
            state.shown = answer.shown
        elif answer.passed:
            state.let_through, state.decided, state.told = True, answer.decided, answer.told
        else:
            state.denied, state.shown = True, answer.reason
            yield Emit([finished(state)])
        if answer.interrupt:
            self.intent.denied = answer.reason
            yield from self.interrupt()


def _as_decided(state: CallState, native: JsonValue) -> JsonValue:
    """What ran, without our own wrapping, and without a default that Codex writes into a changed input (0.171.0)."""
    if state.name == SHELL and state.told is not None and native == {"command": state.told}:
        return state.decided
    if isinstance(state.decided, dict) and native == FILLED_IN | state.decided:
        return state.decided
    return native


def shown(output: JsonValue) -> JsonValue:
    """The text of an output that is all text, else the output."""
    content = output.get("content") if isinstance(output, dict) else None
    if not isinstance(content, list):
        return output
    texts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
    if len(texts) != len(content):
        return output
    return "\n".join(text for text in texts if isinstance(text, str))
