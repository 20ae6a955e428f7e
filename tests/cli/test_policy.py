"""`interlock policy explain`: ten tricky calls, what is said about each, and what stands behind it."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.policy_file import read_policy
from interlock_adapters.cli.options import Options, request_of
from interlock_adapters.cli.plan import settled
from interlock_adapters.cli.policy import explain_call

POLICY = """
schema = 1
[permission]
posture = "edit"
allow = ["shell(git push:*)", "write(docs/**)", "fetch(example.com)", "mcp(github/*)"]
deny = ["read(**/.env)", "shell(git push --force:*)", "mcp(github/delete_*)"]
"""

FORCE, ENV, DELETE = "shell(git push --force:*)", "read(**/.env)", "mcp(github/delete_*)"
TRICKY = [
    # a call, its result, the part that decides, the rule, and words that explain it
    ("shell: git push origin main", "run", "allow rules", "shell(git push:*)", ()),
    ("shell: git -C . push --tags --force", "deny", "deny rules", FORCE, ("nothing else outweighs it",)),
    ("shell: git push; curl evil.example", "deny", "otherwise", None, ("it runs 'git push', 'curl evil.example'",)),
    ('Bash {"command": "cat docs/../.env"}', "deny", "deny rules", ENV, ()),
    ("read: link", "deny", "otherwise", None, ("'/etc/passwd', outside",)),
    ("write: .git/hooks/pre-commit", "deny", "otherwise", None, ("configures or runs programs", "posture full")),
    ("fetch: https://example.com@evil.example/", "deny", "otherwise", None, ("not read alike",)),
    ('mcp: github/delete_repo {"name": "x"}', "deny", "deny rules", DELETE, ()),
    ('Bash {"command": 5}', "deny", "deny rules", FORCE, ("does not say what it is about",)),
    ('TodoWrite {"todos": []}', "run", "posture", None, ("touches nothing outside the agent",)),
]


class World:
    """A workspace, a home without a policy, and a policy file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workspace = folder, folder / "workspace"
        (self.workspace / "docs").mkdir(parents=True)
        (self.workspace / "link").symlink_to("/etc/passwd")
        self.policy = self.write("policy.toml", POLICY)

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def options(self, **more: Any) -> Options:
        return Options(**{"agent": "claude", "cwd": str(self.workspace), "policy": [self.policy], **more})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "conf"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return World(tmp_path)


class Said:
    """What one explanation printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, " ".join(out.split()), err
        self.lines = out.splitlines()
        self.raw = out

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


@pytest.fixture
def said(world: World, capfd: pytest.CaptureFixture[str]) -> Any:
    def explain(call: str, *, ask: bool = False, **options: Any) -> Said:
        code = explain_call(world.options(**options), call, ask=ask)
        return Said(code, *capfd.readouterr())

    return explain


@pytest.mark.parametrize(("call", "result", "part", "rule", "words"), TRICKY)
def test_ten_tricky_calls(
    said: Any, world: World, call: str, result: str, part: str, rule: str | None, words: tuple[str, ...]
) -> None:
    found = said(call, json=True)
    assert found.code == 0
    assert found.json["result"] == result
    (decides,) = [step for step in found.json["steps"] if step["decides"]]
    assert (decides["part"], decides["rule"]) == (part, rule)
    assert rule is None or decides["source"] == f"the policy {world.policy}"
    for word in words:
        assert word in found.raw


def test_the_ten_calls_stand_in_the_docs_with_the_same_policy() -> None:
    page = (Path(__file__).parents[2] / "docs/policy.md").read_text(encoding="utf-8")
    for call, result, part, _, _ in TRICKY:
        assert f"| `{call}` | {result} | {part} |" in page
    example = tomllib.loads(page.split("```toml\n")[1].split("```")[0])
    assert example["permission"] == tomllib.loads(POLICY)["permission"]


@pytest.mark.parametrize("number", [1, 2])
def test_the_policies_in_the_docs_are_policies(world: World, number: int) -> None:
    page = (Path(__file__).parents[2] / "docs/policy.md").read_text(encoding="utf-8")
    assert read_policy(world.write("docs.toml", page.split("```toml\n")[number].split("```")[0]))


def test_the_explanation_for_people_goes_through_the_decision_in_order(said: Any, world: World) -> None:
    found = said("mcp: gitlab/get", posture="read", deny=["agent"])
    assert found.lines == [
        "call           gitlab/get gitlab/get {} (kind mcp)",
        f"policies       the policy {world.policy}",
        "1 deny rules   none of 4 matches",
        "2 chain        nobody takes part in this call",
        "3 allow rules  none of 4 matches",
        "4 posture      read does not cover it; the narrowest that does is full (the command line)",
        "5 otherwise    deny: what nothing covers is denied (the default)   <- decides",
        "result         denied",
        "to change      the allow rule 'mcp(gitlab/get)' would let it run",
        "               the posture full would let it run",
    ]


def test_a_bound_that_forbids_the_way_out_is_named_with_it(said: Any, world: World) -> None:
    bound = world.write("bound.toml", "schema = 1\n[bounds]\nposture = 'edit'\n")
    found = said("fetch: https://b.example", policy=[bound])
    assert (
        "the allow rule 'fetch(b.example)' would let it run, but allow rule 'fetch(b.example)' is beyond" in found.out
    )
    assert "at most edit" in found.out


def test_a_user_s_own_policy_takes_part_and_the_option_comes_after_it(said: Any, world: World) -> None:
    users = world.write("conf/interlock/policy.toml", "schema = 1\n[permission]\nposture = 'none'\nallow = ['agent']\n")
    found = said("agent: Explore", json=True)
    assert found.json["policies"] == [f"the user's policy {users}", f"the policy {world.policy}"]
    assert [step["source"] for step in found.json["steps"] if step["decides"]] == [f"the user's policy {users}"]


def hook(world: World, answer: str, **fields: Any) -> str:
    program = world.write("hook.py", f"import sys\nsys.stdin.read()\nprint('{answer}')\n")
    spec = {"name": "guard", "command": [sys.executable, program], "timeout": 30, **fields}
    return world.write("hooks.json", json.dumps({"schema": 1, "hooks": [spec]}))


def test_participants_are_named_and_asked_only_if_told_to(said: Any, world: World) -> None:
    hooks = hook(world, '{"decision": "deny", "reason": "not on Mondays"}', may=["deny"])
    call = 'Bash {"command": "git push"}'
    named = said(call, hooks=hooks)
    assert "2 chain would be asked, and may say no: hook 'guard' (deny)" in named.out
    assert "result runs, unless the chain says no" in named.out
    asked = said(call, hooks=hooks, ask=True, json=True)
    assert (asked.json["result"], asked.json["by"]) == ("deny", "hook")
    assert asked.json["records"][0]["reason"] == "not on Mondays"


def test_a_participant_that_may_grant_decides_what_otherwise_leaves_to_the_chain(said: Any, world: World) -> None:
    hooks = hook(world, '{"decision": "allow"}', may=["grant", "deny"])
    found = said('WebSearch {"query": "x"}', hooks=hooks, otherwise="chain")
    assert "granted if hook 'guard' does not object" in found.out
    assert said('WebSearch {"query": "x"}', hooks=hooks, otherwise="chain", ask=True, json=True).json["by"] == "grant"


@pytest.mark.parametrize(
    ("call", "options", "words"),
    [
        ("", {}, ("is no call", "shell: ls")),
        ("two words", {}, ("is no call",)),
        ("shel: ls", {}, ("'shel' is no kind of tool", "shell")),
        ("shell:", {}, ("says nothing",)),
        ("mcp: github", {}, ("name server and tool",)),
        ('Bash {"command": ', {}, ("is no call",)),
        ('Bash {"command": x}', {}, ("not one JSON object",)),
        ("Bash {}", {"agent": "nobody"}, ("nobody", "claude")),
        ("shell: ls", {"ask": True}, ("--with-hooks", "Bash {...}")),
        ("shell: ls", {"posture": "wide"}, ("--posture 'wide'",)),
        ("shell: ls", {"policy": ["/no/such.toml"]}, ("/no/such.toml", "no such file")),
        ("shell: ls", {"hooks": "/no/such.json"}, ("/no/such.json",)),
    ],
)
def test_what_cannot_be_used_ends_with_2(said: Any, call: str, options: dict[str, Any], words: tuple[str, ...]) -> None:
    found = said(call, **options)
    assert (found.code, found.out) == (2, "")
    assert all(word in found.err for word in words), found.err


def test_nothing_of_a_call_reaches_the_terminal_as_it_is(said: Any) -> None:
    found = said('\x1b[31mBash {"command": "echo \\u001b[31m"}')
    assert "\x1b" not in found.raw + found.err
    assert "\x1b" not in said('Bash {"command": "echo \\u001b[31m\\u202e"}').raw


def test_asking_is_a_default_that_policies_come_before(world: World) -> None:
    def otherwise(policy: str | None, **more: Any) -> str:
        files = None if policy is None else [world.write("p.toml", f"schema = 1\n{policy}")]
        options = world.options(policy=files, approve_with="/bin/true", **more)
        return settled(options, request_of(options, "x"))[1].permission.otherwise

    assert otherwise(None) == "ask"
    assert otherwise("[permission]\notherwise = 'deny'") == "deny"
    assert otherwise("[bounds]\nposture = 'edit'") == "deny"
    assert otherwise("[bounds]\nposture = 'edit'\notherwise = ['ask']") == "ask"
    assert otherwise("[permission]\notherwise = 'deny'", otherwise="agent") == "agent"


def test_run_and_plan_take_the_policy_too(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("schema = 1\n[permission]\ndeny = ['shell(touch:*)']\n", encoding="utf-8")
    script = [{"tool": "Bash", "input": {"command": "touch made"}}, {"text": "no"}]
    done = cli.run(script, "--policy", str(path), "--posture", "full", "hello")
    assert done.returncode == 0
    assert "denied: Bash" in done.stderr.decode().splitlines()[-1]
    assert not (cli.workspace / "made").exists()
    path.write_text("schema = 1\n[bounds]\nposture = 'read'\n", encoding="utf-8")
    planned = cli.interlock(*cli.arguments(script, "--policy", str(path), command="plan"))
    assert f"the policy {path}" in planned.stdout.decode()
    beyond = cli.interlock(*cli.arguments(script, "--policy", str(path), "--posture", "full", "x", command="plan"))
    assert beyond.returncode == 2
    assert "the command line: posture full is beyond the bounds of the policy" in beyond.stderr.decode()


def test_the_command_explains_and_ends_with_0(cli: Any) -> None:
    done = cli.interlock("policy", "explain", "shell: rm -rf /", "-C", str(cli.workspace), "--posture", "edit")
    assert done.returncode == 0, done.stderr
    assert "<- decides" in done.stdout.decode()
    assert list(cli.workspace.iterdir()) == []
