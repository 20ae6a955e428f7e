"""Hooks files are read strictly, and the chain of a run comes together in one order."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock.engine.chain import Chain, assemble
from interlock.engine.hooks_file import read_hooks_file, users_file, workspace_file
from interlock.errors import ConfigurationError
from interlock.hooks import Allow, HookCall, HookOutcome, HookSpec
from interlock.request import Limits, Request
from interlock.tools import Subject, ToolKind

GOOD = {"name": "guard", "command": ["sh", "-c", "true"]}


def written(path: Path, *hooks: dict[str, Any], **more: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schema": 1, "hooks": hooks, **more}), encoding="utf-8")
    path.chmod(0o644)
    return str(path)


# ---- One file -------------------------------------------------------------------------------------------------------


def test_rule_11_a_missing_file_is_no_hooks(tmp_path: Path) -> None:
    assert read_hooks_file(str(tmp_path / "hooks.json")) == ()
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert read_hooks_file(str(tmp_path / "file" / "hooks.json")) == ()
    assert read_hooks_file(written(tmp_path / "none.json")) == ()


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"hooks\.json: there is no such file"):
        read_hooks_file(str(tmp_path / "hooks.json"), must_exist=True)


def test_the_specs_of_a_file_come_in_order_with_their_folder(tmp_path: Path) -> None:
    more = {"events": ["post_tool_use"], "tools": ["shell"], "may": ["deny"], "timeout": 3, "on_failure": "allow"}
    path = written(tmp_path / "hooks.json", GOOD, {**GOOD, **more, "name": "second", "env": {"A": "b"}})
    first, second = read_hooks_file(path)
    assert (first.spec.name, first.folder, first.source) == ("guard", str(tmp_path), f"{path}: hook 'guard'")
    assert second.spec == HookSpec(**{**GOOD, **more, "name": "second", "env": {"A": "b"}})


CONTENTS: list[tuple[str | bytes, str]] = [
    ("", "JSON"),
    ("[]", "JSON"),
    ("{", "JSON"),
    ('{"schema":1} {}', "JSON"),
    (b'\xff{"schema":1}', "JSON"),
    ("{}", "`schema` must be 1"),
    ('{"schema":2}', "`schema` must be 1, not 2"),
    ('{"schema":"1"}', '`schema` must be 1, not "1"'),
    ('{"schema":true}', "`schema` must be 1, not true"),
    ('{"schema":1,"hooks":{}}', "hooks"),
    ('{"schema":1,"hook":[]}', "field `hook`"),
    ('{"schema":1,"schema":1}', "`schema` stands twice"),
    ('{"schema":1,"hooks":[{"name":"a","name":"b","command":["sh"]}]}', "`name` stands twice"),
    ('{"schema":1,"hooks":[7]}', "hook 1"),
]
FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"command": []}, r"hook 2 \('guard'\), field `command`"),
    ({"command": [""]}, r"field `command\.0`"),
    ({"command": "sh -c true"}, "field `command`"),
    ({"command": None}, "field `command`"),
    ({"name": ""}, r"hook 2 \(''\), field `name`"),
    ({"events": ["on_start"]}, r"field `events\.0`"),
    ({"events": []}, "field `events`"),
    ({"event": "pre_tool_use"}, "field `event`"),
    ({"tool": ["Bash"]}, "field `tool`"),
    ({"tools": [""]}, r"field `tools\.0`"),
    ({"may": ["fly"]}, r"field `may\.0`"),
    ({"may": []}, "may"),
    ({"timeout": 0}, "field `timeout`"),
    ({"timeout": "5"}, "field `timeout`"),
    ({"on_failure": "ask"}, "field `on_failure`"),
    ({"in_workspace": "yes"}, "field `in_workspace`"),
    ({"env": {"A": 1}}, r"field `env"),
]


@pytest.mark.parametrize(("content", "complaint"), CONTENTS)
def test_rule_11_a_file_that_is_no_hooks_file_is_an_error(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    path = tmp_path / "hooks.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        read_hooks_file(str(path))
    assert caught.value.source == str(path)


@pytest.mark.parametrize(("field", "complaint"), FIELDS)
def test_rule_11_an_entry_that_is_wrong_is_named_with_its_field(
    tmp_path: Path, field: dict[str, Any], complaint: str
) -> None:
    path = written(tmp_path / "hooks.json", GOOD, {**GOOD, **field})
    with pytest.raises(ConfigurationError, match=complaint):
        read_hooks_file(path)


def test_rule_11_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "long").write_bytes(b" " * (5 * 1024 * 1024))
    (tmp_path / "deep").write_text('{"schema":1,"hooks":' + "[" * 5000 + "]" * 5000 + "}", encoding="utf-8")
    for name in ("dangling", "fifo", "loop", "long", "deep", "."):
        with pytest.raises(ConfigurationError):
            read_hooks_file(str(tmp_path / name))


@pytest.mark.parametrize("which", ["file", "folder"])
def test_the_administrators_file_must_be_theirs_alone_to_write(tmp_path: Path, which: str) -> None:
    path = written(tmp_path / "etc" / "hooks.json", GOOD)
    mine = os.geteuid()
    Path(path).parent.chmod(0o755)
    assert read_hooks_file(path, owner=mine)
    with pytest.raises(ConfigurationError, match="must belong to root"):
        read_hooks_file(path, owner=mine + 1)
    target = Path(path) if which == "file" else Path(path).parent
    for mode in (0o775, 0o757):
        target.chmod(mode)
        with pytest.raises(ConfigurationError, match="writable by others"):
            read_hooks_file(path, owner=mine)


def test_where_the_files_are() -> None:
    assert users_file({"XDG_CONFIG_HOME": "/conf"}, "/home/me") == "/conf/interlock/hooks.json"
    assert users_file({"XDG_CONFIG_HOME": "relative"}, "/home/me") == "/home/me/.config/interlock/hooks.json"
    assert users_file({}, "/home/me") == "/home/me/.config/interlock/hooks.json"
    assert workspace_file("/ws") == "/ws/.interlock/hooks.json"


# ---- The chain of a run ---------------------------------------------------------------------------------------------


class Guard:
    name = "inside"

    async def before(self, _: HookCall) -> HookOutcome:
        return Allow()


class World:
    """A machine of its own: administrator, user and workspace each have a hooks file."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.workspace = root, root / "ws"
        self.workspace.mkdir()
        monkeypatch.setenv("HOME", str(root / "home"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "conf"))
        self.administrators = root / "etc" / "hooks.json"
        self.users = root / "conf" / "interlock" / "hooks.json"
        self.workspaces = self.workspace / ".interlock" / "hooks.json"

    def chain(self, given: Any = None, interceptors: Any = (), **request: Any) -> Chain:
        return assemble(
            interceptors=interceptors,
            hooks=given,
            request=Request(agent="claude", prompt="x", cwd=str(self.workspace), **request),
            workspace=str(self.workspace),
            scratch=str(self.root / "scratch"),
            _administrators=(str(self.administrators), os.geteuid()),
        )


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def named(name: str, **more: Any) -> dict[str, Any]:
    return {**GOOD, "name": name, **more}


def test_the_further_from_the_workspace_the_earlier(world: World) -> None:
    written(world.administrators, named("administrator"))
    written(world.users, named("user"))
    written(world.workspaces, named("workspace"))
    specs = [HookSpec(**named("client"))]
    chain = world.chain(specs, [Guard()], hooks=(HookSpec(**named("request")),), workspace_hooks=True)
    assert chain.names == (
        "hook 'administrator'",
        "interceptor 'inside'",
        "hook 'client'",
        "hook 'request'",
        "hook 'user'",
        "hook 'workspace'",
    )


def test_nothing_anywhere_is_an_empty_chain(world: World) -> None:
    assert world.chain().names == ()


def test_the_workspaces_file_takes_part_only_if_asked_for(world: World) -> None:
    written(world.workspaces, named("workspace"))
    assert world.chain().names == ()
    assert world.chain(workspace_hooks=True).names == ("hook 'workspace'",)


def test_the_workspaces_file_has_the_power_to_deny_alone(world: World) -> None:
    written(world.workspaces, named("workspace", may=["deny", "modify", "replace", "grant"]))
    needs = world.chain(workspace_hooks=True).needs(answered=False)
    assert (needs.chain_before, needs.modify, needs.grants) == (True, False, False)


@pytest.mark.anyio
async def test_a_grant_of_the_workspaces_file_counts_for_nothing(world: World) -> None:
    allows = named("workspace", command=["sh", "-c", 'echo \'{"decision":"allow"}\''], may=["grant"], timeout=20.0)
    written(world.workspaces, allows)
    call = HookCall(
        event="pre_tool_use",
        workspace=str(world.workspace),
        agent_id="main",
        tool_call_id="1",
        tool_name="Bash",
        input={},
        agent="claude",
        run_id="r",
        cwd="/",
        tool_kind=ToolKind.SHELL,
        subject=Subject(),
    )
    with anyio.fail_after(30):
        chain = world.chain(workspace_hooks=True)
        verdict = await chain.before(call, rewrite=lambda one, _: one, forbids=lambda _: None)
    assert verdict.says == "no_objection"


def test_a_file_that_is_reached_twice_is_read_once(world: World) -> None:
    written(world.users, named("user"))
    link = world.root / "link.json"
    link.symlink_to(world.users)
    assert world.chain(str(link)).names == ("hook 'user'",)
    assert world.chain(world.users).names == ("hook 'user'",)


def test_two_hooks_may_share_a_name(world: World) -> None:
    written(world.users, named("same"), named("same"))
    assert world.chain().names == ("hook 'same'", "hook 'same'")


def test_the_clients_file_is_resolved_beside_itself_and_must_exist(world: World) -> None:
    policy = world.root / "policies" / "policy.sh"
    path = written(world.root / "policies" / "hooks.json", named("file", command=["./policy.sh"]))
    with pytest.raises(ConfigurationError, match="hook 'file'"):
        world.chain(path)
    policy.write_text("#!/bin/sh\n", encoding="utf-8")
    policy.chmod(0o755)
    assert world.chain(path).names == ("hook 'file'",)
    with pytest.raises(ConfigurationError, match="no such file"):
        world.chain(world.root / "nowhere.json")


@pytest.mark.parametrize("where", ["administrators", "users", "workspaces"])
def test_a_broken_file_anywhere_is_an_error_at_the_start(world: World, where: str) -> None:
    path: Path = getattr(world, where)
    path.parent.mkdir(parents=True)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigurationError):
        world.chain(workspace_hooks=True)


@pytest.mark.parametrize("request_field", [{}, {"add_dirs": ("{root}/hooks",)}, {"permission": "writable"}])
def test_a_program_that_the_agent_can_write_is_refused(world: World, request_field: dict[str, Any]) -> None:
    folder = world.root / "hooks"
    folder.mkdir()
    request: dict[str, Any] = {}
    if "add_dirs" in request_field:
        request = {"add_dirs": (str(folder),)}
    elif request_field:
        request = {"permission": {"writable": (str(folder),)}}
    path = (folder if request else world.workspace) / "guard"
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(ConfigurationError, match="inside the workspace"):
        world.chain([HookSpec(name="h", command=(str(path),))], **request)
    assert world.chain([HookSpec(name="h", command=(str(path),), in_workspace=True)], **request).names


def test_specs_given_in_code_have_no_folder_for_relative_paths(world: World) -> None:
    with pytest.raises(ConfigurationError, match="relative"):
        world.chain([HookSpec(name="h", command=("./guard",))])


def test_rule_6_a_deadline_of_ones_own_must_fit_into_the_chains(world: World) -> None:
    class Patient(Guard):
        deadline = 300.0

    limits = Limits(chain=10.0, hook=20.0)
    assert world.chain(None, [Guard()], limits=limits).names
    with pytest.raises(ConfigurationError, match=r"interceptor 'inside': its deadline of 300 s .* limits\.chain"):
        world.chain(None, [Patient()], limits=limits)
    assert world.chain([HookSpec(**named("h"))], limits=Limits(chain=1.0)).names
    with pytest.raises(ConfigurationError, match="hook 'h'"):
        world.chain([HookSpec(**named("h", timeout=11.0))], limits=limits)
    assert world.chain(None, [Patient()], limits=Limits(chain=300.0)).names


@pytest.mark.anyio
async def test_deadlines_come_from_the_requests_limits(world: World) -> None:
    class Hangs:
        name = "hangs"

        async def before(self, _: HookCall) -> HookOutcome:
            await anyio.sleep_forever()
            return Allow()

    chain = world.chain(None, [Hangs()], limits=Limits(hook=0.05))
    call = HookCall(
        event="pre_tool_use",
        workspace="/",
        agent_id="main",
        tool_call_id="1",
        tool_name="Bash",
        input={},
        agent="claude",
        run_id="r",
        cwd="/",
        tool_kind=ToolKind.SHELL,
        subject=Subject(),
    )
    with anyio.fail_after(5):
        verdict = await chain.before(call, rewrite=lambda one, _: one, forbids=lambda _: None)
    assert "within 0.05 s" in verdict.reason
