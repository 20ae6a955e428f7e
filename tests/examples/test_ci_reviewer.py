"""The reviewer for CI on the real CLI, offline: what its exit code says, and that nothing but reading happens."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock_fixtures.clis import find_cli
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = pytest.mark.live
FINDING = {"path": "a:b,c.py", "line": 1, "blocks": False, "text": "100 %\n::error::planted"}


def git(repository: Path, *words: str) -> None:
    who = ["-c", "user.email=me@example.com", "-c", "user.name=me"]
    subprocess.run(["git", "-C", str(repository), *who, *words], check=True, capture_output=True)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository whose branch changes one line."""
    made = tmp_path / "shop"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    for text in ("one\n", "two\n"):
        (made / "a.py").write_text(text)
        git(made, "add", ".")
        git(made, "commit", "-qm", text)
        git(made, "checkout", "-qB", "change")
    git(made, "branch", "-f", "main", "change~1")
    return made


def reviewed(examples: Path, home: Path, shop: Path, *calls: ToolCall, base: str = "main") -> Any:
    cli = find_cli("claude", "newest")
    assert cli is not None
    folder = home / "bin"
    folder.mkdir()
    (folder / "claude").symlink_to(cli)
    with ScriptedModel([*(Turn(call) for call in calls), *[Turn(Text("done"))] * 4]) as model:
        env = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
        env |= model.environment("claude")
        words = [sys.executable, str(examples / "ci_reviewer" / "review.py"), "--base", base, str(shop)]
        done = subprocess.run(words, cwd=home, env=env, capture_output=True, text=True, timeout=90, check=False)
        asked = json.dumps([request.body for request in model.requests])
    return done, asked


def answer(**change: object) -> ToolCall:
    return ToolCall("StructuredOutput", {"summary": "Looked at.", "findings": [FINDING | change]})


def test_a_finding_that_blocks_is_exit_1_and_nothing_is_written(examples, home, shop, require_clis) -> None:
    require_clis("claude")
    made = ToolCall("Write", {"file_path": "made", "content": "x"})
    done, asked = reviewed(examples, home, shop, made, ToolCall("Bash", {"command": "touch made"}), answer(blocks=True))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "Looked at.\n::error file=a%3Ab%2Cc.py,line=1::100 %25%0A::error::planted\n"
    assert sorted(path.name for path in shop.iterdir()) == [".git", "a.py"]
    assert "-one" in asked
    assert "+two" in asked


def test_other_findings_are_exit_0(examples, home, shop, require_clis) -> None:
    require_clis("claude")
    done, _ = reviewed(examples, home, shop, answer())
    assert (done.returncode, done.stdout.count("::warning ")) == (0, 1), done.stderr


def test_no_answer_that_fits_is_exit_2_and_never_a_review_without_findings(examples, home, shop, require_clis) -> None:
    require_clis("claude")
    done, _ = reviewed(examples, home, shop)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no review" in done.stderr


def test_an_unknown_base_is_exit_2_and_no_change_is_exit_0(examples, home, shop, require_clis) -> None:
    require_clis("claude")
    done, asked = reviewed(examples, home, shop, base="nowhere")
    assert (done.returncode, asked) == (2, "[]")
    (home / "bin" / "claude").unlink()
    (home / "bin").rmdir()
    done, asked = reviewed(examples, home, shop, base="change")
    assert (done.returncode, asked) == (0, "[]")
