"""How the run of a terminal agent ended: by its exit status and its marker, and by nothing that was guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from interlock.actions import Ending
from interlock.framing.reports import how_ended
from interlock.outcome import Reason, Status, Usage
from interlock_adapters.terminal.profile import Ends, Profile

__all__ = ["ending"]


def ending(
    profile: Profile,
    code: int | None,
    signal: int | None,
    files: Mapping[str, bytes],
    *,
    printed: str,
    version: str | None,
) -> Ending:
    """The end of a run whose process is gone; `printed` is what it wrote, as lines."""
    ends = profile.ends
    told = files.get(ends.file, b"").decode("utf-8", "replace") if ends.file else printed
    text = _answer(profile, files) if profile.answer else printed.strip() or None
    status, reason, message = _judge(ends, code, signal, told)
    if status is Status.FAILED and (last := printed.strip().rpartition("\n")[2].strip()):
        message = f"{message}; the last line that it printed: {last}"
    if status is Status.COMPLETED and profile.answer and text is None:
        status, reason, message = Status.FAILED, Reason.NO_OUTPUT, "the agent ended well and left no answer"
    usage, cost = _usage(ends, told)
    return Ending(status, reason, message, text=text, usage=usage, cost_usd=cost, version=version, final=True)


def _judge(ends: Ends, code: int | None, signal: int | None, told: str) -> tuple[Status, Reason | None, str]:
    for failure in ends.failures:
        if match := re.search(failure.pattern, told, re.MULTILINE):
            words = match.groupdict().get("message") or match.group()
            return Status.FAILED, failure.reason, words
    if signal is not None or code not in ends.statuses:
        return Status.FAILED, Reason.CRASHED, f"the agent ended with {how_ended(code, signal)}"
    if ends.marker is not None and not re.search(ends.marker, told, re.MULTILINE):
        return Status.FAILED, ends.missing, f"the agent ended without the sign that it had done (exit {code})"
    return Status.COMPLETED, None, ""


def _answer(profile: Profile, files: Mapping[str, bytes]) -> str | None:
    where = profile.answer
    if where is None:
        return None
    told = files.get(where.file, b"").decode("utf-8", "replace")
    texts = [match["text"] for match in re.finditer(where.pattern, told, re.MULTILINE)]
    lines = [line.removeprefix(where.prefix) for line in texts[-1].split("\n")] if texts else []
    return "\n".join(lines).strip() or None


def _usage(ends: Ends, told: str) -> tuple[Usage, float | None]:
    """The sum over all requests that the agent wrote down."""
    matches = list(re.finditer(ends.usage, told, re.MULTILINE)) if ends.usage and ends.file else []
    if not matches:
        return Usage(), None
    given, taken, cost = (
        [match.groupdict().get(name) for match in matches] for name in ("input_tokens", "output_tokens", "cost_usd")
    )
    usage = Usage(input_tokens=_sum(given), output_tokens=_sum(taken), model_requests=len(matches))
    return usage, None if None in cost else sum(float(value or 0) for value in cost)


def _sum(values: list[str | None]) -> int | None:
    """Unknown if one is."""
    return None if None in values else sum(int(value or 0) for value in values)
