"""Workspace confinement: files inside pass, files outside and files that cannot be known do not."""

from pathlib import Path

import pytest
from tests.guards.calls import call, shell

from interlock.hooks import Allow, DenyCall, HookCall
from interlock_adapters.guards import WorkspaceConfinement

pytestmark = pytest.mark.anyio


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    path = tmp_path / "ws"
    (path / "src").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (path / "link").symlink_to(tmp_path / "other")
    (path / "inner").symlink_to(path / "src")
    return str(path)


async def judged(one: HookCall, **how: object) -> bool:
    """Whether it passes."""
    answer = await WorkspaceConfinement(**how).before(one)  # type: ignore[arg-type]  # as the test says
    assert isinstance(answer, Allow | DenyCall)
    return isinstance(answer, Allow)


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("src/a.py", True),
        ("{ws}/src/a.py", True),
        ("inner/a.py", True),
        ("src/../a.py", True),
        ("new/folder/a.py", True),
        ("../other/a", False),
        ("link/a", False),
        ("link/../../other/a", False),
        ("/etc/passwd", False),
        ("~/.ssh/id_rsa", False),
        ("{ws}-other/a", False),
        ("src/../../a", False),
    ],
)
@pytest.mark.parametrize("tool", ["Read", "Write", "Edit"])
async def test_a_file_must_lie_inside_with_links_followed(workspace: str, tool: str, path: str, inside: bool) -> None:
    given = {"file_path": path.format(ws=workspace), "content": "", "old_string": "a", "new_string": "b"}
    assert await judged(call(tool, given, workspace=workspace)) is inside


async def test_further_folders_count_as_inside(workspace: str) -> None:
    other = str(Path(workspace).parent / "other")
    read = call("Read", {"file_path": f"{other}/a"}, workspace=workspace)
    assert not await judged(read)
    assert await judged(read, add_dirs=[other])


async def test_a_search_without_a_path_is_where_it_runs(workspace: str) -> None:
    assert await judged(call("Grep", {"pattern": "x"}, workspace=workspace))
    assert await judged(call("Grep", {"pattern": "x", "path": "src"}, workspace=workspace))
    assert not await judged(call("Grep", {"pattern": "x", "path": "/etc"}, workspace=workspace))
    assert not await judged(call("Grep", {"pattern": "x"}, workspace=workspace, cwd="/etc"))


@pytest.mark.parametrize(
    ("command", "readers"),
    [
        ("cat src/a.py", True),
        ("ls", True),
        ("cat src/a | head", True),
        ("cat /etc/passwd", False),
        ("cat ../other/a", False),
        ("cat link/a", False),
        ("cat $HOME/x", False),
        ("python x.py", False),
        ("echo hi > src/a", False),
        ("rm -r src", False),
        ("git push", False),
    ],
)
async def test_of_commands_readers_of_files_inside_pass(workspace: str, command: str, readers: bool) -> None:
    one = shell(command, workspace=workspace)
    assert await judged(one) is readers
    assert not await judged(one, shell="deny")
    assert await judged(one, shell="allow")


async def test_tools_whose_files_nobody_knows_are_named_or_denied(workspace: str) -> None:
    mcp, unknown = call("mcp__files__read", {}, workspace=workspace), call("Novel", {}, workspace=workspace)
    assert not await judged(mcp)
    assert not await judged(unknown)
    assert await judged(mcp, tools=["files/read"])
    assert await judged(unknown, tools=["Novel"])
    assert not await judged(call("Read", {}, workspace=workspace))


async def test_calls_that_touch_no_file_pass(workspace: str) -> None:
    assert await judged(call("TodoWrite", {"todos": []}, workspace=workspace))
    assert await judged(call("WebFetch", {"url": "https://a.example", "prompt": "x"}, workspace=workspace))
    assert not await judged(call("WebFetch", {"url": "file:///etc/passwd", "prompt": "x"}, workspace=workspace))


async def test_a_denial_names_the_path_and_the_workspace(workspace: str) -> None:
    answer = await WorkspaceConfinement().before(call("Read", {"file_path": "/etc/passwd"}, workspace=workspace))
    assert answer == DenyCall(reason=f"/etc/passwd lies outside the workspace; stay inside {workspace}")
