"""Asking people: approvals and questions, answered by the caller, a handler, or the clock.

Whoever answers first decides. A handler that fails, and a deadline that passes, mean no; both are said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from interlock.approval import Answer, Answerer, Approval, Approve, Approver, Deny, Question
from interlock.engine.docket import Docket, Resolution
from interlock.events import ApprovalRequested, ApprovalResolved, BaseEvent, Notice, QuestionAsked

__all__ = ["People"]

ENDING = "the run is ending"
LATE = "nobody answered in time"

T = TypeVar("T", Approval, Question)
A = TypeVar("A")


@dataclass(slots=True)
class People:
    """Those who answer for one run."""

    publish: Callable[[BaseEvent], None]
    clock: Callable[[], float]
    """Seconds since the epoch."""
    wait: float | None
    """Seconds until a question counts as answered with no."""
    streamed: bool
    """Somebody reads the events and may answer."""
    approver: Approver | None = None
    answerer: Answerer | None = None
    approvals: Docket[Approval, Approve | Deny] = field(default_factory=lambda: Docket("approval"))
    questions: Docket[Question, Answer] = field(default_factory=lambda: Docket("question"))

    @property
    def present(self) -> bool:
        """Whether anybody answers approvals."""
        return self.streamed or self.approver is not None

    @property
    def hears_questions(self) -> bool:
        """Whether anybody answers questions."""
        return self.streamed or self.answerer is not None

    def deadline(self) -> float | None:
        """When a question that is asked now expires, in seconds since the epoch."""
        return None if self.wait is None else self.clock() + self.wait

    async def decide(self, approval: Approval, withdrawn: Callable[[], bool]) -> Resolution[Approve | Deny]:
        """Have an approval answered."""
        resolution: Resolution[Approve | Deny] = Resolution(Deny(reason=ENDING), "cancelled")
        self.approvals.enter(approval.id, approval)
        self.publish(ApprovalRequested(agent_id=approval.call.agent_id, approval=approval))
        try:
            heard = await self._hear(self.approvals, approval, self._approver())
            resolution = heard or Resolution(Deny(reason=LATE), "expired")
        finally:
            self.approvals.leave(approval.id)
            decision, by = ("withdrawn", "agent") if withdrawn() else (resolution.answer.decision, resolution.by)
            reason = resolution.answer.reason if isinstance(resolution.answer, Deny) else ""
            agent_id = approval.call.agent_id
            self.publish(
                ApprovalResolved(agent_id=agent_id, id=approval.id, decision=decision, by=by, reason=reason),
            )
        return resolution

    async def answer(self, question: Question, withdrawn: Callable[[], bool]) -> Answer:
        """Have a question answered."""
        resolution = Resolution(Answer(declined=True, reason=ENDING), "cancelled")
        self.questions.enter(question.id, question)
        self.publish(QuestionAsked(agent_id=question.agent_id, question=question))
        try:
            heard = await self._hear(self.questions, question, self._answerer())
            resolution = heard or Resolution(Answer(declined=True, reason=LATE), "expired")
        finally:
            self.questions.leave(question.id)
            answer = resolution.answer
            decision = "withdrawn" if withdrawn() else "declined" if answer.declined else "answered"
            by = "agent" if withdrawn() else resolution.by
            reason = answer.reason if answer.declined else ""
            self.publish(
                ApprovalResolved(agent_id=question.agent_id, id=question.id, decision=decision, by=by, reason=reason),
            )
        return resolution.answer

    async def _hear(
        self, docket: Docket[T, A], subject: T, handler: Callable[[T], Awaitable[A]] | None
    ) -> Resolution[A] | None:
        """Whoever answers first; None once the deadline has passed."""

        async def handle(ask: Callable[[T], Awaitable[A]]) -> None:
            docket.offer(subject.id, await ask(subject), "approver")

        resolution: Resolution[A] | None = None
        with anyio.move_on_after(self.wait):
            if handler is None:
                return await docket.wait(subject.id)
            async with anyio.create_task_group() as group:
                group.start_soon(handle, handler)
                resolution = await docket.wait(subject.id)
                group.cancel_scope.cancel()
        return resolution

    def _approver(self) -> Callable[[Approval], Awaitable[Approve | Deny]] | None:
        approver = self.approver
        if approver is None:
            return None

        async def ask(approval: Approval) -> Approve | Deny:
            try:
                decision: object = await approver(approval)
            except Exception as error:  # noqa: BLE001  # whatever a handler does, the call is denied
                decision = error
            if isinstance(decision, Approve | Deny):
                return decision
            self._broken("approver", decision)
            return Deny(reason="approval handler failed")

        return ask

    def _answerer(self) -> Callable[[Question], Awaitable[Answer]] | None:
        answerer = self.answerer
        if answerer is None:
            return None

        async def ask(question: Question) -> Answer:
            try:
                answer: object = await answerer(question)
            except Exception as error:  # noqa: BLE001  # whatever a handler does, the question is declined
                answer = error
            if isinstance(answer, Answer):
                return answer
            self._broken("answerer", answer)
            return Answer(declined=True, reason="question handler failed")

        return ask

    def _broken(self, who: str, what: object) -> None:
        words = repr(what) if isinstance(what, Exception) else f"it answered with {type(what).__name__}"
        self.publish(Notice(level="error", code=f"{who}_broken", message=f"the {who} failed: {words}"))
