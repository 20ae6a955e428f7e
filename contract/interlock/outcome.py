"""How a run ended: one frozen value, judged from the agent's terminal message first, its exit code second."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from interlock.model import FrozenMap, JsonValue, Map, Model
from interlock.tools import MAIN_AGENT, ToolKind

__all__ = ["Denial", "Outcome", "RateLimit", "Reason", "Status", "Usage"]


class Status(StrEnum):
    """The four ways in which a run ends."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class Reason(StrEnum):
    """Why a run did not complete."""

    AUTH = "auth"
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    CONTEXT = "context"
    """The conversation, or the prompt, does not fit the model."""
    BAD_REQUEST = "bad_request"
    MODEL_NOT_FOUND = "model_not_found"
    API = "api"
    """Another error of the model's service."""
    MAX_TURNS = "max_turns"
    MAX_OUTPUT = "max_output"
    BUDGET = "budget"
    REFUSED = "refused"
    """The model refused."""
    PROTOCOL = "protocol"
    """The agent broke its protocol, or the channel to it was lost."""
    CRASHED = "crashed"
    STALLED = "stalled"
    """No progress within the idle or the start-up limit."""
    DEADLINE = "deadline"
    """The limit on the whole run."""
    NO_OUTPUT = "no_output"
    INVALID_OUTPUT = "invalid_output"
    """The structured output is missing or does not fit its schema."""
    UNGUARDED = "unguarded"
    UNREPLACEABLE = "unreplaceable"
    """An output that had to be withheld could only be withheld by stopping the run."""
    DENIED = "denied"
    """A denial said that the run ends with it."""
    SESSION_NOT_FOUND = "session_not_found"
    SANDBOX = "sandbox"
    INTERNAL = "internal"
    """A fault of this library."""
    UNSUPPORTED = "unsupported"
    """The agent that answered cannot do, or does not confirm, what was planned; nothing was prompted."""


class Usage(Model):
    """Tokens of this run alone; None is unknown, which is not zero."""

    input_tokens: int | None = Field(default=None, ge=0)
    """Tokens that were neither read from nor written to a cache."""
    output_tokens: int | None = Field(default=None, ge=0)
    cache_read_tokens: int | None = Field(default=None, ge=0)
    cache_write_tokens: int | None = Field(default=None, ge=0)
    reasoning_tokens: int | None = Field(default=None, ge=0)
    model_requests: int | None = Field(default=None, ge=0)


class RateLimit(Model):
    """What the agent says of a limit of its service."""

    status: str
    """The agent's own word; `allowed` and `allowed_warning` block nothing."""
    window: str | None = None
    resets_at: float | None = None
    """Seconds since the epoch."""
    blocking: bool = False


class Denial(Model):
    """One call that did not run."""

    tool_call_id: str
    tool_name: str
    tool_kind: ToolKind
    agent_id: str = MAIN_AGENT
    by: str
    """hook, rule, policy, user, expired, cancelled, agent or sandbox."""
    reason: str
    allow_rule: str | None = None
    """A rule that would have let it run, where a rule could."""


class Outcome(Model):
    """How a run ended, and all that is known of it."""

    run_id: str
    agent: str
    status: Status
    reason: Reason | None = None
    """None if `status` is completed; of a cancelled run, None or `denied`."""
    message: str = ""
    """The most specific words about a failure that are known."""
    text: str | None = None
    """The final answer; None where there is none."""
    structured: JsonValue = None
    """The answer that `Request.output_schema` asked for; it fits the schema, which is checked here."""
    usage: Usage = Field(default_factory=Usage)
    cost_usd: float | None = None
    """As the agent reports it; never computed here."""
    session_id: str | None = None
    model: str | None = None
    version: str | None = None
    """What the agent says of its own version."""
    turns: int | None = None
    """Model requests of the main agent, as the agent counts them."""
    tool_calls: int = 0
    denials: tuple[Denial, ...] = ()
    warnings: tuple[str, ...] = ()
    rate_limit: RateLimit | None = None
    api_status: int | None = None
    """The HTTP status of the model's service, where a failure had one."""
    exit_code: int | None = None
    signal: int | None = None
    """The signal that ended the agent's process."""
    stderr_tail: str = ""
    stdout_noise: str = ""
    """The end of what stood on stdout and was no message."""
    duration: float = 0.0
    """Seconds."""
    labels: Map[str] = Field(default_factory=FrozenMap[str])

    @property
    def ok(self) -> bool:
        """Whether the run completed."""
        return self.status is Status.COMPLETED

    def describe(self) -> str:
        """One line: the status, the reason, and the most specific words that are known."""
        head = f"{self.agent} run {self.status}" + (f" ({self.reason})" if self.reason else "")
        words = self.message or _last_line(self.stderr_tail) or _last_line(self.stdout_noise)
        ended = ""
        if self.signal is not None:
            ended = f" [signal {self.signal}]"
        elif self.exit_code:
            ended = f" [exit {self.exit_code}]"
        return head + (f": {words}" if words else "") + ended


def _last_line(text: str) -> str:
    lines = [line for line in text.split("\n") if line.strip()]
    return lines[-1].strip() if lines else ""
