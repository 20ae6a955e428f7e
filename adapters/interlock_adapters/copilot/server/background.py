"""Work that went on in the background is stopped where outputs are judged, since its report comes past every hook.

A command is waited for 600 seconds at the most, whatever was asked for, and then goes on (1.0.102). Once it is
cancelled, nothing is reported of it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from interlock.actions import Action, Stop
from interlock.framing.jsonrpc import Id
from interlock.outcome import Reason
from interlock_adapters.copilot.server.calls import Calls
from interlock_adapters.copilot.server.channel import Channel
from interlock_adapters.copilot.server.wire import Task, Tasks

__all__ = ["CANCEL", "LIST", "Background"]

LIST, CANCEL = "session.tasks.list", "session.tasks.cancel"
Then = Callable[[], Iterator[Action]]


@dataclass(slots=True)
class _Job:
    then: Then
    waiting: set[Id] = field(default_factory=set[Id])


@dataclass(slots=True)
class Background:
    """Asks what runs in the background, and has it cancelled."""

    channel: Channel
    calls: Calls
    _lists: dict[Id, _Job] = field(default_factory=dict[Id, _Job])
    _cancels: dict[Id, _Job] = field(default_factory=dict[Id, _Job])

    def stop(self, then: Then) -> Iterator[Action]:
        """Stop it all, and then go on."""
        request, send = self.channel.asked(LIST, {"sessionId": self.calls.session})
        self._lists[request] = _Job(then)
        yield send

    def listed(self, request: Id, result: object) -> Iterator[Action]:
        """What there is."""
        job = self._lists.pop(request, None)
        if job is None:
            return
        running = [task for task in Tasks.model_validate(result).tasks if _goes_on(task)]
        for task in running:
            params: dict[str, str | None] = {"sessionId": self.calls.session, "id": task.id}
            cancel, send = self.channel.asked(CANCEL, {**params})
            job.waiting.add(cancel)
            self._cancels[cancel] = job
            yield send
        if not running:
            yield from job.then()

    def cancelled(self, request: Id) -> Iterator[Action]:
        """One of them is stopped, or was over by itself."""
        job = self._cancels.pop(request, None)
        if job is None:
            return
        job.waiting.discard(request)
        if not job.waiting:
            yield from job.then()

    def failed(self, message: str) -> Iterator[Action]:
        """It cannot be stopped, and would be reported."""
        yield Stop(Reason.UNREPLACEABLE, f"work in the background could not be stopped: {message}")


def _goes_on(task: Task) -> bool:
    return task.status not in {"completed", "failed", "cancelled"} and task.mode == "background"
