"""What was decided about each call, held against what the agent reports of it.

A call that ran without a decision, succeeded after a denial, or ran with another input than was decided means that the
promise broke: the ledger gives a finding, and the run makes it `Unguarded`. Errors before a call ran are no finding: an
agent refuses bad arguments by itself, and then nobody was asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.actions import Key, SuspicionKind
from interlock.events import ToolFinished, ToolRequested
from interlock.model import JsonValue, same_json
from interlock.outcome import Denial
from interlock.tools import ToolCall, ToolKind

__all__ = ["Entry", "Finding", "Ledger"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which the promise broke."""

    kind: SuspicionKind
    key: Key
    tool_name: str
    message: str


@dataclass(slots=True)
class Entry:
    """One call: what it is, what was decided, and whether it ended."""

    tool_name: str
    tool_kind: ToolKind
    decision: str | None = None
    """run, agent or deny; None while nobody decided."""
    input: JsonValue = None
    """The input that was decided on."""
    by: str = ""
    reason: str = ""
    allow_rule: str | None = None
    finished: bool = False


@dataclass(slots=True)
class Ledger:
    """The calls of one run, by agent and call."""

    complete: bool
    """Whether this transport shows every call before it runs, so that a call without a decision is a finding."""
    entries: dict[Key, Entry] = field(default_factory=dict[Key, Entry])

    def requested(self, event: ToolRequested) -> None:
        """The model asked for a call."""
        key = Key(event.agent_id, event.tool_call_id)
        self.entries.setdefault(key, Entry(event.tool_name, event.tool_kind))

    def consulted(self, key: Key, call: ToolCall) -> Finding | None:
        """The agent asks about a call; a second time is a finding, for an honest agent asks once."""
        entry = self.entries.setdefault(key, Entry(call.tool_name, call.tool_kind))
        if entry.decision is not None or entry.finished:
            return Finding("second_consult", key, call.tool_name, "asked about twice")
        return None

    def decided(
        self, key: Key, call: ToolCall, decision: str, *, by: str, reason: str = "", allow_rule: str | None = None
    ) -> None:
        """Write down what was decided about the call with exactly this input."""
        entry = self.entries.setdefault(key, Entry(call.tool_name, call.tool_kind))
        entry.decision, entry.input, entry.by, entry.reason = decision, call.input, by, reason
        entry.allow_rule = allow_rule

    def confirms(self, key: Key, call: ToolCall) -> str | None:
        """The decision about this very call and input, for the agent's own question about it; None: there is none."""
        entry = self.entries.get(key)
        if entry is None or entry.finished or entry.tool_name != call.tool_name:
            return None
        return entry.decision if same_json(entry.input, call.input) else None

    def ran(self, key: Key, call: ToolCall) -> Finding | None:
        """The agent says with which input a call ran."""
        entry = self.entries.get(key)
        if entry is None or entry.decision is None:
            return Finding("no_decision", key, call.tool_name, "ran, and nobody had decided about it")
        if entry.decision == "deny":
            return Finding("ran_after_deny", key, call.tool_name, f"ran although it was denied ({entry.by})")
        if not same_json(entry.input, call.input):
            return Finding("other_input", key, call.tool_name, "ran with another input than was decided")
        return None

    def finished(self, event: ToolFinished) -> Finding | None:
        """A call ended."""
        key = Key(event.agent_id, event.tool_call_id)
        entry = self.entries.setdefault(key, Entry(event.tool_name, event.tool_kind))
        entry.finished = True
        entry.input = None
        if event.status == "denied" and entry.decision != "deny":
            entry.decision, entry.by, entry.reason = "deny", event.by or "agent", _text(event.output)
        if event.status != "ok":
            return None
        if entry.decision == "deny":
            return Finding("ran_after_deny", key, event.tool_name, f"succeeded although it was denied ({entry.by})")
        if entry.decision is None and self.complete:
            return Finding("no_decision", key, event.tool_name, "succeeded, and nobody had decided about it")
        return None

    def denied_by(self, key: Key) -> Entry | None:
        """The entry of a call that was denied."""
        entry = self.entries.get(key)
        return entry if entry is not None and entry.decision == "deny" else None

    def cut_short(self) -> tuple[ToolFinished, ...]:
        """The ends of the calls that the run's end cut short."""
        return tuple(_cut_short(key, entry) for key, entry in self.entries.items() if not entry.finished)

    def denials(self) -> tuple[Denial, ...]:
        """Every call that was denied, in the order in which they were asked for."""
        return tuple(
            Denial(
                tool_call_id=key.call,
                tool_name=entry.tool_name,
                tool_kind=entry.tool_kind,
                agent_id=key.agent_id,
                by=entry.by,
                reason=entry.reason,
                allow_rule=entry.allow_rule,
            )
            for key, entry in self.entries.items()
            if entry.decision == "deny"
        )


def _text(output: JsonValue) -> str:
    return output if isinstance(output, str) else ""


def _cut_short(key: Key, entry: Entry) -> ToolFinished:
    denied = entry.decision == "deny"
    return ToolFinished(
        agent_id=key.agent_id,
        tool_call_id=key.call,
        tool_name=entry.tool_name,
        tool_kind=entry.tool_kind,
        status="denied" if denied else "error",
        by=entry.by if denied else "",
        output=entry.reason if denied else "the run ended first",
    )
