"""The sans-IO translator of one `claude` process: lines in, actions out, and verdicts back as answers.

Each line is handled alone: a line that is no JSON object is noise, one that cannot be understood is `Raw` with a
notice, and a request among them is refused, so nothing that the CLI writes can stop the translation or open a gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from interlock.actions import Action, Emit, Ending, Key, RunDone, Send, Stage, Stop, Suspicion, Verdict, Wake
from interlock.adapter import Order
from interlock.approval import Answer
from interlock.events import BaseEvent, Notice, Raw, UsageUpdated
from interlock.framing.json_objects import NotJson, parse_object
from interlock.framing.lines import LineFramer, Oversized
from interlock.framing.reports import Noise, not_ours, too_long, warning
from interlock.model import JsonValue
from interlock.outcome import Reason, Status, Usage
from interlock.request import NewSession
from interlock_adapters.claude import wire
from interlock_adapters.claude.answers import FAULT, deny
from interlock_adapters.claude.asks import WITHHOLDING, Asks
from interlock_adapters.claude.calls import Calls
from interlock_adapters.claude.counting import Counting
from interlock_adapters.claude.handshake import Handshake
from interlock_adapters.claude.login import CREDENTIALS
from interlock_adapters.claude.messages import Messages
from interlock_adapters.claude.outcome import Intent, Memory, Used, ending_of
from interlock_adapters.claude.planning import Planning
from interlock_adapters.claude.served import Served
from interlock_adapters.claude.stream import Stream
from interlock_adapters.claude.wire import ApiRetry, ControlRequest, ControlResponse, InitLine, ResultLine

__all__ = ["ClaudeCodec"]

NEXT_TURN_LIMIT = 30.0
"""Seconds until the turn of a message that came too late has begun."""
DOUBT_LIMIT = 3.0
"""Seconds, where the agent has just ended such a turn without taking the message up."""

Object = dict[str, JsonValue]


class ClaudeCodec:
    """Speaks `stream-json` with one process, turn by turn."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._login = CREDENTIALS.chosen(order).source
        self._framer = LineFramer()
        self._calls = Calls()
        self._intent = Intent()
        self._memory = Memory(
            resumes=not isinstance(order.request.session, NewSession),
            wants_structure=order.request.output_schema is not None,
        )
        self._handshake = Handshake(order)
        self._served = Served(self._calls, order.needs.servers)
        planning = Planning(order.request.mode == "plan")
        self._asks = Asks(self._calls, self._intent, order.hooks, self._interrupt_request, self._served, planning)
        self._counting = Counting()
        self._messages = Messages(order.run_id)
        self._stream = Stream(self._calls, self._memory, self._messages)
        self._prompt: str | None = None
        self._early: list[str] = []
        self._turns = 0
        self._held: Ending | None = None
        self._prompted = False
        self._began = False
        self._done = False
        self._understood = False
        self._noise = Noise()
        self._sent: set[str] = set()
        self._interrupts = 0
        self._handlers: Mapping[str, Callable[[Object], Iterator[Action]]] = {
            "control_request": self._control_request,
            "control_response": self._control_response,
            "control_cancel_request": self._control_cancel,
            "result": self._result,
            "system": self._system,
        }

    # ---- What we say ------------------------------------------------------------------------------------------------

    def start(self) -> Sequence[Action]:
        """The handshake."""
        return tuple(self._handshake.start())

    def prompt(self, prompt: str) -> Sequence[Action]:
        """A turn: it goes out once the agent is ready, and never while another runs."""
        if self._prompt is not None or (self._prompted and not self._done):
            return ()
        if self._prompted:
            self._next_turn()
        self._prompt = prompt
        return tuple(self._prompt_if_ready())

    def _next_turn(self) -> None:
        """What the last turn left behind must not speak for this one."""
        self._done = self._prompted = False
        self._turns += 1
        self._intent.interrupted, self._intent.denied, self._intent.unreplaceable = False, None, None
        self._memory.api_error = self._memory.retry_error = None

    def steer(self, text: str) -> Sequence[Action]:
        """A message into the running turn, shown to the model after the next tool result, or else in the next turn."""
        if self._done:
            return ()
        if not self._prompted:
            self._early.append(text)
            return ()
        return (self._message(text),)

    def _message(self, text: str) -> Send:
        return Send(wire.user_message(text, [], self._messages.name()))

    def interrupt(self) -> Sequence[Action]:
        """Before the prompt there is nothing to interrupt, and the CLI would ignore it: the run just ends."""
        if self._done:
            return ()
        self._intent.interrupted = True
        if self._prompted:
            return (self._interrupt_request(),)
        self._prompt = None
        return tuple(self._end(Ending(Status.CANCELLED)))

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Sequence[Action]:
        """The answer to the CLI."""
        return tuple(self._asks.decided(key, stage, verdict))

    def served(self, key: str, reply: JsonValue) -> Sequence[Action]:
        """The answer of a server in our process."""
        return tuple(self._served.answered(key, reply))

    def woke(self, key: str) -> Sequence[Action]:
        """The interrupt that withholds an output was not followed, or no turn began for a message that came late."""
        if self._held is not None and key == self._turn_key():
            words = f"the agent took {self._messages.waiting} of the messages that were sent to it not up"
            return (warning("message_lost", words), *self._end(self._held))
        if key != WITHHOLDING or self._done:
            return ()
        return (Stop(Reason.UNREPLACEABLE, "an output had to be withheld, and the agent did not stop when told to"),)

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        """This transport has no endpoint."""
        del body
        return (not_ours(channel, key),)

    def _turn_key(self) -> str:
        return f"turn-{self._turns}"

    def _interrupt_request(self) -> Send:
        self._interrupts += 1
        name = f"interrupt-{self._interrupts}"
        self._sent.add(name)
        return Send(wire.request(name, {"subtype": "interrupt"}))

    def _prompt_if_ready(self) -> Iterator[Action]:
        if self._prompt is None or self._done or not self._handshake.ready:
            return
        images: list[dict[str, object]] = [
            {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}
            for image in self._order.request.images
        ]
        yield Send(wire.user_message(self._prompt, images))
        self._prompted, self._prompt = True, None
        early, self._early = self._early, []
        yield from map(self._message, early)

    # ---- What the CLI says ------------------------------------------------------------------------------------------

    def received(self, channel: str, data: bytes) -> Sequence[Action]:
        """Bytes of stdout, in pieces of any size."""
        if channel != "stdout":
            return ()
        out: list[Action] = []
        events: list[BaseEvent] = []
        for line in self._framer.feed(data):
            if isinstance(line, bytes) and line.startswith(wire.DELTA_MARK):
                try:
                    event, parent = wire.delta(line)
                except (KeyError, TypeError, ValueError):
                    pass  # the common path says what is wrong with it
                else:
                    if event is not None:
                        events.append(event if parent is None else self._inside(event, parent))
                    continue
            for action in self._line(line):
                events = _gathered(out, events, action)
        if events:
            out.append(Emit(events))
        return out

    def eof(self, channel: str) -> Sequence[Action]:
        """The unterminated rest is a line of its own."""
        if channel != "stdout":
            return ()
        return tuple(action for line in self._framer.close() for action in self._line(line))

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        """Without a result line the process crashed, unless we ended it."""
        del files
        if self._done:
            return ()
        return tuple(self._end(self._crashed(code, signal)))

    def _inside(self, event: BaseEvent, parent: str) -> BaseEvent:
        """The event as one of the sub-agent that a call started."""
        return event.model_copy(update={"agent_id": self._calls.agent_of(parent)})

    def _line(self, line: bytes | Oversized) -> Sequence[Action]:
        if isinstance(line, Oversized):
            return (too_long(line),)
        if not line.strip():
            return ()
        message = parse_object(line)
        if isinstance(message, NotJson):
            self._noise.keep(line)
            return (warning("stdout_noise", message.text),)
        self._understood = True
        return self._handled(cast("Object", message))

    def _handled(self, message: Object) -> Sequence[Action]:
        kind = message.get("type")
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        try:
            return list(handler(message) if handler else self._told(message))
        except Exception as error:  # noqa: BLE001 -- one bad line must neither end the translation nor open a gate
            notice = Notice(level="error", code="unreadable_line", message=f"{type(error).__name__}: {error}")
            return (*self._refused(message), Emit([Raw(data=message), notice]))

    def _refused(self, message: Object) -> Iterator[Action]:
        """A request that broke our reader is answered with no; a result that did, ends the run."""
        request_id, request = message.get("request_id"), message.get("request")
        if message.get("type") == "control_request" and isinstance(request_id, str):
            question = isinstance(request, dict) and request.get("subtype") == "can_use_tool"
            yield Send(wire.success(request_id, deny(FAULT) if question else wire.hook_deny(FAULT)))
        elif message.get("type") == "result":
            yield from self._end(Ending(Status.FAILED, Reason.PROTOCOL, "the result line cannot be read"))

    def _told(self, message: Object) -> Iterator[Action]:
        events = list(self._stream.events(message))
        if events:
            yield Emit(events)

    def _control_request(self, message: Object) -> Iterator[Action]:
        yield from self._asks.asked(ControlRequest.model_validate(message))

    def _control_cancel(self, message: Object) -> Iterator[Action]:
        request_id = message.get("request_id")
        if isinstance(request_id, str):
            yield from self._asks.cancelled(request_id)

    def _control_response(self, message: Object) -> Iterator[Action]:
        reply = ControlResponse.model_validate(message).response
        if reply.request_id in self._sent:
            self._sent.discard(reply.request_id)
        elif self._handshake.expects(reply.request_id):
            yield from self._handshake.answered(reply)
            yield from self._prompt_if_ready()
        elif not self._asks.repeated(reply.request_id):
            yield Suspicion("unknown_answer", f"an answer came to {reply.request_id!r}, which is not ours")

    def _system(self, message: Object) -> Iterator[Action]:
        yield from self._told(message)
        match message.get("subtype"):
            case "init":
                yield from self._init(InitLine.model_validate(message))
            case "api_retry":
                yield from self._retried(ApiRetry.model_validate(message))
            case _:
                return

    def _init(self, init: InitLine) -> Iterator[Action]:
        """An interrupt that came before the turn had begun is lost, so it is said again."""
        if self._began and self._done:  # a turn that the CLI began by itself
            self._next_turn()
            self._prompted = True
        self._began = True
        self._memory.session_id, self._memory.model = init.session_id, init.model
        self._held = None
        yield from self._handshake.began(init)
        if self._intent.interrupted and not self._done:
            yield self._interrupt_request()

    def _retried(self, retry: ApiRetry) -> Iterator[Action]:
        """A wrong key does not become right: the CLI would try it for over a minute. A login may yet be renewed."""
        patience = 3 if self._login == "file" else 1
        if retry.error != "authentication_failed" or retry.attempt < patience or self._done:
            return
        message = "the service does not accept the credentials"
        yield from self._end(
            Ending(
                Status.FAILED,
                Reason.AUTH,
                message,
                session_id=self._memory.session_id,
                model=self._memory.model,
                api_status=retry.error_status,
                final=True,
            ),
            self._interrupt_request(),
        )

    def _result(self, message: Object) -> Iterator[Action]:
        if self._done:
            return
        result = ResultLine.model_validate(message)
        used = Used(self._counting.turn(result), self._counting.cost)
        ending = ending_of(result, self._intent, self._memory, used)
        if result.usage is not None:
            yield Emit([UsageUpdated(usage=self._counting.so_far, cost_usd=self._counting.cost)])
        follows = self._messages.turn_over()
        if follows != "none" and self._intent.denied is None and self._intent.unreplaceable is None:
            yield from self._goes_on(ending, NEXT_TURN_LIMIT if follows == "due" else DOUBT_LIMIT)
        else:
            yield from self._end(ending)

    def _goes_on(self, ending: Ending, within: float) -> Iterator[Action]:
        """A message came too late for this turn: the next begins by itself."""
        yield RunDone(replace(ending, version=self._handshake.version, more=True))
        self._next_turn()
        self._prompted, self._held = True, replace(ending, usage=Usage())
        yield Wake(self._turn_key(), within)

    def _end(self, ending: Ending, *afterwards: Action) -> Iterator[Action]:
        self._done, self._held = True, None
        yield RunDone(replace(ending, version=self._handshake.version))
        yield from afterwards

    def _crashed(self, code: int | None, signal: int | None) -> Ending:
        status, reason, message = self._why_gone(code, signal)
        memory = self._memory
        return Ending(status, reason, message, session_id=memory.session_id, model=memory.model)

    def _why_gone(self, code: int | None, signal: int | None) -> tuple[Status, Reason | None, str]:
        intent = self._intent
        if intent.unreplaceable is not None:
            return Status.FAILED, Reason.UNREPLACEABLE, f"stopped to withhold the output of {intent.unreplaceable}"
        if intent.denied is not None:
            return Status.FAILED, Reason.DENIED, intent.denied
        if intent.interrupted:
            return Status.CANCELLED, None, ""
        return self._noise.crash(code, signal, spoke=self._understood)


def _gathered(out: list[Action], events: list[BaseEvent], action: Action) -> list[BaseEvent]:
    """Join events that follow each other into one `Emit`; gives the events that still wait."""
    if isinstance(action, Emit):
        events += action.events
        return events
    if events:
        out.append(Emit(events))
    out.append(action)
    return []
