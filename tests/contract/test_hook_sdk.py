"""The SDK for hooks in Python: real programs that use it, for one call and for many."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import interlock.hook

SDK = Path(interlock.hook.__file__)
BEFORE: dict[str, Any] = {"event": "pre_tool_use", "tool_name": "Bash", "input": {"command": "ls"}}
AFTER: dict[str, Any] = {**BEFORE, "event": "post_tool_use", "output": "out", "is_error": False}


def guard(folder: Path, body: str) -> Path:
    path = folder / "guard.py"
    path.write_text("from interlock.hook import *\n" + textwrap.dedent(body), encoding="utf-8")
    return path


def played(*command: str | Path, given: str, resident: bool = False) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "PYTHONSAFEPATH": "1"} | ({"INTERLOCK_HOOK_RESIDENT": "1"} if resident else {})
    return subprocess.run(
        [str(word) for word in command],
        input=given,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=env,
        check=False,
        timeout=30,
    )


def one(folder: Path, body: str, call: dict[str, Any]) -> Any:
    done = played(sys.executable, guard(folder, body), given=json.dumps(call))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def many(folder: Path, body: str, *calls: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    lines = "".join(json.dumps({"id": number, **call}) + "\n" for number, call in enumerate(calls, 7))
    return played(sys.executable, guard(folder, body), given=lines, resident=True)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("allow()", {"decision": "allow", "reason": ""}),
        ("deny('no')", {"decision": "deny", "reason": "no"}),
        ("modify({'a': 1}, 'why')", {"decision": "modify", "input": {"a": 1}, "reason": "why"}),
        ("replace('x')", {"decision": "replace", "output": "x", "is_error": None, "reason": ""}),
        ("replace([1], is_error=True)", {"decision": "replace", "output": [1], "is_error": True, "reason": ""}),
    ],
)
def test_a_handlers_answer_is_printed(tmp_path: Path, said: str, answer: dict[str, Any]) -> None:
    body = f"serve(before=lambda call: {said}, after=lambda call: {said})"
    assert one(tmp_path, body, BEFORE) == answer
    assert one(tmp_path, body, AFTER) == answer


def test_each_event_has_its_handler_and_one_without_is_allowed(tmp_path: Path) -> None:
    body = "serve(after=lambda call: replace(call['output'] + '!'))"
    assert one(tmp_path, body, BEFORE)["decision"] == "allow"
    assert one(tmp_path, body, AFTER)["output"] == "out!"


def test_a_resident_answers_line_by_line_with_the_ids(tmp_path: Path) -> None:
    done = many(tmp_path, "serve(before=lambda call: deny(str('id' in call)))", BEFORE, AFTER, BEFORE)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"id": 7, "decision": "deny", "reason": "False"},
        {"id": 8, "decision": "allow", "reason": ""},
        {"id": 9, "decision": "deny", "reason": "False"},
    ]
    assert done.returncode == 0


def test_stray_prints_go_to_stderr_also_those_of_programs(tmp_path: Path) -> None:
    body = """
        import os, subprocess
        print("imported")
        def before(call):
            print("thinking")
            os.write(1, b"low\\n")
            subprocess.run(["echo", "child"], check=True)
            return allow()
        serve(before=before)
    """
    done = played(sys.executable, guard(tmp_path, body.replace('print("imported")', "")), given=json.dumps(BEFORE))
    assert json.loads(done.stdout) == {"decision": "allow", "reason": ""}
    assert {"thinking", "low", "child"} <= set(done.stderr.split())


@pytest.mark.parametrize("code", ["1 / 0", "None", "'allow'", "allow", "modify(float('nan'))", "modify({1, 2})"])
def test_a_handler_that_fails_ends_the_program_with_nothing_printed(tmp_path: Path, code: str) -> None:
    body = f"serve(before=lambda call: {code})"
    done = played(sys.executable, guard(tmp_path, body), given=json.dumps(BEFORE))
    assert (done.returncode, done.stdout) == (1, "")
    assert "Error" in done.stderr
    resident = many(tmp_path, body, BEFORE, BEFORE)
    assert (resident.returncode, resident.stdout) == (1, "")


@pytest.mark.parametrize("given", ["", "{", "[]", '{"event": 1}\n{}'])
def test_what_is_no_call_fails(tmp_path: Path, given: str) -> None:
    done = played(sys.executable, guard(tmp_path, "serve(before=lambda call: 1 / 0)"), given=given)
    assert done.returncode == 1
    assert done.stdout == ""


def test_large_answers_are_printed_whole(tmp_path: Path) -> None:
    body = "serve(before=lambda call: modify({'a': 'x' * 3_000_000}))"
    assert len(one(tmp_path, body, BEFORE)["input"]["a"]) == 3_000_000


def test_a_copy_needs_no_interlock_and_runs_a_guard_by_name(tmp_path: Path) -> None:
    copy = shutil.copy(SDK, tmp_path / "interlock_hook.py")
    guard(tmp_path, "serve(before=lambda call: deny(__import__('sys').argv[1]))")
    path = tmp_path / "guard.py"
    path.write_text(path.read_text(encoding="utf-8").replace("interlock.hook", "interlock_hook"), encoding="utf-8")
    done = played(sys.executable, "-S", "-E", copy, path, "--strict", given=json.dumps(BEFORE))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"decision": "deny", "reason": "--strict"}


def test_it_loads_nothing_but_the_standard_library() -> None:
    code = "import sys, interlock.hook; print(*{name.partition('.')[0] for name in sys.modules})"
    done = played(sys.executable, "-c", code, given="")
    loaded = set(done.stdout.split())
    assert not loaded & {"pydantic", "pydantic_core", "anyio", "typer", "rich", "asyncio"}
