"""Hooks: what the server invokes becomes consults, and verdicts what the hook is told.

A hook waits for as long as it takes (over 75 s were seen, 1.0.102), so that is where people are asked. A connection
that ends with a hook open counts as no objection, so all of them are answered before it does.

Of a call that failed the output cannot be replaced. Where it may not be shown, the turn is aborted while the hook still
waits: then the model is not asked again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from interlock.actions import Action, Consult, Emit, Key, Stage, Stop, Suspicion, SuspicionKind, Verdict, Wake, Withdraw
from interlock.framing.jsonrpc import Call, Id
from interlock.framing.reports import requested, warning
from interlock.model import JsonValue
from interlock.outcome import Reason
from interlock.tools import ToolKind
from interlock_adapters.copilot.server.alike import alike
from interlock_adapters.copilot.server.announced import Announced, Asking
from interlock_adapters.copilot.server.answers import (
    FAULT,
    NO_OBJECTION,
    HookAnswer,
    HookAsked,
    answer_hook,
    deny,
    refusal,
    show,
)
from interlock_adapters.copilot.server.background import Background
from interlock_adapters.copilot.server.calls import Calls, CallState
from interlock_adapters.copilot.server.channel import Channel
from interlock_adapters.copilot.server.intent import Intent
from interlock_adapters.copilot.server.wire import AnnouncedCall, HookBegan, HookInput, HookInvoked, ToolOutput

__all__ = ["ABORTING", "WITHHOLDING", "HookCalls"]

Object = dict[str, JsonValue]

BEFORE, AFTER, FAILED = "preToolUse", "postToolUse", "postToolUseFailure"
ENDING = "the turn was told to end"
CUT_SHORT = "\n<the command was stopped: none may go on in the background>"
LIST_LIMIT = 10.0
"""Seconds that a hook waits to be told which call it is about."""
LISTING = "listing:"
"""What the key of a `Wake` for that begins with."""
ABORTING = "aborting"
"""The key of the `Wake` that answers hooks although the agent has not said that the turn is aborted."""
ABORT_LIMIT = 1.0
"""Seconds; it takes milliseconds."""
WITHHOLDING = "withholding"
"""The key of the `Wake` that ends a run whose abort the agent does not follow."""
WITHHOLDING_LIMIT = 5.0
"""Seconds."""


@dataclass(slots=True)
class HookCalls:
    """The hooks of one process, open and answered."""

    channel: Channel
    calls: Calls
    intent: Intent
    at_once: bool
    """Outputs are judged, so that none may come past the hook after a call."""
    resumes: bool
    abort: Callable[[], Iterator[Action]]
    background: Background
    alive: bool = False
    """A hook of this session reached us."""
    withheld: bool = False
    """An output of this turn may be shown to no later turn either."""
    _announced: dict[str, Announced] = field(default_factory=lambda: defaultdict[str, Announced](Announced))
    _open: dict[tuple[Key, Stage], HookAsked] = field(default_factory=dict[tuple[Key, Stage], HookAsked])
    _held: dict[Id, Object] = field(default_factory=dict[Id, Object])
    """What hooks are told once the turn is aborted; told before, the model could be asked again."""
    _answered: dict[str, CallState] = field(default_factory=dict[str, CallState])
    """The call whose hook after it was answered last, by agent: the next end of a call is that one's."""

    # ---- The server asks --------------------------------------------------------------------------------------------

    def invoked(self, message: Call) -> Iterator[Action]:
        """One hook; what cannot be read lets no call run and no output be shown."""
        try:
            told = HookInvoked.model_validate(message.params)
        except ValidationError as error:
            yield from self.refuse(message)
            yield Suspicion("not_confirmed", f"a hook was invoked with what cannot be read: {error}")
            return
        match told.type:
            case "preToolUse":
                yield from self._asking(message.id, told.input)
            case "postToolUse" | "postToolUseFailure":
                yield from self._after(message.id, told.input, failed=told.type == FAILED)
            case "sessionStart":
                self.alive = True
                yield self.channel.answer(message.id, NO_OBJECTION)
                yield from self._began(told.input)
            case "preMcpToolCall":
                yield self.channel.answer(message.id, NO_OBJECTION)
                yield from self._served(told.input)
            case _:
                yield self.channel.answer(message.id, NO_OBJECTION)

    def refuse(self, message: Call) -> Iterator[Action]:
        """The answer to a hook that broke us."""
        match message.params:
            case {"hookType": str(hook)}:
                yield self.channel.answer(message.id, refusal(hook))
            case _:
                yield self.channel.answer(message.id, refusal(BEFORE))

    def _began(self, told: HookInput) -> Iterator[Action]:
        """A session that was to be gone on with, and begins anew, has lost what was said in it."""
        if self.resumes and told.source == "new":
            yield Stop(Reason.SESSION_NOT_FOUND, "the agent began a new session instead of the one that was named")

    def _served(self, told: HookInput) -> Iterator[Action]:
        """A server is about to be given a call: it must be one that was let through as it stands."""
        state = self.calls.get(self.calls.agent_of(told.agent), told.call)
        if state is None or not state.let_through:
            key = Key(self.calls.agent_of(told.agent), told.call)
            yield Suspicion("no_decision", "an MCP server is called, and nobody had decided about it", key)
        elif not alike(state.told, told.served):
            words = "an MCP server is called with another input than was decided"
            yield Suspicion("other_input", words, state.key, state.name)

    # ---- Before a call ----------------------------------------------------------------------------------------------

    def _asking(self, request: Id, told: HookInput) -> Iterator[Action]:
        agent = self.calls.agent_of(told.agent)
        self._announced[agent].asks(Asking(request, told))
        yield from self._matched(agent)
        if self.channel.peer.theirs.open.get(request) is not None:
            yield Wake(f"{LISTING}{agent}:{request}", LIST_LIMIT)

    def began(self, agent: str | None, told: HookBegan) -> Iterator[Action]:
        """`hook.start`."""
        listed = told.input.get("toolCalls") if isinstance(told.input, dict) else None
        if told.type == BEFORE and isinstance(listed, list):
            name = self.calls.agent_of(agent)
            self._announced[name].lists(told.id, [AnnouncedCall.model_validate(one) for one in listed])
            yield from self._matched(name)

    def over(self, agent: str | None, told: HookBegan) -> None:
        """`hook.end`."""
        if told.type == BEFORE:
            self._announced[self.calls.agent_of(agent)].over(told.id)

    def woke(self, key: str) -> Iterator[Action]:
        """The agent has not said in time which call a hook is about."""
        agent, _, request = key.removeprefix(LISTING).rpartition(":")
        for asking in self._announced[agent].unanswered(request):
            yield self.channel.answer(asking.request, deny(FAULT))
            yield Suspicion("not_confirmed", f"the agent does not say about which call the hook {request} is")

    def _matched(self, agent: str) -> Iterator[Action]:
        for asking, listed in self._announced[agent].matched():
            yield from self._before(agent, asking, listed)

    def _before(self, agent: str, asking: Asking, listed: AnnouncedCall) -> Iterator[Action]:
        told = asking.input
        state = self.calls.open(agent, listed.id, told.name)
        state.cwd = told.cwd
        call = self.calls.describe(state, told.arguments)
        if not state.announced:
            state.announced = True
            yield Emit([requested(call)])
        problem = self._problem(state, told, listed)
        if problem is not None:
            state.denied = True
            yield self.channel.answer(asking.request, deny(FAULT))
            yield problem
        elif self.intent.ends:
            state.consulted = state.denied = True
            yield self.channel.answer(asking.request, deny(ENDING))
        else:
            state.consulted = True
            asked = HookAsked(asking.request, state.key, "before", state, call, told.arguments)
            self._open[state.key, "before"] = asked
            yield Consult(state.key, "before", call)

    def _problem(self, state: CallState, told: HookInput, listed: AnnouncedCall) -> Suspicion | None:
        if state.consulted or state.finished:
            return Suspicion("second_consult", "a second hook came before one call", state.key, state.name)
        if state.name != told.name or listed.name != told.name or not alike(listed.arguments, told.arguments):
            words = "the agent asks about another call than it had announced"
            return Suspicion("not_confirmed", words, state.key, told.name)
        return None

    # ---- After a call -----------------------------------------------------------------------------------------------

    def _after(self, request: Id, told: HookInput, *, failed: bool) -> Iterator[Action]:
        agent = self.calls.agent_of(told.agent)
        known = [one for one in self.calls.of_tool(agent, told.name) if not one.asked_after]
        state = next((one for one in known if one.let_through and alike(one.told, told.arguments)), None)
        if state is None:
            yield from self._stranger(request, agent, told, known, failed=failed)
            return
        state.asked_after = True
        state.reported = None if told.result is None else told.result.text
        output, is_error = _output(told, failed=failed)
        call = self.calls.describe(state, state.decided)
        result = told.result.type if told.result is not None else "failure"
        asked = HookAsked(request, state.key, "after", state, call, told.arguments, result, not failed)
        consult = Consult(state.key, "after", call, output, is_error, replaceable=not failed)
        self._open[state.key, "after"] = asked
        if self.at_once and told.result is not None and _goes_on(state, told.result):
            yield from self._stop_first(asked, consult, told.result)
        else:
            yield consult

    def _stop_first(self, asked: HookAsked, consult: Consult, output: ToolOutput) -> Iterator[Action]:
        """What goes on in the background is stopped before anybody is asked about what it has said so far."""
        text = output.text
        if asked.state.kind is ToolKind.SHELL:
            text += CUT_SHORT
            asked = replace(asked, output=text)
            consult = replace(consult, output=text)
            self._open[asked.key, "after"] = asked

        def then() -> Iterator[Action]:
            if (asked.key, "after") in self._open:
                yield consult

        yield from self.background.stop(then)

    def _stranger(
        self, request: Id, agent: str, told: HookInput, known: list[CallState], *, failed: bool
    ) -> Iterator[Action]:
        """A call with arguments that are no JSON fails before any hook: nobody was asked, and nothing ran."""
        if failed and any(not one.consulted for one in known):
            yield self.channel.answer(request, NO_OBJECTION)
            return
        yield self.channel.answer(request, refusal(FAILED if failed else AFTER))
        kind: SuspicionKind = "other_input" if any(one.let_through for one in known) else "no_decision"
        words = "ran, and not as it was decided" if kind == "other_input" else "ran, and nobody had decided about it"
        yield Suspicion(kind, words, Key(agent, known[0].key.call if known else ""), told.name)

    def ended(self, state: CallState) -> None:
        """The agent says that a call ended. Hooks do not name calls: of two that are alike it may be the other one."""
        answered = self._answered.pop(state.key.agent_id, None)
        if answered is None or answered is state or answered.name != state.name or answered.finished:
            return
        if alike(answered.told, state.told):
            answered.shown, state.shown = state.shown, answered.shown
            answered.reported, state.reported = state.reported, answered.reported
            answered.asked_after, state.asked_after = state.asked_after, answered.asked_after

    # ---- Our answers ------------------------------------------------------------------------------------------------

    def decided(self, key: Key, stage: Stage, verdict: Verdict) -> Iterator[Action]:
        """What the hook is told; nothing where it no longer waits."""
        asked = self._open.pop((key, stage), None)
        if asked is None:
            return
        try:
            answer = answer_hook(asked, verdict, at_once=self.at_once)
        except Exception as error:  # noqa: BLE001 -- whatever went wrong here, the call must not run for it
            answer = _fallback(asked)
            yield warning("unanswerable", f"{asked.state.name}: {error}")
        self._note(asked, answer)
        if answer.interrupt:
            self.intent.denied = answer.reason
        if answer.result is None:
            self.withheld = True
            self.intent.unreplaceable = asked.state.name
            yield Wake(WITHHOLDING, WITHHOLDING_LIMIT)
        if answer.result is None or answer.interrupt:
            self._held[asked.request] = answer.result or NO_OBJECTION
            yield from self.abort()
        else:
            yield self.channel.answer(asked.request, answer.result)

    def _note(self, asked: HookAsked, answer: HookAnswer) -> None:
        state = asked.state
        if asked.stage == "after":
            state.shown = answer.shown
            self._answered[state.key.agent_id] = state
        elif answer.passed:
            state.let_through, state.decided, state.told = True, answer.decided, answer.told
        else:
            state.denied, state.shown = True, answer.reason

    def settle(self) -> Iterator[Action]:
        """The turn is being aborted: no hook may keep it from ending, and none of the calls may run."""
        for (key, stage), asked in list(self._open.items()):
            del self._open[key, stage]
            self._held[asked.request] = self._last_words(asked)
            yield Withdraw(key, stage)
        for announced in self._announced.values():
            self._held.update((asking.request, deny(ENDING)) for asking in announced.unanswered())
        if self._held:
            yield Wake(ABORTING, ABORT_LIMIT)

    def _last_words(self, asked: HookAsked) -> Object:
        """No to a call; an output that nobody has judged is shown to no later turn either."""
        if asked.stage == "before":
            asked.state.denied, asked.state.shown = True, ENDING
            return deny(ENDING)
        if not self.at_once:
            return NO_OBJECTION
        if not asked.replaceable:
            self.withheld = True
            return NO_OBJECTION
        asked.state.shown = ENDING
        return show(ENDING, "failure")

    def aborted(self) -> Iterator[Action]:
        """The agent says that the turn is aborted: the model is not asked any more."""
        held, self._held = self._held, {}
        for request, result in held.items():
            yield self.channel.answer(request, result)

    def turn_over(self) -> None:
        """What was listed for this turn and never asked about is forgotten."""
        self._announced.clear()
        self._answered.clear()


def _fallback(asked: HookAsked) -> HookAnswer:
    if asked.stage == "before":
        return HookAnswer(deny(FAULT), False, FAULT)
    return HookAnswer(show(FAULT, "failure") if asked.replaceable else None, False, FAULT, FAULT)


def _output(told: HookInput, *, failed: bool) -> tuple[JsonValue, bool]:
    """What the model would be shown, and whether it is an error: a text, or with what stands beside it."""
    if failed or told.result is None:
        return told.error, True
    output = told.result
    shown: JsonValue = {"text": output.text, "binary": output.binary} if output.binary else output.text
    return shown, output.type != "success" or _exit_code(output) not in {None, 0}


def _goes_on(state: CallState, output: ToolOutput) -> bool:
    """Whether the call may have left something behind: a command that has not ended, or a sub-agent."""
    if state.kind is ToolKind.SHELL:
        return not any(one.get("type") == "shell_exit" for one in output.contents or ())
    return state.kind is ToolKind.AGENT


def _exit_code(output: ToolOutput) -> JsonValue:
    ends = [one.get("exitCode") for one in output.contents or () if one.get("type") == "shell_exit"]
    return ends[-1] if ends else None
