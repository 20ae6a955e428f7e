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
    ToolFinished,
    ToolOutput,
    ToolRequested,
    stamp,
)

__all__ = ["Publisher"]

NO_PROGRESS = (Retrying, Notice, RateLimited, Raw, RunStarted)
"""Events that do not count against the idle deadline."""


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
        batch = [self._noted(event, findings) for event in events if not self._withheld(event)]
        if batch:
            self.mailbox.put(batch)
        for finding in findings:
            self._found(finding)

    def _withheld(self, event: BaseEvent) -> bool:
        """Pieces of an output are not shown where the chain may replace the whole."""
        return self._withhold and isinstance(event, ToolOutput)

    def _noted(self, event: BaseEvent, findings: list[Finding]) -> BaseEvent:
        if isinstance(event, ToolRequested):
            self._ledger.requested(event)
        elif isinstance(event, ToolFinished):
            event = self._finished(event, findings)
        elif isinstance(event, NO_PROGRESS):
            self._report.noted(event)
        self.progressed = self.progressed or not isinstance(event, NO_PROGRESS)
        stamp(event, run_id=self._run_id, agent=self._report.agent, seq=self._seq, time=time.time(), turn=1)
        self._seq += 1
        return event

    def _finished(self, event: ToolFinished, findings: list[Finding]) -> ToolFinished:
        finding = self._ledger.finished(event)
        if finding is not None:
            findings.append(finding)
        denied = self._ledger.denied_by(Key(event.agent_id, event.tool_call_id))
        if denied is not None and event.status == "error":
            return event.model_copy(update={"status": "denied", "by": denied.by})
        return event
