"""A handshake with an agent, and nothing more: is it there, and does it confirm what was planned?

The whole engine does it, with the plan, the private folder, the process and its way down; only the codec is held by the
arm. It is never given the prompt, and the run is over at `Ready`, so no request for a model is ever made by us.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from interlock.actions import Action, Ending, Key, Ready, RunDone, Stage, Verdict
from interlock.adapter import Codec, Launch, Listening, Order, Place, Transport
from interlock.approval import Answer
from interlock.capabilities import Capabilities, Needs, Unmet
from interlock.engine.chain import chain_of
from interlock.engine.drive import Drive
from interlock.engine.in_process import InProcess
from interlock.engine.judge import Judge
from interlock.engine.plan import Prepared, prepare
from interlock.engine.registry import find_adapter
from interlock.engine.setting import Setting
from interlock.errors import Unsupported
from interlock.outcome import Reason, Status
from interlock.request import Request

__all__ = ["ProbeResult", "probe"]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """How a handshake went; `ready` says that the agent confirmed everything."""

    ready: bool
    transport: str
    binary: str
    version: str | None = None
    """What the agent says of itself; some say it only after a prompt."""
    reason: Reason | None = None
    """What kept it from being ready."""
    message: str = ""
    unmet: tuple[Unmet, ...] = ()
    warnings: tuple[str, ...] = ()
    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: str = ""
    duration: float = 0.0
    """Seconds, the end of the process included."""


async def probe(request: Request, *, state: Path) -> ProbeResult:
    """Start the agent of `request`, wait until it is ready or says why not, and end it; the prompt is not sent.

    No hooks but ours and no policy take part; `state` is where the private folder is made. `request.limits` bound it.
    Raises what `Client.plan` raises before anything is started, and `StartFailed`.
    """
    adapter = find_adapter(request.agent)
    run_id = f"probe-{uuid4().hex}"
    prepared = prepare(request, adapter, Needs(), run_id=run_id, chain=(), state=state)
    if prepared.plan.capabilities.needs_prompt:
        reason = "it acts on its prompt as soon as it is started"
        raise Unsupported(adapter.name, (Unmet(field="transport", value=prepared.plan.transport, reason=reason),))
    drive = Drive(_setting(replace(prepared, transport=_Promptless(prepared.transport)), state))
    began = time.monotonic()
    await drive.main()
    outcome = drive.result()
    return ProbeResult(
        ready=outcome.status is Status.COMPLETED,
        transport=prepared.plan.transport,
        binary=prepared.plan.binary,
        version=outcome.version,
        reason=outcome.reason,
        message=outcome.message,
        unmet=drive.desk.unmet,
        warnings=tuple(text for text in outcome.warnings if text not in prepared.plan.warnings),
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        stderr_tail=outcome.stderr_tail,
        duration=time.monotonic() - began,
    )


def _setting(prepared: Prepared, state: Path) -> Setting:
    """A run that nobody watches, answers or guards: there is no call to be guarded."""
    request = prepared.order.request
    chain = chain_of([], workspace=request.cwd, scratch=str(state / "hooks"))
    judge = Judge(
        run_id=prepared.order.run_id,
        agent=prepared.plan.agent,
        permission=request.permission,
        workspace=request.cwd,
        add_dirs=request.add_dirs,
        chain=chain,
        describe=prepared.adapter.describe,
        confined=prepared.launch.enforces_posture,
        readers_void=False,
        audit=None,
        planning=False,
        may_allow=None,
    )
    return Setting(
        prepared=prepared,
        judge=judge,
        audit=None,
        streamed=False,
        approver=None,
        answerer=None,
        on_unguarded="stop",
        withhold=False,
        chain=chain,
        servers=InProcess({}),
    )


@dataclass(frozen=True, slots=True)
class _Promptless:
    """A transport whose codecs end the run once they are ready."""

    real: Transport

    @property
    def name(self) -> str:
        return self.real.name

    @property
    def capabilities(self) -> Capabilities:
        return self.real.capabilities

    def check(self, order: Order) -> Sequence[Unmet]:
        return self.real.check(order)

    def launch(self, order: Order) -> Launch:
        return self.real.launch(order)

    def codec(self, order: Order) -> Codec:
        real = self.real.codec(order)
        return _HeldListener(real, real) if isinstance(real, Listening) else _Held(real)


@dataclass(frozen=True, slots=True)
class _Held:
    """A codec that never hears of a prompt, and for which being ready is the end."""

    real: Codec

    def start(self) -> Sequence[Action]:
        return _to_ready(self.real.start())

    def prompt(self, prompt: str) -> Sequence[Action]:
        del prompt
        return ()

    def steer(self, text: str) -> Sequence[Action]:
        del text
        return ()

    def interrupt(self) -> Sequence[Action]:
        return self.real.interrupt()

    def received(self, channel: str, data: bytes) -> Sequence[Action]:
        return _to_ready(self.real.received(channel, data))

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        return _to_ready(self.real.called(channel, key, body))

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Sequence[Action]:
        return _to_ready(self.real.decided(key, stage, verdict))

    def woke(self, key: str) -> Sequence[Action]:
        return _to_ready(self.real.woke(key))

    def eof(self, channel: str) -> Sequence[Action]:
        return _to_ready(self.real.eof(channel))

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        return self.real.exited(code, signal, files)


@dataclass(frozen=True, slots=True)
class _HeldListener(_Held):
    """The same for a codec that wants to know where its endpoints are."""

    listener: Listening

    def listening(self, places: Mapping[str, Place]) -> None:
        self.listener.listening(places)

    def hung_up(self, channel: str, key: str) -> Sequence[Action]:
        return self.listener.hung_up(channel, key)


def _to_ready(actions: Sequence[Action]) -> Sequence[Action]:
    """The actions up to the first `Ready`, and then the end."""
    done: list[Action] = []
    for action in actions:
        done.append(action)
        if isinstance(action, Ready):
            done.append(RunDone(Ending(Status.COMPLETED, version=action.version, model=action.model, final=True)))
            break
    return done
