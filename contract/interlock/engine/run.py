"""A run as its caller holds it: events to read, approvals to answer, and ways to end it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from interlock.approval import Answer, Approval, Approve, Deny, Question
from interlock.engine.drive import Drive
from interlock.engine.plan import Plan
from interlock.errors import RunFailed, Unsupported
from interlock.events import Event
from interlock.outcome import Outcome, Reason

__all__ = ["Run"]


class Run:
    """A run in progress, or one that is over. Events are read by iterating; two iterators share them."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._at_hand = drive.mailbox.at_hand
        self.id: str = drive.run_id
        self.plan: Plan = drive.setting.prepared.plan

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = self._at_hand.popleft() if self._at_hand else await self._drive.mailbox.take()
        if event is None:
            raise StopAsyncIteration
        return event

    @property
    def open_approvals(self) -> tuple[Approval, ...]:
        """The approvals that wait, oldest first."""
        return self._drive.people.approvals.open

    @property
    def open_questions(self) -> tuple[Question, ...]:
        """The questions that wait, oldest first."""
        return self._drive.people.questions.open

    def respond(self, approval_id: str, decision: Approve | Deny) -> None:
        """Answer an approval. Never waits for the agent; raises `NotOpen` for an id that is unknown or answered."""
        self._drive.people.approvals.answer(approval_id, decision, "user")

    def answer(self, question_id: str, answer: Answer) -> None:
        """Answer a question; raises `NotOpen` for an id that is unknown or answered."""
        self._drive.people.questions.answer(question_id, answer, "user")

    async def send(self, text: str) -> None:
        """A message into the running turn, or the next turn of a conversation.

        It is not lost: one that comes too late for the turn begins a turn of its own, and the run ends with that.
        Raises `Unsupported` if the transport takes none mid-turn, and `RunEnded` once the run is over.
        """
        self._drive.send(text)

    async def finish(self) -> None:
        """A conversation ends once the turn that runs, if one does, is over; its last turn is its outcome."""
        self._drive.finish()

    async def interrupt(self) -> None:
        """Ask the agent, by its own protocol, to end the turn; raises `RunEnded` once the run is over."""
        self._drive.interrupt()

    async def cancel(self) -> None:
        """End the run and everything that it started; the outcome is `cancelled` unless it ended before."""
        self._drive.cancel("cancelled by the caller")
        await self._drive.finished.wait()

    async def outcome(self, *, check: bool = False) -> Outcome:
        """How the run ended, once it has; nothing waits for a reader then, so the oldest of very many
        unread events are dropped.

        With `check`, raises `RunFailed` for all but a completed run, and `Unsupported` where the agent itself showed
        that it cannot do what was planned.
        """
        if not self._drive.finished.is_set():
            self._drive.mailbox.relax()
            await self._drive.finished.wait()
        outcome = self._drive.result()
        if check and not outcome.ok:
            if outcome.reason is Reason.UNSUPPORTED and self._drive.desk.unmet:
                raise Unsupported(outcome.agent, self._drive.desk.unmet)
            raise RunFailed(outcome)
        return outcome
