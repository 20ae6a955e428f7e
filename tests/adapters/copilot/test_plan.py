"""What an order becomes: argv, variables, links; what is refused; and the vocabulary."""

import pytest

from interlock.capabilities import Needs, check
from interlock.tools import ToolCall, ToolKind
from interlock_adapters.copilot import adapter
from interlock_adapters.copilot.extra_args import unmet_arguments
from interlock_adapters.copilot.login import chosen_login, provider
from interlock_adapters.copilot.tools import Tools, describe, unmet_server_names

SERVER = next(transport for transport in adapter.transports if transport.name == "server")
PROVIDER = "COPILOT_PROVIDER_BASE_URL"
URL = "http://127.0.0.1:1/v1"


def fields(unmet):
    return [one.field for one in unmet]


# ---- the process -----------------------------------------------------------------------------------------------------


def test_neither_prompt_nor_key_stands_in_argv(order):
    launch = SERVER.launch(order(prompt="the prompt", instructions="the instructions"))
    words = [argument.text for argument in launch.argv]
    assert words[1:] == ["--headless", "--no-auto-update", "--log-level", "none", "--stdio", "--no-auto-login"]
    assert not any(secret in " ".join(words) for secret in ("the prompt", "the-key", "the instructions"))
    assert "COPILOT_PROVIDER_API_KEY" in launch.secret_env


def test_an_account_is_looked_for_where_there_is_no_provider(order):
    words = [argument.text for argument in SERVER.launch(order(env={})).argv]
    assert "--no-auto-login" not in words


@pytest.mark.parametrize("value", ["true", "1", "yes"])
def test_what_runs_everything_unasked_never_reaches_the_child(order, value):
    launch = SERVER.launch(order(environ={"COPILOT_ALLOW_ALL": value}, permission={"posture": "full"}))
    assert "COPILOT_ALLOW_ALL" in launch.drop_env
    assert "COPILOT_ALLOW_ALL" not in launch.env


@pytest.mark.parametrize(
    "name",
    [
        "COPILOT_ASSISTED_APPROVAL",
        "COPILOT_CLI_DIST_DIR",
        "COPILOT_CUSTOM_INSTRUCTIONS_DIRS",
        "COPILOT_PROVIDER_API_KEY_COMMAND",
        "COPILOT_SKILLS_DIRS",
        "GITHUB_COPILOT_PROMPT_MODE_REPO_HOOKS",
    ],
)
def test_a_variable_that_nobody_has_looked_at_is_kept_out(order, name):
    assert name in SERVER.launch(order(environ={name: "x"})).drop_env
    assert fields(SERVER.check(order(env={PROVIDER: URL, name: "x"}))) == ["env"]


@pytest.mark.parametrize("name", ["COPILOT_HOME", "COPILOT_AUTO_UPDATE", "COPILOT_MODEL"])
def test_a_variable_that_the_adapter_sets_is_not_set_otherwise(order, name):
    assert fields(SERVER.check(order(env={PROVIDER: URL, name: "other"}))) == ["env"]


def test_a_long_output_is_spilled_to_no_file_where_outputs_may_be_replaced(order):
    name = "COPILOT_LARGE_OUTPUT_THRESHOLD_BYTES"
    assert int(SERVER.launch(order()).env[name]) > 2**29
    assert name not in SERVER.launch(order(needs=Needs())).env


def test_of_the_person_only_the_login_is_linked_and_sessions_outlive_the_run(order):
    launch = SERVER.launch(order(env={}, login_files=frozenset({"config.json"})))
    assert [(link.path, link.target) for link in launch.links] == [
        ("copilot/session-state", "{state}/copilot/session-state"),
        ("copilot/config.json", "/home/user/.copilot/config.json"),
    ]


def test_a_session_that_is_gone_on_with_must_lie_where_it_was_left(order):
    launch = SERVER.launch(order(session={"kind": "resume", "id": "abc"}))
    assert launch.session_file == "{state}/copilot/session-state/abc/events.jsonl"
    assert SERVER.launch(order()).session_file is None


# ---- logins ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "source", "dropped"),
    [
        ({"env": {}, "environ": {"GH_TOKEN": "x"}}, "environment", set()),
        ({"env": {}, "environ": {"GITHUB_TOKEN": "x", "GH_TOKEN": "y"}}, "environment", {"GITHUB_TOKEN"}),
        ({"env": {}, "environ": {"GH_TOKEN": "x", PROVIDER: URL}}, "environment", {"GH_TOKEN"}),
        ({"env": {PROVIDER: URL}, "environ": {"GH_TOKEN": "x"}}, "environment", {"GH_TOKEN"}),
        ({"env": {"GH_TOKEN": "x"}, "environ": {"GITHUB_TOKEN": "y"}}, "environment", {"GITHUB_TOKEN"}),
        ({"env": {}, "login_files": frozenset({"config.json"}), "environ": {"GH_TOKEN": "x"}}, "file", {"GH_TOKEN"}),
        ({"env": {}}, "none", set()),
    ],
)
def test_one_login_is_chosen_and_the_others_are_kept_out(order, given, source, dropped):
    chosen = chosen_login(order(**given))
    present = {*given.get("environ", {}), *given["env"]}
    assert (chosen.source, chosen.dropped & present) == (source, dropped)


def test_the_login_of_the_person_beats_a_stray_provider(order):
    given = order(env={}, environ={PROVIDER: URL}, login_files=frozenset({"config.json"}))
    assert provider(given) is None
    assert PROVIDER in SERVER.launch(given).drop_env


def test_a_provider_is_told_in_the_words_of_the_server(order):
    given = {
        PROVIDER: URL,
        "COPILOT_PROVIDER_TYPE": "azure",
        "COPILOT_PROVIDER_AZURE_API_VERSION": "2024-10-21",
        "COPILOT_PROVIDER_HEADERS": "A: b\nC: d:e",
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "1000",
    }
    assert provider(order(env=given)) == {
        "type": "azure",
        "baseUrl": URL,
        "azure": {"apiVersion": "2024-10-21"},
        "headers": {"A": "b", "C": "d:e"},
        "maxPromptTokens": 1000,
    }


def test_a_login_that_is_not_there_is_refused(order):
    assert fields(SERVER.check(order(env={}, login="/elsewhere"))) == ["login"]
    assert fields(SERVER.check(order(env={}, login="env"))) == ["login"]


def test_a_provider_needs_the_model_named(order):
    assert fields(SERVER.check(order(model=None))) == ["model"]
    assert SERVER.check(order(model=None, environ={"COPILOT_MODEL": "m"})) == ()


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", ["../x", "a/b", "", ".hidden", "a b"])
def test_an_id_that_is_no_plain_name_is_refused(order, chosen):
    session = {"kind": "new", "id": chosen} if chosen else {"kind": "resume", "id": "/"}
    assert "session.id" in fields(SERVER.check(order(session=session)))


def test_a_fork_cannot_be_named(order):
    session = {"kind": "fork", "id": "a", "new_id": "b"}
    assert fields(SERVER.check(order(session=session))) == ["session.new_id"]


@pytest.mark.parametrize(
    "words",
    [
        ["--allow-all-tools"],
        ["--yolo"],
        ["--plugin-dir", "x"],
        ["--plugin-dir=x"],
        ["--additional-mcp-config=x"],
        ["--acp"],
        ["--resume=x"],
        ["--model", "x"],
        ["prompt"],
        ["--log-level"],
        ["--no-remote=x"],
    ],
)
def test_an_option_that_nobody_has_looked_at_is_refused(words):
    assert list(unmet_arguments(words))


def test_harmless_options_may_be_added(order):
    words = ("--disable-client-telemetry", "--log-level", "error", "--no-remote")
    assert list(unmet_arguments(words)) == []


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"permission": {"otherwise": "agent"}}, "permission.otherwise"),
        ({"permission": {"backstop": "sandbox"}}, "permission.backstop"),
        ({"permission": {"network": True}}, "permission.network"),
        ({"user_config": True}, "user_config"),
        ({"mode": "plan"}, "mode"),
        ({"limits": {"unreplaceable": "refuse"}}, "limits.unreplaceable"),
    ],
)
def test_what_it_cannot_do_is_said_beforehand(order, given, missing):
    request = order(**given).request
    assert missing in fields(check(request, Needs(chain_after=True, replace=True, answered=True), SERVER.capabilities))


# ---- the vocabulary --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "kind", "subject"),
    [
        ("bash", {"command": "ls"}, ToolKind.SHELL, {"command": "ls"}),
        ("read_bash", {"shellId": "0"}, ToolKind.SHELL_INPUT, {}),
        ("view", {"path": "a"}, ToolKind.READ, {"paths": ("a",)}),
        ("create", {"path": "a"}, ToolKind.WRITE, {"paths": ("a",)}),
        ("edit", {"path": "a"}, ToolKind.EDIT, {"paths": ("a",)}),
        ("grep", {"pattern": "x"}, ToolKind.SEARCH, {"paths": (".",)}),
        ("rg", {"pattern": "x", "paths": ["a", "b"]}, ToolKind.SEARCH, {"paths": ("a", "b")}),
        ("glob", {"pattern": "*.py", "paths": "src"}, ToolKind.SEARCH, {"paths": ("src",)}),
        ("glob", {"pattern": "/etc/*"}, ToolKind.SEARCH, {"paths": (".", "/etc/*")}),
        ("glob", {"pattern": "../*"}, ToolKind.SEARCH, {"paths": (".", "./../*")}),
        ("task", {"prompt": "p"}, ToolKind.AGENT, {}),
        ("ask_user", {"question": "q"}, ToolKind.QUESTION, {}),
        ("sql", {"query": "q"}, ToolKind.INTERNAL, {}),
        ("web_fetch", {"url": "http://a"}, ToolKind.FETCH, {"urls": ("http://a",)}),
        ("skill", {"skill": "s"}, ToolKind.UNKNOWN, {}),
        ("session_store_sql", {"query": "q"}, ToolKind.UNKNOWN, {}),
        ("brand_new", {}, ToolKind.UNKNOWN, {}),
        ("birds-say", {}, ToolKind.MCP, {"mcp": "birds/say"}),
        ("birds-say-more", {}, ToolKind.MCP, {"mcp": "birds/say-more"}),
        ("other-say", {}, ToolKind.UNKNOWN, {}),
        ("bash", "no object", ToolKind.SHELL, {}),
    ],
)
def test_a_call_is_of_one_kind_and_about_one_subject(name, given, kind, subject):
    tools = Tools(["birds"])
    assert tools.kind_of(name) is kind
    assert {k: v for k, v in tools.subject_of(name, given).model_dump().items() if v} == subject


@pytest.mark.parametrize(
    "given", ["*** Begin Patch\n*** Update File: a\n*** Move to: b\n", {"patch": "*** Add File: a"}]
)
def test_a_patch_is_read_for_its_paths_whatever_it_comes_in(given):
    assert "a" in Tools().subject_of("apply_patch", given).paths


def test_a_server_whose_tools_could_be_those_of_another_is_refused():
    assert fields(unmet_server_names(["a", "a-b"])) == ["mcp_servers.a-b"]
    assert fields(unmet_server_names(["a", "ab", "c_d", "e-f"])) == []
    assert fields(unmet_server_names(["a b", "ü"])) == ["mcp_servers.a b", "mcp_servers.ü"]


@pytest.mark.parametrize(
    ("server", "field"),
    [
        ({"type": "stdio", "command": "x", "args": ["$HOME"]}, "args"),
        ({"type": "stdio", "command": "x", "env": {"A": "${HOME}"}}, "env"),
        ({"type": "http", "url": "http://a", "headers": {"A": "Bearer $TOKEN"}}, "headers"),
    ],
)
def test_a_value_that_the_agent_would_replace_is_refused(order, server, field):
    assert fields(SERVER.check(order(mcp_servers={"b": server}))) == [f"mcp_servers.b.{field}"]
    plain = {"type": "stdio", "command": "x", "args": ["5$", "a$1", "cost: $5"]}
    assert SERVER.check(order(mcp_servers={"b": plain})) == ()


def test_after_a_rewrite_a_call_is_described_anew():
    call = ToolCall(tool_call_id="c", tool_name="view", input={"path": "b"}, tool_kind=ToolKind.READ)
    assert describe(call).subject.paths == ("b",)
    tools = Tools(["birds"])
    served = ToolCall(
        tool_call_id="c",
        tool_name="birds-say",
        input={},
        tool_kind=tools.kind_of("birds-say"),
        subject=tools.subject_of("birds-say", {}),
    )
    assert describe(served) == served
    forged = ToolCall(tool_call_id="c", tool_name="bash", input={"command": "x"}, tool_kind=ToolKind.MCP)
    assert describe(forged).tool_kind is ToolKind.SHELL
