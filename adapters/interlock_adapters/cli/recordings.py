"""The commands about recordings: `interlock record` and `interlock replay`."""

import dataclasses
import inspect
from typing import Annotated, Any

import typer

from interlock_adapters.cli.options import Options

__all__ = ["record", "replay"]

_Out = Annotated[str, typer.Option("--out", metavar="DIR", help="Where recordings are kept: DIR/AGENT/VERSION/CASE.")]
_Case = Annotated[str, typer.Option("--case", metavar="NAME", help="What this recording is called.")]


def record(*, out: str, case: str, **values: Any) -> None:
    """Run one agent on one prompt, as `run` does, and keep the conversation as a recording without what is private.

    Exit codes are those of run; 1 also if nothing was saved, since it holds what looks like a secret.
    """
    from interlock_adapters.cli.record import record as keep  # noqa: PLC0415 -- the engine is loaded only for it

    raise typer.Exit(keep(Options(**values), out, case))


def _parameters() -> list[inspect.Parameter]:
    """Those of `run`, and two of its own."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [one.replace(kind=keyword) for one in inspect.signature(Options).parameters.values()]
    out = inspect.Parameter("out", keyword, annotation=_Out)
    return [out, inspect.Parameter("case", keyword, default="run", annotation=_Case), *shared]


record.__signature__ = inspect.Signature(_parameters())  # type: ignore[attr-defined]  # functions have it at run time
record.__annotations__ = {"out": _Out, "case": _Case} | {one.name: one.type for one in dataclasses.fields(Options)}


def replay(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A recording, or a folder that holds one.")],
    *,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FAULT",
            help="What goes wrong, as cut-at=900, stall-at=900, exit=3, chunks=1, garbage, duplicate-end; repeatable.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One event a line on stdout and nothing else.")] = False,
) -> None:
    """Run a recorded conversation again through the whole engine, with the answers of then; needs no agent CLI.

    Exit codes are those of run.
    """
    from interlock_adapters.cli.replay import replay as play  # noqa: PLC0415 -- same

    raise typer.Exit(play(folder, fault or (), as_json=json))
