"""What an order becomes: sandbox, argv, files; what is refused; and the pure parts that it rests on."""

import json
import shlex
import subprocess
import tomllib

import pytest

from interlock import Client, Request
from interlock.capabilities import Needs, check
from interlock.framing.patch import touched
from interlock.tools import ToolCall, ToolKind
from interlock_adapters.codex import adapter, hooks, sandbox
from interlock_adapters.codex.config import toml
from interlock_adapters.codex.extra_args import unmet_arguments
from interlock_adapters.codex.shell import ran_command, wrapped

EXEC, APP = adapter.transports
NOBODY = Needs()


def words(launch) -> list[str]:
    return [argument.text for argument in launch.argv]


@pytest.mark.parametrize(
    ("permission", "mode", "enforced"),
    [
        ({"posture": "none"}, "read-only", True),
        ({"posture": "read"}, "read-only", True),
        ({"posture": "read", "otherwise": "ask"}, "workspace-write", False),
        ({"posture": "read", "otherwise": "chain"}, "workspace-write", False),
        ({"posture": "read", "allow": ["read(**)"]}, "read-only", True),
        ({"posture": "read", "allow": ["shell(make:*)"]}, "workspace-write", False),
        ({"posture": "edit"}, "workspace-write", True),
        ({"posture": "full"}, "danger-full-access", False),
    ],
)
def test_the_sandbox_is_the_smallest_in_which_all_can_run_that_may(order, permission, mode, enforced):
    made = order(permission=permission)
    assert sandbox.mode(made.request.permission) == mode
    launch = APP.launch(made)
    assert (launch.confined, launch.enforces_posture) == (mode != "danger-full-access", enforced)
    assert sandbox.approval_policy(made) == ("never" if mode == "danger-full-access" else "on-request")


def test_roots_and_network_stand_in_the_policy_of_every_turn(order):
    permission = {"posture": "edit", "writable": ["/w"], "network": True}
    told = sandbox.policy(order(permission=permission, add_dirs=["/a"]))
    assert (told["writableRoots"], told["networkAccess"], told["excludeSlashTmp"]) == (["/a", "/w"], True, True)


@pytest.mark.parametrize(
    "permission",
    [
        {"posture": "full", "network": False},
        {"posture": "read", "network": True},
        {"posture": "read", "writable": ["/w"]},
        {"posture": "full", "backstop": "sandbox"},
    ],
)
def test_what_no_sandbox_does_is_refused(order, permission):
    assert [found.field for found in APP.check(order(permission=permission))]


def test_no_secret_and_no_words_of_the_request_stand_in_argv(order):
    servers = {"s": {"type": "http", "url": "http://x/", "headers": {"Authorization": "Bearer 48213"}}}
    made = order(prompt="say 48213", instructions="be 48213", env={"KEY": "48213"}, mcp_servers=servers)
    for transport in (EXEC, APP):
        launch = transport.launch(made)
        assert "48213" not in " ".join(words(launch))
        assert all("48213" not in file.content or file.sensitivity == "secret" for file in launch.files)


def test_options_of_exec_stand_before_resume(order):
    launch = EXEC.launch(order(session={"kind": "resume", "id": "abc"}, permission={"posture": "read"}))
    assert words(launch)[-3:] == ["resume", "abc", "-"]
    assert words(launch).index("-s") < words(launch).index("resume")
    assert [argument.sensitivity for argument in launch.argv if argument.text == "abc"] == ["session"]


def test_the_configuration_of_exec_is_toml(order):
    made = order(instructions='a "b"\n\u2028', mcp_servers={"s": {"type": "stdio", "command": "x", "args": ["\\"]}})
    (config,) = [file.content for file in EXEC.launch(made).files if file.path.endswith("config.toml")]
    read = tomllib.loads(config)
    assert read["developer_instructions"] == 'a "b"\n\u2028'
    assert read["mcp_servers"]["s"]["args"] == ["\\"]


def test_settings_in_argv_are_toml(order):
    given = words(APP.launch(order()))
    for setting in (given[at + 1] for at, word in enumerate(given) if word == "-c"):
        key, _, value = setting.partition("=")
        assert tomllib.loads(f"x = {value}")
        assert key.replace(".", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"permission": {"otherwise": "ask"}}, "permission.otherwise"),
        ({"permission": {"posture": "none"}}, "permission.posture"),
        ({"permission": {"posture": "edit"}}, "permission.posture"),
        ({"permission": {"deny": ["shell"]}}, "permission"),
        ({"permission": {"allow": ["shell"]}}, "permission"),
        ({"mcp_servers": {"s": {"type": "stdio", "command": "x"}}}, "mcp_servers"),
    ],
)
def test_what_exec_cannot_do_names_the_transport_that_can(order, fields, field):
    found = [unmet for unmet in EXEC.check(order(needs=NOBODY, **fields)) if unmet.field == field]
    assert [unmet.alternatives for unmet in found] == [("transport=app-server",)]
    assert EXEC.check(order(needs=NOBODY)) == ()


def test_a_chain_is_unsupported_over_exec(order):
    needs = Needs(chain_before=True)
    found = check(order().request, needs, EXEC.capabilities)
    assert "hooks" in {unmet.field for unmet in found}
    assert check(order().request, needs, APP.capabilities) == ()


@pytest.mark.parametrize("name", ["interlock", "a__b", "", "a b", "_a"])
def test_names_of_servers_that_would_be_ambiguous_are_refused(order, name):
    made = order(needs=NOBODY, mcp_servers={name: {"type": "stdio", "command": "x"}})
    assert [found.field for found in APP.check(made)] == [f"mcp_servers.{name}"]


def test_of_login_and_keys_one_is_used_and_the_other_kept_out(order):
    both = order(environ={"CODEX_API_KEY": "k"}, login_files=frozenset({"auth.json"}))
    launch = APP.launch(both)
    assert "codex/auth.json" in [link.path for link in launch.links]
    assert "CODEX_API_KEY" in launch.drop_env
    assert "CODEX_API_KEY" not in APP.launch(order(environ={"CODEX_API_KEY": "k"})).drop_env
    explicit = order(environ={"CODEX_API_KEY": "k"}, env={"OPENAI_API_KEY": "x"}, login_files=frozenset({"auth.json"}))
    assert [link.path for link in APP.launch(explicit).links] == ["codex/sessions"]


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Plans a request with a Codex that is never started."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-48213")
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (tmp_path / "repo").mkdir()

    def plan(**fields):
        given = {"agent": "codex", "prompt": "go", "cwd": str(tmp_path / "repo"), "binary": str(program)}
        return Client(state=tmp_path / "state").plan(Request.model_validate(given | fields))

    return plan


def rows(plan) -> dict[str, str]:
    return {line[:12].strip(): line[12:] for line in plan.describe().splitlines()}


def test_a_plan_shows_the_endpoint_that_the_agent_calls_and_no_token(planned):
    plan = planned(transport="app-server")
    assert rows(plan)["endpoints"] == "hooks (mcp): start, before, after, request"
    read = json.loads(plan.to_json())
    assert read["endpoints"] == [{"name": "hooks", "style": "mcp", "tools": ["start", "before", "after", "request"]}]
    assert "sk-48213" not in plan.to_json() + plan.describe()
    assert (rows(planned(transport="exec"))["endpoints"], planned(transport="exec").endpoints) == ("none", ())


@pytest.mark.parametrize(
    ("permission", "confined", "enforced", "words"),
    [
        ({"posture": "edit"}, True, True, "yes: the sandbox lets commands do no more than the posture"),
        ({"posture": "read", "allow": ["shell(make:*)"]}, True, False, "yes, in a sandbox wider than the posture"),
        ({"posture": "full"}, False, False, "no: the agent runs as you"),
        ({"posture": "edit", "backstop": "gate"}, False, False, "no: the agent runs as you"),
    ],
)
def test_a_plan_says_whether_commands_are_confined_and_whether_by_the_posture(
    planned, permission, confined, enforced, words
):
    plan = planned(permission=permission, transport="app-server")
    assert (plan.confined, plan.enforces_posture) == (confined, enforced)
    assert rows(plan)["confined"].startswith(words)


KEYS = {"CODEX_API_KEY": "sk-codex", "OPENAI_API_KEY": "sk-openai"}


@pytest.mark.parametrize(
    ("environ", "env", "key"),
    [
        (KEYS, {}, "sk-codex"),
        ({"OPENAI_API_KEY": "sk-openai"}, {}, "sk-openai"),
        (KEYS, {"OPENAI_API_KEY": "sk-request"}, "sk-request"),
        ({"OPENAI_API_KEY": ""}, {}, None),
        ({}, {}, None),
    ],
)
def test_a_key_of_the_environment_reaches_exec_under_the_name_that_it_knows_and_nothing_durable(
    order, environ, env, key
):
    made = order(environ=environ, env=env, permission={"posture": "read"})
    for transport in (EXEC, APP):
        launch = transport.launch(made)
        assert 'cli_auth_credentials_store="ephemeral"' in words(launch)
        assert 'shell_environment_policy.exclude=["CODEX_API_KEY","OPENAI_API_KEY"]' in words(launch)
        assert "sk-" not in " ".join(words(launch)) + "".join(file.content for file in launch.files)
        assert [link.path for link in launch.links] == ["codex/sessions"]
    assert EXEC.launch(made).env.get("CODEX_API_KEY") == key
    assert "CODEX_API_KEY" not in APP.launch(made).env


def test_where_a_login_is_used_no_key_is(order):
    made = order(environ=KEYS, login_files=frozenset({"auth.json"}))
    for transport in (EXEC, APP):
        launch = transport.launch(made)
        assert 'cli_auth_credentials_store="file"' in words(launch)
        assert "CODEX_API_KEY" not in launch.env
        assert set(KEYS) <= launch.drop_env


def test_no_instructions_of_the_workspace_or_the_person_load(order):
    wanted = {"project_doc_max_bytes=0", "skills.include_instructions=false", "skills.bundled.enabled=false"}
    for transport in (EXEC, APP):
        assert wanted <= set(words(transport.launch(order())))


@pytest.mark.parametrize(("prompt", "found"), [("use $review now", ["prompt"]), ("it costs 5 $", []), ("$$", [])])
def test_exec_is_given_no_prompt_that_names_a_skill(order, prompt, found):
    made = order(prompt=prompt, permission={"posture": "read"}, needs=NOBODY)
    assert [unmet.field for unmet in EXEC.check(made)] == found
    assert list(APP.check(made)) == []


def test_images_are_for_the_transport_that_takes_them(order):
    made = order(images=[{"media_type": "image/png", "data": "eA=="}], needs=NOBODY).request
    assert [(unmet.field, bool(unmet.reason)) for unmet in check(made, NOBODY, EXEC.capabilities)] == [("images", True)]
    assert list(check(made, NOBODY, APP.capabilities)) == []


@pytest.mark.parametrize("needs", [{"chain_before": True}, {"chain_before": True, "chain_after": True}])
def test_exec_refuses_every_chain(order, needs):
    found = check(order().request, Needs(**needs), EXEC.capabilities)
    assert "hooks" in {unmet.field for unmet in found}


def test_variables_of_a_surrounding_codex_do_not_reach_the_agent(order):
    launch = APP.launch(order(environ={"CODEX_THREAD_ID": "1", "CODEX_HOME": "/mine", "RUST_LOG": "trace"}))
    assert {"CODEX_THREAD_ID", "RUST_LOG"} <= launch.drop_env
    assert launch.env["CODEX_HOME"] == "{home}/codex"
    assert [found.value for found in APP.check(order(needs=NOBODY, env={"CODEX_HOME": "/x"}))] == ["CODEX_HOME"]


@pytest.mark.parametrize(
    "extra",
    [("-c", "model_provider='x'"), ("--config", "model_verbosity='low'"), ("--config=openai_base_url='http://x'",)],
)
def test_options_that_were_looked_at_may_be_added(extra):
    assert list(unmet_arguments(extra)) == []


@pytest.mark.parametrize(
    "extra",
    [
        ("-c", "hooks={}"),
        ("-c", "features.hooks=false"),
        ("-c", "model_providers.x.y z=1"),
        ("-c", '"model_provider"=1'),
        ("-c",),
        ("-c", "model"),
        ("-cmodel_provider=1",),
        ("-s", "danger-full-access"),
        ("x",),
        ("--",),
    ],
)
def test_no_other_option_may_be_added(extra):
    assert list(unmet_arguments(extra))


# ---- pure parts ------------------------------------------------------------------------------------------------------


def test_the_hash_of_a_hook_is_that_which_the_agent_computes():
    """A worked example: `hooks/list` of Codex 0.171.0 showed a hook with this hash as trusted."""
    given = {"event": "${hook_event_name}", "id": "${tool_use_id}", "name": "${tool_name}", "args": "${tool_input}"}
    handler = {"type": "mcp_tool", "server": "hooksrv", "tool": "hook", "timeout": 86400, "input": given}
    wanted = "sha256:0fe0381ed15a8ed439e33d562d7eaac9bfb9ffdee705caf598b1b084b771daf4"
    assert hooks.trust_hash("pre_tool_use", handler) == wanted
    assert hooks.hash_of("PreToolUse") == hooks.trust_hash("pre_tool_use", hooks.handler("PreToolUse"))


@pytest.mark.parametrize("value", [True, 3, 'q"\\\n\u0001\U0001f600', ["a", {"b c": [1]}], {"a/b:0": {"x": "y"}}])
def test_toml_is_read_back_as_it_was(value):
    assert tomllib.loads(f"x = {toml(value)}")["x"] == value


def test_every_path_of_a_patch_is_read_out():
    text = (
        "*** Begin Patch\n*** Add File: new.txt\n+*** Delete File: not-a-header\n*** Update File: old.txt\n"
        "*** Move to: moved.txt\n@@\n-a\n+b\n*** Delete File: /abs/gone.txt\r\n*** End Patch\n"
    )
    found = [(one.path, one.change) for one in touched(text)]
    wanted = [("new.txt", "add"), ("old.txt", "update"), ("moved.txt", "add"), ("/abs/gone.txt", "delete")]
    assert found == wanted
    assert touched("no patch") == ()


@pytest.mark.parametrize(
    ("name", "given", "kind", "seen"),
    [
        ("Bash", {"command": "ls"}, ToolKind.SHELL, {"command": "ls"}),
        ("apply_patch", {"command": "*** Add File: a\n"}, ToolKind.PATCH, {"paths": ("a",)}),
        ("view_image", {"path": "/x.png"}, ToolKind.READ, {"paths": ("/x.png",)}),
        ("mcp__s__t", {}, ToolKind.MCP, {"mcp": "s/t"}),
        ("spawn_agent", {}, ToolKind.AGENT, {}),
        ("collaborationspawn_agent", {}, ToolKind.AGENT, {}),
        ("brand_new", {}, ToolKind.UNKNOWN, {}),
        ("Bash", "ls", ToolKind.SHELL, {"command": None}),
    ],
)
def test_native_calls_in_the_shared_vocabulary(name, given, kind, seen):
    call = adapter.describe(ToolCall(tool_call_id="c", tool_name=name, input=given))
    assert call.tool_kind is kind
    assert {key: getattr(call.subject, key) for key in seen} == seen


COMMANDS = [
    "echo 'it''s' \"q\" $((1+1)); exit 3",
    "cat <<'EOF'\nhere\nEOF",
    "echo unbalanced ) ; echo escaped; (echo",
    "printf 'no newline'",
    "printf 'two\\n\\n'",
    "echo out; echo err >&2; false",
    "cat",
    "if",
    "# nothing",
    "echo '.7'; exit 7",
]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrapped_command_says_and_ends_as_it_would_have(command, shell, at_once, tmp_path):
    def run(text: str) -> tuple[bytes, int]:
        done = subprocess.run(
            [shell, "-c", text], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=20
        )
        return done.stdout, done.returncode

    told = wrapped(command, at_once=at_once, cwd=str(tmp_path))
    plain, code = run(f"{'exec 2>&1' if at_once else ':'}\neval {shlex.quote(command)}")
    said, ended = run(told)
    assert ended == code
    if command not in {"if", "echo unbalanced ) ; echo escaped; (echo"}:
        assert said == plain
    assert b"escaped\n" not in said
    assert ran_command(shlex.join(["/bin/bash", "-lc", told])) == told


def test_a_command_refuses_to_run_in_another_directory(tmp_path):
    told = wrapped("echo ran", at_once=True, cwd="/somewhere/else")
    done = subprocess.run(["sh", "-c", told], cwd=tmp_path, capture_output=True, check=False, timeout=20)
    assert (done.returncode, b"ran\n" in done.stdout, b"/somewhere/else" in done.stdout) == (126, False, True)


def test_refusals_are_what_the_agent_takes_as_a_no():
    assert json.loads(hooks.REFUSAL)["decision"] == "block"
    assert json.loads(hooks.deny(" "))["reason"].strip()
