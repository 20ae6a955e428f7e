"""The benchmark of batches works; what it measures is no test."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_quick_benchmark_of_batches_prints_a_line_for_each_size() -> None:
    argv = [sys.executable, "-m", "benchmarks", "batch", "--quick"]
    done = subprocess.run(argv, check=False, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["queued", "10", "100", "journal:"]
