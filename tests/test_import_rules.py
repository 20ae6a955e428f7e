"""The import rules hold, cover every module, and each of them notices when it is broken."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("contract", "adapters", "fixtures/interlock_fixtures")
RULES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
NAMES = {rule["name"]: rule["id"] for rule in RULES}
PROGRAMS = {"hook"}
"""Runs in programs of their own, and not in ours."""
PURE = {path.stem for path in (ROOT / "contract/interlock").glob("[!_]*.py")} - PROGRAMS | {"framing"}
AGENTS = {"acp", "claude", "codex", "copilot", "terminal"}

PLANTED = [
    pytest.param(
        "contract/interlock/request.py", "import interlock.framing.lines", {"layers"}, id="pure-imports-framing"
    ),
    pytest.param(
        "contract/interlock/framing/planted.py", "import interlock.engine", {"layers"}, id="framing-imports-engine"
    ),
    pytest.param("contract/interlock/novel.py", "import re", {"layers"}, id="module-without-a-layer"),
    pytest.param("contract/interlock/tools.py", "import time", {"pure"}, id="pure-tells-time"),
    pytest.param("contract/interlock/framing/lines.py", "import asyncio", {"pure"}, id="framing-waits"),
    pytest.param("adapters/interlock_adapters/claude/planted.py", "import subprocess", {"pure"}, id="adapter-does-io"),
    pytest.param(
        "adapters/interlock_adapters/claude/planted.py",
        "import interlock_fixtures",
        {"adapters"},
        id="adapter-imports-kit",
    ),
    pytest.param(
        "adapters/interlock_adapters/codex/__init__.py",
        "import interlock_adapters.claude",
        {"independence"},
        id="adapter-imports-adapter",
    ),
    pytest.param(
        "contract/interlock/engine/planted.py",
        "import interlock_adapters.claude",
        {"engine"},
        id="engine-imports-adapter",
    ),
    pytest.param(
        "contract/interlock/engine/planted.py", "import interlock_fixtures", {"engine"}, id="engine-imports-kit"
    ),
    pytest.param("contract/interlock/engine/planted.py", "import typer", {"engine"}, id="engine-imports-typer"),
]


def _copy(target: Path) -> None:
    for source in SOURCES:
        shutil.copytree(ROOT / source, target / source, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", target)


def _lint(root: Path) -> tuple[int, dict[str, str], str]:
    """The exit code, the state of each rule by id, and the whole report."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from importlinter.cli import lint_imports_command as run; sys.exit(run())",
            "--no-cache",
            "--no-logo",
        ],
        cwd=root,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(root / part) for part in ("contract", "adapters", "fixtures")),
            "COLUMNS": "300",
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    report = done.stdout + done.stderr
    states = {
        NAMES[name]: state for line in report.splitlines() for name, _, state in [line.rpartition(" ")] if name in NAMES
    }
    return done.returncode, states, report


def _plant(root: Path, path: str, line: str) -> None:
    file = root / path
    file.parent.mkdir(exist_ok=True)
    before = file.read_text(encoding="utf-8") if file.exists() else '"""Planted."""\n'
    file.write_text(f"{before}\n\n{line}\n", encoding="utf-8")


def test_the_tree_keeps_every_rule(tmp_path: Path) -> None:
    _copy(tmp_path)
    code, states, report = _lint(tmp_path)
    assert states == dict.fromkeys(NAMES.values(), "KEPT"), report
    assert code == 0


@pytest.mark.parametrize(("path", "line", "broken"), PLANTED)
def test_a_planted_import_breaks_exactly_its_rule(tmp_path: Path, path: str, line: str, broken: set[str]) -> None:
    _copy(tmp_path)
    _plant(tmp_path, path, line)
    code, states, report = _lint(tmp_path)
    assert {rule for rule, state in states.items() if state == "BROKEN"} == broken, report
    assert set(states) == set(NAMES.values()), report
    assert code == 1


def test_an_adapter_that_imports_the_public_names_imports_the_engine(tmp_path: Path) -> None:
    _copy(tmp_path)
    _plant(tmp_path, "adapters/interlock_adapters/claude/planted.py", "from interlock import Request")
    _, states, report = _lint(tmp_path)
    assert states["adapters"] == "BROKEN", report


def test_every_rule_is_shown_to_break() -> None:
    assert set().union(*(case.values[2] for case in PLANTED)) == set(NAMES.values())


def test_every_pure_module_and_every_agent_is_under_the_rules() -> None:
    rules = {rule["id"]: rule for rule in RULES}
    present = {
        path.name for path in (ROOT / "adapters/interlock_adapters").iterdir() if (path / "__init__.py").exists()
    } & AGENTS
    agents = {f"interlock_adapters.{agent}" for agent in present}
    assert set(rules["pure"]["source_modules"]) == {f"interlock.{name}" for name in PURE} | agents
    assert set(rules["adapters"]["source_modules"]) == agents
