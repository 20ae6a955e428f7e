"""`interlock hooks check` and `interlock hooks try`, with the examples in three languages and with broken programs."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli

EXAMPLES = Path(__file__).parents[2] / "examples/hooks"
SHELL = {"name": "sh", "command": ["sh", "push_guard.sh"], "may": ["deny"]}
PYTHON = {"name": "python", "command": [sys.executable, "push_guard.py"]}
NODE = {"name": "js", "command": ["node", "redact.js"], "events": ["pre_tool_use", "post_tool_use"]}
PUSH = '{"tool_name": "Bash", "input": {"command": "git push origin"}}'
LIST = '{"tool_name": "Bash", "input": {"command": "ls"}}'
TOKEN = "ghp_" + "a1" * 18


def written(folder: Path, *hooks: dict[str, Any]) -> str:
    for example in EXAMPLES.iterdir():
        shutil.copy(example, folder)
    path = folder / "my-hooks.json"
    path.write_text(json.dumps({"schema": 1, "hooks": hooks}), encoding="utf-8")
    return str(path)


def program(folder: Path, body: str, **more: Any) -> dict[str, Any]:
    path = folder / f"{more.get('name', 'own')}.sh"
    path.write_text(body, encoding="utf-8")
    return {"name": "own", "command": ["sh", path.name], **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "hooks"
    path.mkdir()
    return path


def tried(cli: Cli, *arguments: str, **how: Any) -> Any:
    done = cli.interlock("hooks", "try", *arguments, "--json", "-C", str(cli.workspace), **how)
    assert done.stderr == b""
    return json.loads(done.stdout)


# ---- The examples ---------------------------------------------------------------------------------------------------


def test_an_example_fits_on_a_screen() -> None:
    for path in EXAMPLES.iterdir():
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 130


def test_the_examples_file_is_sound(cli: Cli) -> None:
    done = cli.interlock("hooks", "check", str(EXAMPLES / "hooks.json"), "-C", str(cli.workspace))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"resident") == 2


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("spec", [SHELL, PYTHON], ids=["sh", "python"])
def test_a_push_is_denied_and_nothing_else(cli: Cli, folder: Path, spec: dict[str, Any], resident: bool) -> None:
    file = written(folder, {**spec, "resident": resident})
    denied = tried(cli, file, PUSH)
    assert denied["reason"] == f"denied by hook {spec['name']!r}: publishing is done by people"
    allowed = tried(cli, file, LIST)
    assert (allowed["denied"], allowed["asked"]) == (False, [f"hook {spec['name']!r}"])


@pytest.mark.parametrize("resident", [False, True])
def test_the_python_example_rewrites_and_lets_its_own_result_pass(cli: Cli, folder: Path, resident: bool) -> None:
    call = '{"tool_name": "Bash", "input": {"command": "git commit --no-verify -m x"}}'
    found = tried(cli, written(folder, {**PYTHON, "resident": resident}), call)
    assert found["result"] == {"command": "git commit  -m x"}
    assert [(answer["round"], answer["decision"]) for answer in found["answers"]] == [(1, "modify"), (2, "allow")]


@pytest.mark.parametrize("resident", [False, True])
def test_the_javascript_example_hides_a_token_in_outputs(cli: Cli, folder: Path, resident: bool) -> None:
    file = written(folder, {**NODE, "resident": resident})
    assert tried(cli, file, LIST, "--output", f"a {TOKEN} b")["result"] == "a [redacted] b"
    structured = json.dumps({"tool_name": "Bash", "input": {}, "output": {"stdout": [TOKEN]}})
    assert tried(cli, file, structured, "--event", "post_tool_use")["result"] == {"stdout": ["[redacted]"]}
    assert not tried(cli, file, LIST, "--output", "nothing")["changed"]
    assert not tried(cli, file, LIST)["denied"]


# ---- hooks try ------------------------------------------------------------------------------------------------------


def test_people_see_each_answer_its_duration_and_the_verdict(cli: Cli, folder: Path) -> None:
    done = cli.interlock("hooks", "try", written(folder, PYTHON, SHELL), PUSH)
    assert done.returncode == 0
    text = done.stdout.decode()
    assert 'call     Bash {"command": "git push origin"} (kind shell, pre_tool_use)' in text
    assert "python  deny" in text
    assert " ms  publishing is done by people" in text
    assert "not asked: sh" in text
    assert text.splitlines()[-1] == "verdict  denied by hook 'python': publishing is done by people"


def test_the_second_look_is_shown_and_a_rewriter_that_rewrites_again_is_found(cli: Cli, folder: Path) -> None:
    body = """read -r _; n=$$; printf '{"decision":"modify","input":{"command":"ls %s"}}' "$n" """
    done = cli.interlock("hooks", "try", written(folder, program(folder, body)), LIST)
    text = done.stdout.decode()
    assert "the second look, at the final input:" in text
    assert "not idempotent" in text.splitlines()[-1]


def test_a_call_comes_from_a_file_or_stdin_as_a_hook_reads_it(cli: Cli, folder: Path) -> None:
    file = written(folder, program(folder, 'cat >&2; echo \'{"decision":"allow"}\''))
    (folder / "call.json").write_text(PUSH, encoding="utf-8")
    assert tried(cli, file, str(folder / "call.json"))["asked"] == ["hook 'own'"]
    assert tried(cli, file, "-", stdin=LIST.encode())["result"] == {"command": "ls"}
    whole = {
        "event": "pre_tool_use",
        "workspace": "/ws",
        "agent_id": "main",
        "tool_call_id": "t",
        "tool_name": "Nowhere",
        "input": "raw",
        "agent": "nobody",
        "run_id": "r",
        "cwd": "/ws",
        "tool_kind": "unknown",
        "subject": {},
    }
    assert tried(cli, file, json.dumps(whole))["result"] == "raw"


def test_a_broken_hook_is_named_and_the_exit_code_says_so(cli: Cli, folder: Path) -> None:
    done = cli.interlock("hooks", "try", written(folder, program(folder, "echo oops >&2; exit 3")), LIST)
    assert done.returncode == 1
    assert b"broken, deny" in done.stdout
    assert b"exited with code 3 (oops)" in done.stdout


def test_a_hook_whom_the_call_does_not_concern_is_not_asked(cli: Cli, folder: Path) -> None:
    done = cli.interlock("hooks", "try", written(folder, {**SHELL, "tools": ["fetch"]}), PUSH)
    assert done.returncode == 0
    assert b"nobody was asked" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["{"], "not exactly one JSON object"),
        (["nowhere.json"], "No such file"),
        (["{}"], "no `tool_name`"),
        (['{"tool_name": "Bash", "inputs": {}}'], "unknown fields: inputs"),
        (['{"tool_name": 7}'], "tool_name"),
        (['{"event": "pre_tool_use"}'], "field"),
        ([LIST, "--event", "before"], "--event 'before'"),
        ([LIST, "--event", "pre_tool_use", "--output", "x"], "there is no output"),
        ([LIST, "-a", "nobody"], "nobody"),
    ],
)
def test_what_is_no_call_is_a_usage_error(cli: Cli, folder: Path, arguments: list[str], problem: str) -> None:
    done = cli.interlock("hooks", "try", written(folder), *arguments)
    assert done.returncode == 2, done.stderr
    assert problem in done.stderr.decode()


# ---- hooks check ----------------------------------------------------------------------------------------------------


def test_check_shows_each_hook_with_its_powers_program_and_answer(cli: Cli, folder: Path) -> None:
    file = written(folder, SHELL, {**NODE, "resident": True})
    done = cli.interlock("hooks", "check", file, "-C", str(cli.workspace))
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    for word in ("one call  allow", "resident  allow", "may deny", "sha256:", str(folder / "redact.js")):
        assert word in text
    found = json.loads(cli.interlock("hooks", "check", file, "--json").stdout)
    assert [(one["name"], one["event"]) for one in found["hooks"]] == [
        ("sh", "pre_tool_use"),
        ("js", "pre_tool_use"),
        ("js", "post_tool_use"),
    ]


@pytest.mark.parametrize("resident", [False, True])
def test_check_names_the_hook_that_does_not_answer(cli: Cli, folder: Path, resident: bool) -> None:
    bad = program(folder, "echo hello", name="bad", resident=resident, timeout=2)
    done = cli.interlock("hooks", "check", written(folder, SHELL, bad))
    assert done.returncode == 2
    assert b"hook 'bad', pre_tool_use: it" in done.stderr
    assert b"sh   pre_tool_use" in done.stdout


def test_check_starts_nothing_while_one_of_them_cannot_be_started(cli: Cli, folder: Path) -> None:
    mark = folder / "mark"
    good = program(folder, f'touch {mark}; echo \'{{"decision":"allow"}}\'')
    done = cli.interlock("hooks", "check", written(folder, good, {"name": "x", "command": ["no-such-program"]}))
    assert done.returncode == 2
    assert b"hook 'x'" in done.stderr
    assert not mark.exists()


def test_check_refuses_a_program_in_the_workspace_and_a_file_that_is_none(cli: Cli, folder: Path) -> None:
    done = cli.interlock("hooks", "check", written(folder, SHELL), "-C", str(folder))
    assert done.returncode == 2
    assert b"inside the workspace" in done.stderr
    for content in ("{}", "nonsense"):
        (folder / "bad.json").write_text(content, encoding="utf-8")
        assert cli.interlock("hooks", "check", str(folder / "bad.json")).returncode == 2
    assert cli.interlock("hooks", "check", str(folder / "none.json")).returncode == 2
