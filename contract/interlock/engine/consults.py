"""What a run does when its agent asks: about a call before it runs, about it again, about its output, or a question.

Each question of the agent is a task of its own, so that nothing holds up the reader. Whatever happens to the task, the
agent gets an answer, and where there is none it is a denial.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, assert_never
from uuid import uuid4

import anyio

from interlock.actions import (
    Ask,
    Consult,
    Defer,
    Keep,
    Key,
    Proceed,
    Refuse,
    Stage,
    Substitute,
    Verdict,
)
from interlock.approval import Answer, Approval, Approve, Deny, Question
from interlock.engine.docket import Resolution
from interlock.engine.judge import AfterRuling, Judge, Ruling
from interlock.engine.ledger import Finding, Ledger
from interlock.engine.people import People
from interlock.engine.stopwatch import Stopwatch
from interlock.events import BaseEvent, Notice, ToolDecided
from interlock.hooks import AuditRecord
from interlock.model import digest, same_json
from interlock.outcome import Reason
from interlock.tools import ToolCall

__all__ = ["Consults", "Desk"]

ENDING = "the run is ending"
SAID: dict[str, Literal["allow", "deny", "agent"]] = {"run": "allow", "deny": "deny", "ask": "deny", "agent": "agent"}


class Desk(Protocol):
    """What the run offers to those who answer its agent."""

    def publish(self, *events: BaseEvent) -> None:
        """Publish events."""
        ...

    def found(self, finding: Finding) -> None:
        """The promise broke."""
        ...

    def stop(self, reason: Reason, message: str) -> None:
        """Bring the run down."""
        ...

    def record(self, records: tuple[AuditRecord, ...]) -> None:
        """Write down what was decided."""
        ...


@dataclass(slots=True)
class _Open:
    scope: anyio.CancelScope
    withdrawn: bool = False


@dataclass(slots=True)
class Consults:
    """The open questions of one run's agent."""

    run_id: str
    agent: str
    desk: Desk
    judge: Judge
    ledger: Ledger
    people: People
    stopwatch: Stopwatch
    describe: Callable[[ToolCall], ToolCall]
    ending: bool = False
    _open: dict[tuple[Key, Stage | None], _Open] = field(default_factory=dict[tuple[Key, "Stage | None"], _Open])
    _quiet: anyio.Event = field(default_factory=anyio.Event)

    async def consult(self, ask: Consult) -> Verdict | None:
        """The verdict on a call; None where the agent withdrew its question meanwhile."""
        if self.ending:
            return Refuse(ENDING)
        verdict: Verdict | None = None
        case = self._enter(ask.key, ask.stage)
        with case.scope, self.stopwatch.paused():
            verdict = await self._verdict(ask)
        self._leave(ask.key, ask.stage)
        if verdict is None and ask.stage == "before":
            by = "agent" if case.withdrawn else "cancelled"
            self._decide(ask, Ruling(result="deny", by=by, reason=ENDING, call=ask.call))
        if case.withdrawn:
            return None
        return verdict if verdict is not None else Refuse(ENDING)

    async def question(self, ask: Ask) -> Answer | None:
        """The answer to a question of the agent; None where it was withdrawn."""
        declined = Answer(declined=True, reason="nobody is there to answer questions")
        if self.ending or not self.people.hears_questions:
            return declined
        answer: Answer | None = None
        case = self._enter(ask.key, None)
        with case.scope, self.stopwatch.paused():
            asked = Question(
                id=f"question-{uuid4().hex}",
                run_id=self.run_id,
                agent=self.agent,
                items=ask.items,
                tool_call_id=ask.key.call,
                agent_id=ask.key.agent_id,
                deadline=self.people.deadline(),
            )
            answer = await self.people.answer(asked, lambda: case.withdrawn)
        self._leave(ask.key, None)
        return None if case.withdrawn else answer or declined

    def withdraw(self, key: Key, stage: Stage | None) -> None:
        """The agent no longer waits."""
        for (open_key, open_stage), case in self._open.items():
            if open_key == key and stage in {None, open_stage}:
                case.withdrawn = True
                case.scope.cancel()

    async def settle(self, within: float = 1.0) -> None:
        """The run ends: everything that is open is answered with no."""
        self.ending = True
        for case in self._open.values():
            case.scope.cancel()
        with anyio.move_on_after(within):
            while self._open:
                await self._quiet.wait()

    def _enter(self, key: Key, stage: Stage | None) -> _Open:
        case = self._open[key, stage] = _Open(anyio.CancelScope())
        return case

    def _leave(self, key: Key, stage: Stage | None) -> None:
        self._open.pop((key, stage), None)
        if not self._open:
            quiet, self._quiet = self._quiet, anyio.Event()
            quiet.set()

    async def _verdict(self, ask: Consult) -> Verdict:
        match ask.stage:
            case "before":
                return await self._before(ask)
            case "confirm":
                return await self._confirm(ask)
            case "after":
                return await self._after(ask)
            case _:
                assert_never(ask.stage)

    # ---- before the call --------------------------------------------------------------------------------------------

    async def _before(self, ask: Consult) -> Verdict:
        finding = self.ledger.consulted(ask.key, ask.call)
        if finding is not None:
            self.desk.found(finding)
            return Refuse(finding.message)
        ruling = await self.judge.before(ask.call, leaves_sandbox=ask.leaves_sandbox)
        if ruling.result == "ask":
            ruling = await self._asked(ask, ruling)
        self._decide(ask, ruling)
        changed = not same_json(ruling.call.input, ask.call.input)
        match ruling.result:
            case "run":
                self.judge.ran(ruling.call)
                return Proceed(ruling.call.input, changed)
            case "agent":
                self.judge.ran(ruling.call)
                return Defer(ruling.call.input, changed)
            case "deny" | "ask":
                return self._refuse(ruling)
            case _:
                assert_never(ruling.result)

    def _refuse(self, ruling: Ruling) -> Refuse:
        if ruling.interrupt:
            self.desk.stop(Reason.DENIED, f"stopped by a denial: {ruling.reason}")
        return Refuse(ruling.reason, ruling.interrupt)

    def _decide(self, ask: Consult, ruling: Ruling) -> None:
        """Write the decision down where the agent's later words are held against it, and say it."""
        decision = "deny" if ruling.result == "ask" else ruling.result
        self.ledger.decided(
            ask.key, ruling.call, decision, by=ruling.by, reason=ruling.reason, allow_rule=ruling.allow_rule
        )
        self._say(
            ToolDecided(
                agent_id=ask.key.agent_id,
                tool_call_id=ask.key.call,
                tool_name=ask.call.tool_name,
                event="pre_tool_use",
                decision=SAID[ruling.result],
                by=ruling.by,
                reason=ruling.reason,
                input=None if same_json(ruling.call.input, ask.call.input) else ruling.call.input,
                records=ruling.records,
            )
        )

    def _say(self, event: ToolDecided) -> None:
        self.desk.record(event.records)
        broken = [
            Notice(
                agent_id=event.agent_id,
                level="error",
                code="hook_broken",
                message=f"{record.binding} {record.participant!r} could not answer: {record.reason}",
            )
            for record in event.records
            if record.broken
        ]
        self.desk.publish(*broken, event)

    async def _asked(self, ask: Consult, ruling: Ruling) -> Ruling:
        """Ask a person about a call that nothing covers; an edited input passes deny rules and chain again."""
        resolution = await self._approval(ask, ruling)
        ruling = replace(ruling, by=resolution.by, records=(*ruling.records, self._record(ruling.call, resolution)))
        match resolution.answer:
            case Deny() as no:
                return replace(ruling, result="deny", reason=no.reason, interrupt=no.interrupt)
            case Approve() as yes:
                if yes.remember is not None and not self.judge.remember(yes.remember):
                    message = f"the rule {yes.remember!r} is not remembered: it is not understood, or out of bounds"
                    self.desk.publish(Notice(level="warning", code="rule_not_remembered", message=message))
                call = ruling.call
                edited = None if yes.updated_input is None else dict(yes.updated_input)
                if edited is not None and not same_json(edited, call.input):
                    call = self.describe(call.model_copy(update={"input": edited}))
                    edited_ruling = await self.judge.approved(call)
                    return replace(edited_ruling, records=(*ruling.records, *edited_ruling.records))
                return replace(ruling, result="run", reason="approved")
            case _:
                assert_never(resolution.answer)

    def _record(self, call: ToolCall, resolution: Resolution[Approve | Deny]) -> AuditRecord:
        """What a person, or the clock, said about a call."""
        answer = resolution.answer
        return AuditRecord(
            run_id=self.run_id,
            agent=self.agent,
            agent_id=call.agent_id,
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            event="pre_tool_use",
            participant=resolution.by,
            binding="approval",
            decision="allow" if isinstance(answer, Approve) else "deny",
            reason=answer.reason if isinstance(answer, Deny) else "",
            input_digest=digest(call.input),
            result_digest=None
            if isinstance(answer, Deny) or answer.updated_input is None
            else digest(answer.updated_input),
            time=time.time(),
        )

    async def _approval(self, ask: Consult, ruling: Ruling) -> Resolution[Approve | Deny]:
        if not self.people.present:
            return Resolution(Deny(reason="nobody is there to answer approvals"), "policy")
        approval = Approval(
            id=f"approval-{uuid4().hex}",
            run_id=self.run_id,
            agent=self.agent,
            call=ruling.call,
            original_input=ask.call.input,
            reason=ruling.reason,
            suggestions=(ruling.allow_rule,) if ruling.allow_rule else (),
            deadline=self.people.deadline(),
            description=ask.description,
            leaves_sandbox=ask.leaves_sandbox,
        )
        return await self.people.decide(approval, self._withdrawal(ask.key, ask.stage))

    def _withdrawal(self, key: Key, stage: Stage | None) -> Callable[[], bool]:
        case = self._open[key, stage]
        return lambda: case.withdrawn

    # ---- the agent's own question about the call --------------------------------------------------------------------

    async def _confirm(self, ask: Consult) -> Verdict:
        """Answered only for what was decided about this very call and input; anything else is no."""
        decision = self.ledger.confirms(ask.key, ask.call)
        if decision == "run":
            return Proceed(ask.call.input)
        if decision == "agent":
            reason = ask.description or "the agent's own rules ask"
            ruling = Ruling(result="ask", by="agent", reason=reason, call=ask.call)
            ruling = await self._asked(ask, ruling)
            self._decide(ask, ruling)
            if ruling.result == "run":
                return Proceed(ruling.call.input, changed=not same_json(ruling.call.input, ask.call.input))
            return self._refuse(ruling)
        entry = self.ledger.entries.get(ask.key)
        if entry is None or entry.decision is None:
            reason = "the agent asked about a call that it had not shown before"
            self._decide(ask, Ruling(result="deny", by="policy", reason=reason, call=ask.call))
            if self.ledger.complete:
                reason = "was asked about, and nobody had been shown it before: what carries the chain does not work"
                self.desk.found(Finding("no_decision", ask.key, ask.call.tool_name, reason))
            return Refuse(reason)
        return Refuse(entry.reason or "the agent asked about another input than was decided on")

    # ---- after the call --------------------------------------------------------------------------------------------

    async def _after(self, ask: Consult) -> Verdict:
        finding = self.ledger.ran(ask.key, ask.call)
        if finding is not None:
            self.desk.found(finding)
            return Refuse(finding.message)
        ruling = await self.judge.after(ask.call, ask.output, ask.is_error)
        if ruling.records or ruling.result != "keep":
            self._say(
                ToolDecided(
                    agent_id=ask.key.agent_id,
                    tool_call_id=ask.key.call,
                    tool_name=ask.call.tool_name,
                    event="post_tool_use",
                    decision=ruling.result,
                    by=ruling.by,
                    reason=ruling.reason,
                    records=ruling.records,
                )
            )
        if ruling.result != "keep" and not ask.replaceable:
            self.desk.stop(
                Reason.UNREPLACEABLE,
                f"the output of {ask.call.tool_name} could only be withheld by stopping the run ({ruling.reason})",
            )
        return _after_verdict(ruling)


def _after_verdict(ruling: AfterRuling) -> Verdict:
    match ruling.result:
        case "keep":
            return Keep()
        case "replace":
            return Substitute(ruling.output, ruling.is_error)
        case "deny":
            return Refuse(ruling.reason)
        case _:
            assert_never(ruling.result)
