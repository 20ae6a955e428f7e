"""The parser: commands, and the way from parsed options to an exit code."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from interlock_adapters.cli.options import Options

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


app.command("run")(_takes_options(_run))
app.command("plan")(_takes_options(_plan))


@app.command()
def demo(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer the demo's approval with yes.")] = False,
) -> None:
    """Show approvals, hooks and redaction on a scripted agent; needs no agent CLI and no account."""
    from interlock_adapters.cli.demo import demo as show_demo  # noqa: PLC0415 -- the engine is loaded only for it

    raise typer.Exit(show_demo(yes=yes))
