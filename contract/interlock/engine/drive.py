"""The root task of a run: one prompt to one agent, from the start of its process until nothing of it is left.

It performs what the codec asks for and feeds back what happens. Whatever comes first decides how the run ends: the
agent's own terminal message, a bound, a caller, a broken promise, or the loss of the process; what comes later changes
nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

import anyio
import anyio.to_thread

from interlock.actions import (
    Action,
    Ask,
    CloseInput,
    Consult,
    Emit,
    Ending,
    Key,
    Ready,
    Reply,
    RunDone,
    Send,
    Serve,
    Stage,
    Stop,
    Suspicion,
    Verdict,
    Wake,
    Withdraw,
)
from interlock.adapter import Listening, Serving, Showing
from interlock.approval import Answer
from interlock.capabilities import Unmet
from interlock.engine.comparison import Snapshot
from interlock.engine.consults import Consults
from interlock.engine.desk import RunDesk
from interlock.engine.home import Home
from interlock.engine.hook_calls import HookCalls
from interlock.engine.hook_endpoint import HookEndpoints
from interlock.engine.ledger import Finding
from interlock.engine.limits import Deadlines
from interlock.engine.people import People
from interlock.engine.process import Process, TerminalProcess, spawn, spawn_on_terminal
from interlock.engine.session_lock import SessionLock
from interlock.engine.setting import Setting
from interlock.engine.stopwatch import Stopwatch
from interlock.engine.structured import held_against
from interlock.engine.supervisor import Supervisor
from interlock.engine.turns import Turns
from interlock.errors import InterlockError, RunEnded, StartFailed, Unsupported
from interlock.events import FilesChanged, Notice, RunFinished, RunStarted
from interlock.outcome import Outcome, Reason, Status

__all__ = ["Drive"]

EXIT_GRACE = 5.0
"""Seconds that an agent has to exit by itself after its terminal message."""


class Drive:
    """The root task of one run."""

    def __init__(self, setting: Setting) -> None:
        prepared = setting.prepared
        self.setting = setting
        self.run_id = prepared.order.run_id
        self.started = anyio.Event()
        self.finished = anyio.Event()
        self.failure: InterlockError | None = None
        self.desk = RunDesk(setting)
        self.people = People(
            publish=self.desk.publish,
            clock=time.time,
            wait=prepared.order.request.limits.approval,
            streamed=setting.streamed,
            approver=setting.approver,
            answerer=setting.answerer,
        )
        self._stopwatch = Stopwatch()
        self._codec = prepared.transport.codec(prepared.order)
        self.mailbox = self.desk.publisher.mailbox
        if not (setting.streamed or setting.watched):
            self.mailbox.relax(keep=0)
        self._turns = Turns(self._stopwatch, several=setting.conversation)
        self._reported = anyio.Event()
        self._heard_exit = False
        self._before: Snapshot | None = None
        self._lock = SessionLock()
        self._endpoints: HookEndpoints
        self._home: Home
        self._consults: Consults
        self._supervisor: Supervisor
        self._handlers: anyio.abc.TaskGroup
        self._deadlines: Deadlines

    # ---- the root task ---------------------------------------------------------------------------------------------

    async def main(self) -> None:
        """Run from start to end; raises nothing but the cancellation of its own task.

        The run is over even if a handler is not, which nobody can force to end.
        """
        try:
            await self._live()
        except InterlockError as error:
            self.failure = error
        except Exception as error:  # noqa: BLE001  # a fault of ours ends one run, not the application
            self.failure = StartFailed(self.setting.prepared.plan.binary, f"internal error: {error!r}")
        finally:
            self._over()

    async def _live(self) -> None:
        chain, launch = self.setting.chain, self.setting.prepared.launch
        endpoints = HookEndpoints(launch.endpoints, launch.refusals, HookCalls(self.desk, self._codec, self.perform))
        self._endpoints = endpoints
        try:
            await chain.start()
            await self._begin()
            async with anyio.create_task_group() as self._handlers:
                chain.attend(self._handlers)
                self._handlers.start_soon(endpoints.serve)
                try:
                    await self._drive()
                except Exception as error:  # noqa: BLE001  # as above
                    self.desk.fault(error)
                finally:
                    self.desk.settle(Ending(Status.CANCELLED, message="the run was left before its end"))
                    self._hear_last()
                    try:
                        await self._home.remove()
                        await chain.close()
                    finally:
                        self._conclude()
                        self._over()
                        self._handlers.cancel_scope.cancel()
        finally:
            await chain.close()
            await endpoints.close()

    def _over(self) -> None:
        self._lock.release()
        self.mailbox.close()
        self.started.set()
        self.finished.set()

    async def _begin(self) -> None:
        prepared = self.setting.prepared
        self._lock = SessionLock.take(prepared.state, prepared.plan.agent, prepared.order.request.session)
        await self._endpoints.open()
        home = self._home = await Home.make(self.run_id, prepared.state, prepared.launch, self._endpoints.places)
        ours = prepared.launch.env
        env = {name: home.fill(value) if name in ours else value for name, value in prepared.env.items()}
        argv = [home.fill(arg.text) if arg.template else arg.text for arg in prepared.launch.argv]
        try:
            if prepared.launch.compares:
                self._before = await anyio.to_thread.run_sync(Snapshot.of, prepared.order.request.cwd)
            process = await self._spawn(argv, env)
        except BaseException as error:
            await home.remove()
            if not isinstance(error, Exception):
                raise
            raise StartFailed(argv[0], str(error)) from error
        self._supervisor = Supervisor(process, self._on_bytes, self._on_end, self._on_deaf)
        self._deadlines = Deadlines(prepared.order.request.limits, self._stopwatch)
        self._consults = Consults(
            run_id=self.run_id,
            agent=prepared.plan.agent,
            desk=self.desk,
            judge=self.setting.judge,
            ledger=self.desk.ledger,
            people=self.people,
            stopwatch=self._stopwatch,
            describe=prepared.adapter.describe,
        )

    async def _spawn(self, argv: Sequence[str], env: Mapping[str, str]) -> Process | TerminalProcess:
        """Start the agent's process; raises what `spawn` raises."""
        cwd, size = self.setting.prepared.order.request.cwd, self.setting.prepared.launch.terminal
        if size is None:
            return await spawn(argv, cwd=cwd, env=env)
        return await spawn_on_terminal(argv, cwd=cwd, env=env, size=size)

    async def _drive(self) -> None:
        plan, order = self.setting.prepared.plan, self.setting.prepared.order
        self.desk.publish(
            RunStarted(
                transport=plan.transport,
                binary=plan.binary,
                backstop=plan.backstop,
                confined=plan.confined,
                cwd=order.request.cwd,
                chain=self.setting.chain.names,
            )
        )
        try:
            async with anyio.create_task_group() as group:
                self._supervisor.start(group)
                group.start_soon(self._deadlines.watch, self._tripped)
                group.start_soon(self._watch_loss)
                self.started.set()
                try:
                    if isinstance(self._codec, Listening):
                        self._codec.listening(self._endpoints.places)
                    self.perform(self._codec.start())
                    self.perform(self._codec.prompt(order.request.prompt))
                    await self.desk.settled.wait()
                except BaseException:  # those who read and write end too, and there is nobody to be polite through
                    with anyio.CancelScope(shield=True):
                        await self._supervisor.kill()
                    raise
                with anyio.CancelScope(shield=True):
                    await self._wind_down()
                group.cancel_scope.cancel()
        finally:
            self._supervisor.close()

    async def _wind_down(self) -> None:
        """Answer everything open with no, and bring the process down."""
        self.mailbox.relax()
        await self._consults.settle()
        self._endpoints.refuse()
        steps = self.setting.prepared.launch.ladder
        if self._reported.is_set():
            self._supervisor.close_input()
            with anyio.move_on_after(EXIT_GRACE):
                await self._supervisor.exited.wait()
            steps = tuple(step for step in steps if step.action == "signal")
        await self._supervisor.descend(steps, self._interrupted)
        await self._compare()

    def _interrupted(self) -> anyio.Event | None:
        """Ask for the end of the turn; what to wait for, or None where there is no turn to end."""
        if not self._deadlines.ready or self._reported.is_set() or self._turns.idle:
            return None
        self.perform(self._codec.interrupt())
        return self._reported

    def _hear_last(self) -> None:
        """The last words; after them nothing of the private folder is needed."""
        try:
            self._hear_exit()
        except Exception as error:  # noqa: BLE001  # whatever a codec does, there is an outcome
            self.desk.fault(error)

    def _conclude(self) -> None:
        """Say how it ended: the calls that never ended, the outcome; from then on nothing is said any more."""
        self.desk.publish(*self.desk.ledger.cut_short())
        code, signal = self._exit()
        outcome = self.desk.report.outcome(
            self.desk.ledger, code=code, signal=signal, stderr=self._supervisor.stderr.text()
        )
        self.desk.report.final = outcome
        self.desk.publish(RunFinished(outcome=outcome))

    async def _compare(self) -> None:
        """Say what the run changed in the workspace, where the agent does not."""
        if self._before is None:
            return
        after = await anyio.to_thread.run_sync(Snapshot.of, self.setting.prepared.order.request.cwd)
        if not (self._before.whole and after.whole):
            message = "the workspace holds too many files to tell which of them the run changed"
            self.desk.publish(Notice(level="warning", code="not_compared", message=message))
        elif changes := self._before.changes(after):
            self.desk.publish(FilesChanged(changes=changes))

    def _exit(self) -> tuple[int | None, int | None]:
        exit_ = self._supervisor.exit
        return (None, None) if exit_ is None else (exit_.code, exit_.signal)

    def _hear_exit(self) -> None:
        """Once: what the loss of the process means, in the codec's words."""
        if not self._heard_exit:
            self._heard_exit = True
            code, signal = self._exit()
            files = self._home.harvest(self.setting.prepared.launch.harvest)
            self.perform(self._codec.exited(code, signal, files))
        self.desk.settle(Ending(Status.FAILED, Reason.CRASHED, "the agent ended without a word"))

    def result(self) -> Outcome:
        """The outcome of a run that is over; raises what kept it from starting."""
        if self.desk.report.final is None:
            raise self.failure or RunEnded(self.run_id)
        return self.desk.report.final

    # ---- what the agent says -----------------------------------------------------------------------------------------

    async def _on_bytes(self, data: bytes) -> None:
        self.mailbox.weigh(len(data))
        self.perform(self._codec.received("stdout", data))
        if self.desk.publisher.progressed:
            self.desk.publisher.progressed = False
            self._deadlines.progressed()
        if self.mailbox.full:
            with self._stopwatch.paused():
                await self.mailbox.room()

    def _on_end(self) -> None:
        self.perform(self._codec.eof("stdout"))

    def _on_deaf(self, why: str) -> None:
        self.desk.stop(Reason.PROTOCOL, why)

    def perform(self, actions: Sequence[Action]) -> None:
        """Do what the codec asks for, in order."""
        for action in actions:
            self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case Emit(events):
                self.desk.publisher.publish(events)
            case Send(data):
                self._supervisor.send(data)
                if action.answers:
                    self._supervisor.answered(len(data))
            case Serve():
                self._start(self._serve, action)
            case Consult():
                self._start(self._consult, action)
            case Ask():
                self._start(self._ask, action)
            case Withdraw(key, stage):
                self._consults.withdraw(key, stage)
            case Wake():
                self._start(self._wake, action)
            case Ready():
                self._deadlines.started()
                self.desk.report.ready(action)
            case CloseInput():
                self._supervisor.close_input()
            case RunDone(ending):
                self._turn_over(ending)
            case Stop(reason, message, unmet):
                self.desk.unmet += unmet
                self.desk.stop(reason, message)
            case Suspicion(kind, message, key, tool_name):
                self.desk.found(Finding(kind, key or Key("", ""), tool_name or "", message))
            case Reply(channel, key, data):
                if not self._endpoints.reply(channel, key, data):
                    self.desk.stop(Reason.PROTOCOL, f"a reply on {channel}, which this launch did not open")
            case _:
                assert_never(action)

    def _turn_over(self, ending: Ending) -> None:
        """The agent's terminal message: the end of the run, or in a conversation of a turn."""
        ending = held_against(self.setting.prepared.order.request.json_schema(), ending)
        if self._reported.is_set():
            return  # what comes after the end changes nothing
        self.desk.report.heard(ending)
        if self.desk.settled.is_set() or self._heard_exit or not self._turns.go_on(ending):
            self._reported.set()
            self.desk.settle(ending)
            return
        if self._turns.idle:  # the agent began this turn by itself
            self._turns.begin()
            self.desk.publisher.turn = self._turns.number
        self.desk.publish(*self.desk.ledger.cut_short(), self._turns.end(ending))
        if ending.more:
            self._turns.begin()
            self._turn_began()
        elif (text := self._turns.next()) is not None:
            self._next_turn(text)

    def _next_turn(self, text: str) -> None:
        self._turn_began()
        self.perform(self._codec.prompt(text))

    def _turn_began(self) -> None:
        self.desk.publisher.turn = self._turns.number
        self._deadlines.progressed()

    def _start(self, task: Callable[[Any], Coroutine[Any, Any, None]], action: Action) -> None:
        """A task an approval, a task a hook call; after the end nothing is started any more."""
        if not self.finished.is_set():
            self._handlers.start_soon(self._handle, task, action)

    async def _handle(self, task: Callable[[Any], Coroutine[Any, Any, None]], action: Action) -> None:
        try:
            await task(action)
        except Exception as error:  # noqa: BLE001  # as in the root task
            self.desk.fault(error)

    async def _consult(self, ask: Consult) -> None:
        verdict = await self._consults.consult(ask)
        if verdict is not None:
            await self._supervisor.caught_up()
            self._answer(ask.key, ask.stage, verdict)

    async def _ask(self, ask: Ask) -> None:
        answer = await self._consults.question(ask)
        if answer is not None:
            self._answer(ask.key, None, answer)

    def _answer(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> None:
        self.perform(self._codec.decided(key, stage, verdict))

    async def _serve(self, ask: Serve) -> None:
        reply = await self.setting.servers.answer(ask.server, ask.message)
        if isinstance(self._codec, Serving):
            self.perform(self._codec.served(ask.key, reply))

    async def _wake(self, wake: Wake) -> None:
        await anyio.sleep(wake.after)
        await self._supervisor.caught_up()
        if self._supervisor.typed_ahead:
            message = "went on without reading the keys that answered its question: it had not asked one"
            self.desk.found(Finding("not_confirmed", Key("", ""), "", message))
        self.perform(self._codec.woke(wake.key))

    # ---- what the caller says ------------------------------------------------------------------------------------

    def leave(self) -> None:
        """The caller is gone: a conversation between turns ends as its last turn did, any other run is cancelled."""
        self.finish()
        self.cancel("the run was left before its end")

    def cancel(self, message: str) -> None:
        """End the run; the reader, who may be the one who cancels, is not waited for any more."""
        self.mailbox.relax()
        self.desk.settle(Ending(Status.CANCELLED, message=message))

    def finish(self) -> None:
        """No more turns: a conversation ends with the turn that runs, or now."""
        self._turns.closing = True
        if self._turns.last is not None:
            self._reported.set()
            self.desk.settle(self._turns.last)

    def send(self, text: str) -> None:
        """A message into the running turn, or the next turn of a conversation."""
        self._refuse_if_over()
        turns, can = self._turns, self.setting.prepared.plan.capabilities
        if turns.idle:
            turns.begin()
            self._next_turn(text)
        elif turns.several and (turns.interrupting or not can.steer):
            turns.wait(text)
        elif can.steer:
            self.perform(self._codec.steer(text))
        else:
            reason = f"{can.agent} over {can.transport} takes no message mid-turn"
            raise Unsupported(can.agent, (Unmet(field="send", value="...", reason=reason),))

    def interrupt(self) -> None:
        """Ask the agent to end the turn."""
        self._refuse_if_over()
        if not self._turns.idle:
            self._turns.interrupting = True
            self.perform(self._codec.interrupt())

    def _refuse_if_over(self) -> None:
        if self.desk.settled.is_set():
            raise RunEnded(self.run_id)

    def _tripped(self, ending: Ending) -> None:
        """A bound tripped; where the agent shows something to people, that is said too."""
        shown = self._codec.showing() if isinstance(self._codec, Showing) else ""
        words = f"{ending.message}; the last line on the agent's screen: {shown}" if shown else ending.message
        self.desk.settle(replace(ending, message=words))

    async def _watch_loss(self) -> None:
        """The process is gone without a terminal message: its codec says what that means."""
        await self._supervisor.gone.wait()
        if not self.desk.settled.is_set():
            self._hear_exit()
