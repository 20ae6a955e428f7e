"""The sans-IO translator of one `codex app-server`: lines and hooks in, actions out, and verdicts back as answers.

Each line is handled alone: a line that is no message is noise, one that cannot be understood is `Raw` with a notice,
and a request among them is refused, so nothing that the server writes can stop the translation or open a gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from interlock.actions import Action, Emit, Ending, Key, Reply, RunDone, Send, Stage, Stop, Suspicion, Verdict, Wake
from interlock.adapter import Order, Place
from interlock.approval import Answer
from interlock.events import Notice, SubagentFinished, TextDelta
from interlock.framing import jsonrpc
from interlock.framing.json_objects import parse_text
from interlock.framing.jsonrpc import Call, Failure, Malformed, Note, Peer, Rejected, UnknownId
from interlock.framing.lines import LineFramer, Oversized
from interlock.framing.reports import Noise, joined, not_ours, too_long, warning
from interlock.model import JsonValue
from interlock.outcome import Reason, Status
from interlock.permission import Backstop, Posture
from interlock.tools import MAIN_AGENT
from interlock_adapters.codex import hooks
from interlock_adapters.codex.app_server.answers import Wrapping
from interlock_adapters.codex.app_server.calls import Calls
from interlock_adapters.codex.app_server.handshake import Handshake
from interlock_adapters.codex.app_server.hook_calls import WITHHOLDING, HookCalls
from interlock_adapters.codex.app_server.intent import Intent
from interlock_adapters.codex.app_server.outcome import Memory, ending_of
from interlock_adapters.codex.app_server.requests import Requests
from interlock_adapters.codex.app_server.stream import Stream, raw
from interlock_adapters.codex.app_server.turns import text_input, turn_params
from interlock_adapters.codex.app_server.wire import PIECE_MARK, Turn, TurnError, TurnTold, text_piece

__all__ = ["AppServerCodec"]

SETTLING = "settling"
SETTLING_LIMIT = 1.5
"""Seconds after a turn for its commands to be ended, if it was interrupted, and for late messages to be answered."""


class AppServerCodec:
    """Speaks with one process, turn by turn, in one thread."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._framer = LineFramer()
        self._peer = Peer(version=False)
        self._calls = Calls()
        self._intent = Intent()
        self._memory = Memory()
        self._handshake = Handshake(order, self._peer)
        self._hooks = HookCalls(self._calls, self._intent, _wrapping(order), self._interrupt_turn)
        gate = order.backstop is Backstop.GATE
        self._requests = Requests(self._peer, self._calls, self._intent, self._interrupt_turn, gate)
        self._stream = Stream(self._calls, self._hooks, self._memory)
        self._prompt: str | None = None
        self._early: list[str] = []
        self._steering: dict[jsonrpc.Id, str] = {}
        """Messages into the turn of which the server has not said whether they came in time."""
        self._late: list[str] = []
        self._turn: str | None = None
        """The turn that runs, once the server has named it."""
        self._prompted = False
        self._done = False
        self._told_to_end = False
        self._held: Ending | None = None
        self._noise = Noise()

    # ---- What we say ------------------------------------------------------------------------------------------------

    def listening(self, places: Mapping[str, Place]) -> None:
        """Where the endpoint of our hooks is."""
        self._handshake.places = places

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
        self._done = self._prompted = self._told_to_end = False
        self._turn, self._memory.text = None, None
        self._intent.interrupted, self._intent.denied, self._intent.unreplaceable = False, None, None
        self._memory.tokens.next_turn()

    def steer(self, text: str) -> Sequence[Action]:
        """A message into the running turn; one that comes before its beginning is said then."""
        if self._done:
            return ()
        if self._turn is None:
            self._early.append(text)
            return ()
        return tuple(self._steer(text))

    def _steer(self, text: str) -> Iterator[Action]:
        told: JsonValue = {"threadId": self._calls.main, "expectedTurnId": self._turn, "input": [text_input(text)]}
        request, message = self._peer.request("turn/steer", told)
        self._steering[request] = text
        yield Send(message + b"\n")

    def interrupt(self) -> Sequence[Action]:
        """Before the prompt there is nothing to interrupt: the run just ends."""
        if self._done:
            return ()
        self._intent.interrupted = True
        if self._prompted:
            return tuple(self._interrupt_turn())
        self._prompt = None
        return tuple(self._end(Ending(Status.CANCELLED)))

    def _interrupt_turn(self) -> Iterator[Action]:
        """Once, and not before the server has named the turn."""
        if self._turn is None:
            self._told_to_end = True
            return
        yield self._ask("turn/interrupt", {"threadId": self._calls.main, "turnId": self._turn})

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Sequence[Action]:
        """The answer to a hook or a request."""
        if isinstance(verdict, Answer):
            return tuple(self._requests.answered(key, verdict)) if self._requests.is_open(key, None) else ()
        if stage is None:
            return ()
        if self._requests.is_open(key, stage):
            return tuple(self._requests.decided(key, stage, verdict))
        return tuple(self._hooks.decided(key, stage, verdict))

    def woke(self, key: str) -> Sequence[Action]:
        """A hook waited long enough for the stream, or an interrupted turn for the end of its commands."""
        if key == SETTLING:
            return tuple(self._end(self._held)) if self._held is not None else ()
        if key == WITHHOLDING:
            said = "an output had to be withheld, and the agent did not stop when told to"
            return () if self._done else (Stop(Reason.UNREPLACEABLE, said),)
        return tuple(self._hooks.woke(key))

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        """A hook of the agent."""
        if channel != hooks.ENDPOINT:
            return (not_ours(channel, key),)
        try:
            return list(self._hooks.called(key, body))
        except Exception as error:  # noqa: BLE001 -- a fault of ours must not let a call through
            said = f"a hook could not be handled: {error!r}"
            return (Reply(channel, key, hooks.REFUSAL), Suspicion("not_confirmed", said))

    def hung_up(self, channel: str, key: str) -> Sequence[Action]:
        """The agent no longer waits for the answer to a hook."""
        del channel
        return tuple(self._hooks.hung_up(key))

    def _prompt_if_ready(self) -> Iterator[Action]:
        if self._prompt is None or self._done or not self._handshake.ready:
            return
        self._calls.main = self._memory.session_id = self._handshake.thread
        self._memory.model = self._handshake.model
        yield self._ask("turn/start", turn_params(self._order, self._calls.main, self._prompt))
        self._prompted, self._prompt = True, None

    def _ask(self, method: str, params: JsonValue) -> Send:
        _, message = self._peer.request(method, params)
        return Send(message + b"\n")

    # ---- What the server says ---------------------------------------------------------------------------------------

    def received(self, channel: str, data: bytes) -> Sequence[Action]:
        """Bytes of stdout, in pieces of any size."""
        if channel != "stdout":
            return ()
        return joined(action for line in self._framer.feed(data) for action in self._line(line))

    def eof(self, channel: str) -> Sequence[Action]:
        """The unterminated rest is a line of its own."""
        if channel != "stdout":
            return ()
        return joined(action for line in self._framer.close() for action in self._line(line))

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        """Without the end of a turn the process crashed, unless we ended it."""
        del files
        if self._done:
            return ()
        if self._held is not None:
            return tuple(self._end(self._held))
        status, reason, message = self._why_gone(code, signal)
        memory = self._memory
        ending = Ending(status, reason, message, session_id=memory.session_id, model=memory.model)
        return tuple(self._end(replace(ending, usage=memory.tokens.usage(of_turn=True))))

    def _why_gone(self, code: int | None, signal: int | None) -> tuple[Status, Reason | None, str]:
        if self._intent.unreplaceable is not None:
            message = f"stopped to withhold the output of {self._intent.unreplaceable}"
            return Status.FAILED, Reason.UNREPLACEABLE, message
        if self._intent.denied is not None:
            return Status.FAILED, Reason.DENIED, self._intent.denied
        if self._intent.interrupted:
            return Status.CANCELLED, None, ""
        return self._noise.crash(code, signal, spoke=self._handshake.version is not None)

    def _line(self, line: bytes | Oversized) -> Sequence[Action]:
        if isinstance(line, Oversized):
            return (too_long(line),)
        if line.startswith(PIECE_MARK) and (piece := text_piece(line)) is not None:
            return (Emit([TextDelta(text=piece[1], agent_id=self._calls.agent_of(piece[0]))]),)
        if not line.strip():
            return ()
        message = self._peer.receive(line)
        try:
            return list(self._message(message, line))
        except Exception as error:  # noqa: BLE001 -- one bad line must neither end the translation nor open a gate
            notice = Notice(level="error", code="unreadable_line", message=f"{type(error).__name__}: {error}")
            return (*self._unreadable(message, line), Emit([notice]))

    def _unreadable(self, message: jsonrpc.Incoming, line: bytes) -> Iterator[Action]:
        """A request that broke our reader is answered with no; the end of a turn that did, ends the run."""
        match message:
            case Call():
                yield from self._requests.refuse(message)
            case Note("turn/completed", _):
                yield from self._end(Ending(Status.FAILED, Reason.PROTOCOL, "the agent cannot be understood"))
            case jsonrpc.Reply(_, asked, _) if self._handshake.expects(asked):
                yield from self._end(Ending(Status.FAILED, Reason.PROTOCOL, "the agent cannot be understood"))
            case Note():
                yield Emit([raw(line)])
            case _:
                return

    def _message(self, message: jsonrpc.Incoming, line: bytes) -> Iterator[Action]:
        match message:
            case Note(method, params):
                yield from self._noted(method, _plain(params), line)
            case Call():
                yield from self._requests.asked(message)
            case jsonrpc.Reply():
                yield from self._replied(message)
            case Failure():
                yield from self._failed(message)
            case UnknownId(request, _):
                yield Suspicion("unknown_answer", f"an answer came to {request!r}, which is not ours")
            case Rejected(request, method, reason):
                yield Suspicion("unknown_answer", f"the request {request!r} ({method}) is {reason}")
            case Malformed(text, _):
                self._noise.keep(line)
                yield warning("stdout_noise", text)

    def _replied(self, reply: jsonrpc.Reply) -> Iterator[Action]:
        if self._handshake.expects(reply.method):
            yield from self._handshake.answered(reply)
            yield from self._prompt_if_ready()
        elif reply.method == "turn/start":
            yield from self._turn_named(TurnTold.model_validate(reply.result).turn.id)
        elif reply.method == "thread/backgroundTerminals/clean" and self._held is not None:
            yield from self._end(self._held)
        elif reply.method == "turn/steer":
            self._steering.pop(reply.id, None)
            yield from self._settled()

    def _failed(self, failure: Failure) -> Iterator[Action]:
        match failure.method:
            case "turn/start":
                error = TurnError(message=failure.message, codexErrorInfo="badRequest")
                yield from self._turn_over(Turn(id="", status="failed", error=error))
            case "turn/steer":
                self._late.append(self._steering.pop(failure.id, ""))
                yield from self._settled()
            case "thread/backgroundTerminals/clean" if self._held is not None:
                yield from self._end(self._held)
            case method if self._handshake.expects(method):
                yield from self._handshake.failed(failure)
            case method:
                yield warning("request_failed", f"{method}: {failure.message}")

    def _noted(self, method: str, params: JsonValue, line: bytes) -> Iterator[Action]:
        match method:
            case "turn/started":
                told = TurnTold.model_validate(params)
                if self._calls.agent_of(told.thread) == MAIN_AGENT:
                    yield from self._turn_named(told.turn.id)
            case "turn/completed":
                yield from self._completed(TurnTold.model_validate(params))
            case "serverRequest/resolved" if isinstance(params, dict):
                yield from self._requests.resolved(params.get("requestId"))
            case _:
                yield from self._stream.told(method, params, line)

    # ---- Turns ------------------------------------------------------------------------------------------------------

    def _turn_named(self, turn: str) -> Iterator[Action]:
        if self._done or self._turn is not None:
            return
        self._turn = turn
        self._memory.turns.remember(turn, None)
        early, self._early = self._early, []
        for text in early:
            yield from self._steer(text)
        if self._told_to_end:
            yield from self._interrupt_turn()

    def _completed(self, told: TurnTold) -> Iterator[Action]:
        agent = self._calls.agent_of(told.thread)
        yield from self._stream.over(agent)
        if agent != MAIN_AGENT:
            yield Emit([SubagentFinished(subagent_id=agent)])
        elif not self._done and self._held is None:
            yield from self._turn_over(told.turn)

    def _turn_over(self, turn: Turn) -> Iterator[Action]:
        """Commands outlive an interrupt: the turn counts as ended when they have been."""
        wants = self._order.request.output_schema is not None
        structured = parse_text(self._memory.text) if wants else None
        ending = ending_of(turn, self._intent, self._memory, structured=structured, wants_structure=wants)
        self._held = ending
        if turn.status == "interrupted":
            yield self._ask("thread/backgroundTerminals/clean", {"threadId": self._calls.main})
            yield Wake(SETTLING, SETTLING_LIMIT)
        elif self._steering:
            yield Wake(SETTLING, SETTLING_LIMIT)
        else:
            yield from self._settled()

    def _settled(self) -> Iterator[Action]:
        """All messages into the turn are answered: those that came too late are the next turn."""
        if self._held is None or self._steering:
            return
        late, self._late = [text for text in self._late if text], []
        if not late or self._intent != Intent():
            yield from self._end(self._held)
            return
        ending, self._held = self._held, None
        yield RunDone(replace(ending, version=self._handshake.version, more=True))
        self._next_turn()
        self._prompt = "\n\n".join(late)
        yield from self._prompt_if_ready()

    def _end(self, ending: Ending) -> Iterator[Action]:
        self._done, self._held, self._turn = True, None, None
        if lost := len(self._steering) + len(self._late) + len(self._early):
            yield warning("message_lost", f"the agent took {lost} of the messages that were sent to it not up")
        self._steering, self._late, self._early = {}, [], []
        yield RunDone(replace(ending, version=self._handshake.version))


def _wrapping(order: Order) -> Wrapping:
    permission = order.request.permission
    judged = order.needs.chain_before or bool(permission.deny) or permission.posture is not Posture.FULL
    gate = order.backstop is Backstop.GATE
    return Wrapping(at_once=order.needs.chain_after, in_place=judged, slow_to_fail=gate)


def _plain(params: object) -> JsonValue:
    """What came out of a JSON parser is JSON."""
    value: JsonValue = params  # type: ignore[assignment]  # the parser's own type is `object`
    return value
