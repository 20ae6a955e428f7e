"""What each posture lets run unasked, row by row, and which commands only read."""

from pathlib import Path

import pytest

from interlock.engine.places import Place
from interlock.engine.postures import PROTECTED, covers, reader_operands, touched
from interlock.permission import Posture
from interlock.tools import Subject, ToolCall, ToolKind

ALL = list(Posture)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    workspace = tmp_path / "ws"
    (workspace / "src").mkdir(parents=True)
    (workspace / ".git").mkdir()
    (tmp_path / "added").mkdir()
    (tmp_path / "outside").mkdir()
    (workspace / "link").symlink_to(tmp_path / "outside")
    (workspace / "tools").symlink_to(workspace / ".git")
    return workspace


def call(kind: ToolKind, *paths: str, command: str | None = None, cwd: str | None = None) -> ToolCall:
    subject = Subject(paths=paths, command=command)
    return ToolCall(tool_call_id="1", tool_name="T", input={}, tool_kind=kind, subject=subject, cwd=cwd)


def covered(tree: Path, asked: ToolCall, *, confined: bool = False, readers_void: bool = False) -> set[str]:
    place = Place.of(str(tree), [str(tree.parent / "added")])
    return {
        posture.value for posture in ALL if covers(posture, asked, place, confined=confined, readers_void=readers_void)
    }


@pytest.mark.parametrize("kind", [ToolKind.INTERNAL, ToolKind.PLAN, ToolKind.QUESTION])
def test_what_is_internal_runs_under_every_posture(tree: Path, kind: ToolKind) -> None:
    assert covered(tree, call(kind)) == {"none", "read", "edit", "full"}


@pytest.mark.parametrize("kind", [ToolKind.READ, ToolKind.SEARCH])
@pytest.mark.parametrize("path", ["src/a", ".", "{ws}/src", "{added}/x", "src/../src/b", ".git/config"])
def test_reading_inside_runs_under_read(tree: Path, kind: ToolKind, path: str) -> None:
    path = path.replace("{ws}", str(tree)).replace("{added}", str(tree.parent / "added"))
    assert covered(tree, call(kind, path)) == {"read", "edit", "full"}


@pytest.mark.parametrize("kind", [ToolKind.READ, ToolKind.SEARCH, ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH])
@pytest.mark.parametrize("path", ["/etc/passwd", "..", "../outside/x", "link/x", "~/x", "{ws}x/a", "file:///x", "\0"])
def test_outside_only_full_covers(tree: Path, kind: ToolKind, path: str) -> None:
    asked = call(kind, "src/a", path.replace("{ws}", str(tree)))
    assert covered(tree, asked) == {"full"}


@pytest.mark.parametrize("kind", [ToolKind.READ, ToolKind.SEARCH, ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH])
def test_a_call_whose_paths_are_unknown_only_full_covers(tree: Path, kind: ToolKind) -> None:
    assert covered(tree, call(kind)) == {"full"}


@pytest.mark.parametrize("kind", [ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH])
def test_changes_inside_run_under_edit(tree: Path, kind: ToolKind) -> None:
    assert covered(tree, call(kind, "src/a", ".github/workflows/ci.yml", ".gitignore")) == {"edit", "full"}


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        "sub/.git/hooks/x",
        ".GIT/config",
        "tools/config",
        ".github/hooks/x.json",
        "src/../.claude/x",
        "{added}/.codex/config.toml",
        ".git",
        ".Git./config",
        *sorted(PROTECTED),
    ],
)
def test_folders_that_configure_agents_and_tools_are_never_changed_unasked(tree: Path, path: str) -> None:
    asked = call(ToolKind.WRITE, path.replace("{added}", str(tree.parent / "added")))
    assert covered(tree, asked) == {"full"}


def test_a_protected_folder_that_was_added_stays_protected(tree: Path) -> None:
    place = Place.of(str(tree), [str(tree / ".git")])
    asked = call(ToolKind.WRITE, str(tree / ".git" / "config"))
    assert not covers(Posture.EDIT, asked, place, confined=False, readers_void=False)


def test_a_workspace_inside_such_a_folder_can_be_changed(tree: Path) -> None:
    place = Place.of(str(tree / ".claude" / "worktrees" / "one"))
    asked = call(ToolKind.WRITE, "src/a")
    assert covers(Posture.EDIT, asked, place, confined=False, readers_void=False)


def test_sub_agents_start_under_read(tree: Path) -> None:
    assert covered(tree, call(ToolKind.AGENT)) == {"read", "edit", "full"}


@pytest.mark.parametrize(
    "kind", [ToolKind.FETCH, ToolKind.MCP, ToolKind.UNKNOWN, ToolKind.WEB_SEARCH, ToolKind.SHELL_INPUT]
)
def test_everything_else_only_full_covers(tree: Path, kind: ToolKind) -> None:
    assert covered(tree, call(kind)) == {"full"}


def test_a_confined_shell_runs_under_the_posture_that_its_sandbox_enforces(tree: Path) -> None:
    asked = call(ToolKind.SHELL, command="make && ./deploy")
    assert covered(tree, asked, confined=True) == {"read", "edit", "full"}
    assert covered(tree, asked) == {"full"}


READERS = [
    "ls",
    "ls -la src",
    "pwd",
    "cat src/a src/b",
    "cat -n 'src/a b'",
    "head -5 src/a",
    "head -n 5 src/a",
    "head -n5 src/a",
    "tail -n +3 src/a",
    "wc -l src/a",
    "echo hello",
    "echo -n '$HOME'",
    "true",
    "false",
    "basename /etc/passwd .x",
    "dirname a/b",
    "stat src",
    "cat src/a | head -5 | wc -l",
    "ls; cat src/a && echo done",
    "cat src/a 2>/dev/null",
    "ls src >/dev/null 2>&1 || echo none",
]


@pytest.mark.parametrize("command", READERS)
def test_a_reader_inside_runs_under_read(tree: Path, command: str) -> None:
    asked = call(ToolKind.SHELL, command=command)
    assert covered(tree, asked) == {"read", "edit", "full"}


@pytest.mark.parametrize("command", READERS)
def test_readers_are_void_once_another_unsandboxed_command_ran(tree: Path, command: str) -> None:
    assert covered(tree, call(ToolKind.SHELL, command=command), readers_void=True) == {"full"}


@pytest.mark.parametrize(
    "command",
    [
        "cat",
        "cat -",
        "cat /etc/passwd",
        "cat ../outside/x",
        "cat link/x",
        "ls link",
        "ls ..",
        "ls /",
        "cat ~/x",
        "cat $HOME/x",
        "cat src/*",
        "cat src/a > b",
        "cat src/a < b",
        "cat src/a | head -5 ../outside/x",
        "ls && cat",
        "cat src/a | tee b",
        "head -5 | cat src/a",
        "timeout 5 cat src/a",
        "ls &",
        "X=1 ls",
        "cat src/a; rm x",
        "cat src/a | sh",
        "tail -f src/a",
        "tail --follow src/a",
        "head --lines=5 src/a",
        "head -n",
        "head -n x src/a",
        "wc --files0-from=x",
        "cat -- -n",
        "ls -R",
        "ls --color",
        "stat -c %n src",
        "pwd x",
        "true x",
        "./cat src/a",
        "/bin/cat src/a",
        "CAT src/a",
        "git status",
        "find .",
        "sed -n 1p src/a",
        "awk 1 src/a",
        "sort src/a",
        "rg x",
        "grep x src/a",
        "env",
        "xargs cat",
        "sh -c 'cat src/a'",
        "printf x",
        "date",
        "less src/a",
        "cat ''",
        "",
    ],
)
def test_what_is_not_on_the_list_of_readers_only_full_covers(tree: Path, command: str) -> None:
    assert covered(tree, call(ToolKind.SHELL, command=command)) == {"full"}


def test_a_readers_operands_count_from_the_calls_directory(tree: Path) -> None:
    assert covered(tree, call(ToolKind.SHELL, command="cat a", cwd=str(tree / "src"))) == {"read", "edit", "full"}
    assert covered(tree, call(ToolKind.SHELL, command="ls", cwd="/etc")) == {"full"}


def test_the_operands_of_a_reader_are_what_it_reads() -> None:
    assert reader_operands("head -n 5 a b") == ("a", "b")
    assert reader_operands("ls") == (".",)
    assert reader_operands("echo a b") == ()
    assert reader_operands("cat a | head -5; ls") == ("a", ".")
    assert reader_operands("git status") is None
    assert touched("cat a; make > b < c 2>/dev/null") == (("a", "c"), ("b",))
    assert reader_operands(None) is None
