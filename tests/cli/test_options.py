"""What is typed becomes a request, or a message that names the option, the value and the way out."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.permission import Backstop, Otherwise, Posture
from interlock.request import Fork, NewSession, Request, Resume
from interlock_adapters.cli.options import Options, UsageProblem, request_of

COMMAND = [sys.executable, "-c", "from interlock_adapters.cli import main; main()"]


def options(**values: Any) -> Options:
    return Options(**{"agent": "claude", **values})


def request(**values: Any) -> Request:
    return request_of(options(**values), "fix the test")


def problem(**values: Any) -> str:
    with pytest.raises(UsageProblem) as caught:
        request(**values)
    return str(caught.value)


def typed(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], input=stdin, capture_output=True, timeout=30, check=False)


def test_without_options_a_request_reads_and_denies_the_rest() -> None:
    made = request()
    assert made == Request(agent="claude", prompt="fix the test")
    assert made.permission.otherwise is Otherwise.DENY


def test_every_option_lands_in_its_field(tmp_path: Path) -> None:
    made = request(
        model="m",
        cwd=str(tmp_path),
        posture="edit",
        otherwise="chain",
        allow=["shell(git status:*)", "fetch"],
        deny=["read(**/.env)"],
        backstop="gate",
        transport="stream-json",
        binary="/opt/claude",
        session_id="s1",
        timeout="1.5",
        effort="high",
        instructions="be brief",
        add_dir=["/a", "/b"],
        max_turns="3",
        budget_usd="0.5",
        trust_workspace=True,
        user_config=True,
        workspace_hooks=True,
        env=["A=1=2", "B="],
        login="env",
    )
    assert (made.model, made.cwd, made.effort, made.instructions) == ("m", str(tmp_path), "high", "be brief")
    assert made.permission.posture is Posture.EDIT
    assert made.permission.otherwise is Otherwise.CHAIN
    assert made.permission.allow == ("shell(git status:*)", "fetch")
    assert made.permission.deny == ("read(**/.env)",)
    assert made.permission.backstop is Backstop.GATE
    assert (made.transport, made.binary, made.login) == ("stream-json", "/opt/claude", "env")
    assert made.session == NewSession(id="s1")
    assert (made.limits.total, made.limits.max_turns, made.limits.budget_usd) == (1.5, 3, 0.5)
    assert made.add_dirs == ("/a", "/b")
    assert made.env == {"A": "1=2", "B": ""}
    assert (made.trust_workspace, made.user_config, made.workspace_hooks) == (True, True, True)


def test_resume_and_fork_choose_the_session() -> None:
    assert request(resume="a").session == Resume(id="a")
    assert request(fork="a").session == Fork(id="a")
    assert request(fork="a", session_id="b").session == Fork(id="a", new_id="b")


def test_a_program_that_approves_means_that_the_rest_is_asked() -> None:
    assert request(approve_with="/bin/true").permission.otherwise is Otherwise.ASK


def test_a_variable_without_a_value_is_passed_on_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSED_ON", "here")
    assert request(env=["PASSED_ON"]).env == {"PASSED_ON": "here"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"posture": "wide"}, ("--posture 'wide'", "'none', 'read', 'edit' or 'full'")),
        ({"otherwise": "maybe"}, ("--otherwise 'maybe'", "'ask'")),
        ({"backstop": "wall"}, ("--backstop 'wall'", "'gate'")),
        ({"allow": ["fetch", "shel(ls)"]}, ("--allow 'shel(ls)'", "no kind of tool", "shell")),
        ({"deny": ["shell()"]}, ("--deny 'shell()'", "write `shell`")),
        ({"timeout": "-1"}, ("--timeout '-1'", "greater than 0")),
        ({"timeout": "soon"}, ("--timeout 'soon'", "valid number")),
        ({"max_turns": "0"}, ("--max-turns '0'", "greater than or equal to 1")),
        ({"max_turns": "1.5"}, ("--max-turns '1.5'", "valid integer")),
        ({"budget_usd": "0"}, ("--budget-usd '0'", "greater than 0")),
        ({"agent": ""}, ("--agent ''", "must not be empty")),
        ({"resume": ""}, ("--resume ''", "must not be empty")),
        ({"session_id": ""}, ("--session-id ''", "must not be empty")),
        ({"add_dir": [""]}, ("--add-dir ''", "must not be empty")),
        ({"cwd": "/no/such/folder"}, ("-C '/no/such/folder'", "no such directory", "make it")),
        ({"resume": "a", "fork": "b"}, ("--resume", "--fork", "exclude")),
        ({"resume": "a", "session_id": "b"}, ("--session-id", "--resume", "--fork")),
        ({"env": ["NOT_SET_ANYWHERE"]}, ("--env 'NOT_SET_ANYWHERE'", "NOT_SET_ANYWHERE=VALUE")),
        ({"env": ["=x"]}, ("--env", "environment variable")),
    ],
)
def test_a_bad_value_names_option_value_and_way_out(values: dict[str, Any], words: tuple[str, ...]) -> None:
    text = problem(**values)
    for word in words:
        assert word in text


def test_every_bad_value_is_named_at_once() -> None:
    lines = problem(posture="wide", max_turns="0", deny=["x", "y"]).split("\n")
    assert [line.split()[0] for line in lines] == ["--posture", "--deny", "--deny", "--max-turns"]


def test_the_value_of_a_bad_variable_is_not_repeated() -> None:
    text = problem(env=["A\0B=secret"])
    assert "secret" not in text


def test_a_bad_value_ends_with_code_2_and_an_empty_stdout() -> None:
    done = typed("plan", "-a", "claude", "--posture", "wide", "x")
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"--posture 'wide'" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("run",), ("run", "-a"), ("run", "-a", "claude", "--nonsense"), ("fly",)])
def test_what_the_parser_refuses_ends_with_code_2(arguments: tuple[str, ...]) -> None:
    done = typed(*arguments)
    assert done.returncode == 2
    assert done.stderr or not arguments


@pytest.mark.parametrize(
    ("stdin", "words"),
    [(b"caf\xe9", (b"not UTF-8", b"0xe9", b"offset 3")), (b"", (b"PROMPT", b"blank")), (b" \n", (b"blank",))],
)
def test_a_prompt_on_stdin_that_cannot_be_used_says_why(stdin: bytes, words: tuple[bytes, ...]) -> None:
    done = typed("run", "-a", "claude", "-", stdin=stdin)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr


def test_help_names_every_option_and_loads_no_model() -> None:
    probe = (
        "import sys; sys.argv=['interlock', 'run', '--help']\nfrom interlock_adapters.cli import main\ntry: main()\n"
    )
    probe += "finally: print('LOADED', sorted({'interlock.model', 'rich', 'anyio', 'pexpect'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, timeout=30, check=False, text=True)
    assert "LOADED []" in done.stdout
    for option in ("--agent", "-C", "--otherwise", "--approve-with", "--workspace-hooks", "--json", "--session-id"):
        assert option in done.stdout


def test_the_version_is_printed_by_itself_and_behind_the_parser() -> None:
    assert typed("--version").stdout.startswith(b"interlock 0.")
    assert typed("--version").stdout == typed("--version", "run").stdout
