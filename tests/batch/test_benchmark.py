"""The benchmark of batches works; what it measures is no test."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_quick_benchmark_of_batches_prints_a_line_for_each_size() -> None:
    argv = [sys.executable, "-m", "benchmarks", "batch", "--quick"]
    done = subprocess.run(argv, check=False, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert [row for row in rows if "inspect-ai" not in row] == [
        ["queued", "CPU"], ["10", "interlock"], ["10", "bare"], ["100", "interlock"], ["100", "bare"], rows[-1],
    ]  # fmt: skip
    assert rows[-1][0] == "journal:"
