"""What a run says, and how it is settled: the one place that everybody who serves the run reports to."""

from __future__ import annotations

import anyio

from interlock.actions import Ending
from interlock.capabilities import Unmet
from interlock.engine.ledger import Finding, Ledger
from interlock.engine.publisher import Publisher
from interlock.engine.report import Report
from interlock.engine.setting import Setting
from interlock.events import BaseEvent, Unguarded
from interlock.hooks import AuditRecord
from interlock.outcome import Reason, Status
from interlock.tools import MAIN_AGENT

__all__ = ["RunDesk"]


class RunDesk:
    """Publishes, writes down and settles; the first word about how the run ends counts."""

    def __init__(self, setting: Setting) -> None:
        prepared = setting.prepared
        order, plan = prepared.order, prepared.plan
        self._setting = setting
        self.report = Report(order.run_id, plan.agent, plan.warnings, order.request.labels)
        self.ledger = Ledger(complete=plan.capabilities.sees_before == "all")
        self.publisher = Publisher(
            order.run_id, report=self.report, ledger=self.ledger, withhold=setting.withhold, found=self.found
        )
        self.settled = anyio.Event()
        self.unmet: tuple[Unmet, ...] = ()
        """What the agent itself showed that it cannot do."""

    def publish(self, *events: BaseEvent) -> None:
        """Publish events of our own."""
        self.publisher.publish(events)

    def record(self, records: tuple[AuditRecord, ...]) -> None:
        """Write decisions to the audit file, if there is one."""
        if self._setting.audit is not None:
            for record in records:
                self._setting.audit.write(record)

    def found(self, finding: Finding) -> None:
        """The promise broke: said at once, and the run is brought down unless it is only to be reported."""
        self.publish(
            Unguarded(
                agent_id=finding.key.agent_id or MAIN_AGENT,
                kind=finding.kind,
                tool_call_id=finding.key.call or None,
                tool_name=finding.tool_name or None,
                message=finding.message,
            )
        )
        if self._setting.on_unguarded == "stop":
            self.stop(Reason.UNGUARDED, f"{finding.tool_name}: {finding.message}".strip(": "))

    def fault(self, error: Exception) -> None:
        """A fault of ours ends one run, not the application."""
        self.stop(Reason.INTERNAL, f"internal error: {error!r}")

    def stop(self, reason: Reason, message: str) -> None:
        """Bring the run down as failed; a denial that ends the run leaves it cancelled."""
        status = Status.CANCELLED if reason is Reason.DENIED else Status.FAILED
        self.settle(Ending(status, reason, message))

    def settle(self, ending: Ending) -> None:
        """How the run ends; the first word counts."""
        self.report.settle(ending)
        self.settled.set()
