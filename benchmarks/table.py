"""From samples to the table: medians, the ratio to the bare reader, and whether the target is reached."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from typing import Any

from benchmarks.contestants import CONTESTANTS
from benchmarks.rows import Row, Sample

__all__ = ["Cell", "Line", "as_json", "circumstances", "text"]


@dataclass(slots=True)
class Cell:
    """What was found of one contestant in one row."""

    samples: list[Sample] = field(default_factory=list[Sample])
    failure: str = ""

    @property
    def median(self) -> float | None:
        """The middle sample."""
        values = sorted(sample.value for sample in self.samples)
        return values[len(values) // 2] if values else None

    @property
    def note(self) -> str:
        """What the middle sample's figure does not say."""
        return next((sample.note for sample in self.samples if sample.value == self.median), "")

    def shown(self) -> str:
        """The figure, or why there is none."""
        if self.median is None:
            return self.failure or "-"
        return _figure(self.median) + ("*" if "left alive" in self.note else "")


@dataclass(slots=True)
class Line:
    """One row with all its cells."""

    row: Row
    cells: dict[str, Cell]

    @property
    def ratio(self) -> float | None:
        """Our figure to that of the bare reader, in the sense of the row: above 1 is better."""
        ours, bare = (self.cells[name].median if name in self.cells else None for name in ("interlock", "bare"))
        if not ours or not bare or bare <= 0 or ours <= 0:
            return None
        return ours / bare if self.row.better == "more" else bare / ours

    @property
    def summary(self) -> str:
        """The row in a few words, for who waits for the table."""
        figures = (f"{name} {cell.shown()}" for name, cell in self.cells.items())
        return f"{self.row.name} ({self.row.unit}): {', '.join(figures)} {self.verdict}"

    @property
    def verdict(self) -> str:
        """ok, short, or nothing where there is no target."""
        ours = self.cells["interlock"].median
        if ours is None:
            return "failed"
        return "" if self.row.target is None else "ok" if self.row.reached(ours) else "short"


def text(lines: list[Line]) -> str:
    """The table as Markdown, and the notes under it."""
    names = [contestant.name for contestant in CONTESTANTS]
    rows = [["row", "what", "unit", "target", *names, "x bare", ""]]
    rows += [_row(line, names) for line in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    drawn = [_drawn(row, widths) for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    notes = [
        f"- {line.row.name}, {name}: {cell.note}" for line in lines for name, cell in line.cells.items() if cell.note
    ]
    return "\n".join([drawn[0], rule, *drawn[1:], "", "* not all that the run had started ended", "", *notes])


def as_json(lines: list[Line]) -> dict[str, Any]:
    """Everything that was measured."""
    return {
        "circumstances": circumstances(),
        "rows": [
            {
                "name": line.row.name,
                "title": line.row.title,
                "unit": line.row.unit,
                "better": line.row.better,
                "target": line.row.target,
                "verdict": line.verdict,
                "ratio_to_bare": line.ratio,
                "contestants": {
                    name: {
                        "median": cell.median,
                        "samples": [sample.value for sample in cell.samples],
                        "note": cell.note,
                        "failure": cell.failure,
                    }
                    for name, cell in line.cells.items()
                },
            }
            for line in lines
        ],
    }


def circumstances() -> dict[str, Any]:
    """Where and with what it was measured."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "versions": {contestant.name: contestant.version for contestant in CONTESTANTS},
    }


def _row(line: Line, names: list[str]) -> list[str]:
    row = line.row
    sign = {"more": ">=", "less": "<="}[row.better]
    target = "" if row.target is None else f"{sign} {_figure(row.target)}"
    cells = [line.cells[name].shown() if name in line.cells else "-" for name in names]
    ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
    return [row.name, row.title, row.unit, target, *cells, ratio, line.verdict]


def _drawn(row: list[str], widths: list[int]) -> str:
    cells = (f" {text:<{width}} " for text, width in zip(row, widths, strict=True))
    return "|" + "|".join(cells) + "|"


def _figure(value: float) -> str:
    """Three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.01 or not value else f"{value:.4f}"
