"""The options of `interlock batch run` as they are typed; `batch_command` and `batch_tasks` say what they mean."""

from dataclasses import dataclass
from typing import Annotated

import typer

__all__ = ["BatchOptions"]


@dataclass(frozen=True)
class BatchOptions:
    """Everything that the command line says about one batch; None is not said."""

    out: Annotated[str, typer.Option("--out", "-o", metavar="DIR", help="The batch's folder, made or gone on with.")]
    tasks: Annotated[
        str | None,
        typer.Argument(
            metavar="TASKS.jsonl",
            help="A request a line. Without it, and without --prompt, the batch in --out goes on.",
            show_default=False,
        ),
    ] = None
    # ---- one prompt over agents, models and directories
    prompt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="In place of TASKS: one prompt for all; - reads it from stdin.")
    ] = None
    agents: Annotated[str | None, typer.Option("--agents", "-a", metavar="A,B", help="The agents of --prompt.")] = None
    models: Annotated[
        str | None, typer.Option("--models", "-m", metavar="M,N", help="Its models; agent:model is for that agent.")
    ] = None
    dirs: Annotated[str | None, typer.Option("--dirs", metavar="D,E", help="Its directories. Default: this one.")] = (
        None
    )
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="How often each of them runs.")] = 1
    # ---- what requests lack
    posture: Annotated[
        str | None,
        typer.Option(metavar="none|read|edit|full", help="For --prompt, and for lines without `permission`."),
    ] = None
    otherwise: Annotated[str | None, typer.Option(metavar="deny|ask|chain|agent", help="The same.")] = None
    allow: Annotated[list[str] | None, typer.Option(metavar="RULE", help="The same; repeatable.")] = None
    deny: Annotated[list[str] | None, typer.Option(metavar="RULE", help="The same; repeatable.")] = None
    transport: Annotated[str | None, typer.Option(metavar="NAME", help="For --prompt, and lines without it.")] = None
    binary: Annotated[str | None, typer.Option(metavar="PATH", help="The same.")] = None
    login: Annotated[str | None, typer.Option(metavar="user|env|PATH", help="The same.")] = None
    env: Annotated[list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="The same, as in run; repeatable.")] = (
        None
    )
    # ---- how it runs
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-j", min=1, metavar="N", help="Runs at once in all. Default: 8.")
    ] = None
    per_agent: Annotated[
        list[str] | None, typer.Option(metavar="AGENT=N", help="Runs at once of one agent; repeatable.")
    ] = None
    workspace: Annotated[
        str | None,
        typer.Option(
            metavar="given|copy|worktree",
            help="Whether an attempt works in the directory itself (the default), in a copy, or in a git worktree.",
        ),
    ] = None
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Names that --workspace copy leaves out; repeatable.")
    ] = None
    keep: Annotated[
        str | None, typer.Option(metavar="counted|all|none", help="Which copies or worktrees stay. Default: counted.")
    ] = None
    work: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where copies and worktrees are made. Default: OUT.work.")
    ] = None
    budget_usd: Annotated[float | None, typer.Option(metavar="X", help="All runs together; wants --run-usd.")] = None
    run_usd: Annotated[float | None, typer.Option(metavar="X", help="What one run may cost and reserves.")] = None
    budget_tokens: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="All runs together; wants --run-tokens.")
    ] = None
    run_tokens: Annotated[int | None, typer.Option(min=1, metavar="N", help="What one run may use and reserves.")] = (
        None
    )
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="For the whole batch; past it, it can be resumed.")
    ] = None
    run_timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="For one run, where its request has no bound.")
    ] = None
    attempt_timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="For one attempt by the wall, waiting included.")
    ] = None
    retries: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Further tries after transient errors. Default: 2.")
    ] = None
    lost: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Lost attempts until a run is given up. Default: 2.")
    ] = None
    longest_pause: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="How long to wait for a quota. Default: 32 days.")
    ] = None
    # ---- who guards and answers
    hooks: Annotated[str | None, typer.Option(metavar="FILE", help="A hooks file whose programs see every call.")] = (
        None
    )
    policy: Annotated[list[str] | None, typer.Option(metavar="FILE", help="As in run; repeatable.")] = None
    approve_with: Annotated[
        str | None, typer.Option(metavar="PROGRAM", help="Answers approvals of runs whose permission asks.")
    ] = None
    approvals: Annotated[
        bool | None,
        typer.Option(
            "--approvals/--no-approvals", help="Approvals wait for `interlock approvals OUT`.", show_default=False
        ),
    ] = None
    audit: Annotated[str | None, typer.Option(metavar="FILE", help="Append every decision to this file.")] = None
    # ---- where attempts are made
    engine: Annotated[str | None, typer.Option(metavar="local|dask", help="Here (the default), or on a cluster.")] = (
        None
    )
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of the Dask cluster, as tcp://10.0.0.1:8786.")
    ] = None
    shared_files: Annotated[
        bool | None,
        typer.Option(
            "--shared-files/--no-shared-files", help="Workers see OUT too, under its path.", show_default=False
        ),
    ] = None
    artifacts: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Files that come back from workers; repeatable.")
    ] = None
    artifacts_to: Annotated[
        str | None, typer.Option(metavar="DIR|URL", help="Where they go: a folder here, or an fsspec URL.")
    ] = None
    # ---- this time
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Run again what was counted as other than completed.")
    ] = False
    order: Annotated[str, typer.Option(metavar="completed|submitted", help="The order of the lines on stdout.")] = (
        "completed"
    )
    json: Annotated[bool, typer.Option("--json", help="A JSON object a counted run on stdout, and nothing else.")] = (
        False
    )
