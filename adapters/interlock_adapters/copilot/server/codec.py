"""The sans-IO translator of one `copilot --headless --stdio`: messages in, actions out, and verdicts back as answers.

Each message is handled alone: one that cannot be understood is `Raw` with a notice, and a request among them is
refused, so nothing that the server writes can stop the translation or open a gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from interlock.actions import Action, Emit, Ending, Key, RunDone, Stage, Stop, Suspicion, Verdict, Wake
from interlock.adapter import Order
from interlock.approval import Answer
from interlock.events import Notice, Raw
from interlock.framing import jsonrpc
from interlock.framing.content_length import BadHeader, ContentLengthFramer, Frame, Unfinished
from interlock.framing.json_objects import parse_object, parse_text, readable
from interlock.framing.jsonrpc import Call, Failure, Malformed, Note, Rejected, UnknownId
from interlock.framing.lines import Oversized
from interlock.framing.reports import Noise, joined, not_ours, too_long, warning
from interlock.model import JsonValue
from interlock.outcome import Reason, Status, Usage
from interlock.request import NewSession
from interlock_adapters.copilot.login import provider
from interlock_adapters.copilot.server import background, model_gate, permissions, questions
from interlock_adapters.copilot.server.answers import FAULT
from interlock_adapters.copilot.server.background import Background
from interlock_adapters.copilot.server.calls import Calls
from interlock_adapters.copilot.server.channel import Channel
from interlock_adapters.copilot.server.handshake import Handshake
from interlock_adapters.copilot.server.hook_calls import ABORTING, WITHHOLDING, HookCalls
from interlock_adapters.copilot.server.intent import Intent
from interlock_adapters.copilot.server.model_gate import ModelGate, gated
from interlock_adapters.copilot.server.outcome import Memory, ending_of, stopped
from interlock_adapters.copilot.server.permissions import Permissions
from interlock_adapters.copilot.server.questions import Questions
from interlock_adapters.copilot.server.session import message
from interlock_adapters.copilot.server.steering import Steering
from interlock_adapters.copilot.server.stream import Stream
from interlock_adapters.copilot.server.wire import HookBegan, PermissionOver, PermissionTold, QuestionTold, SessionTold
from interlock_adapters.copilot.tools import Tools
from interlock_adapters.copilot.wire import SessionEvent

__all__ = ["ServerCodec"]

METHOD_NOT_FOUND = -32601
TRUNCATE = "session.history.truncate"
SETTLING = "settling"
SETTLING_LIMIT = 1.5
"""Seconds for the agent to forget an output that no later turn may be shown."""
LATE_LIMIT = 10.0
"""Seconds for a turn to begin for a message that came too late for the one before."""


class ServerCodec:
    """Speaks with one process, turn by turn, in one session."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._framer = ContentLengthFramer()
        self._channel = Channel()
        self._calls = Calls(Tools(order.request.mcp_servers))
        self._intent = Intent()
        self._memory = Memory()
        self._handshake = Handshake(order, self._channel)
        resumes = not isinstance(order.request.session, NewSession)
        self._background = Background(self._channel, self._calls)
        self._hooks = HookCalls(
            self._channel,
            self._calls,
            self._intent,
            at_once=order.needs.chain_after,
            resumes=resumes,
            abort=self._abort,
            background=self._background,
        )
        self._permissions = Permissions(self._channel, self._calls, order.host.home)
        self._questions = Questions(self._channel, self._calls)
        given = provider(order)
        key = None if given is None else gated(given)[1]
        self._models = ModelGate(self._channel, self._hooks, self._intent, key)
        self._stream = Stream(self._calls, self._hooks, self._memory)
        self._prompt: str | None = None
        self._steering = Steering(self._channel, self._calls)
        self._turns = 0
        self._prompted = False
        self._taken = False
        """The agent has taken the prompt."""
        self._aborting = False
        self._done = False
        self._held: Ending | None = None
        self._noise = Noise()

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
        self._done = self._prompted = self._taken = self._aborting = False
        self._turns += 1
        self._intent.clear()
        self._memory.next_turn()
        self._hooks.withheld = False

    def steer(self, text: str) -> Sequence[Action]:
        """A message into the running turn, which the model reads with the next results of calls."""
        if self._done:
            return ()
        self._steering.waiting.append(text)
        return tuple(self._steer())

    def _steer(self) -> Iterator[Action]:
        if self._taken and not self._done and not self._intent.ends:
            yield from self._steering.say_if_quiet()

    def interrupt(self) -> Sequence[Action]:
        """Before the prompt there is nothing to interrupt: the run just ends."""
        if self._done:
            return ()
        self._intent.interrupted = True
        if self._prompted:
            return tuple(self._abort())
        self._prompt = None
        return tuple(self._end(Ending(Status.CANCELLED)))

    def _abort(self) -> Iterator[Action]:
        """The session is idle once every open hook is answered; the first abort already keeps the model from more."""
        if not self._aborting:
            self._aborting = True
            yield self._channel.ask("session.abort", {"sessionId": self._calls.session})
        yield from self._hooks.settle()
        yield from self._permissions.settle()
        yield from self._questions.settle()

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Sequence[Action]:
        """The answer to a hook, a permission request or a question."""
        if isinstance(verdict, Answer):
            return tuple(self._questions.answered(key, verdict))
        if stage == "confirm":
            return tuple(self._permissions.decided(key, verdict))
        if stage is None:
            return ()
        if stage == "after":  # read by the model with this very output
            return (*self._steer(), *self._hooks.decided(key, stage, verdict))
        return tuple(self._hooks.decided(key, stage, verdict))

    def woke(self, key: str) -> Sequence[Action]:
        """Something that was waited for did not come."""
        if key in {SETTLING, self._turn_key()}:
            return tuple(self._end(self._held)) if self._held is not None else ()
        if key == WITHHOLDING:
            said = "an output had to be withheld, and the agent did not stop when told to"
            return () if self._done else (Stop(Reason.UNREPLACEABLE, said),)
        if key == ABORTING:
            return () if self._hooks.withheld else tuple(self._hooks.aborted())
        if key.startswith(questions.WAITING):
            return tuple(self._questions.woke(key))
        return tuple(self._hooks.woke(key))

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        """This transport has no endpoint."""
        del body
        return (not_ours(channel, key),)

    def _turn_key(self) -> str:
        return f"turn-{self._turns}"

    def _prompt_if_ready(self) -> Iterator[Action]:
        if self._prompt is None or self._done or not self._handshake.ready:
            return
        self._calls.session = self._memory.session_id = self._handshake.session
        self._memory.model = self._memory.model or self._handshake.model
        params = message(self._order, self._calls.session, self._prompt, first=self._turns == 0)
        yield self._channel.ask("session.send", params)
        self._prompted, self._prompt = True, None

    # ---- What the server says ---------------------------------------------------------------------------------------

    def received(self, channel: str, data: bytes) -> Sequence[Action]:
        """Bytes of stdout, in pieces of any size."""
        if channel != "stdout":
            return ()
        return joined(action for frame in self._framer.feed(data) for action in self._frame(frame))

    def eof(self, channel: str) -> Sequence[Action]:
        """What the end of the stream leaves unfinished."""
        if channel != "stdout":
            return ()
        return joined(action for frame in self._framer.close() for action in self._frame(frame))

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        """Without an idle session the process crashed, unless we ended it."""
        del files
        if self._done:
            return ()
        if self._held is not None:
            return tuple(self._end(self._held))
        crash = self._noise.crash(code, signal, spoke=self._handshake.version is not None)
        status, reason, words = stopped(self._intent) or crash
        memory = self._memory
        ending = Ending(status, reason, words, session_id=memory.session_id, model=memory.model)
        return tuple(self._end(replace(ending, usage=memory.tokens.usage(of_turn=True))))

    def _frame(self, frame: Frame) -> Sequence[Action]:
        match frame:
            case bytes():
                return self._body(frame)
            case Oversized():
                return (too_long(frame, "message"),)
            case BadHeader(head):
                self._noise.keep(head)
                return (warning("stdout_noise", readable(head)),)
            case Unfinished(head=head):
                self._noise.keep(head)
                return (warning("unfinished_message", readable(head)),)

    def _body(self, body: bytes) -> Sequence[Action]:
        incoming = self._channel.peer.receive(body)
        try:
            return list(self._message(incoming, body))
        except Exception as error:  # noqa: BLE001 -- one bad message must neither end the translation nor open a gate
            notice = Notice(level="error", code="unreadable_line", message=f"{type(error).__name__}: {error}")
            return (*self._unreadable(incoming, body), Emit([notice]))

    def _unreadable(self, incoming: jsonrpc.Incoming, body: bytes) -> Iterator[Action]:
        """A request that broke our reader is answered with no; the end of a turn that did, ends the run."""
        match incoming:
            case Call(request, "hooks.invoke", _) if request in self._channel.peer.theirs.open:
                yield from self._hooks.refuse(incoming)
            case Call(request, method, _) if request in self._channel.peer.theirs.open:
                yield self._channel.refuse(request, METHOD_NOT_FOUND, f"{method} could not be served")
            case Note("session.event", {"event": {"type": "permission.requested", "data": {"requestId": str(asked)}}}):
                result: JsonValue = {"kind": "reject", "feedback": FAULT}
                told: JsonValue = {"sessionId": self._calls.session, "requestId": asked, "result": result}
                yield self._channel.ask(permissions.METHOD, told)
            case Note("session.event", {"event": {"type": "session.idle"}}):
                yield from self._end(Ending(Status.FAILED, Reason.PROTOCOL, "the agent cannot be understood"))
            case jsonrpc.Reply(_, method, _) if self._handshake.expects(method):
                yield Stop(Reason.PROTOCOL, f"the answer to {method} cannot be understood")
            case Note():
                yield Emit([Raw(data=_whole(body))])
            case _:
                return

    def _message(self, incoming: jsonrpc.Incoming, body: bytes) -> Iterator[Action]:
        match incoming:
            case Note("session.event", params):
                yield from self._event(SessionTold.model_validate(params))
            case Note("session.lifecycle" | "host.event", _):
                return
            case Note():
                yield Emit([Raw(data=_whole(body))])
            case Call():
                yield from self._asked(incoming)
            case jsonrpc.Reply():
                yield from self._replied(incoming)
            case Failure():
                yield from self._failed(incoming)
            case UnknownId(request, _):
                yield Suspicion("unknown_answer", f"an answer came to {request!r}, which is not ours")
            case Rejected(request, method, reason):
                yield Suspicion("unknown_answer", f"the request {request!r} ({method}) is {reason}")
            case Malformed(text, _):
                yield warning("stdout_noise", text)

    def _asked(self, call: Call) -> Iterator[Action]:
        match call.method:
            case "hooks.invoke":
                yield from self._hooks.invoked(call)
            case model_gate.METHOD:
                yield from self._models.asked(call)
            case "userInput.request":
                yield from self._questions.asked(call)
            case method:
                yield self._channel.refuse(call.id, METHOD_NOT_FOUND, f"{method} is not served")
                yield warning("request_refused", f"the agent asked for {method}: refused")

    def _replied(self, reply: jsonrpc.Reply) -> Iterator[Action]:
        if self._handshake.expects(reply.method):
            yield from self._handshake.answered(reply)
            yield from self._prompt_if_ready()
        elif reply.method == permissions.METHOD:
            yield from self._permissions.taken(reply.id, reply.result)
        elif reply.method == background.LIST:
            yield from self._background.listed(reply.id, reply.result)
        elif reply.method == background.CANCEL:
            yield from self._background.cancelled(reply.id)
        elif reply.method == "session.send" and self._steering.is_ours(reply.id):
            self._steering.taken(reply.id, _text(reply.result, "messageId"))
        elif reply.method == "session.send":
            self._taken = True
            yield from self._steer()
        elif reply.method == TRUNCATE and self._held is not None:
            yield from self._end(self._held)

    def _failed(self, failure: Failure) -> Iterator[Action]:
        if self._handshake.expects(failure.method):
            yield from self._handshake.failed(failure)
        elif failure.method == permissions.METHOD:
            yield from self._permissions.taken(failure.id, None)
        elif failure.method in {background.LIST, background.CANCEL}:
            yield from self._background.failed(failure.message)
        elif failure.method == "session.send" and not self._steering.is_ours(failure.id):
            yield from self._end(Ending(Status.FAILED, Reason.BAD_REQUEST, failure.message))
        elif failure.method == TRUNCATE and self._held is not None:
            yield warning("output_kept", f"the session still holds what had to be withheld: {failure.message}")
            yield from self._end(self._held)
        else:
            self._steering.refused(failure.id)
            yield warning("request_failed", f"{failure.method}: {failure.message}")

    # ---- Events -----------------------------------------------------------------------------------------------------

    def _event(self, told: SessionTold) -> Iterator[Action]:
        event = told.event
        match event.type:
            case "hook.start":
                yield from self._hooks.began(event.agent, HookBegan.model_validate(event.data))
            case "hook.end":
                self._hooks.over(event.agent, HookBegan.model_validate(event.data))
            case "permission.requested":
                yield from self._permissions.asked(event.agent, PermissionTold.model_validate(event.data))
            case "permission.completed":
                yield from self._permissions.over(PermissionOver.model_validate(event.data))
            case "user_input.requested":
                yield from self._questions.told(event.agent, QuestionTold.model_validate(event.data))
            case "user.message":
                self._steering.read(_text(event.data, "messageId"))
            case "assistant.turn_start" if event.agent is None:
                yield from self._model_asked()
            case "abort" if event.agent is None:
                yield from self._hooks.aborted()
            case "session.idle" if event.agent is None:
                yield from self._idle(event)
            case _:
                yield from self._stream.told(event)
                if event.type == "tool.execution_complete":
                    yield from self._steer()

    def _model_asked(self) -> Iterator[Action]:
        """The main agent's model is about to be asked; what was told to end and goes on is told again."""
        self._held = None
        if not self._hooks.alive:
            yield Suspicion("not_confirmed", "the model is asked, and our hooks were not called before")
        self._memory.turns += 1
        most = self._order.request.limits.max_turns
        if most is not None and self._memory.turns > most:
            self._memory.turns = most
            self._intent.turns_over = True
        if self._intent.ends and not self._done:
            self._aborting = False
            yield from self._abort()

    def _idle(self, event: SessionEvent) -> Iterator[Action]:
        if self._done or self._held is not None or not self._taken:
            return
        yield from self._stream.over()
        ending = self._ending(aborted=event.data.get("aborted") is True)
        self._hooks.turn_over()
        if self._hooks.withheld and self._memory.message:
            self._held = ending
            params: dict[str, JsonValue] = {"sessionId": self._calls.session, "eventId": self._memory.message}
            yield self._channel.ask(TRUNCATE, params)
            yield Wake(SETTLING, SETTLING_LIMIT)
        elif self._steering and not self._intent.ends:
            yield from self._goes_on(ending)
        else:
            yield from self._end(ending)

    def _ending(self, *, aborted: bool) -> Ending:
        ending = ending_of(self._memory, self._intent, aborted=aborted)
        if ending.status is not Status.COMPLETED or self._order.request.output_schema is None:
            return ending
        structured = parse_text(ending.text)
        if structured is None:
            words = "the final answer is no JSON"
            return replace(ending, status=Status.FAILED, reason=Reason.INVALID_OUTPUT, message=words, text=None)
        return replace(ending, structured=structured)

    def _goes_on(self, ending: Ending) -> Iterator[Action]:
        """A message came too late for this turn: it has one of its own, which the agent may begin by itself."""
        yield RunDone(replace(ending, version=self._handshake.version, more=True))
        self._next_turn()
        if self._steering.on_its_way:
            self._prompted = self._taken = True
            self._held = replace(ending, usage=Usage())
            yield Wake(self._turn_key(), LATE_LIMIT)
            return
        self._prompt = self._steering.take_waiting()
        yield from self._prompt_if_ready()

    def _end(self, ending: Ending) -> Iterator[Action]:
        """Once a turn: what comes after its end changes nothing."""
        if self._done:
            return
        self._done, self._held = True, None
        if lost := len(self._steering):
            yield warning("message_lost", f"the agent took {lost} of the messages that were sent to it not up")
        self._steering.forget()
        yield RunDone(replace(ending, version=self._handshake.version))


def _text(value: object, key: str) -> str:
    found = cast("Mapping[str, object]", value).get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _whole(body: bytes) -> JsonValue:
    """The whole message, which was read before."""
    return cast("JsonValue", parse_object(body))
