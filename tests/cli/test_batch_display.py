"""What `interlock batch` shows at a terminal, however narrow, as the terminal itself has it."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest
from tests.cli.batches import Batches
from tests.cli.conftest import PROGRAM


@pytest.fixture
def batches(cli: Any, tmp_path: Path) -> Iterator[Batches]:
    made = Batches(cli, tmp_path)
    yield made
    made.bench.assert_nothing_left()


class Terminal:
    """A batch at a terminal of so many columns, and what stands on it."""

    def __init__(self, batches: Batches, columns: int, *arguments: str, rows: int = 30) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=1000)
        self._stream = pyte.Stream(self.screen)
        self.raw = ""
        self.child = pexpect.spawn(
            PROGRAM[0],
            [*PROGRAM[1:], "batch", *arguments, "--out", str(batches.out)],
            encoding="utf-8",
            timeout=40,
            env=batches.cli.env,
            dimensions=(rows, columns),
        )

    def until(self, pattern: str) -> str:
        """Read until the screen shows it; gives the screen."""
        end = time.monotonic() + 40
        while not re.search(pattern, shown := "\n".join(line.rstrip() for line in self.screen.display)):
            assert time.monotonic() < end, shown
            self._read()
        return shown

    def end(self) -> tuple[int, str]:
        """Its exit code, and all that stands on the terminal, scrolled lines too."""
        try:
            while True:
                self._read()
        except pexpect.EOF:
            self.child.close()
        top = ["".join(row[column].data for column in range(self.screen.columns)) for row in self.screen.history.top]
        return int(self.child.exitstatus), "\n".join(line.rstrip() for line in (*top, *self.screen.display))

    def _read(self) -> None:
        piece = self.child.read_nonblocking(65536, timeout=40)
        self.raw += piece
        self._stream.feed(piece)


def test_the_display_shows_what_runs_and_leaves_only_results(batches: Batches) -> None:
    steps = [batches.until_gate("b"), {"text": "ok"}]
    path = batches.write(batches.line("a"), batches.line("b", *steps))
    with batches.listen() as heard:
        terminal = Terminal(batches, 100, path)
        heard.pid_within(30)
        shown = terminal.until(r"1/2 done · 1 running · 0 failed · 0 denied · \$.*\n  b claude 0:\d\d.* Bash")
        assert re.search(r"^a completed in ", shown, re.MULTILINE)
        terminal.child.sendintr()
        terminal.until("interrupted: ending 1 running run")
        code, text = terminal.end()
    assert code == 130
    assert "b claude" not in text
    assert "━" not in text
    assert "1 run without a result yet" in re.sub(r"\s+", " ", text)
    batches.open_gate()
    code, text = (terminal := Terminal(batches, 100)).end()
    assert code == 0
    assert "2 of 2 runs counted: 2 completed" in text
    assert "a completed" not in text


@pytest.mark.parametrize(("columns", "rows"), [(20, 6), (40, 10)])
def test_a_narrow_terminal_gets_whole_lines_once(batches: Batches, columns: int, rows: int) -> None:
    lines = [batches.line(f"r{n}", {"sleep": 0.5}, {"text": "ok"}) for n in range(6)]
    code, text = Terminal(batches, columns, batches.write(*lines), rows=rows).end()
    assert code == 0
    plain = text.replace("\n", "")
    assert [plain.count(f"r{n} completed in") for n in range(6)] == [1] * 6
    assert "done" not in plain
    assert "━" not in plain


def test_what_agents_and_files_are_called_moves_no_cursor(batches: Batches) -> None:
    evil = "x\x1b[2J\u202e\x9b1A"
    step = {"tool": evil, "input": {}, "output": "o"}
    line = batches.line("r", step, {"sleep": 0.5}, {"text": evil}, permission={"posture": "read"})
    code, _ = (terminal := Terminal(batches, 100, batches.write(line))).end()
    assert code == 0
    for sign in ("\x1b[2J", "\u202e", "\x9b"):
        assert sign not in terminal.raw
    assert "denied: x\\x1b[2J\\u202e\\x9b1A (policy)" in terminal.raw


def test_results_for_a_file_are_plain_while_the_terminal_shows_progress(batches: Batches) -> None:
    path = batches.write(*(batches.line(f"r{n}", {"sleep": 0.3}, {"text": "ok"}) for n in range(2)))
    results = batches.folder / "results"
    command = f'exec "$0" -c "{PROGRAM[2]}" batch {path} --out {batches.out} --json > {results}'
    child = pexpect.spawn("/bin/sh", ["-c", command, PROGRAM[0]], encoding="utf-8", timeout=40, env=batches.cli.env)
    child.expect("0/2 done")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    written = results.read_text("utf-8")
    assert len(written.splitlines()) == 2
    assert "\x1b" not in written


@pytest.mark.parametrize("kind", ["dumb", ""])
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(batches: Batches, kind: str) -> None:
    batches.cli.env["TERM"] = kind
    code, text = (terminal := Terminal(batches, 80, batches.write(batches.line("r")))).end()
    assert code == 0
    assert "\x1b[" not in terminal.raw
    assert "r started" in text


def test_without_a_terminal_rich_is_not_loaded(batches: Batches) -> None:
    program = "import sys, atexit; atexit.register(lambda: print('rich' in sys.modules)); " + PROGRAM[2]
    path = batches.write(batches.line("r"))
    done = subprocess.run(
        [PROGRAM[0], "-c", program, "batch", path, "--out", str(batches.out)],
        env=batches.cli.env,
        capture_output=True,
        check=False,
        timeout=40,
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == b"False"
