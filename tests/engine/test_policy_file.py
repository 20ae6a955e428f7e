"""Policy files are read strictly, found where they should be, and take part in runs."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock.approval import Approve, Deny
from interlock.engine.chain import assemble
from interlock.engine.policy_file import govern, governed, hooks_of, read_policy, unknown_agents, users_policy
from interlock.errors import ConfigurationError
from interlock.events import ApprovalRequested
from interlock.hooks import Allow, HookCall, HookOutcome, HookSpec
from interlock.permission import Otherwise, Permission, Posture
from interlock.policy import Effective, Policy, PolicyPermission
from interlock.request import Request

GOOD = """
schema = 1

[permission]
posture = "edit"
allow = ["shell(pytest:*)"]
deny = ["read(**/.env)"]

[bounds]
otherwise = ["ask"]

[limits]
total = 600

[[hooks]]
name = "guard"
command = ["./guard", "--strict"]
may = ["deny"]

[agents.claude.permission]
otherwise = "ask"
allow = ["fetch(example.com)"]
"""


def written(path: Path, text: str) -> str:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return str(path)


def test_a_file_says_what_a_policy_says(tmp_path: Path) -> None:
    found = read_policy(written(tmp_path / "policy.toml", GOOD))
    assert found is not None
    part = found.part("claude")
    assert (part.permission.posture, part.permission.otherwise) == (Posture.EDIT, Otherwise.ASK)
    assert part.permission.allow == ("shell(pytest:*)", "fetch(example.com)")
    assert (part.limits.total, part.bounds.otherwise) == (600, (Otherwise.ASK,))
    assert part.hooks[0].command == (str(tmp_path / "guard"), "--strict")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("`schema` must be 1",)),
        ("schema = 2", ("`schema` must be 1, not 2",)),
        ("schema = true", ("`schema` must be 1",)),
        ("schema = 1\nposture = 'read'", ("unknown key `posture`",)),
        ("schema = 1\n[permission]\npostur = 'read'", ("unknown key `postur` in `permission`",)),
        ("schema = 1\n[agents.claude.limit]\ntotal = 1", ("unknown key `limit` in `agents.claude`",)),
        ("schema = 1\n[[hooks]]\nname = 'a'\ncommand = ['a']\nwhen = 1", ("unknown key `when` in `hooks[1]`",)),
        ("schema = 1\n[permission]\nposture = 'wide'", ("`permission.posture`", "'read'")),
        ("schema = 1\n[permission]\nallow = 'read'", ("`permission.allow`", "array")),
        ("schema = 1\n[permission]\nallow = ['read', 'shel']", ("`permission.allow[2]`", "no kind of tool")),
        ("schema = 1\n[permission]\nallow = ['shell(env x)']", ("allow rule 'shell(env x)'", "env")),
        ("schema = 1\n[agents.a.permission]\ndeny = ['read(../x)']", ("deny rule 'read(../x)'", "`..`")),
        ("schema = 1\n[bounds]\nallow = ['fetch(a b)']", ("'fetch(a b)'", "host")),
        ("schema = 1\n[bounds]\nnetwork = true", ("`bounds.network`",)),
        ("schema = 1\n[limits]\ntotal = '5'", ("`limits.total`", "number")),
        ("schema = 1\n[limits]\ntotal = 2026-01-01", ("no policy has", "date")),
        ("schema = 1\n[limits]\ntotal = inf", ("no policy has",)),
        ("schema = 1\nagents = 1", ("`agents`", "[agents.claude.permission]")),
        ("schema = 1\nschema = 1", ("no TOML",)),
        ("schema = \n", ("no TOML", "line 1")),
    ],
)
def test_anything_else_is_an_error_that_names_file_and_key(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = written(tmp_path / "policy.toml", text)
    with pytest.raises(ConfigurationError) as caught:
        read_policy(path)
    assert caught.value.source == path
    assert all(word in caught.value.problem for word in words), caught.value.problem


def test_what_is_no_utf_8_is_no_toml(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_bytes(b"schema = 1 # caf\xe9")
    with pytest.raises(ConfigurationError, match="no TOML"):
        read_policy(str(tmp_path / "policy.toml"))


class World:
    """A machine of its own: administrator and user each may have a policy."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        monkeypatch.setenv("HOME", str(root / "home"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "conf"))
        self.administrators = root / "etc" / "policy.toml"
        self.users = root / "conf" / "interlock" / "policy.toml"

    def request(self, **more: Any) -> Request:
        return Request.model_validate({"agent": "claude", "prompt": "x", "cwd": str(self.root), **more})

    def govern(self, given: Any = None, *, user_policy: bool = False, **request: Any) -> Effective:
        administrators = (str(self.administrators), os.geteuid())
        return govern(self.request(**request), given, user_policy=user_policy, _administrators=administrators)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_where_the_users_file_is() -> None:
    assert users_policy({"XDG_CONFIG_HOME": "/conf"}, "/home/me") == "/conf/interlock/policy.toml"
    assert users_policy({"XDG_CONFIG_HOME": "relative"}, "/home/me") == "/home/me/.config/interlock/policy.toml"


def test_the_administrators_file_always_applies_and_the_users_only_if_asked_for(world: World) -> None:
    written(world.administrators, "schema = 1\n[permission]\ndeny = ['mcp']")
    written(world.users, "schema = 1\n[permission]\ndeny = ['fetch']")
    project = written(world.root / "project.toml", "schema = 1\n[permission]\ndeny = ['agent']")
    own = Policy(permission=PolicyPermission(deny=("shell",)))
    assert world.govern().permission.deny == ("mcp",)
    everything = world.govern([project, own], user_policy=True, permission={"deny": ["read"]})
    assert everything.permission.deny == ("mcp", "fetch", "agent", "shell", "read")
    assert [layer.source.removesuffix(" 2") for layer in everything.layers] == [
        f"the administrator's policy {world.administrators}",
        f"the user's policy {world.users}",
        f"the policy {project}",
        "the client's policy",
    ]


def test_what_the_administrator_fixed_no_file_and_no_request_loosens(world: World) -> None:
    written(world.administrators, "schema = 1\n[permission]\nposture = 'read'")
    looser = written(world.root / "p.toml", "schema = 1\n[permission]\nposture = 'edit'")
    with pytest.raises(
        ConfigurationError, match=r"p\.toml: posture edit .* the administrator's policy .*: at most read"
    ):
        world.govern(looser)
    with pytest.raises(ConfigurationError, match="the request: posture full"):
        world.govern(permission=Permission(posture="full"))
    assert world.govern().permission.posture is Posture.READ


@pytest.mark.parametrize("which", ["file", "folder"])
def test_a_policy_that_others_can_write_is_not_the_administrators(world: World, which: str) -> None:
    written(world.administrators, "schema = 1")
    (world.administrators if which == "file" else world.administrators.parent).chmod(0o777)
    with pytest.raises(ConfigurationError, match="writable by others"):
        world.govern()


def test_a_file_that_was_named_must_be_there_and_one_that_was_not_need_not(world: World) -> None:
    assert world.govern(user_policy=True).layers == ()
    with pytest.raises(ConfigurationError, match="no such file"):
        world.govern(world.root / "none.toml")


def test_a_workspaces_file_has_no_say(world: World) -> None:
    written(world.root / ".interlock" / "policy.toml", "schema = 1\n[permission]\nposture = 'full'")
    written(world.root / "interlock.toml", "schema = 1\n[permission]\nposture = 'full'")
    assert world.govern(user_policy=True).layers == ()


def test_a_part_for_an_agent_that_is_not_there_is_warned_about(world: World) -> None:
    given = written(world.root / "p.toml", "schema = 1\n[agents.claud.permission]\nposture = 'none'")
    (warning,) = unknown_agents(world.govern(given))
    assert "'claud'" in warning
    assert given in warning


# ---- In a run -------------------------------------------------------------------------------------------------------


class Granter:
    name = "granter"
    may = ("grant", "deny")

    async def before(self, _: HookCall) -> HookOutcome:
        return Allow()


HOOK = "[[hooks]]\nname = '{}'\ncommand = ['/bin/true']\nmay = ['deny', 'grant']\n"


def test_hooks_of_policies_stand_where_their_layers_stand(world: World) -> None:
    written(world.administrators, "schema = 1\n" + HOOK.format("administrator"))
    given = written(world.root / "p.toml", "schema = 1\n" + HOOK.format("policy"))
    effective = world.govern(given, hooks=[HookSpec(name="request", command=("/bin/true",))])
    chain = assemble(
        interceptors=[Granter()],
        hooks=[HookSpec(name="client", command=("/bin/true",))],
        request=world.request(hooks=[HookSpec(name="request", command=("/bin/true",))]),
        workspace=str(world.root),
        scratch=str(world.root / "scratch"),
        first=hooks_of(effective, administrators=True),
        more=hooks_of(effective, administrators=False),
    )
    names = [name.split("'")[1] for name in chain.names]
    assert names == ["administrator", "granter", "client", "policy", "request"]


def test_nobody_grants_what_the_administrator_keeps_to_their_own_hooks(world: World) -> None:
    written(world.administrators, "schema = 1\n[permission]\notherwise = 'chain'\n" + HOOK.format("mine"))
    effective = world.govern()
    settings: dict[str, Any] = {
        "hooks": None,
        "request": governed(world.request(), effective),
        "workspace": str(world.root),
        "scratch": str(world.root / "scratch"),
        "first": hooks_of(effective, administrators=True),
        "grants_kept_by": effective.grants_kept_by,
    }
    assert assemble(interceptors=(), **settings).names == ("hook 'mine'",)
    with pytest.raises(ConfigurationError, match="interceptor 'granter': it may grant, which the administrator's"):
        assemble(interceptors=[Granter()], **settings)


@pytest.mark.anyio
@pytest.mark.parametrize(("rule", "made"), [("shell", False), ("shell(touch:*)", True)])
async def test_what_a_person_has_remembered_stays_within_bounds(bench: Any, rule: str, made: bool) -> None:
    policy = Policy.model_validate({"bounds": {"allow": ["shell(touch:*)"]}})
    steps = [{"tool": "Bash", "input": {"command": f"touch {name}"}} for name in ("first", "second")]
    request = bench.request([*steps, {"text": "done"}], permission={"posture": "read", "otherwise": "ask"})
    asked = 0
    with anyio.fail_after(40):
        async with bench.client(policy=policy) as client, client.stream(request) as run:
            async for event in run:
                if isinstance(event, ApprovalRequested):
                    asked += 1
                    run.respond(
                        event.approval.id, Approve(remember=rule) if asked == 1 else Deny(reason="once is enough")
                    )
    assert (bench.workspace / "first").exists()
    assert ((bench.workspace / "second").exists(), asked) == (made, 1 if made else 2)


@pytest.mark.anyio
async def test_a_client_holds_its_policy_over_every_run(bench: Any) -> None:
    policy = Policy.model_validate(
        {"permission": {"posture": "edit", "deny": ["shell(touch:*)"]}, "limits": {"total": 20}}
    )
    touch = {"tool": "Bash", "input": {"command": "touch made"}}
    write = {"tool": "Write", "input": {"file_path": "written", "content": "x"}}
    request = bench.request([touch, write, {"text": "done"}], permission={})

    with anyio.fail_after(40):
        async with bench.client(policy=policy) as client:
            planned = client.plan(request)
            outcome = await client.run(request)
    assert (planned.posture, planned.policies) == ("edit", ("the client's policy",))
    assert "policies    the client's policy" in planned.describe()
    assert [denial.by for denial in outcome.denials] == ["rule"]
    assert (bench.workspace / "written").exists()
    assert not (bench.workspace / "made").exists()
