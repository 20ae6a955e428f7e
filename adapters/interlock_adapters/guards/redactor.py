"""Secrets out of what the model sees, and out of what it sends.

Every text of an output is searched, names of fields too, and each secret becomes `[redacted: KIND]`. The time is
bounded: what could not be searched in time is withheld, not shown. Searching gives way to other tasks as it goes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal

import anyio.lowlevel

from interlock.hooks import Allow, DenyCall, HookCall, Modify, Power, Replace
from interlock.model import JsonValue
from interlock_adapters.guards.detectors import DEFAULT_KINDS, Detectors, Span

__all__ = ["SecretRedactor"]

TURN = 0.02
"""Seconds of searching before other tasks have a turn."""


class _Search:
    """The search of one call: what was found, and how long it may go on."""

    def __init__(self, detectors: Detectors, seconds: float) -> None:
        self.found: dict[str, int] = {}
        self.withheld = 0
        self._detectors = detectors
        self._end = time.perf_counter() + seconds
        self._turn = time.perf_counter() + TURN

    async def value(self, value: JsonValue) -> JsonValue:
        """The value without its secrets."""
        if isinstance(value, str):
            return await self.text(value)
        if isinstance(value, list):
            return [await self.value(one) for one in value]
        if isinstance(value, dict):
            return {await self.text(name): await self.value(inner) for name, inner in value.items()}
        return value

    async def text(self, text: str) -> str:
        """The text without its secrets; what there was no time for is withheld."""
        spans: list[Span] = []
        for found in self._detectors.search(text):
            spans += found
            if (now := time.perf_counter()) > self._turn:
                if now > self._end:
                    self.withheld += len(text)
                    return f"[withheld: {len(text)} characters could not be searched for secrets in time]"
                await anyio.lowlevel.checkpoint()
                self._turn = time.perf_counter() + TURN
        return self._without(text, spans) if spans else text

    def _without(self, text: str, spans: list[Span]) -> str:
        parts: list[str] = []
        done = 0
        for span in sorted(spans):
            if span.start >= done:
                parts += [text[done : span.start], f"[redacted: {span.kind}]"]
                self.found[span.kind] = self.found.get(span.kind, 0) + 1
            done = max(done, span.end)
        return "".join([*parts, text[done:]])

    def summary(self) -> str:
        """What was found, for the audit; no secret is in it."""
        found = [f"{kind} ({count})" for kind, count in sorted(self.found.items())]
        return ", ".join([*found, f"{self.withheld} characters withheld"] if self.withheld else found)


_POWERS: dict[str, tuple[Power, ...]] = {
    "deny": ("deny", "replace"),
    "redact": ("modify", "replace"),
    "leave": ("replace",),
}


class SecretRedactor:
    """Replaces secrets in outputs; `inputs` says what becomes of a call whose input carries one.

    `kinds`: those of detect-secrets, and "Secret Keyword" for values after words such as password; by default all that
    are quick to find. `seconds`: the time for one call. Raises `ConfigurationError` without the extra `redact`.
    """

    name = "secret-redactor"
    may: tuple[Power, ...] = ("deny", "modify", "replace")

    def __init__(
        self,
        *,
        inputs: Literal["deny", "redact", "leave"] = "deny",
        kinds: Iterable[str] | None = DEFAULT_KINDS,
        seconds: float = 3.0,
    ) -> None:
        self._detectors = Detectors(kinds)
        self._inputs = inputs
        self._seconds = seconds
        self.deadline = seconds + 2.0
        self.may = _POWERS[inputs]
        self.events = ("post_tool_use",) if inputs == "leave" else ("pre_tool_use", "post_tool_use")

    async def before(self, call: HookCall) -> Allow | DenyCall | Modify:
        """Deny or redact an input with a secret; one that cannot be searched in time counts as one."""
        search = _Search(self._detectors, self._seconds)
        clean = await search.value(call.input)
        if not search.found and not search.withheld:
            return Allow()
        if self._inputs == "redact":
            return Modify(input=clean, reason=search.summary())
        return DenyCall(
            reason=f"the input carries secrets: {search.summary()}; refer to them without spelling them out"
        )

    async def after(self, call: HookCall) -> Allow | Replace:
        """Show the output without its secrets."""
        search = _Search(self._detectors, self._seconds)
        clean = await search.value(call.output)
        if not search.found and not search.withheld:
            return Allow()
        return Replace(output=clean, reason=search.summary())
