"""The benchmarks work; what they measure is no test."""

import subprocess
import sys
from pathlib import Path

import pytest

from interlock_fixtures.clis import clis_required, find_cli

ROOT = Path(__file__).resolve().parent.parent


def test_a_quick_benchmark_prints_its_row_in_the_table() -> None:
    argv = [sys.executable, "-m", "benchmarks", "--quick", "chain"]
    done = subprocess.run(argv, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "| chain " in done.stdout
    assert "claude-agent-sdk" in done.stdout


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "transports"), [("codex", ("exec", "app-server")), ("copilot", ("prompt", "server"))]
)
def test_a_quick_benchmark_of_a_real_cli_prints_a_row_for_each_contestant(
    agent: str, transports: tuple[str, str]
) -> None:
    if find_cli(agent, "newest") is None and not clis_required():
        pytest.skip("the real CLI is not installed: run `npm ci` in fixtures/clis")
    argv = [sys.executable, "-m", "benchmarks", agent, "--quick"]
    done = subprocess.run(argv, check=False, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| ")]
    assert {f"{who} {over}" for who in ("bare", "interlock") for over in transports} <= set(rows)
    assert "failed" not in done.stdout
