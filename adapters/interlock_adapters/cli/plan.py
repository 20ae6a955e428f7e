"""`interlock plan`: what a run would start. Nothing is started, not even to look at a version."""

from __future__ import annotations

from interlock.engine.client import Client
from interlock.engine.policy_file import govern
from interlock.engine.registry import find_adapter
from interlock.errors import InterlockError
from interlock.permission import Otherwise, Permission
from interlock.policy import Effective
from interlock.request import Request
from interlock_adapters.cli.approve_with import ProgramApprover
from interlock_adapters.cli.options import Options, UsageProblem, at_terminal, read_prompt, request_of
from interlock_adapters.cli.output import print_line, safe_text
from interlock_adapters.cli.problems import COMPLETED, code_of, explain

__all__ = ["NO_PROMPT", "client_of", "complain", "is_answered", "plan", "settled"]

NO_PROMPT = "(the prompt)"
"""Stands for the prompt of a plan that was given none; a plan shows no prompt anyway."""


def plan(options: Options) -> int:
    """Print the plan, or every reason against it."""
    request: Request | None = None
    try:
        request, _ = settled(options, request_of(options, _prompt(options)))
        planned = client_of(options, request).plan(request, answered=is_answered(options))
    except (UsageProblem, InterlockError) as error:
        return complain(error, options, request)
    print_line(planned.to_json() if options.json else safe_text(planned.describe()))
    return COMPLETED


def _prompt(options: Options) -> str:
    return NO_PROMPT if options.prompt is None else read_prompt(options)


def client_of(options: Options, request: Request) -> Client:
    """The client that the options describe; raises `UsageProblem`."""
    approver: ProgramApprover | None = None
    if options.approve_with is not None:
        approver = ProgramApprover.of(options.approve_with, (request.cwd, *request.add_dirs))
    return Client(hooks=options.hooks, approver=approver, audit=options.audit, policy=options.policy, user_policy=True)


def settled(options: Options, request: Request) -> tuple[Request, Effective]:
    """The request, and what is in force under the policies; raises `ConfigurationError`.

    That a person is asked is a default of the command line, so a policy that says something else comes before it; and
    so does a transport that was named and asks nobody, unless a program was named that answers.
    """
    if options.otherwise is None and request.permission.otherwise is Otherwise.ASK:
        typed = request.permission.model_fields_set - {"otherwise"}
        permission = Permission(**{name: getattr(request.permission, name) for name in typed})
        bare = request.model_copy(update={"permission": permission})
        effective = _govern(options, bare)
        objected = "otherwise" in effective.origins or effective.objections(otherwise=Otherwise.ASK)
        if objected or (options.approve_with is None and _asks_nobody(request)):
            return bare, effective
    return request, _govern(options, request)


def _asks_nobody(request: Request) -> bool:
    """Whether the transport that was named cannot ask."""
    named = [one for one in find_adapter(request.agent).transports if one.name == request.transport]
    return bool(named) and not named[0].capabilities.asks


def _govern(options: Options, request: Request) -> Effective:
    return govern(request, options.policy, user_policy=True, source="the command line")


def is_answered(options: Options) -> bool:
    """Whether somebody is there to answer approvals."""
    return options.approve_with is not None or at_terminal()


def complain(error: UsageProblem | InterlockError, options: Options, request: Request | None) -> int:
    """Print every reason on stderr; returns the exit code."""
    asks = request is not None and request.permission.otherwise is Otherwise.ASK
    for line in explain(error, unanswered=asks and not is_answered(options)):
        print_line(line, descriptor=2)
    return code_of(error)
