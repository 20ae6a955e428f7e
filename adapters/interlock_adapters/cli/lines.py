"""One line for people about an event, a call or an outcome; everything in it is safe for a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.approval import escape
from interlock.events import (
    ApprovalResolved,
    BaseEvent,
    Compacted,
    FilesChanged,
    Notice,
    PlanUpdated,
    RateLimited,
    Retrying,
    RunStarted,
    SubagentFinished,
    SubagentStarted,
    ToolDecided,
    ToolFinished,
    ToolRequested,
    Unguarded,
)
from interlock.model import JsonValue, canonical_json
from interlock.outcome import Outcome, Usage
from interlock.tools import MAIN_AGENT, Subject
from interlock_adapters.cli.output import safe_line

__all__ = ["Line", "call_words", "line_of", "summary_of"]

WIDTH = 160
"""Characters of a call or of an agent's words that one line shows."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its style."""

    text: str
    style: str = "dim"


def line_of(event: BaseEvent) -> Line | None:
    """The line about an event; None for what people need not see.

    What has no line: thinking, pieces of output, usage, approvals that the person answers anyway, unknown messages.
    """
    line = _about_calls(event) or _about_the_run(event)
    if line is None or event.agent_id == MAIN_AGENT:
        return line
    return Line(f"[{safe_line(event.agent_id, 20)}] {line.text}", line.style)


def _about_calls(event: BaseEvent) -> Line | None:
    match event:
        case ToolRequested(tool_name=name, input=value, subject=subject):
            return Line(f"> {safe_line(name, 60)} {call_words(value, subject)}".rstrip(), "cyan")
        case ToolDecided():
            return _decision(event)
        case ToolFinished(tool_name=name, status="error"):
            return Line(f"  {safe_line(name, 60)} failed")
        case ApprovalResolved(by="user"):
            return None
        case ApprovalResolved(decision=decision, by=by, reason=reason):
            return Line(f"  {_RESOLVED.get(decision, decision)} by {safe_line(by, 60)}{_because(reason)}")
        case FilesChanged(changes=changes):
            return Line("  " + ", ".join(f"{change.change} {safe_line(change.path, WIDTH)}" for change in changes[:5]))
        case _:
            return None


_RESOLVED = {"approve": "approved", "deny": "denied", "withdrawn": "the approval was withdrawn"}


def _decision(event: ToolDecided) -> Line | None:
    name = safe_line(event.tool_name, 60)
    if event.decision == "deny":
        what = "denied" if event.event == "pre_tool_use" else "output withheld"
        return Line(f"  {name} {what} ({event.by}){_because(event.reason)}", "yellow")
    if event.decision == "replace":
        return Line(f"  {name}: its output was replaced before the model saw it{_because(event.reason)}")
    if event.input is not None:
        return Line(f"  {name}: its input was changed to {safe_line(_compact(event.input), WIDTH)}")
    return None


def _about_the_run(event: BaseEvent) -> Line | None:
    match event:
        case RunStarted():
            return Line(_started(event))
        case Notice(message=message):
            return Line(f"  {safe_line(message, 500)}")
        case Unguarded(tool_name=name, message=message):
            return Line(f"UNGUARDED: {safe_line(name, 60) + ' ' if name else ''}{safe_line(message)}", "bold red")
        case Retrying(attempt=attempt, error=error):
            return Line(f"  the agent retries (attempt {attempt}){_because(error)}")
        case RateLimited(limit=limit) if limit.blocking:
            return Line(f"  a rate limit blocks the agent{_because(limit.status)}", "yellow")
        case Compacted():
            return Line("  the agent shortened its history")
        case SubagentStarted(description=description):
            return Line(f"  a sub-agent began{_because(description)}")
        case SubagentFinished():
            return Line("  a sub-agent ended")
        case PlanUpdated(entries=entries):
            done = sum(entry.status == "completed" for entry in entries)
            return Line(f"  plan: {done} of {len(entries)} done")
        case _:
            return None


def _started(event: RunStarted) -> str:
    version = f" {safe_line(event.version, 40)}" if event.version else ""
    confined = "confined" if event.confined else "not confined"
    place = safe_line(event.cwd)
    return f"{event.agent}{version} over {event.transport}, backstop {event.backstop}, {confined}, in {place}"


def _because(reason: str) -> str:
    return f": {safe_line(reason, WIDTH)}" if reason else ""


def call_words(value: JsonValue, subject: Subject) -> str:
    """What a call is about, in one short line."""
    if subject.command is not None:
        words = subject.command
    elif subject.mcp is not None:
        words = f"{subject.mcp} {_compact(value)}"
    else:
        words = ", ".join((*subject.paths, *subject.urls)) or _compact(value)
    short = words[:WIDTH]
    return escape(short) + (f"... ({len(words)} characters)" if len(words) > WIDTH else "")


def _compact(value: JsonValue) -> str:
    return canonical_json(value).decode(errors="backslashreplace")


def summary_of(outcome: Outcome) -> str:
    """How the run ended, in one line."""
    if not outcome.ok:
        session = f" (session {safe_line(outcome.session_id, 80)})" if outcome.session_id else ""
        return safe_line(outcome.describe(), 2000) + session
    parts = [f"completed in {outcome.duration:.1f} s", _count(outcome.tool_calls, "tool call")]
    parts.extend(_usage(outcome.usage))
    if outcome.cost_usd is not None:
        parts.append(f"${outcome.cost_usd:.4f}")
    if outcome.session_id is not None:
        parts.append(f"session {safe_line(outcome.session_id, 80)}")
    return ", ".join(parts)


def _usage(usage: Usage) -> list[str]:
    known = ((usage.input_tokens, "in"), (usage.output_tokens, "out"))
    return [f"{tokens} tokens {way}" for tokens, way in known if tokens is not None]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
