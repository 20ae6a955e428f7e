"""The typed examples and those in the docs pass mypy and pyright, and mistakes are refused by both."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
API = ROOT / "tests/typing/api.py"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
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


def examples() -> dict[str, str]:
    """The Python blocks of the README and the docs, by a name for each."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return {
        f"{page.stem.lower()}_{number}": example
        for page in pages
        for number, example in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    }


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The errors of one checker about all the files, with the settings of the project."""
    folder = tmp_path_factory.mktemp("typing")
    refused = PRELUDE + "".join(f"    {line}\n" for line in REFUSED)
    sources = {**examples(), "api": API.read_text(encoding="utf-8"), "refused": refused}
    for name, source in sources.items():
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


def test_the_examples_in_the_readme_and_the_docs_pass(errors: list[str]) -> None:
    assert {"readme_0", "hooks_0", "permissions_0", "approvals_0", "index_0"} <= set(examples())
    assert [line for line in errors if "refused.py" not in line] == []


def test_every_mistake_is_refused_on_its_own_line(errors: list[str]) -> None:
    first = PRELUDE.count("\n") + 1
    wrong = {int(found[1]) for error in errors if (found := re.search(r"refused\.py:(\d+)", error))}
    assert wrong == set(range(first, first + len(REFUSED))), errors
