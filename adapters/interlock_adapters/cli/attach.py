"""`interlock attach`: the agent's own screen for the person, and behind it deny rules, the chain and the audit.

Nothing of ours is written while the agent has the screen: what it cannot promise is said before, and how it went after.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import anyio

from interlock.engine.client import Client
from interlock.engine.policy_file import govern
from interlock.errors import InterlockError
from interlock.outcome import Outcome
from interlock.permission import Otherwise
from interlock.request import Request
from interlock_adapters.cli.attach_screen import AttachScreen, no_terminal
from interlock_adapters.cli.options import Options, UsageProblem, request_of
from interlock_adapters.cli.output import print_line, safe_line, safe_text
from interlock_adapters.cli.plan import client_of, complain
from interlock_adapters.cli.problems import COMPLETED, INTERRUPTED, exit_code

__all__ = ["attach"]

NO_PROMPT = "(what the person types)"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def attach(options: Options, *, plan_only: bool) -> int:
    """Hand the agent's screen to the person until it ends; returns the exit code."""
    if not plan_only and no_terminal("attach", "use `interlock run`, or `interlock attach --plan` to see what it is"):
        return 2
    request: Request | None = None
    try:
        request = _request(options)
        client = client_of(options, request)
        plan = client.plan(request, attached=True)
        if plan_only:
            print_line(safe_text(plan.describe()))
            return COMPLETED
        print_line("interlock: the screen that follows is the agent's own", 2)
        for line in plan.warnings:
            print_line(f"  {safe_line(line)}", 2)
        outcome = anyio.run(partial(_attached, client, request))
    except (UsageProblem, InterlockError) as error:
        return complain(error, options, request)
    if outcome is None:
        return INTERRUPTED
    _tell(outcome, plan.warnings)
    return exit_code(outcome)


def _request(options: Options) -> Request:
    """The request; what nobody says otherwise about is the agent's to ask. Raises `UsageProblem`."""
    unbounded = {"total": None, "idle": None, "start_up": None}
    bare = request_of(replace(options, otherwise=options.otherwise or Otherwise.DENY), NO_PROMPT)
    bare = bare.model_copy(update={"limits": bare.limits.model_copy(update=unbounded)})
    if options.otherwise is not None:
        return bare
    typed = {name: getattr(bare.permission, name) for name in bare.permission.model_fields_set - {"otherwise"}}
    untold = bare.model_copy(update={"permission": type(bare.permission)(**typed)})
    effective = govern(untold, options.policy, user_policy=True, source="the command line")
    if "otherwise" in effective.origins or effective.objections(otherwise=Otherwise.AGENT):
        return untold
    asked = type(bare.permission)(**typed, otherwise=Otherwise.AGENT)
    return untold.model_copy(update={"permission": asked})


async def _attached(client: Client, request: Request) -> Outcome | None:
    """How it ended; None where we were told to end it."""
    screen = AttachScreen()
    outcome: Outcome | None = None

    async def watch(whole: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            async for _ in signals:
                if whole.cancel_called:
                    screen.give_back()
                    os._exit(INTERRUPTED)  # what is left is ended by the guardian
                whole.cancel()

    with screen.handed_through():
        async with client, anyio.create_task_group() as group:
            with anyio.CancelScope() as whole:
                group.start_soon(watch, whole)
                outcome = await client.attach(request, screen)
            group.cancel_scope.cancel()
    return outcome


def _tell(outcome: Outcome, told: tuple[str, ...]) -> None:
    """What the person could not be told while the agent had the screen, from a line of its own on."""
    lines = list(_lines(outcome, told))
    for line in ("", *lines) if lines else ():
        print_line(safe_line(line), 2)


def _lines(outcome: Outcome, told: tuple[str, ...]) -> Iterator[str]:
    if not outcome.ok and outcome.message:
        yield f"interlock: {outcome.reason or outcome.status}: {outcome.message}"
    yield from (f"interlock: {warning}" for warning in outcome.warnings if warning not in told)
    denied = len(outcome.denials)
    if denied:
        yield f"interlock: {denied} call{'' if denied == 1 else 's'} denied:"
    yield from (f"  {denial.tool_name}: {denial.reason} ({denial.by})" for denial in outcome.denials)
