"""The typed examples and the README pass mypy and pyright, and what must be refused is refused by both."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
API = ROOT / "tests/typing/api.py"
pytestmark = pytest.mark.xdist_group("typing")

PRELUDE = """\
from typing import assert_never

import interlock
from interlock import Allow, Approval, Approve, Client, HookCall, Permission, Posture, Request, Run
from interlock import RunFinished, RunStarted


class Nameless:
    async def before(self, call: HookCall) -> Allow:
        return Allow(reason=call.tool_name)


async def not_a_decision(approval: Approval, /) -> Allow:
    return Allow(reason=approval.id)


def check(request: Request, run: Run, event: RunStarted | RunFinished) -> None:
"""
REFUSED = [
    'request.env["A"] = "b"',
    "print(interlock.Requests)",
    "print(request.promt)",
    'run.respond("id", Allow())',
    'run.answer("id", Approve())',
    "Client(interceptors=[Nameless()])",
    "Client(approver=not_a_decision)",
    'Client(on_unguarded="ignore")',
    'Request(agent="claude")',
    'Request(agent="claude", prompt="p", prompts="q")',
    'Permission(posture=Posture("full"), permit=())',
    "assert_never(event)",
]


def readme_example() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return str(example)


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The errors of one checker about all three files, with the settings of the project."""
    folder = tmp_path_factory.mktemp("typing")
    refused = PRELUDE + "".join(f"    {line}\n" for line in REFUSED)
    for name, source in {
        "api": API.read_text(encoding="utf-8"),
        "readme": readme_example(),
        "refused": refused,
    }.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(ROOT / "contract")]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    arguments = {
        "mypy": ["--config-file", str(ROOT / "pyproject.toml"), "--no-pretty", *map(str, folder.glob("*.py"))],
        "pyright": ["--project", str(folder), "--pythonpath", sys.executable],
    }[request.param]
    done = subprocess.run(
        [sys.executable, "-m", request.param, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=100,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if " error: " in line]


def test_the_typed_examples_pass(errors: list[str]) -> None:
    assert [line for line in errors if "api.py" in line] == []


def test_the_example_in_the_readme_passes(errors: list[str]) -> None:
    assert [line for line in errors if "readme.py" in line] == []


def test_every_mistake_is_refused_on_its_own_line(errors: list[str]) -> None:
    first = PRELUDE.count("\n") + 1
    wrong = {int(found[1]) for error in errors if (found := re.search(r"refused\.py:(\d+)", error))}
    assert wrong == set(range(first, first + len(REFUSED))), errors


def test_nothing_else_is_refused(errors: list[str]) -> None:
    assert [line for line in errors if "refused.py" not in line] == []
