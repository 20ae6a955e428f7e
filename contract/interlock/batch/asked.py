"""The approvals and questions that running attempts wait for, and the way of an answer to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.approval import Answer, Approval, Approve, Deny, Question
from interlock.batch.executor import Executor, Reachable
from interlock.batch.wire import AnswerQuestion, Asked, Respond
from interlock.errors import NotOpen

__all__ = ["AskedPeople"]


@dataclass(slots=True)
class AskedPeople:
    """What waits for an answer, by id, with the key of its attempt."""

    executor: Executor
    """Keys are `<run>-<number>-<driver>`."""
    _approvals: dict[str, tuple[str, Approval]] = field(default_factory=dict[str, tuple[str, Approval]])
    _questions: dict[str, tuple[str, Question]] = field(default_factory=dict[str, tuple[str, Question]])

    @property
    def approvals(self) -> tuple[Approval, ...]:
        """Oldest first."""
        return tuple(approval for _, approval in self._approvals.values())

    @property
    def questions(self) -> tuple[Question, ...]:
        """Oldest first."""
        return tuple(question for _, question in self._questions.values())

    def by_run(self) -> tuple[tuple[str, Approval], ...]:
        """The approvals with the run that each is of, oldest first."""
        return tuple((owner.rsplit("-", 2)[0], approval) for owner, approval in self._approvals.values())

    def waiting(self, key: str) -> int:
        """How many of one attempt wait."""
        return sum(owner == key for owner, _ in (*self._approvals.values(), *self._questions.values()))

    def asked(self, news: Asked) -> None:
        """One more waits."""
        if news.approval is not None:
            self._approvals[news.approval.id] = news.key, news.approval
        if news.question is not None:
            self._questions[news.question.id] = news.key, news.question

    def resolved(self, asked_id: str) -> None:
        """It waits no more."""
        self._approvals.pop(asked_id, None)
        self._questions.pop(asked_id, None)

    def withdraw(self, key: str) -> None:
        """The attempt is over, and nothing of it waits."""
        for waiting in (self._approvals, self._questions):
            for asked_id in [asked_id for asked_id, (owner, _) in waiting.items() if owner == key]:
                del waiting[asked_id]

    async def respond(self, approval_id: str, decision: Approve | Deny) -> None:
        """Answer an approval; raises `NotOpen`."""
        owner, _ = self._approvals.pop(approval_id, (None, None))
        await self._send(owner, approval_id, Respond(id=approval_id, decision=decision))

    async def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question; raises `NotOpen`."""
        owner, _ = self._questions.pop(question_id, (None, None))
        await self._send(owner, question_id, AnswerQuestion(id=question_id, answer=answer))

    async def _send(self, owner: str | None, asked_id: str, message: Respond | AnswerQuestion) -> None:
        if owner is None:
            raise NotOpen(asked_id, "nothing of this id waits in this batch")
        executor = self.executor
        if not isinstance(executor, Reachable) or not await executor.send(owner, message.to_json().encode()):
            raise NotOpen(asked_id, "its attempt is gone, or cannot be reached")
