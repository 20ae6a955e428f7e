"""From a codec's events to published ones: held against the ledger, stamped, and put into the mailbox in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from interlock.actions import Key
from interlock.engine.ledger import Finding, Ledger
from interlock.engine.mailbox import Mailbox
from interlock.engine.report import Report
from interlock.events import (
    BaseEvent,
    Notice,
    RateLimited,
    Raw,
    Retrying,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolRequested,
    stamp,
)

__all__ = ["Publisher"]

NO_PROGRESS = frozenset({Retrying, Notice, RateLimited, Raw, RunStarted})
"""Events that do not count against the idle deadline."""
DELTAS = frozenset({TextDelta, ThinkingDelta})
"""The most frequent events by far; nothing but the reader wants them."""


class Publisher:
    """The one way into a run's mailbox."""

    def __init__(
        self,
        run_id: str,
        *,
        report: Report,
        ledger: Ledger,
        withhold: bool,
        found: Callable[[Finding], None],
    ) -> None:
        self.mailbox = Mailbox()
        self.turn = 1
        self.progressed = False
        """Whether anything that counts as progress was published; the reader of it sets it back."""
        self._run_id = run_id
        self._report = report
        self._ledger = ledger
        self._withhold = withhold
        self._found = found
        self._seq = 0

    def publish(self, events: Sequence[BaseEvent]) -> None:
        """Publish events, in order. A finding about one of them is said after all of them."""
        findings: list[Finding] = []
        if not DELTAS.issuperset(map(type, events)):
            noted = (self._noted(event, findings) for event in events)
            events = [event for event in noted if event is not None]
        if events:
            agent, now = self._report.agent, time.time()
            stamp(events, run_id=self._run_id, agent=agent, seq=self._seq, time=now, turn=self.turn)
            self._seq += len(events)
            self.progressed = self.progressed or not NO_PROGRESS.issuperset(map(type, events))
            self.mailbox.put(events)
        for finding in findings:
            self._found(finding)

    def _noted(self, event: BaseEvent, findings: list[Finding]) -> BaseEvent | None:
        """The event as it is published, once the ledger and the report have seen it; None: it is withheld."""
        match event:
            case TextDelta() | ThinkingDelta():
                return event
            case ToolOutput() if self._withhold:
                return None
            case ToolRequested():
                self._ledger.requested(event)
            case ToolFinished():
                return self._finished(event, findings)
            case _:
                self._report.noted(event)
        return event

    def _finished(self, event: ToolFinished, findings: list[Finding]) -> ToolFinished:
        finding = self._ledger.finished(event)
        if finding is not None:
            findings.append(finding)
        denied = self._ledger.denied_by(Key(event.agent_id, event.tool_call_id))
        if denied is not None and event.status != "ok":
            return event.model_copy(update={"status": "denied", "by": denied.by})
        return event
