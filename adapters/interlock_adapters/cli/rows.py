"""Rows of a name and words: a table where a person looks at it, plain lines for everything else."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interlock_adapters.cli.output import print_line, safe_line

__all__ = ["Row", "print_rows"]

WIDTH = 120
NARROWEST = 40


@dataclass(frozen=True, slots=True)
class Row:
    """A name and what stands beside it; `colour` is the name's, at a terminal."""

    name: str
    lines: tuple[str, ...]
    colour: str = "cyan"


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """Print a heading and its rows on stdout."""
    if os.isatty(1):
        print_line(_table(title, rows))
        return
    print_line(safe_line(title))
    width = max((len(row.name) for row in rows), default=0) + 2
    for row in rows:
        for number, line in enumerate(_wrapped(row, WIDTH - width)):
            print_line(f"  {'' if number else row.name:<{width}}{line}")


def _wrapped(row: Row, width: int) -> Iterator[str]:
    for text in row.lines:
        yield from textwrap.wrap(safe_line(text), width, break_on_hyphens=False, break_long_words=False) or [""]


def _table(title: str, rows: Sequence[Row]) -> str:
    from rich.console import Console  # noqa: PLC0415 -- only a terminal needs it
    from rich.table import Table  # noqa: PLC0415 -- same
    from rich.text import Text  # noqa: PLC0415 -- same

    table = Table(title=Text(safe_line(title), style="bold"), title_justify="left", show_header=False, box=None)
    for row in rows:
        table.add_row(Text(row.name, style=row.colour), Text("\n".join(map(safe_line, row.lines))))
    console = Console(file=io.StringIO(), force_terminal=True, width=_columns())
    with console.capture() as captured:
        console.print(table, highlight=False)
    return captured.get()


def _columns() -> int:
    try:
        return max(NARROWEST, os.get_terminal_size(1).columns)
    except OSError:
        return WIDTH
