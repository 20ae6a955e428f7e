"""`python -m benchmarks [--quick] [--json FILE] [--rounds N] [ROW | AGENT]...`: measure, and print one table.

The contestants take turns, round after round, so that whatever else the machine does disturbs all of them alike.
`--profile` prints instead where the time of the first row goes. An agent is measured with its real CLI, see `real`.
`batch` measures a batch's own cost, see there.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks import profiles, real
from benchmarks.contestants import CONTESTANTS
from benchmarks.lab import Lab, TaskFailed
from benchmarks.rows import ROWS, Row
from benchmarks.table import Cell, Line, as_json, circumstances, text


def measure(lab: Lab, row: Row, rounds: int) -> Line:
    """All contestants of a row, by turns."""
    installed = {contestant.name: contestant.version is not None for contestant in CONTESTANTS}
    cells = {name: Cell(failure="" if installed[name] else "not installed") for name in row.contestants}
    for _ in range(rounds):
        for name, cell in cells.items():
            if cell.failure:
                continue
            try:
                cell.samples.append(row.measure(lab, name))
            except TaskFailed as error:
                cell.failure = "failed"
                print(f"{row.name}, {name}: {error}", file=sys.stderr)
    return Line(row, cells)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Interlock beside its peers.")
    rows = ", ".join(row.name for row in ROWS)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {rows}; or an agent: {', '.join(real.AGENTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: whether it works")
    parser.add_argument("--rounds", type=int, help="how often each contestant is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--profile", action="store_true", help="print where the time goes, for deltas and mix")
    given = parser.parse_args()
    unknown = set(given.rows) - {row.name for row in ROWS}
    if len(given.rows) == 1 and given.rows[0] in real.AGENTS:
        return given
    if unknown:
        parser.error(f"unknown rows: {', '.join(sorted(unknown))}")
    return given


def real_cli(given: argparse.Namespace) -> int:
    """Measure with the real CLI of an agent; 1 if a figure of ours could not be taken."""
    from benchmarks.real import measure as measuring  # noqa: PLC0415  # it loads the test kit

    agent = real.agent(given.rows[0])
    rounds, calls = (1, 2) if given.quick else (given.rounds or 10, measuring.CALLS)
    columns = measuring.measure(agent, rounds=rounds, calls=calls)
    print(measuring.described(agent, columns, circumstances()))
    if given.json is not None:
        found = {"circumstances": circumstances(), **measuring.as_json(agent, columns)}
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 1 if any(column.failure == "failed" for column in columns if not column.contestant.package) else 0


def main() -> int:
    """Measure; 1 if a figure of ours could not be taken, 0 whether or not the targets are reached."""
    if sys.argv[1:2] == ["batch"]:
        from benchmarks import batch  # noqa: PLC0415  # nobody else needs it

        return batch.main(sys.argv[2:])
    given = arguments()
    if given.rows and given.rows[0] in real.AGENTS:
        return real_cli(given)
    with Lab(quick=given.quick) as lab:
        if given.profile:
            profiles.show(lab, given.rows)
            return 0
        lines = []
        for row in ROWS:
            if not given.rows or row.name in given.rows:
                lines.append(measure(lab, row, given.rounds or (1 if given.quick else row.rounds)))
                print(lines[-1].summary, file=sys.stderr)
    print(text(lines))
    print("- " + ", ".join(f"{key}: {value}" for key, value in circumstances().items()))
    if given.json is not None:
        given.json.write_text(json.dumps(as_json(lines), indent=2) + "\n", encoding="utf-8")
    return 1 if any(line.verdict == "failed" for line in lines) else 0


if __name__ == "__main__":
    raise SystemExit(main())
