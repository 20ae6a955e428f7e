"""Hooks: what the agent calls our endpoints with becomes consults, and verdicts what the hook is told.

The prompt of the run goes out by a hook: what stands on stdin is a placeholder, and only the agent that has loaded our
hooks, reaches us and knows their token is told the prompt in its place. That is the proof of life. It is taken before
the model is asked anything, and a run whose hooks were lost has nothing to do.

A hook before a call may overtake the line that announces the call, since the two come by different ways: it waits for
it. A permission is granted for a call that was let through, and confirmed by whoever let it.

The output of a failed call cannot be replaced (1.0.102). Its hook holds the next request to the model, though: it is
not answered where the output may not be shown, and the run is stopped. The same holds for what a command says after the
agent has gone on without it, which no hook is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from pydantic import ValidationError

from interlock.actions import (
    Action,
    Consult,
    Defer,
    Emit,
    Keep,
    Key,
    Proceed,
    Ready,
    Refuse,
    Reply,
    Stage,
    Stop,
    Substitute,
    Suspicion,
    Verdict,
    Wake,
    Withdraw,
)
from interlock.adapter import Order
from interlock.events import Notice, ToolDecided
from interlock.framing.reports import warning
from interlock.model import JsonValue, canonical_json, same_json
from interlock.outcome import Reason
from interlock.tools import MAIN_AGENT
from interlock_adapters.copilot.prompt import hooks
from interlock_adapters.copilot.prompt.calls import Calls, CallState, same_input
from interlock_adapters.copilot.prompt.hooks import HookBody
from interlock_adapters.copilot.tools import PATCH
from interlock_adapters.copilot.wrapping import foreign_agent, wrapped

__all__ = ["PLACEHOLDER", "HookCalls"]

PLACEHOLDER = "Do nothing, and answer only: the hooks of this run are missing, so its prompt was withheld."
"""What stands on stdin."""
NOTIFICATION = "<system_notification>"
"""What a prompt begins with that the agent makes up, for instance when a command in the background has ended."""
SHOWN = 400
"""Characters of what could not be matched that are said."""
STREAM_LIMIT = 5.0
"""Seconds that a hook before a call waits for the line that announces the call."""


@dataclass(slots=True)
class _Asked:
    """A consult that is open, and the requests that its verdict answers."""

    channel: str
    requests: list[str]
    state: CallState
    told: JsonValue
    """The input as the hook was told of it."""
    is_error: bool = False


@dataclass(slots=True)
class HookCalls:
    """The hooks of one process, open and answered."""

    order: Order
    calls: Calls
    prompt: str = ""
    started: bool = False
    """The agent has called the hook of a session's start."""
    released: bool = False
    """The agent was told the prompt."""
    _held: list[tuple[str, HookBody]] = field(default_factory=list[tuple[str, HookBody]])
    """Prompts that wait for the hook of a session's start, which runs beside theirs."""
    _early: dict[str, HookBody] = field(default_factory=dict[str, HookBody])
    """Hooks before calls that the stream has not announced yet."""
    _open: dict[tuple[Key, Stage], _Asked] = field(default_factory=dict[tuple[Key, Stage], _Asked])

    # ---- The agent calls --------------------------------------------------------------------------------------------

    def called(self, channel: str, request: str, body: bytes) -> Iterator[Action]:
        """One call of a hook; what cannot be read is refused, or not answered where nothing refuses."""
        handlers: dict[str, Callable[[str, HookBody], Iterator[Action]]] = {
            hooks.START: self._start,
            hooks.PROMPT: self._prompt,
            hooks.BEFORE: self._before,
            hooks.PERMISSION: self._permission,
            hooks.AFTER: self._after,
            hooks.FAILED: self._failed,
        }
        try:
            told = HookBody.model_validate_json(body)
        except ValidationError as error:
            yield Suspicion("not_confirmed", f"a hook was called with what cannot be read: {error}")
            if channel == hooks.FAILED:
                yield Stop(Reason.PROTOCOL, "what a failed call said cannot be read, and so not be judged")
            else:
                yield Reply(channel, request, hooks.REFUSALS[channel])
            return
        yield from handlers[channel](request, told)

    def hung_up(self, request: str) -> Iterator[Action]:
        """The agent no longer waits."""
        self._early.pop(request, None)
        self._held = [(held, body) for held, body in self._held if held != request]
        for (key, stage), asked in list(self._open.items()):
            if request in asked.requests:
                asked.requests.remove(request)
                if not asked.requests:
                    del self._open[key, stage]
                    yield Withdraw(key, stage)

    def announced(self) -> Iterator[Action]:
        """The stream has announced a call."""
        for request, body in list(self._early.items()):
            state = self.calls.before(body)
            if state is not None:
                del self._early[request]
                yield from self._asks(request, body, state)

    def woke(self, request: str) -> Iterator[Action]:
        """The stream has not announced in time what a hook asks about."""
        body = self._early.pop(request, None)
        if body is None:
            return
        yield Reply(hooks.BEFORE, request, hooks.REFUSALS[hooks.BEFORE])
        message = f"somebody asked about a call of {body.name} that the agent does not announce"
        yield Suspicion("not_confirmed", message, Key(body.agent, ""), body.name)

    # ---- The start, and the prompt ----------------------------------------------------------------------------------

    def _start(self, request: str, body: HookBody) -> Iterator[Action]:
        yield Reply(hooks.START, request, hooks.NOTHING)
        if body.agent == MAIN_AGENT:
            self.started = True
        held, self._held = self._held, []
        for waiting, prompt in held:
            yield from self._prompt(waiting, prompt)

    def _prompt(self, request: str, body: HookBody) -> Iterator[Action]:
        if body.agent != MAIN_AGENT:
            yield Reply(hooks.PROMPT, request, hooks.NOTHING)
        elif body.prompt.strip() == PLACEHOLDER:
            yield from self._release(request, body)
        elif body.prompt.startswith(NOTIFICATION) and self.order.needs.chain_after:
            message = "what a command or a sub-agent said in the background would be shown to the model unjudged"
            yield Stop(Reason.UNREPLACEABLE, message)
        else:
            yield Reply(hooks.PROMPT, request, hooks.NOTHING)

    def _release(self, request: str, body: HookBody) -> Iterator[Action]:
        """Once: the agent is told the prompt, if it works where it was told to."""
        if self.released:
            yield Reply(hooks.PROMPT, request, hooks.REFUSALS[hooks.PROMPT])
            yield Suspicion("second_consult", "somebody asked for the prompt a second time")
        elif not self.started:
            self._held.append((request, body))
        elif body.cwd != self.order.request.cwd:
            yield Reply(hooks.PROMPT, request, hooks.REFUSALS[hooks.PROMPT])
            yield Stop(Reason.PROTOCOL, f"the session works in {body.cwd}, not in {self.order.request.cwd}")
        else:
            self.released = True
            yield Ready(session_id=body.session, model=self.order.request.model)
            yield Reply(hooks.PROMPT, request, hooks.release(self.prompt))

    # ---- Before a call ----------------------------------------------------------------------------------------------

    def _before(self, request: str, body: HookBody) -> Iterator[Action]:
        state = self.calls.before(body)
        if state is not None and not self._early:
            yield from self._asks(request, body, state)
            return
        self._early[request] = body
        yield Wake(request, STREAM_LIMIT)
        yield from self.announced()

    def _asks(self, request: str, body: HookBody, state: CallState) -> Iterator[Action]:
        state.hooked, state.cwd = True, body.cwd
        reason = self._foreign(state.name, body.args)
        if reason is not None:
            yield from self._denied(request, state, reason)
            return
        self._open[state.key, "before"] = _Asked(hooks.BEFORE, [request], state, body.args)
        yield Consult(state.key, "before", self.calls.describe(state, body.args))

    def _foreign(self, name: str, native: JsonValue) -> str | None:
        return None if self.order.request.trust_workspace else foreign_agent(name, native)

    def _denied(self, request: str, state: CallState, reason: str) -> Iterator[Action]:
        """A call that is not run whoever allows it."""
        state.denied, state.let_through = "policy", False
        yield Reply(hooks.BEFORE, request, hooks.deny(reason))
        yield Emit([
            ToolDecided(
                agent_id=state.key.agent_id,
                tool_call_id=state.key.call,
                tool_name=state.name,
                event="pre_tool_use",
                decision="deny",
                by="policy",
                reason=reason,
            )
        ])  # fmt: skip

    def _permission(self, request: str, body: HookBody) -> Iterator[Action]:
        """The agent asks whether a call may run that a hook has let through."""
        state = self.calls.permitted(body)
        if state is None:
            yield Reply(hooks.PERMISSION, request, hooks.REFUSALS[hooks.PERMISSION])
            yield self._unasked(body)
            return
        asked = self._open.get((state.key, "confirm"))
        if asked is not None:  # a patch asks file by file
            asked.requests.append(request)
            return
        self._open[state.key, "confirm"] = _Asked(hooks.PERMISSION, [request], state, state.told)
        yield Consult(state.key, "confirm", self.calls.describe(state, state.decided))

    def _unasked(self, body: HookBody) -> Action:
        if self.calls.expects_permission(body):
            message = (
                f"a permission for {body.name} could not be matched with a call that was let through: {body.asked}"
            )
            return Emit([Notice(agent_id=body.agent, level="warning", code="permission_unmatched", message=message)])
        message = "was about to run, and nobody had been shown it before: what carries the chain does not work"
        return Suspicion("no_decision", message, Key(body.agent, ""), body.name)

    # ---- After a call -----------------------------------------------------------------------------------------------

    def _after(self, request: str, body: HookBody) -> Iterator[Action]:
        state, result = self.calls.after(body), body.result
        if state is None or result is None:
            yield Reply(hooks.AFTER, request, hooks.REFUSALS[hooks.AFTER])
            message = "somebody asked about the output of a call that was not let through"
            yield Suspicion("no_decision", message, Key(body.agent, ""), body.name)
            return
        yield from self._ran(hooks.AFTER, request, body, state, result.text, is_error=result.kind != "success")

    def _failed(self, request: str, body: HookBody) -> Iterator[Action]:
        """A call that failed before anybody was asked, for instance for its arguments, says only so."""
        state = self.calls.failed(body)
        if state is None:
            yield Reply(hooks.FAILED, request, hooks.NOTHING)
            return
        yield from self._ran(hooks.FAILED, request, body, state, body.error, is_error=True)

    def _ran(
        self, channel: str, request: str, body: HookBody, state: CallState, output: str, *, is_error: bool
    ) -> Iterator[Action]:
        state.hooked_after = True
        native = state.decided if same_input(state.told, body.args) else body.args
        self._open[state.key, "after"] = _Asked(channel, [request], state, body.args, is_error)
        call = self.calls.describe(state, native)
        yield Consult(state.key, "after", call, output, is_error, replaceable=channel == hooks.AFTER)

    # ---- Our answers ------------------------------------------------------------------------------------------------

    def decided(self, key: Key, stage: Stage, verdict: Verdict) -> Iterator[Action]:
        """What the hook is told; nothing where it no longer waits."""
        asked = self._open.pop((key, stage), None)
        if asked is None:
            return
        try:
            actions = list(self._answered(asked, verdict))
        except Exception as error:  # noqa: BLE001 -- whatever went wrong here, the call must not run for it
            asked.state.let_through = False
            message = f"{asked.state.name}: {error}"
            actions = [warning("unanswerable", message), *self._unanswered(asked)]
        yield from actions

    def _unanswered(self, asked: _Asked) -> Sequence[Action]:
        """The refusal; nothing refuses what a failed call said, so then the run ends."""
        if asked.channel == hooks.FAILED:
            return (Stop(Reason.UNREPLACEABLE, f"the output of {asked.state.name} may not be shown"),)
        return self._said(asked, hooks.REFUSALS[asked.channel])

    def _answered(self, asked: _Asked, verdict: Verdict) -> Iterator[Action]:
        """Raises for a verdict that does not fit the stage."""
        ran = asked.channel in {hooks.AFTER, hooks.FAILED}
        match verdict:
            case Proceed(changed=False) if asked.channel == hooks.PERMISSION:
                yield from self._said(asked, hooks.GRANT)
            case Proceed() if asked.channel == hooks.BEFORE:
                yield from self._passed(asked, verdict)
            case Refuse(reason) if asked.channel == hooks.BEFORE:
                yield from self._said(asked, hooks.deny(reason))
            case Refuse() if asked.channel == hooks.PERMISSION:
                yield from self._said(asked, hooks.REFUSALS[hooks.PERMISSION])
            case Refuse(reason):
                yield from self._shown(asked, reason, is_error=True)
            case Keep() if ran:
                yield from self._said(asked, hooks.NOTHING)
            case Substitute(output, is_error) if ran:
                text = output if isinstance(output, str) else canonical_json(output).decode()
                yield from self._shown(asked, text, is_error=asked.is_error if is_error is None else is_error)
            case Proceed() | Keep() | Substitute() | Defer():
                raise TypeError(f"{type(verdict).__name__} is no answer here")
            case _:
                assert_never(verdict)

    def _passed(self, asked: _Asked, verdict: Proceed) -> Iterator[Action]:
        state = asked.state
        native = verdict.input if verdict.changed else asked.told
        if isinstance(native, str) is not (state.name == PATCH) or not isinstance(native, str | dict):
            raise TypeError("an input of this agent is an object, and a patch a text")
        reason = self._foreign(state.name, native)
        if reason is not None:
            yield from self._denied(asked.requests[0], state, reason)
            return
        state.let_through, state.decided = True, native
        state.told = wrapped(state.name, native, at_once=self.order.needs.chain_after)
        unchanged = same_json(state.told, asked.told)
        yield from self._said(asked, hooks.NOTHING if unchanged else hooks.modify(state.told))

    def _shown(self, asked: _Asked, text: str, *, is_error: bool) -> Iterator[Action]:
        """Of a failed call nothing is said: the model would see its output."""
        asked.state.shown = text
        if asked.channel == hooks.AFTER:
            yield from self._said(asked, hooks.show(text, is_error=is_error))

    def _said(self, asked: _Asked, data: bytes) -> list[Action]:
        return [Reply(asked.channel, request, data) for request in asked.requests]
