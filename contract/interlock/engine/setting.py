"""What surrounds one run: the plan, the judge, and those who answer; made by the client, read by the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interlock.approval import Answerer, Approver
from interlock.engine.audit import Audit
from interlock.engine.chain import Chain
from interlock.engine.in_process import InProcess
from interlock.engine.judge import Judge
from interlock.engine.plan import Prepared

__all__ = ["Setting"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What surrounds one run."""

    prepared: Prepared
    judge: Judge
    audit: Audit | None
    streamed: bool
    """Somebody reads the events, and may answer."""
    approver: Approver | None
    answerer: Answerer | None
    on_unguarded: Literal["stop", "report"]
    withhold: bool
    """The chain may replace outputs, so pieces of them are not shown."""
    chain: Chain
    servers: InProcess
    watched: bool = False
    """Somebody reads the events."""
    conversation: bool = False
    """The run goes on after a turn, until the caller ends it."""
