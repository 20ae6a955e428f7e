"""The parser: commands, and the way from parsed options to an exit code."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from interlock_adapters.cli.batch import batch
from interlock_adapters.cli.hooks import hooks
from interlock_adapters.cli.machine import agents, doctor, login
from interlock_adapters.cli.options import Options
from interlock_adapters.cli.recordings import record, replay

__all__ = ["app"]

app = typer.Typer(
    help="Drive coding-agent CLIs through one contract. No beats everything.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 -- rarely asked

        typer.echo(f"interlock {version('interlock')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Drive coding-agent CLIs through one contract. No beats everything."""


def _takes_options(action: Callable[[Options], int]) -> Callable[..., None]:
    """A command whose parameters are the fields of `Options`, so that run and plan cannot differ in them."""

    def command(**values: Any) -> None:
        raise typer.Exit(action(Options(**values)))

    command.__doc__ = action.__doc__
    command.__signature__ = inspect.signature(Options)  # type: ignore[attr-defined]  # functions have it at run time
    command.__annotations__ = {name: field.type for name, field in Options.__dataclass_fields__.items()}
    return command


def _run(options: Options) -> int:
    """Run one agent on one prompt.

    The answer goes to stdout, everything else to stderr. Exit codes: 0 completed, 1 failed, 2 usage or unsupported,
    3 a bound tripped, 4 unguarded, 130 interrupted.
    """
    from interlock_adapters.cli.run import run  # noqa: PLC0415 -- the engine is loaded only for a run

    return run(options)


def _plan(options: Options) -> int:
    """Show what `run` would start, and start nothing."""
    from interlock_adapters.cli.plan import plan  # noqa: PLC0415 -- the engine is loaded only for a plan

    return plan(options)


policy = typer.Typer(help="Policies: what holds for every run.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(policy, name="policy")


@policy.command("explain")
def explain(
    call: Annotated[
        str,
        typer.Argument(
            metavar="CALL", help="The agent's own, as in 'Bash {\"command\": \"ls\"}', or by kind, as in 'shell: ls'."
        ),
    ],
    *,
    agent: Annotated[str, typer.Option("--agent", "-a", metavar="AGENT", help="Whose call it is.")] = "claude",
    cwd: Annotated[str, typer.Option("-C", metavar="DIR", help="The directory the agent works in.")] = ".",
    posture: Annotated[str | None, typer.Option(metavar="none|read|edit|full", help="As in run.")] = None,
    otherwise: Annotated[str | None, typer.Option(metavar="deny|ask|chain|agent", help="As in run.")] = None,
    allow: Annotated[list[str] | None, typer.Option(metavar="RULE", help="As in run; repeatable.")] = None,
    deny: Annotated[list[str] | None, typer.Option(metavar="RULE", help="As in run; repeatable.")] = None,
    add_dir: Annotated[list[str] | None, typer.Option(metavar="DIR", help="As in run; repeatable.")] = None,
    policy_file: Annotated[
        list[str] | None, typer.Option("--policy", metavar="FILE", help="As in run; repeatable.")
    ] = None,
    hooks: Annotated[str | None, typer.Option(metavar="FILE", help="As in run.")] = None,
    workspace_hooks: Annotated[bool, typer.Option("--workspace-hooks", help="As in run.")] = False,
    with_hooks: Annotated[
        bool, typer.Option("--with-hooks", help="Ask the participants of the chain, as a run would.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Say whether a call would run, which part of the decision says so and why, and what would change it.

    Nothing is run but, with --with-hooks, the hooks. Exit code 0 whatever the result, 2 for what cannot be used.
    """
    from interlock_adapters.cli.policy import explain_call  # noqa: PLC0415 -- the engine is loaded only for it

    options = Options(
        agent=agent,
        cwd=cwd,
        posture=posture,
        otherwise=otherwise,
        allow=allow,
        deny=deny,
        add_dir=add_dir,
        policy=policy_file,
        hooks=hooks,
        workspace_hooks=workspace_hooks,
        json=json,
    )
    raise typer.Exit(explain_call(options, call, ask=with_hooks))


app.add_typer(hooks, name="hooks")
app.add_typer(batch, name="batch")


@app.command()
def audit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that --audit, or Client(audit=...), wrote.")],
    *,
    run: Annotated[str | None, typer.Option(metavar="ID", help="Only this run: its id, or the end of it.")] = None,
    tool: Annotated[str | None, typer.Option(metavar="GLOB", help="Only calls of these tools, by native name.")] = None,
    decision: Annotated[
        str | None,
        typer.Option(metavar="DECISION", help="Only allow, deny, modify, replace, grant, ask, agent or broken."),
    ] = None,
    participant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what this hook, interceptor, rule, policy or person said.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only from then on: 90m, 2d, 2026-11-30T10:00.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line: records, then the sums.")] = False,
) -> None:
    """Show who decided what about which call, how long it took and what it changed; then sums by participant.

    Exit codes: 0, 1 if a line of the file is no record (it is named and passed over), 2 usage.
    """
    from interlock_adapters.cli.audit import Wanted  # noqa: PLC0415 -- the models are loaded only for it
    from interlock_adapters.cli.audit import audit as show  # noqa: PLC0415 -- same

    raise typer.Exit(show(Wanted(file, run, tool, decision, participant, since, json)))


@app.command()
def attach(
    *,
    agent: Annotated[str, typer.Option("--agent", "-a", metavar="AGENT", help="The agent: claude, ...")],
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL", help="As in run.")] = None,
    cwd: Annotated[str, typer.Option("-C", metavar="DIR", help="The directory the agent works in.")] = ".",
    posture: Annotated[str | None, typer.Option(metavar="none|read|edit|full", help="As in run.")] = None,
    otherwise: Annotated[
        str | None,
        typer.Option(
            metavar="deny|chain|agent", help="What becomes of the rest. Default: the policy's; else agent, which asks."
        ),
    ] = None,
    allow: Annotated[list[str] | None, typer.Option(metavar="RULE", help="As in run; repeatable.")] = None,
    deny: Annotated[list[str] | None, typer.Option(metavar="RULE", help="As in run; repeatable.")] = None,
    policy_file: Annotated[
        list[str] | None, typer.Option("--policy", metavar="FILE", help="As in run; repeatable.")
    ] = None,
    hooks: Annotated[str | None, typer.Option(metavar="FILE", help="As in run; they can judge calls, not outputs.")] = (
        None
    ),
    workspace_hooks: Annotated[bool, typer.Option("--workspace-hooks", help="As in run.")] = False,
    audit: Annotated[str | None, typer.Option(metavar="FILE", help="Append every decision to this file.")] = None,
    add_dir: Annotated[list[str] | None, typer.Option(metavar="DIR", help="As in run; repeatable.")] = None,
    effort: Annotated[str | None, typer.Option(metavar="WORD", help="As in run.")] = None,
    binary: Annotated[str | None, typer.Option(metavar="PATH", help="The agent's program.")] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="As in run; repeatable.")] = None,
    login: Annotated[str, typer.Option(metavar="user|env|PATH", help="Whose login the agent uses.")] = "user",
    trust_workspace: Annotated[bool, typer.Option("--trust-workspace", help="As in run.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Show what would be started, and start nothing.")] = False,
) -> None:
    """Work at the agent's own screen, with deny rules, hooks and the audit behind it.

    It needs a terminal. Exit codes: 0 the agent ended by itself, 1 it failed, 2 usage or unsupported, 4 unguarded,
    130 interrupted.
    """
    from interlock_adapters.cli.attach import attach as begin  # noqa: PLC0415 -- the engine is loaded only for it

    options = Options(
        agent=agent,
        model=model,
        cwd=cwd,
        posture=posture,
        otherwise=otherwise,
        allow=allow,
        deny=deny,
        policy=policy_file,
        hooks=hooks,
        workspace_hooks=workspace_hooks,
        audit=audit,
        add_dir=add_dir,
        effort=effort,
        binary=binary,
        env=env,
        login=login,
        trust_workspace=trust_workspace,
    )
    raise typer.Exit(begin(options, plan_only=plan))


@app.command("approvals")
def approvals(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of a batch that runs with --approvals.")],
    *,
    approve: Annotated[list[str] | None, typer.Option(metavar="ID", help="Approve this one; repeatable.")] = None,
    deny: Annotated[list[str] | None, typer.Option(metavar="ID", help="Deny this one; repeatable.")] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="For --deny: what the model is told.")] = None,
    approve_with: Annotated[
        str | None, typer.Option(metavar="PROGRAM", help="Answers all of them until the batch is over.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List them, also at a terminal.")] = False,
    json: Annotated[bool, typer.Option("--json", help="List them, a JSON object a line.")] = False,
) -> None:
    """Answer what a running batch asks: at a terminal one after the other, until it is over; else they are listed.

    The exact input is shown, and an answer is to that input alone. An ID may be given by its end. Exit codes: 0, 1 an
    answer was not taken or the batch is damaged, 2 usage or no batch, 130 interrupted.
    """
    from interlock_adapters.cli.approvals import Wanted  # noqa: PLC0415 -- the engine is loaded only for it
    from interlock_adapters.cli.approvals import approvals as answer  # noqa: PLC0415 -- same

    raise typer.Exit(answer(Wanted(folder, listed, json, approve or (), deny or (), reason, approve_with)))


app.command("run")(_takes_options(_run))
app.command("plan")(_takes_options(_plan))
app.command()(agents)
app.command()(doctor)
app.command()(login)
app.command()(record)
app.command()(replay)


@app.command()
def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer the demo's approval with yes.")] = False,
) -> None:
    """Show approvals, hooks and redaction on a scripted agent; needs no agent CLI and no account."""
    from interlock_adapters.cli.demo import demo as show_demo  # noqa: PLC0415 -- the engine is loaded only for it

    raise typer.Exit(show_demo(yes=yes))
