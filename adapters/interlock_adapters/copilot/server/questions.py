"""Questions of the agent to the user. The request does not say which call it belongs to; an event before it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import ValidationError

from interlock.actions import Action, Ask, Key, Wake, Withdraw
from interlock.approval import Answer
from interlock.framing.jsonrpc import Call, Id
from interlock_adapters.copilot.server.answers import answer_question, items_of
from interlock_adapters.copilot.server.calls import Calls
from interlock_adapters.copilot.server.channel import Channel
from interlock_adapters.copilot.server.wire import Question, QuestionTold
from interlock_adapters.copilot.tools import ASK_USER

__all__ = ["WAITING", "Questions"]

DECLINED = -32000
WAITING = "question:"
"""What the key of a `Wake` for a question that belongs to no call begins with."""
CALL_LIMIT = 10.0
"""Seconds that a question waits to be told which call it belongs to."""


@dataclass(slots=True)
class Questions:
    """The questions of one process that are not answered yet."""

    channel: Channel
    calls: Calls
    _told: list[tuple[str, QuestionTold]] = field(default_factory=list[tuple[str, QuestionTold]])
    """Events whose request has not come yet, and whose they are."""
    _waiting: list[tuple[Id, Question]] = field(default_factory=list[tuple[Id, Question]])
    _open: dict[Key, tuple[Id, Question]] = field(default_factory=dict[Key, tuple[Id, Question]])

    def asked(self, message: Call) -> Iterator[Action]:
        """`userInput.request`."""
        try:
            question = Question.model_validate(message.params)
        except ValidationError:
            yield self._declined(message.id)
            return
        self._waiting.append((message.id, question))
        yield from self._matched()
        if any(request == message.id for request, _ in self._waiting):
            yield Wake(f"{WAITING}{message.id}", CALL_LIMIT)

    def told(self, agent: str | None, told: QuestionTold) -> Iterator[Action]:
        """`user_input.requested`."""
        self._told.append((self.calls.agent_of(agent), told))
        yield from self._matched()

    def _matched(self) -> Iterator[Action]:
        for request, question in list(self._waiting):
            found = next((pair for pair in self._told if pair[1].question == question.question), None)
            if found is None:
                continue
            self._waiting.remove((request, question))
            self._told.remove(found)
            yield from self._ask(request, question, Key(found[0], found[1].call))

    def _ask(self, request: Id, question: Question, key: Key) -> Iterator[Action]:
        """The call has passed the hook before it, or nobody is asked."""
        state = self.calls.get(*key)
        if state is None or not state.let_through or state.name != ASK_USER or key in self._open:
            yield self._declined(request)
            return
        self._open[key] = (request, question)
        yield Ask(key, items_of(question))

    def answered(self, key: Key, given: Answer) -> Iterator[Action]:
        """What the person said; the model goes on without where they said nothing."""
        found = self._open.pop(key, None)
        if found is None:
            return
        request, question = found
        result = answer_question(question, given)
        yield self._declined(request) if result is None else self.channel.answer(request, result)

    def woke(self, key: str | None = None) -> Iterator[Action]:
        """No event has said in time which call a question belongs to; None: nobody waits for one any more."""
        for request, question in list(self._waiting):
            if key in {None, f"{WAITING}{request}"}:
                self._waiting.remove((request, question))
                yield self._declined(request)

    def settle(self) -> Iterator[Action]:
        """The turn was aborted."""
        for key, (request, _) in list(self._open.items()):
            del self._open[key]
            yield self._declined(request)
            yield Withdraw(key, None)
        yield from self.woke()
        self._told.clear()

    def _declined(self, request: Id) -> Action:
        return self.channel.refuse(request, DECLINED, "the user did not answer")
