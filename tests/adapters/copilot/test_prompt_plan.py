"""The process of a prompt: what stands in argv, variables and files, and what cannot be had."""

import json

import pytest

from interlock.adapter import Host, Order
from interlock.capabilities import Needs
from interlock.permission import Backstop
from interlock.request import Request
from interlock_adapters.copilot.prompt import hooks
from interlock_adapters.copilot.prompt.transport import Prompt

TRANSPORT = Prompt()
POSTURES = ("none", "read", "edit", "full")


def an_order(*, environ: dict[str, str] | None = None, run_id: str = "run-1", **fields: object) -> Order:
    host = Host(
        home="/home/user",
        environ=environ or {},
        binary="/usr/bin/copilot",
        binary_folder="/usr/bin",
        platform="linux",
        root=False,
    )
    request = Request.model_validate({"agent": "copilot", "prompt": "the prompt", "cwd": "/repo"} | fields)
    return Order(run_id, request, Needs(), host, Backstop.FLAGS, hook_timeout=60.0, hooks=True)


def argv(**fields: object) -> list[str]:
    return [argument.text for argument in TRANSPORT.launch(an_order(**fields)).argv]


def unmet(**fields: object) -> set[str]:
    return {one.field for one in TRANSPORT.check(an_order(**fields))}


@pytest.mark.parametrize("posture", POSTURES)
@pytest.mark.parametrize("allow", [(), ("shell", "mcp", "write(**)", "*")])
def test_no_flag_lets_anything_run_that_is_asked_about(posture, allow):
    words = argv(permission={"posture": posture, "allow": allow})
    allowing = [word for word in words if word.startswith(("--allow", "--yolo", "--add-dir", "--trust", "--autopilot"))]
    assert set(allowing) <= {"--allow-all-paths", "--allow-all-urls"}
    assert ("--allow-all-urls" in allowing) is (posture == "full")


@pytest.mark.parametrize(
    ("fields", "outside"),
    [
        ({"permission": {"posture": "read"}}, False),
        ({"permission": {"posture": "edit", "allow": ["mcp"]}}, False),
        ({"permission": {"posture": "read", "allow": ["read(/etc/**)"]}}, True),
        ({"permission": {"posture": "read", "otherwise": "chain"}}, True),
        ({"permission": {"posture": "full"}}, True),
        ({"add_dirs": ["/more"]}, True),
    ],
)
def test_paths_outside_are_open_only_where_the_permission_may_reach_them(fields, outside):
    words = argv(**fields)
    assert ("--allow-all-paths" in words, "--disallow-temp-dir" in words) == (outside, not outside)


def test_what_is_denied_as_a_whole_is_denied_by_a_flag_too():
    words = argv(permission={"posture": "full", "deny": ["shell", "write", "shell(rm:*)", "read(**/.env)", "*"]})
    assert [word for word in words if word.startswith("--deny")] == ["--deny-tool=shell", "--deny-tool=write"]


def test_a_resumed_run_carries_the_whole_permission_and_its_directory():
    fields = {"permission": {"posture": "edit", "deny": ["shell"]}}
    fresh, resumed = argv(**fields), argv(**fields, session={"kind": "resume", "id": "old"})
    assert [word for word in resumed if word != "--resume=old"] == [
        w for w in fresh if not w.startswith("--session-id")
    ]
    assert resumed[1:3] == ["-C", "/repo"]


def test_prompt_and_keys_stand_in_no_argument_and_tokens_in_secret_files_alone():
    servers = {
        "one": {"type": "stdio", "command": "c", "args": ["a"], "env": {"KEY": "s3cr3t"}},
        "two": {"type": "http", "url": "http://x", "headers": {"Authorization": "s3cr3t"}},
    }
    launch = TRANSPORT.launch(an_order(mcp_servers=servers, instructions="be brief"))
    words = " ".join([*(argument.text for argument in launch.argv), *launch.env.values()])
    assert not any(secret in words for secret in ("s3cr3t", "the prompt", "be brief", "{token"))
    secret = {file.path for file in launch.files if file.sensitivity == "secret"}
    assert secret == {"plugin/hooks.json", "servers.json"}
    told = {file.path: file.content for file in launch.files}
    assert [path for path, content in told.items() if "{token" in content] == ["plugin/hooks.json"]
    assert json.loads(told["servers.json"])["mcpServers"]["two"]["tools"] == ["*"]


def test_every_hook_posts_to_an_endpoint_with_its_token_and_waits_longer_than_we_do():
    launch = TRANSPORT.launch(an_order())
    told = json.loads({file.path: file.content for file in launch.files}["plugin/hooks.json"])["hooks"]
    names = {endpoint.name for endpoint in launch.endpoints}
    assert names == set(launch.refusals)
    for (hook,) in told.values():
        name = hook["url"].removeprefix("{endpoint:").removesuffix("}")
        assert name in names
        assert hook["headers"] == {"Authorization": f"Bearer {{token:{name}}}"}
        assert (hook["type"], hook["timeoutSec"] > 3600) == ("http", True)
    assert {"preToolUse", "permissionRequest", "postToolUse", "postToolUseFailure"} <= told.keys()
    assert launch.env["COPILOT_HOOK_ALLOW_LOCALHOST"] == "1"
    assert [endpoint.name for endpoint in launch.endpoints if endpoint.unrefused] == [hooks.FAILED]


def test_names_are_of_the_run_and_unknown_to_the_workspace():
    first, second = (argv(run_id=name, instructions="x") for name in ("run-1", "run-2"))
    assert first == argv(run_id="run-1", instructions="x")
    (one,), (other,) = ([word for word in words if word.startswith("--agent=")] for words in (first, second))
    assert one != other


@pytest.mark.parametrize("name", ["COPILOT_ALLOW_ALL", "COPILOT_HOOK_ALLOW_LOCALHOST", "COPILOT_SKILLS_DIRS"])
def test_variables_of_the_agent_that_nobody_looked_at_do_not_reach_it(name):
    assert name in TRANSPORT.launch(an_order(environ={name: "true"})).drop_env
    assert unmet(env={name: "true"}) == {"env"}


@pytest.mark.parametrize(
    "words",
    [["--allow-all-tools"], ["--yolo"], ["--plugin-dir=/x"], ["--trust-folder"], ["--autopilot"], ["-p", "x"],
     ["--available-tools=bash"], ["--deny-tool", "x"], ["--resume=x"], ["--acp"], ["word"]],
)  # fmt: skip
def test_options_that_may_undo_the_guard_are_refused(words):
    assert unmet(extra_args=words) == {"extra_args"}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"permission": {"otherwise": "ask"}}, "permission.otherwise"),
        ({"permission": {"otherwise": "agent"}}, "permission.otherwise"),
        ({"session": {"kind": "new", "id": "no-uuid"}}, "session.id"),
        ({"session": {"kind": "resume", "id": "../x"}}, "session.id"),
        ({"mcp_servers": {"a b": {"type": "stdio", "command": "c"}}}, "mcp_servers.a b"),
        ({"limits": {"chain": 50_000}}, "limits.chain"),
        ({"login": "env"}, "login"),
    ],
)
def test_what_cannot_be_had_is_said(fields, field):
    assert unmet(**fields) == {field}


@pytest.mark.parametrize("name", ["COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN"])
def test_a_key_that_may_be_a_word_is_refused_and_not_repeated(name):
    given = {"COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:1/v1"}
    for order in (an_order(env={**given, name: "heron"}), an_order(environ={**given, name: "heron"}, login="env")):
        (one,) = [one for one in TRANSPORT.check(order) if one.field == "env"]
        assert (one.value, "heron" in str(one)) == (name, False)
        assert "transport=server" in one.alternatives
    assert TRANSPORT.check(an_order(env={**given, name: "heron-heron"})) == ()
