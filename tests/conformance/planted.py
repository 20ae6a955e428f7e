"""Bugs, one for each check: small wrappers round the Claude adapter, or round the client for what only a process shows.

Each is the kind of mistake that the check of its number is there for, and one that no other check can see.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from interlock import NotOpen
from interlock.actions import Consult, Emit, Ending, Keep, Proceed, Refuse, RunDone, Send
from interlock.adapter import Argument
from interlock.engine.client import Client
from interlock.events import Notice, Raw, RunFinished, Text, TextDelta, ToolFinished, ToolRequested
from interlock.framing.lines import LineFramer
from interlock.outcome import Status
from interlock_adapters.claude import adapter as claude
from interlock_adapters.claude import wire

LONG = 1_000_000


class Round:
    """Stands round another object and leaves all of it as it is, but for what a subclass defines."""

    def __init__(self, real: Any, **own: Any) -> None:
        self.real = real
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class BuggyCodec(Round):
    """A codec whose actions go through `altered`, and its events through `event`, before anybody sees them."""

    def start(self):
        return self.out(self.real.start())

    def prompt(self, prompt):
        return self.out(self.real.prompt(prompt))

    def received(self, channel, data):
        return self.out(self.real.received(channel, data))

    def eof(self, channel):
        return self.out(self.real.eof(channel))

    def exited(self, code, signal, files):
        return self.out(self.real.exited(code, signal, files))

    def decided(self, key, stage, verdict):
        return self.out(self.real.decided(key, stage, verdict))

    def out(self, actions):
        done = []
        for action in actions:
            if isinstance(action, Emit):
                events = [new for event in action.events for new in self.event(event)]
                done += [Emit(events)] if events else []
            else:
                done.append(action)
        return done

    def event(self, event):
        return [event]


def buggy(codec: type[BuggyCodec] | None = None, **own: Any) -> Any:
    """The Claude adapter with another codec, or with other members of adapter and transport."""
    real = claude.transports[0]
    if "launch" in own:
        launch = own.pop("launch")
        own["launch"] = lambda order: launch(real.launch(order), order)
    if codec is not None:
        own["codec"] = lambda order: codec(real.codec(order))
    describe = own.pop("describe", claude.describe)
    return Round(claude, transports=(Round(real, **own),), describe=describe)


def claiming(**claims: object) -> Any:
    """The adapter with other claims."""
    return buggy(capabilities=claude.transports[0].capabilities.model_copy(update=claims))


def more_arguments(text: Callable[[Any], str]) -> Any:
    """The adapter with another argument."""

    def launch(real, order):
        argv = (*real.argv, Argument(text(order)))
        return type(real)(**{**{name: getattr(real, name) for name in real.__dataclass_fields__}, "argv": argv})

    return buggy(launch=launch)


COUNT = iter(range(1_000_000))


def harvest_elsewhere(real, _):
    fields = {name: getattr(real, name) for name in real.__dataclass_fields__}
    return type(real)(**{**fields, "harvest": ("../other-run/result.json",)})


def describe_objects_only(call):
    call.input.get("command")
    return claude.describe(call)


class NoticesPieces(BuggyCodec):
    def received(self, channel, data):
        told = [Emit([Notice(code="short_read", message="one byte came")])] if len(data) == 1 else []
        return [*told, *super().received(channel, data)]


class SaysMore(BuggyCodec):
    def start(self):
        return [*super().start(), Send(b'{"type":"keep_alive"}\n')]


class PromptsAtOnce(BuggyCodec):
    early = b""

    def prompt(self, prompt):
        self.early = wire.user_message(prompt, [])
        return [Send(self.early), *super().prompt(prompt)]

    def out(self, actions):
        return [one for one in super().out(actions) if not (isinstance(one, Send) and one.data == self.early)]


class AnnouncesLate(BuggyCodec):
    def __init__(self, real):
        super().__init__(real)
        self.held = {}

    def event(self, event):
        if isinstance(event, ToolRequested):
            self.held[event.tool_call_id] = event
            return []
        return [event]

    def decided(self, key, stage, verdict):
        actions, held = super().decided(key, stage, verdict), self.held.pop(key.call, None)
        return [Emit([held]), *actions] if held else actions


class NeverFinishes(BuggyCodec):
    def event(self, event):
        return [] if isinstance(event, ToolFinished) else [event]


class FinishesTwice(BuggyCodec):
    def event(self, event):
        return [event, event.model_copy()] if isinstance(event, ToolFinished) else [event]


class LoneSurrogate(BuggyCodec):
    def start(self):
        return [*super().start(), Emit([Notice(code="started", message="\ud800")])]


class CutsRaw(BuggyCodec):
    def event(self, event):
        if isinstance(event, Raw) and "method" in event.data:
            return [Raw(data={"text": event.data["text"]})]
        return [event]


class LosesTextAfterNoise(BuggyCodec):
    noisy = False

    def event(self, event):
        if isinstance(event, Notice):
            self.noisy = self.noisy or event.code == "stdout_noise"
        elif self.noisy and isinstance(event, Text | TextDelta):
            self.noisy = False
            return []
        return [event]


class DropsLong(BuggyCodec):
    def event(self, event):
        return [] if isinstance(event, Raw) and len(str(event.data)) > LONG else [event]


class EndsAgain(BuggyCodec):
    def exited(self, code, signal, files):
        told = super().exited(code, signal, files)
        return told or ([RunDone(Ending(Status.FAILED))] if code else [])


class ExitZeroIsSuccess(BuggyCodec):
    def exited(self, code, signal, files):
        done = super().exited(code, signal, files)
        good = RunDone(Ending(Status.COMPLETED, text=""))
        return [good if isinstance(one, RunDone) and code == 0 else one for one in done]


class SilentDeath(BuggyCodec):
    def exited(self, code, signal, files):
        return [] if signal else super().exited(code, signal, files)


class EndsAtEachExit(BuggyCodec):
    exits = 0

    def exited(self, code, signal, files):
        self.exits += 1
        again = [RunDone(Ending(Status.FAILED))] if self.exits > 1 else []
        return [*super().exited(code, signal, files), *again]


class NeedsType(BuggyCodec):
    def __init__(self, real):
        super().__init__(real)
        self.lines = LineFramer()

    def received(self, channel, data):
        for line in self.lines.feed(data):
            try:
                message = json.loads(line)
            except (ValueError, TypeError):
                continue
            message["type"].lower()
        return super().received(channel, data)


class SharesABuffer(BuggyCodec):
    half: list[Any] = []  # noqa: RUF012  # shared by all: that is the bug

    def received(self, channel, data):
        told = [Emit([Notice(code="rest", message="of another")])] if self.half and self.half != [self] else []
        self.half[:] = [] if data.endswith(b"\n") else [self]
        return [*told, *super().received(channel, data)]


class AnswersQuestionsLater(BuggyCodec):
    def __init__(self, real):
        super().__init__(real)
        self.owed = []

    def decided(self, key, stage, verdict):
        actions = super().decided(key, stage, verdict)
        if stage is None:
            self.owed, actions = actions, []
        return actions

    def received(self, channel, data):
        owed, self.owed = self.owed, []
        return [*owed, *super().received(channel, data)]


class PassesWhatItCannotWrite(BuggyCodec):
    def __init__(self, real):
        super().__init__(real)
        self.asked = {}

    def out(self, actions):
        self.asked |= {one.key: one.call.input for one in actions if isinstance(one, Consult)}
        return super().out(actions)

    def decided(self, key, stage, verdict):
        if isinstance(verdict, Proceed) and not isinstance(verdict.input, dict):
            verdict = Proceed(self.asked.get(key))
        return super().decided(key, stage, verdict)


class AnswersAgain(BuggyCodec):
    def __init__(self, real):
        super().__init__(real)
        self.answers = {}

    def decided(self, key, stage, verdict):
        actions = super().decided(key, stage, verdict)
        return self.answers.setdefault((key, stage), actions) if actions else self.answers.get((key, stage), [])


class ShowsRefusedOutput(BuggyCodec):
    def decided(self, key, stage, verdict):
        shown = stage == "after" and isinstance(verdict, Refuse)
        return super().decided(key, stage, Keep() if shown else verdict)


class BuggyRun(Round):
    """A run whose events go through `event`."""

    async def __aiter__(self):
        async for event in self.real:
            for one in self.event(event):
                yield one


class RepeatsTheEnd(BuggyRun):
    called = False

    def event(self, event):
        self.called = self.called or isinstance(event, ToolRequested)
        return [event, event] if self.called and isinstance(event, RunFinished) else [event]


class ForgetsCrashes(BuggyRun):
    def event(self, event):
        return [] if isinstance(event, RunFinished) and event.outcome.exit_code == 1 else [event]


class ForgetsDeaths(BuggyRun):
    def event(self, event):
        return [] if isinstance(event, RunFinished) and event.outcome.signal == 9 else [event]


class AnswersAnything(BuggyRun):
    def event(self, event):
        return [event]

    def respond(self, approval_id, decision):
        try:
            self.real.respond(approval_id, decision)
        except NotOpen:
            return


def runs(kind: type[BuggyRun]) -> Callable[..., Any]:
    """Makes clients whose runs are of that kind."""

    class BuggyClient(Client):
        def stream(self, request, **more):
            @asynccontextmanager
            async def streamed() -> AsyncIterator[Any]:
                async with Client.stream(self, request, **more) as run:
                    yield kind(run)

            return streamed()

    return BuggyClient


ADAPTERS: Mapping[int, Callable[[], Any]] = {
    1: lambda: claiming(efforts=("low", "low")),
    2: lambda: more_arguments(lambda _: f"--number={next(COUNT)}"),
    3: lambda: more_arguments(lambda order: f"--token={order.request.env.get('SOME_TOKEN', '')}"),
    4: lambda: more_arguments(lambda order: order.request.prompt),
    5: lambda: buggy(describe=describe_objects_only),
    6: lambda: buggy(launch=harvest_elsewhere),
    10: lambda: buggy(NoticesPieces),
    11: lambda: buggy(SaysMore),
    12: lambda: buggy(PromptsAtOnce),
    13: lambda: buggy(AnnouncesLate),
    14: lambda: buggy(NeverFinishes),
    15: lambda: buggy(FinishesTwice),
    16: lambda: buggy(LoneSurrogate),
    17: lambda: buggy(CutsRaw),
    18: lambda: buggy(LosesTextAfterNoise),
    19: lambda: buggy(DropsLong),
    20: lambda: buggy(EndsAgain),
    21: lambda: buggy(ExitZeroIsSuccess),
    22: lambda: buggy(SilentDeath),
    23: lambda: buggy(EndsAtEachExit),
    24: lambda: buggy(NeedsType),
    25: lambda: buggy(SharesABuffer),
    30: lambda: buggy(AnswersQuestionsLater),
    31: lambda: buggy(PassesWhatItCannotWrite),
    32: lambda: buggy(AnswersAgain),
    33: lambda: buggy(ShowsRefusedOutput),
    40: lambda: claiming(network_switch=True),
}
"""By the number of the check that must catch it."""

CLIENTS: Mapping[int, Callable[..., Any]] = {
    50: runs(RepeatsTheEnd),
    51: runs(ForgetsCrashes),
    52: runs(ForgetsDeaths),
    53: runs(AnswersAnything),
}
"""The same, for what the whole line gets wrong."""
