"""The benchmarks work; what they measure is no test."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_a_quick_benchmark_prints_its_row_in_the_table() -> None:
    argv = [sys.executable, "-m", "benchmarks", "--quick", "chain"]
    done = subprocess.run(argv, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "| chain " in done.stdout
    assert "claude-agent-sdk" in done.stdout
