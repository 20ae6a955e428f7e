"""`interlock approvals`: what a running batch asks, listed and answered from other processes."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pexpect
import pytest
from tests.cli.batches import Batches

ASKED = r"allow\? \[y\]es, \[n\]o, \[e\]dit, \[r\]emember for this run, \[q\]uit: "
ASKS = {"posture": "none", "otherwise": "ask"}
pytestmark = pytest.mark.behaviour("batch:approval-queue")


class Asking:
    """A batch that runs with `--approvals`, and the command that answers it."""

    def __init__(self, cli: Any, batches: Batches, *names: str) -> None:
        self._cli, self._out = cli, str(batches.out)
        lines = [batches.line(name, batches.ran(name), {"text": "ok"}, permission=ASKS) for name in names]
        self.process = batches.start(*lines, more=("--approvals",))

    def approvals(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Call it."""
        return self._cli.interlock("approvals", self._out, *words)

    def waiting(self, count: int) -> dict[str, str]:
        """The ids of what waits by run, once so many do."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            listed = [json.loads(line) for line in self.approvals("--json").stdout.splitlines()]
            if len(listed) == count:
                return {one["run"]: one["approval"]["id"] for one in listed}
        raise AssertionError("it does not wait")


@pytest.fixture
def batches(cli: Any, tmp_path: Path) -> Batches:
    return Batches(cli, tmp_path)


def test_a_running_batch_is_answered_by_name_and_errors_are_clear(cli: Any, batches: Batches) -> None:
    asking = Asking(cli, batches, "a", "b")
    ids = asking.waiting(2)
    listed = asking.approvals().stdout.decode()
    assert f"{ids['a']} of a: claude asks to run:" in listed
    assert f"| echo a >> {batches.folder}/ledger" in listed
    unknown = asking.approvals("--approve", "approval-0000")
    assert (unknown.returncode, b"nothing of this id waits" in unknown.stderr) == (1, True)
    done = asking.approvals("--approve", ids["a"][-8:])
    assert (done.returncode, done.stdout.decode()) == (0, f"{ids['a']}: approved\n")
    again = asking.approvals("--deny", ids["a"])
    assert (again.returncode, b"it was answered before" in again.stderr) == (1, True)
    assert asking.approvals("--deny", ids["b"], "--reason", "not today").returncode == 0
    stdout, stderr = asking.process.communicate(timeout=60)
    assert asking.process.returncode == 0, stderr
    assert batches.executions() == {"a": 1}
    assert b"b completed" in stdout
    late = asking.approvals("--approve", ids["b"])
    assert late.returncode == 1
    assert b"the batch does not run" in late.stderr
    assert b"nothing waits" in asking.approvals().stderr


def test_at_a_terminal_they_are_asked_one_after_the_other_until_the_batch_is_over(
    cli: Any, batches: Batches, typed: Any
) -> None:
    asking = Asking(cli, batches, "a", "b")
    asking.waiting(2)
    child = typed("approvals", str(batches.out))
    answers = {"a": "y\n", "b": "n\n"}
    while answers:
        child.expect(r"(a|b): claude asks to run:")
        run = child.match.group(1)
        child.expect(ASKED)
        assert f"| echo {run} >> {batches.folder}/ledger" in child.before
        child.send(answers.pop(run))
        if run == "b":
            child.expect("reason")
            child.send("not today\n")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    stdout, stderr = asking.process.communicate(timeout=60)
    assert asking.process.returncode == 0, stderr
    assert b"b completed" in stdout
    assert batches.executions() == {"a": 1}


def test_a_program_answers_all_of_them_until_the_batch_is_over(cli: Any, batches: Batches) -> None:
    program = batches.folder / "approve"
    program.write_text(
        '#!/bin/sh\ncase "$(cat)" in *"echo no "*) echo \'{"decision":"deny","reason":"no"}\' ;;'
        ' *) echo \'{"decision":"approve"}\' ;; esac\n',
        "utf-8",
    )
    program.chmod(0o755)
    asking = Asking(cli, batches, "yes", "no")
    asking.waiting(2)
    drained = asking.approvals("--approve-with", str(program))
    assert drained.returncode == 0, drained.stderr
    assert sorted(line.partition(" of ")[2] for line in drained.stdout.decode().splitlines()) == [
        "no: denied: no",
        "yes: approved",
    ]
    asking.process.communicate(timeout=60)
    assert asking.process.returncode == 0
    assert batches.executions() == {"yes": 1}


def test_where_there_is_no_batch_it_is_usage(cli: Any, tmp_path: Path) -> None:
    found = cli.interlock("approvals", str(tmp_path / "none"))
    assert found.returncode == 2
    assert b"there is no batch" in found.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--scheduler", "tcp://127.0.0.1:1"), b"it goes with --engine dask"),
        (("--engine", "dask"), b"it needs --scheduler"),
        (("--engine", "dask", "--scheduler", "tcp://127.0.0.1:1", "--audit", "a"), b"--audit"),
        (("--engine", "dask", "--scheduler", "tcp://127.0.0.1:1", "--policy", "p.toml"), b"--policy"),
        (("--artifacts", "*"), b"--artifacts-to"),
        (("--engine", "ray"), b"--engine 'ray'"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything(batches: Batches, words: Any, said: bytes) -> None:
    found = batches.begin(batches.line("a"), more=words)
    assert found.returncode == 2, found.stderr
    assert said in found.stderr
    assert not batches.out.exists()
