"""`interlock policy explain`: which part of the decision says what about one call, and why."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from functools import partial

import anyio

from interlock.engine.explain import Explanation, Step, explain
from interlock.engine.policy_file import governed
from interlock.errors import InterlockError
from interlock_adapters.cli.lines import call_words
from interlock_adapters.cli.options import Options, UsageProblem, request_of
from interlock_adapters.cli.output import print_line, safe_line
from interlock_adapters.cli.plan import NO_PROMPT, complain, settled
from interlock_adapters.cli.policy_call import parse_call
from interlock_adapters.cli.problems import COMPLETED

__all__ = ["explain_call"]

WIDTH = 100
_RESULTS = {
    "run": "runs",
    "deny": "denied",
    "ask": "asked: a person, or --approve-with, decides",
    "agent": "left to the agent's own rules",
}


def explain_call(options: Options, text: str, *, ask: bool) -> int:
    """Print why the call would run or not; 0 whatever the result, 2 for what cannot be used."""
    try:
        call = parse_call(text, options.agent, native=ask)
        request, effective = settled(options, request_of(options, NO_PROMPT))
        request = governed(request, effective)
        explained = anyio.run(partial(explain, request, effective, call, hooks=options.hooks, ask=ask))
    except (UsageProblem, InterlockError) as error:
        return complain(error, options, None)
    if options.json:
        print_line(explained.to_json())
        return COMPLETED
    for line in _lines(explained):
        print_line(line)
    return COMPLETED


def _lines(explained: Explanation) -> Iterator[str]:
    call = explained.call
    words = call_words(call.input, call.subject)
    yield from _row("call", f"{safe_line(call.tool_name, 60)} {words} (kind {call.tool_kind})")
    yield from _row("policies", *explained.policies or ("none",))
    for number, step in enumerate(explained.steps, 1):
        yield from _row(f"{number} {step.part}", _step_words(step))
    sure = explained.result == "run" and not explained.records and _asked(explained)
    yield from _row("result", _RESULTS[explained.result] + (", unless the chain says no" if sure else ""))
    if explained.records:
        yield from _row("because", explained.why)
    yield from _row("to change", *explained.changes)
    yield from _row("note", *explained.notes)


def _step_words(step: Step) -> str:
    return step.says + (f" ({step.source})" if step.source else "") + ("   <- decides" if step.decides else "")


def _asked(explained: Explanation) -> bool:
    return any(step.part == "chain" and step.says.startswith("would be asked") for step in explained.steps)


def _row(name: str, *texts: str) -> Iterator[str]:
    """A name and what stands beside it, wrapped; nothing where there is nothing to say."""
    for text in texts:
        for line in textwrap.wrap(safe_line(text), WIDTH, break_on_hyphens=False) or [""]:
            yield f"{name:<15}{line}"
            name = ""
