"""A workspace that cannot be seen through is never taken for a harmless one, and never holds us up."""

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.engine.workspace import programs_named_by

GITLINK = 0o160000


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "work"
    subprocess.run(["git", "init", "-q", "--template=", str(top)], check=True)
    return top


def index(*named: tuple[bytes, int], version: int = 2, extensions: bytes = b"") -> bytes:
    """An index file of these names and modes."""
    body = b"DIRC" + struct.pack(">II", version, len(named))
    for name, mode in named:
        entry = struct.pack(">24xI12x20xH", mode, min(len(name), 0xFFF)) + name
        body += entry + b"\0" * (8 - len(entry) % 8)
    return body + extensions + b"\0" * 20


def hostile(folder: Path) -> None:
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "--template=", str(folder)], check=True)
    with (folder / ".git/config").open("a", encoding="utf-8") as config:
        config.write("[core]\n fsmonitor = ./evil.sh\n")


@pytest.mark.parametrize("name", ["none", "a\0b", "x" * 300])
def test_a_folder_that_does_not_exist_cannot_be_read(tmp_path: Path, name: str) -> None:
    assert "cannot be read" in programs_named_by(str(tmp_path / name))[0]


@pytest.mark.parametrize(
    "text",
    ["[core\n", "[core]\nx y\n", '[core "x]\n', "[]\n", "=\n", '[core]\nx = "y\n', "[core]\nx = \\y\n", "[a]\nb\0=c\n"],
)
def test_a_configuration_that_git_would_not_take_cannot_be_parsed(repository: Path, text: str) -> None:
    (repository / ".git/config").write_text(f"[user]\n name = x\n{text}", encoding="utf-8", newline="")
    (found,) = programs_named_by(str(repository))
    assert found.startswith(".git/config: cannot be parsed (line ")


def test_what_stands_before_a_bad_line_is_still_found(repository: Path) -> None:
    (repository / ".git/config").write_text("[core]\nfsmonitor = x\n]\n", encoding="utf-8")
    assert programs_named_by(str(repository)) == (
        ".git/config: core.fsmonitor = x",
        ".git/config: cannot be parsed (line 3)",
    )


def test_a_configuration_of_more_than_a_mebibyte_cannot_be_read(repository: Path) -> None:
    (repository / ".git/config").write_text("#" * 1024 * 1024 + "\n", encoding="utf-8")
    assert "cannot be read" in programs_named_by(str(repository))[0]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", ["config", "HEAD", "commondir", "index", "config.worktree"])
def test_a_pipe_in_the_place_of_a_file_does_not_hang(repository: Path, name: str) -> None:
    (repository / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(repository / ".git" / name)
    assert "cannot be read (not a plain file" in programs_named_by(str(repository))[0]


@pytest.mark.timeout(10)
def test_a_device_a_socket_and_a_loop_of_links_do_not_hang(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, worktree, index_file = (repository / ".git" / name for name in ("config", "config.worktree", "index"))
    config.unlink()
    config.symlink_to("/dev/zero")
    worktree.symlink_to(worktree)
    monkeypatch.chdir(repository / ".git")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("index")
        found = programs_named_by(str(repository))
    assert [line.partition(" (")[0] for line in found] == [
        f".git/{path.name}: cannot be read" for path in (config, worktree, index_file)
    ]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("content", ["", "gitdir:\n", "gitdir: a\0b\n", "x" * 2_000_000])
def test_a_git_file_that_names_nothing_cannot_be_parsed(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_text(content, encoding="utf-8")
    assert programs_named_by(str(tmp_path))[0].startswith(".git: cannot be ")


def test_a_git_file_that_names_itself_ends(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: .git\n", encoding="utf-8")
    programs_named_by(str(tmp_path))


def test_submodules_that_contain_each_other_end(repository: Path) -> None:
    (repository / ".git/index").write_bytes(index((b"sub", GITLINK)))
    (repository / "sub").symlink_to(repository)
    assert programs_named_by(str(repository)) != ()


def test_deeper_submodules_than_can_be_read_are_a_finding(repository: Path) -> None:
    """Each repository names itself as the submodule `s`, under a path that grows by one link."""
    (repository / ".git/index").write_bytes(index((b"s", GITLINK)))
    (repository / "s").symlink_to(".")
    assert "cannot be read" in programs_named_by(str(repository))[-1]


@pytest.mark.parametrize("mode", [GITLINK, 0o160755, 0xABCD0000 | GITLINK])
def test_any_mode_that_git_takes_for_a_submodule_counts(repository: Path, mode: int) -> None:
    (repository / ".git/index").write_bytes(index((b"a", 0o100644), (b"sub", mode)))
    hostile(repository / "sub")
    assert programs_named_by(str(repository)) == ("sub/.git/config: core.fsmonitor = ./evil.sh",)


def test_a_long_name_in_the_index_is_read_whole(repository: Path) -> None:
    name = "/".join(["d" * 200] * 4)
    filler = b"a/" * 2100 + b"f"
    (repository / ".git/index").write_bytes(index((filler, 0o100644), (name.encode(), GITLINK)))
    hostile(repository / name)
    assert len(programs_named_by(str(repository))) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"DIRC",
        b"XXXX" + bytes(60),
        index((b"sub", GITLINK), version=5),
        index((b"sub", GITLINK))[:70],
        index((b"s\0b", GITLINK)),
        index((b"a", 0o100644), extensions=b"IEOT" + struct.pack(">IIII", 12, 1, 16, 1)),
        index((b"a", 0o100644), extensions=b"IEOT" + struct.pack(">II", 4, 1)),
        index((b"", GITLINK)),
    ],
)
def test_an_index_that_cannot_be_followed_is_a_finding(repository: Path, content: bytes) -> None:
    (repository / ".git/index").write_bytes(content)
    (found,) = programs_named_by(str(repository))
    assert found.startswith(".git/index: cannot be parsed")


def test_an_index_of_an_unknown_object_format_is_a_finding(repository: Path) -> None:
    (repository / ".git/index").write_bytes(index((b"a", 0o100644)))
    with (repository / ".git/config").open("a", encoding="utf-8") as config:
        config.write("[extensions]\n objectFormat = sha3\n")
    assert "object format" in programs_named_by(str(repository))[0]


def test_a_repository_of_sha256_is_read(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(tmp_path)], check=True)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    subprocess.run(["git", "add", "file"], cwd=tmp_path, check=True)
    assert programs_named_by(str(tmp_path)) == ()


def test_a_folder_that_a_sparse_index_leaves_out_and_yet_exists_is_a_finding(repository: Path) -> None:
    (repository / ".git/index").write_bytes(index((b"d/", 0o040000)))
    assert programs_named_by(str(repository)) == ()
    (repository / "d").mkdir()
    assert programs_named_by(str(repository)) == ("d: cannot be read (the index leaves it out, and yet it exists)",)


def test_a_link_among_the_modules_is_a_finding(repository: Path, tmp_path: Path) -> None:
    (repository / ".git/modules").mkdir()
    (repository / ".git/modules/sub").symlink_to(tmp_path)
    assert programs_named_by(str(repository)) == (".git/modules/sub: cannot be read (a link to a folder)",)


def test_findings_are_bounded(repository: Path) -> None:
    lines = "".join(f"[alias]\n a{number} = !x\n" for number in range(5000))
    (repository / ".git/config").write_text(lines, encoding="utf-8")
    found = programs_named_by(str(repository))
    assert len(found) == 101
    assert found[-1] == "and more, which is not listed"


def test_no_git_is_needed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile(repository / "inner")
    monkeypatch.setenv("PATH", "")
    assert programs_named_by(str(repository / "inner")) == (".git/config: core.fsmonitor = ./evil.sh",)


def test_a_file_that_may_not_be_read_is_a_finding(repository: Path) -> None:
    """As root nothing is forbidden, so the look is taken as another user."""
    (repository / ".git/config").chmod(0)
    code = f"""
import os
if os.getuid() == 0:
    from interlock.engine.workspace import programs_named_by
    os.setuid(65534)
from interlock.engine.workspace import programs_named_by
print(programs_named_by({str(repository)!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "cannot be read (Permission denied)" in done.stdout
