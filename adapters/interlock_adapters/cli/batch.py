"""`interlock batch`: its commands. What follows it and is no command is the beginning of `run`'s arguments.

So `interlock batch tasks.jsonl --out runs` is `interlock batch run tasks.jsonl --out runs`. Only a file of tasks that
has the name of a command must be written `./status`, or after `run`.
"""

import inspect
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from interlock_adapters.cli.batch_options import BatchOptions

__all__ = ["batch"]

_OWN = ("--help",)


class _RunByDefault(TyperGroup):
    """A group whose command `run` need not be named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` in front, unless a command or `--help` stands there."""
        if args and args[0] not in self.commands and args[0] not in _OWN:
            args = ["run", *args]
        return super().parse_args(ctx, args)


batch = typer.Typer(
    cls=_RunByDefault,
    help="Many runs, each counted once; killed or interrupted, it is resumed. Without a command's name: run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_Folder = Annotated[str, typer.Argument(metavar="DIR", help="The folder of a batch, as --out named it.")]
_Json = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else.")]


def _run(**values: Any) -> None:
    """Run the tasks of a file, or one prompt over agents, models and directories; or go on with a batch.

    The name of this command may be left out. A line a counted run goes to stdout, everything else to stderr. What is
    not said again when a batch goes on stays as it was begun: hooks, policies, budgets, workspaces.

    Exit codes: 4 a run was unguarded, else 1 one failed or has no result, else 2 usage or one was unsupported, else 3 a
    bound tripped, else 0; 130 interrupted.
    """
    from interlock_adapters.cli.batch_run import run  # noqa: PLC0415 -- the engine is loaded only for a run

    raise typer.Exit(run(BatchOptions(**values)))


_run.__signature__ = inspect.signature(BatchOptions)  # type: ignore[attr-defined]  # functions have it at run time
_run.__annotations__ = {name: field.type for name, field in BatchOptions.__dataclass_fields__.items()}
batch.command("run")(_run)


@batch.command()
def status(
    folder: _Folder,
    *,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="List only runs that were counted as other than completed.")
    ] = False,
    json: _Json = False,
) -> None:
    """Show how far a batch is, also while it runs, and each of its runs in a line. Nothing is changed.

    Exit codes: 0 whatever is found, 1 it is damaged, 2 there is no batch.
    """
    from interlock_adapters.cli.batch_look import show_status  # noqa: PLC0415 -- the models are loaded only for it

    raise typer.Exit(show_status(folder, only_failed=only_failed, as_json=json))


@batch.command()
def show(
    folder: _Folder, run: Annotated[str, typer.Argument(metavar="RUN", help="The id of a run.")], *, json: _Json = False
) -> None:
    """Show one run of a batch: its attempts, its answer, and where its files are.

    Exit codes: 0 whatever is found, 1 the batch is damaged, 2 there is no such batch or run.
    """
    from interlock_adapters.cli.batch_look import show_run  # noqa: PLC0415 -- the models are loaded only for it

    raise typer.Exit(show_run(folder, run, as_json=json))
