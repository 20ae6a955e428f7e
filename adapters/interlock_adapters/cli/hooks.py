"""`interlock hooks`: what a hooks file holds, and what its programs answer."""

from typing import Annotated

import typer

__all__ = ["hooks"]

hooks = typer.Typer(help="Hooks files: check and try their programs.", no_args_is_help=True, rich_markup_mode=None)
_Directory = Annotated[str, typer.Option("-C", metavar="DIR", help="The directory that an agent would work in.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@hooks.command("check")
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A hooks file.")],
    *,
    cwd: _Directory = ".",
    json: _Json = False,
) -> None:
    """Read a hooks file as a run would, and start each program once with a harmless call.

    Exit codes: 0 everything answers, 2 something does not, and is named.
    """
    from interlock_adapters.cli.hooks_check import check_file  # noqa: PLC0415 -- the engine is loaded only for it

    raise typer.Exit(check_file(file, cwd, as_json=json))


@hooks.command("try")
def try_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A hooks file.")],
    call: Annotated[
        str,
        typer.Argument(
            metavar="CALL.json | - | '{...}'",
            help="""What a hook reads, or {"tool_name": "Bash", "input": {"command": "ls"}}; - reads it from stdin.""",
        ),
    ],
    *,
    agent: Annotated[str, typer.Option("--agent", "-a", metavar="AGENT", help="Whose call it is.")] = "claude",
    cwd: _Directory = ".",
    event: Annotated[
        str | None, typer.Option(metavar="pre_tool_use|post_tool_use", help="Before the call, or after it.")
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the tool answered; means post_tool_use.")
    ] = None,
    is_error: Annotated[bool, typer.Option("--is-error", help="The tool failed; means post_tool_use.")] = False,
    json: _Json = False,
) -> None:
    """Ask the hooks of a file, in order, about one call, and show each answer and what comes of them.

    Exit codes: 0 whatever they decide, 1 one could not answer, 2 usage.
    """
    from interlock_adapters.cli.hooks_try import Trial, try_file  # noqa: PLC0415 -- same

    raise typer.Exit(try_file(file, call, Trial(agent, cwd, event, output, is_error=is_error), as_json=json))
