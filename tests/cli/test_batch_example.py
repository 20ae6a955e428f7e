"""The commands in the README of the example, as they stand there, with the programs that the package installs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "examples" / "batch" / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], str]:
    """Runs a block beside a copy of the examples, with nothing but Interlock's programs and the system's."""
    shutil.copytree(ROOT / "examples" / "batch", tmp_path / "examples" / "batch")
    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    for name, origin in scripts.items():
        module, _, function = origin.partition(":")
        code = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        (programs / name).write_text(f"#!{sys.executable}\n{code}", "utf-8")
        (programs / name).chmod(0o755)
    (tmp_path / "home").mkdir()
    env = {"HOME": str(tmp_path / "home"), "PATH": f"{programs}:/usr/bin:/bin", "LANG": "C.UTF-8"}
    env |= {name: os.environ[name] for name in ("PYTHONPATH", "TMPDIR") if name in os.environ}

    def run(block: str) -> str:
        done = subprocess.run(
            ["bash", "-c", block], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=110, check=False
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    return run


def test_forty_runs_without_any_cli(shell: Callable[[str], str]) -> None:
    said = shell(BLOCKS[0])
    assert "40 of 40 runs counted: 40 completed; 4 denied calls" in said
    assert "denied: Bash (policy): allow it with --allow 'shell(rm draft.md)' (4 times)" in said
    assert "page-10 completed in" in said
    assert said.count(" completed in ") == 41  # the last is that of `show`
    assert "# Page 10\n" in said


def test_killed_and_resumed(shell: Callable[[str], str]) -> None:
    said = shell(BLOCKS[1])
    assert "nobody drives it; the last driver was killed" in said
    before = re.search(r"40 runs, (\d+) of them counted before", said)
    assert before is not None
    assert 0 < int(before[1]) < 40
    assert 40 - int(before[1]) <= said.count(" completed in ") <= 40  # what the killed one said is among it
    assert "40 of 40 runs counted: 40 completed" in said


def test_a_matrix(shell: Callable[[str], str]) -> None:
    said = shell(BLOCKS[2])
    assert "2 of 2 runs counted: 2 completed" in said
    assert '"text":"hello"' in said
    assert len(BLOCKS) == 3
