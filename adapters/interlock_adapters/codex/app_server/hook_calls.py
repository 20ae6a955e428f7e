"""Hooks: what the agent calls our endpoint with becomes consults, and verdicts what the hook is told.

A hook after a call waits until the stream has said that it runs: by then the stream has also said how the call ended,
which the hook itself is not told. The two come by different ways and so in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pydantic import ValidationError

from interlock.actions import Action, Consult, Emit, Key, Reply, Stage, Suspicion, Verdict, Wake, Withdraw
from interlock.events import Notice
from interlock.model import JsonValue
from interlock_adapters.codex import hooks
from interlock_adapters.codex.app_server.answers import FAULT, HookAnswer, HookAsked, Wrapping, answer_hook
from interlock_adapters.codex.app_server.calls import Calls, CallState, finished, requested
from interlock_adapters.codex.app_server.intent import Intent
from interlock_adapters.codex.hooks import HookParams
from interlock_adapters.codex.tools import SHELL

__all__ = ["HookCalls"]

STREAM_LIMIT = 2.0
"""Seconds that a hook after a call waits for the stream to say that it runs."""
WAITING = "after:"
"""What the key of a `Wake` for a hook after a call begins with."""


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
            case _:
                yield Reply(hooks.ENDPOINT, request, hooks.REFUSAL)

    def hung_up(self, request: str) -> Iterator[Action]:
        """The agent no longer waits."""
        self._waiting.pop(request, None)
        for place, asked in list(self._open.items()):
            if asked.request == request:
                del self._open[place]
                yield Withdraw(asked.key, asked.stage)

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

    def _before(self, request: str, params: HookParams) -> Iterator[Action]:
        told = params.arguments
        state = self.calls.open(params.meta.thread, told.id, told.name)
        state.cwd = told.cwd
        call = self.calls.describe(state, told.input)
        if not state.announced:
            state.announced = True
            yield Emit([requested(call)])
        if state.consulted or not told.id:
            yield Reply(hooks.ENDPOINT, request, hooks.REFUSAL)
            yield Suspicion("second_consult", "a second hook came before one call", state.key, state.name)
            return
        state.consulted = True
        yield from self._consult(HookAsked(request, state.key, "before", state, call))

    def _after(self, request: str, params: HookParams) -> Iterator[Action]:
        told = params.arguments
        state = self.calls.open(params.meta.thread, told.id, told.name)
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
        item, asked.state.reported = asked.state.item, _shown(output)
        failed = item is not None and (item.exit_code not in {None, 0} or item.status == "failed")
        yield from self._consult(asked, output=asked.state.reported, failed=failed)

    def _consult(self, asked: HookAsked, *, output: JsonValue = None, failed: bool = False) -> Iterator[Action]:
        if (asked.key, asked.stage) in self._open:
            yield Reply(hooks.ENDPOINT, asked.request, hooks.REFUSAL)
            yield Suspicion("second_consult", "a call was asked about twice", asked.key, asked.state.name)
            return
        self._open[asked.key, asked.stage] = asked
        yield Consult(asked.key, asked.stage, asked.call, output, failed)

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
            yield Emit([Notice(level="warning", code="unanswerable", message=f"{asked.state.name}: {error}")])
        yield Reply(hooks.ENDPOINT, asked.request, answer.data)
        yield from self._noted(asked, answer)

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
    """What ran, without our own wrapping."""
    if state.name == SHELL and state.told is not None and native == {"command": state.told}:
        return state.decided
    return native


def _shown(output: JsonValue) -> JsonValue:
    """The text of an output that is all text, else the output."""
    content = output.get("content") if isinstance(output, dict) else None
    if not isinstance(content, list):
        return output
    texts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
    if len(texts) != len(content):
        return output
    return "\n".join(text for text in texts if isinstance(text, str))
