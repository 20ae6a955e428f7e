"""The launch and the checks: what is started, with what, and what is refused before anything is."""

import json

import pytest

from interlock.capabilities import EVERY_KIND, Needs, check
from interlock.permission import Backstop
from interlock.request import Fork, NewSession, Request, Resume
from interlock.tools import Subject, ToolCall, ToolKind
from interlock_adapters.claude import adapter
from interlock_adapters.claude.versions import TESTED

TRANSPORT = adapter.transports[0]
ONE, TWO = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


def request(**fields):
    """A request for the agent."""
    return Request.model_validate({"agent": "claude", "prompt": "a private prompt", "cwd": "/repo", **fields})


def argv(make_order, order_fields=None, **fields):
    """The planned command line."""
    order = make_order(request(**fields), **(order_fields or {}))
    return [argument.text for argument in TRANSPORT.launch(order).argv]


def unmet(make_order, order_fields=None, **fields):
    """What cannot be had, by field."""
    return [(item.field, item.value) for item in TRANSPORT.check(make_order(request(**fields), **(order_fields or {})))]


def test_the_command_line_of_a_plain_run(make_order):
    assert argv(make_order, {"needs": Needs(chain_before=True)}) == [
        "/usr/bin/claude",
        "-p",
        "--verbose",
        "--output-format=stream-json",
        "--input-format=stream-json",
        "--include-partial-messages",
        "--replay-user-messages",
        "--permission-prompt-tool=stdio",
        "--setting-sources=",
        "--strict-mcp-config",
        "--permission-mode=default",
        '--settings={"permissions":{"ask":["*"],"disableAutoMode":"disable"}}',
        "--disallowedTools=AskUserQuestion",
    ]


def test_the_command_line_of_a_run_that_asks_for_everything(make_order):
    options = argv(
        make_order,
        add_dirs=["/a", "/b"],
        model="m",
        effort="low",
        limits={"max_turns": 3, "budget_usd": 0.00001},
        session=Fork(id=ONE, new_id=TWO),
        extra_args=["--fallback-model", "n"],
    )
    assert options[12:] == [
        "--disallowedTools=CronCreate,Monitor,RemoteTrigger,ScheduleWakeup,Skill,Workflow",
        "--add-dir=/a",
        "--add-dir=/b",
        "--model=m",
        "--effort=low",
        "--max-turns=3",
        "--max-budget-usd=0.00001",
        f"--resume={ONE}",
        "--fork-session",
        f"--session-id={TWO}",
        "--fallback-model",
        "n",
    ]


@pytest.mark.parametrize(
    ("session", "options"),
    [
        (NewSession(), []),
        (NewSession(id=ONE), [f"--session-id={ONE}"]),
        (Resume(id=ONE), [f"--resume={ONE}"]),
        (Fork(id=ONE), [f"--resume={ONE}", "--fork-session"]),
    ],
)
def test_a_session_is_chosen_by_its_options(make_order, session, options):
    assert [text for text in argv(make_order, session=session) if "session" in text or "resume" in text] == options


@pytest.mark.parametrize(
    ("permission", "backstop", "mode", "settings"),
    [
        ({"posture": "full"}, Backstop.GATE, "default", {"ask": ["*"]}),
        ({"posture": "read", "otherwise": "agent"}, Backstop.NONE, "default", {}),
        ({"posture": "edit", "otherwise": "agent"}, Backstop.NONE, "acceptEdits", {}),
        ({"posture": "full", "otherwise": "agent"}, Backstop.NONE, "acceptEdits", {}),
        ({"posture": "edit"}, Backstop.NONE, "default", {}),
    ],
)
def test_mode_and_settings_follow_the_permission(make_order, permission, backstop, mode, settings):
    options = argv(make_order, {"backstop": backstop}, permission=permission)
    assert f"--permission-mode={mode}" in options
    (told,) = [text.removeprefix("--settings=") for text in options if text.startswith("--settings=")]
    assert json.loads(told) == {"permissions": {**settings, "disableAutoMode": "disable"}}


def test_no_plan_ever_bypasses_permissions_or_names_the_prompt(make_order):
    for posture in ("none", "read", "edit", "full"):
        for otherwise in ("deny", "ask", "chain", "agent"):
            text = " ".join(argv(make_order, permission={"posture": posture, "otherwise": otherwise}))
            assert "bypass" not in text
            assert "dangerously" not in text
            assert "private prompt" not in text


def test_a_launch_is_deterministic_and_holds_no_secret(make_order):
    order = make_order(request(env={"ANTHROPIC_API_KEY": "sk-secret"}, instructions="be private"))
    first, second = TRANSPORT.launch(order), TRANSPORT.launch(order)
    assert first == second
    assert "sk-secret" not in repr(first)
    assert "be private" not in repr(first)
    assert "ANTHROPIC_API_KEY" in first.secret_env
    assert [argument.sensitivity for argument in TRANSPORT.launch(make_order(request(session=Resume(id=ONE)))).argv][
        -1
    ] == "session"


def test_variables_that_switch_guards_off_never_reach_the_child(make_order):
    environ = {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_SIMPLE": "1",
        "CLAUDE_CODE_SHELL_PREFIX": "x",
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_OAUTH_TOKEN": "t",
        "ANTHROPIC_BASE_URL": "u",
        "PATH": "/bin",
    }
    launch = TRANSPORT.launch(make_order(request(), environ=environ))
    assert {"CLAUDECODE", "CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SHELL_PREFIX", "IS_SANDBOX"} <= launch.drop_env
    assert not {"CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL", "PATH"} & launch.drop_env
    assert not launch.drop_env & set(launch.env)


def test_what_reads_files_again_is_off_only_where_outputs_may_be_replaced(make_order):
    replacing = TRANSPORT.launch(make_order(request(), needs=Needs(replace=True))).env
    plain = TRANSPORT.launch(make_order(request(), needs=Needs())).env
    closed = {"DISABLE_AUTO_COMPACT", "DISABLE_COMPACT", "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR"}
    closed |= {f"CLAUDE_CODE_DISABLE_{road}" for road in ("ATTACHMENTS", "GIT_INSTRUCTIONS")}
    assert set(replacing) - set(plain) == closed
    assert plain["CLAUDE_CONFIG_DIR"] == "{home}/claude"
    assert plain["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1"


FILE = frozenset({".credentials.json"})
KEY = {"ANTHROPIC_API_KEY": "k"}


@pytest.mark.parametrize(
    ("fields", "order_fields", "linked", "dropped"),
    [
        ({}, {"login_files": FILE, "environ": KEY}, True, True),
        ({}, {"login_files": FILE}, True, True),
        ({}, {"environ": KEY}, False, False),
        ({}, {}, False, False),
        ({"login": "env"}, {"login_files": FILE, "environ": KEY}, False, False),
        ({"env": {"ANTHROPIC_AUTH_TOKEN": "t"}}, {"login_files": FILE, "environ": KEY}, False, True),
        ({"login": "/other"}, {"login_files": FILE, "environ": KEY}, True, True),
    ],
)
def test_one_source_of_credentials_is_used_and_named(make_order, fields, order_fields, linked, dropped):
    launch = TRANSPORT.launch(make_order(request(**fields), **order_fields))
    assert any(link.path == "claude/.credentials.json" for link in launch.links) == linked
    assert ("ANTHROPIC_API_KEY" in launch.drop_env) == dropped
    assert len(launch.warnings) == 1
    assert ("claude/projects", "{state}/claude/projects", "folder") in [
        (link.path, link.target, link.make) for link in launch.links
    ]


@pytest.mark.parametrize("login", ["env", "/other"])
def test_a_login_that_is_not_there_is_unmet(make_order, login):
    assert unmet(make_order, login=login) == [("login", login)]


GUARDS = [
    "--bare", "--settings={}", "--setting-sources=user", "--dangerously-skip-permissions", "--allow-anything-new",
    "--allowedTools=Bash", "--allowed-tools=Bash", "--permission-mode=plan", "--permission-prompts=none",
    "--permission-prompt-tool=x", "--plugin-dir=/x", "--plugin-url=u", "--mcp-config={}", "--strict-mcp-config",
    "--input-format=text", "--output-format=text", "--append-system-prompt=x", "--append-system-prompt-file=x",
    "--disallowedTools=x", "--disallowed-tools=x", "--resume=x", "--continue", "--session-id=x", "--fork-session",
    "--model=m", "--effort=low", "--max-turns=1", "--max-budget-usd=1", "--add-dir=/", "--json-schema={}",
    "--agents={}", "--agent=x", "--chrome", "--ide", "--worktree", "--from-pr=1", "--print", "--verbose",
    "-p", "-c", "-r", "-w", "--replay-user-messages", "--brand-new", "prompt", "-", "--", "", "@file",
]  # fmt: skip


@pytest.mark.parametrize("text", GUARDS)
def test_an_argument_that_repeats_contradicts_or_weakens_is_unmet(make_order, text):
    assert unmet(make_order, extra_args=[text]) == [("extra_args", text)]


@pytest.mark.parametrize(
    "extra",
    [
        ["--settings", "{}"],
        ["--model", "m"],
        ["--allowedTools", "Bash"],
        ["--fallback-model=m", "prompt"],
        ["--safe-mode", "prompt"],
        ["--safe-mode=x"],
        ["--tools"],
        ["--tools", "--bare"],
        ["--set", "{}"],
    ],
)
def test_both_forms_of_an_option_are_seen_through(make_order, extra):
    assert unmet(make_order, extra_args=extra)


@pytest.mark.parametrize(
    "extra", [["--fallback-model", "m"], ["--tools=Bash,Read", "--safe-mode"], ["--tools", "Bash"]]
)
def test_options_that_were_looked_at_may_be_added_last(make_order, extra):
    assert unmet(make_order, extra_args=extra) == []
    assert argv(make_order, extra_args=extra)[-len(extra) :] == extra


def test_everything_that_is_wrong_is_said_at_once(make_order):
    found = unmet(
        make_order,
        extra_args=["--bare", "now"],
        session=Fork(id="../x", new_id="y"),
        login="/none",
        env={"CLAUDE_CODE_SIMPLE": "1", "CLAUDE_CONFIG_DIR": "/x"},
        instructions="x",
    )
    assert [field for field, _ in found] == [
        "extra_args",
        "extra_args",
        "session.id",
        "session.new_id",
        "instructions",
        "login",
        "env",
        "env",
    ]


def test_mcp_servers_stand_in_a_private_file_and_not_in_argv(make_order):
    server = {"type": "stdio", "command": "serve", "args": ["-x"], "env": {"TOKEN": "sk-secret"}}
    launch = TRANSPORT.launch(make_order(request(mcp_servers={"birds": server})))
    assert "--mcp-config={home}/mcp.json" in [argument.text for argument in launch.argv]
    assert "sk-secret" not in repr(launch.argv)
    (file,) = launch.files
    assert (file.path, file.sensitivity) == ("mcp.json", "secret")
    assert json.loads(file.content) == {"mcpServers": {"birds": server}}


@pytest.mark.parametrize("name", ["a__b", "_a", "a_", "a b", "a/b", ""])
def test_a_server_s_name_must_leave_its_tools_names_clear(make_order, name):
    server = {"type": "stdio", "command": "serve"}
    assert unmet(make_order, mcp_servers={name: server}) == [(f"mcp_servers.{name}", name)]


@pytest.mark.parametrize("value", ["latest", "", "/tmp/x.jsonl", "00000000000040008000000000000001"])
def test_a_session_id_is_a_uuid(make_order, value):
    if value:
        assert unmet(make_order, session=Resume(id=value)) == [("session.id", value)]
    assert unmet(make_order, session=Resume(id=ONE)) == []


def test_the_capabilities_serve_a_chain_with_every_power():
    needs = Needs(chain_before=True, chain_after=True, modify=True, replace=True, answered=True)
    assert check(request(), needs, TRANSPORT.capabilities) == ()
    assert TRANSPORT.capabilities.deny == EVERY_KIND
    refused = check(request(limits={"unreplaceable": "refuse"}), needs, TRANSPORT.capabilities)
    assert {item.field for item in refused} == {"limits.unreplaceable"}


SUBJECTS = {
    "Bash": ({"command": "ls"}, ToolKind.SHELL, Subject(command="ls")),
    "Monitor": ({"command": "ls"}, ToolKind.SHELL, Subject(command="ls")),
    "TaskStop": ({"task_id": "x"}, ToolKind.SHELL_INPUT, Subject()),
    "Read": ({"file_path": "~/x"}, ToolKind.READ, Subject(paths=("~/x",))),
    "Grep": ({"pattern": "x"}, ToolKind.SEARCH, Subject(paths=(".",))),
    "Glob": ({"pattern": "/etc/*"}, ToolKind.SEARCH, Subject(paths=(".", "/etc/*"))),
    "Edit": ({"file_path": "a"}, ToolKind.EDIT, Subject(paths=("a",))),
    "NotebookEdit": ({"notebook_path": "a"}, ToolKind.EDIT, Subject(paths=("a",))),
    "Write": ({"file_path": "a"}, ToolKind.WRITE, Subject(paths=("a",))),
    "WebFetch": ({"url": "https://x"}, ToolKind.FETCH, Subject(urls=("https://x",))),
    "mcp__git__hub__issue": ({}, ToolKind.MCP, Subject(mcp="git/hub__issue")),
    "Agent": ({"prompt": "p"}, ToolKind.AGENT, Subject()),
    "Task": ({"prompt": "p"}, ToolKind.AGENT, Subject()),
    "AskUserQuestion": ({}, ToolKind.QUESTION, Subject()),
    "TodoWrite": ({}, ToolKind.INTERNAL, Subject()),
    "Skill": ({}, ToolKind.UNKNOWN, Subject()),
    "BrandNew": ({"command": "ls"}, ToolKind.UNKNOWN, Subject()),
    "bash": ({"command": "ls"}, ToolKind.UNKNOWN, Subject()),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_tool_is_described_from_our_own_table(name):
    native, kind, subject = SUBJECTS[name]
    told = adapter.describe(ToolCall(tool_call_id="t", tool_name=name, input=native))
    assert (told.tool_kind, told.subject) == (kind, subject)


@pytest.mark.parametrize("native", [None, "text", [], {}, {"command": 1, "file_path": None, "url": []}])
def test_an_odd_input_has_no_subject_and_raises_nothing(native):
    for name in ("Bash", "Read", "Write", "WebFetch"):
        assert adapter.describe(ToolCall(tool_call_id="t", tool_name=name, input=native)).subject == Subject()


def test_versions_are_told_apart_by_number():
    told = [TESTED.judge(version) for version in ("2.1.196", "2.1.197", "2.1.332", "2.1.1000", "2.2.0", "x")]
    assert told == ["older", "tested", "tested", "newer", "newer", "unknown"]
