"""Whatever the real git runs because a workspace names it is found beforehand, and without running git."""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.engine.workspace import programs_named_by

STARTS = ("status", "diff", "log -1 -p", "ls-files -m", "rev-parse HEAD", "ls-files --recurse-submodules")
"""What agents ask of git when they start."""


class Workspace:
    """A repository with one commit and one changed file, and programs that leave a marker when they are run."""

    def __init__(self, folder: Path) -> None:
        self.top = folder / "work"
        self.marker = folder / "marker"
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "TERM": "xterm",
        } | {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        (folder / "home").mkdir(parents=True)
        self.create(self.top)

    def create(self, top: Path) -> Path:
        top.mkdir(parents=True)
        self.git("init -q -b main .", top)
        (top / "file").write_text("one\n", encoding="utf-8")
        self.git("add file", top)
        self.git("commit -q -m one", top)
        (top / "file").write_text("two\n", encoding="utf-8")
        return top

    def git(self, command: str, cwd: Path | None = None, stdin: str = "") -> str:
        """Runs to its end whatever becomes of it, with a terminal so that it would page; returns what it wrote."""
        ours, theirs = pty.openpty()
        try:
            done = subprocess.run(
                ["git", *command.split()],
                cwd=cwd or self.top,
                env=self._environment,
                input=stdin.encode(),
                stdout=subprocess.PIPE if stdin else theirs,
                stderr=subprocess.DEVNULL,
                timeout=20,
                check=False,
            )
        finally:
            os.close(theirs)
            os.close(ours)
        return (done.stdout or b"").decode()

    def program(self, path: Path | None = None) -> Path:
        path = path or self.top / "evil.sh"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho run >> {self.marker}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def configure(self, text: str, config: Path | None = None) -> None:
        config = config or self.top / ".git/config"
        with config.open("a", encoding="utf-8") as file:
            file.write(text.replace("PROGRAM", str(self.program())))

    def attribute(self, line: str) -> None:
        (self.top / ".gitattributes").write_text(line + "\n", encoding="utf-8")

    def runs(self, *commands: str, cwd: Path | None = None) -> bool:
        """Whether any of the commands ran a program of the workspace."""
        self.marker.unlink(missing_ok=True)
        for command in commands:
            self.git(command, cwd)
        return self.marker.exists()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def submodule(workspace: Workspace, *, listed: bool, name: str = "sub") -> Path:
    """A repository inside, in the index of the outer one."""
    top = workspace.create(workspace.top / name)
    workspace.git(f"add {name}")
    if listed:
        (workspace.top / ".gitmodules").write_text(f'[submodule "{name}"]\n path = {name}\n url = ./x\n', "utf-8")
    return top


def monitored(workspace: Workspace, gitdir: Path) -> None:
    workspace.configure("[core]\n fsmonitor = PROGRAM\n", gitdir / "config")


def plant_signature(workspace: Workspace) -> None:
    workspace.configure("[log]\n showSignature = true\n[gpg]\n program = PROGRAM\n")
    commit = workspace.git("cat-file commit HEAD", stdin=" ")
    head, _, message = commit.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    signed = workspace.git("hash-object -t commit -w --stdin", stdin=f"{head}\n{signature}\n\n{message}")
    workspace.git(f"update-ref refs/heads/main {signed.strip()}")


def plant_hook(workspace: Workspace, folder: str) -> None:
    workspace.program(workspace.top / folder / "post-index-change")
    # an entry as old as the index makes git refresh, and write, the index
    os.utime(workspace.top / "file", (1, 1))
    (workspace.top / "file").write_text("one\n", encoding="utf-8")


def plant_hooks_path(workspace: Workspace) -> None:
    workspace.configure("[core]\n hooksPath = hooks\n")
    plant_hook(workspace, "hooks")


def plant_filter(workspace: Workspace, key: str) -> None:
    workspace.configure(f'[filter "x"]\n {key} = PROGRAM\n')
    workspace.attribute("file filter=x")


def plant_driver(workspace: Workspace, key: str) -> None:
    workspace.configure(f'[diff "x"]\n {key} = PROGRAM\n')
    workspace.attribute("file diff=x")


def plant_include(workspace: Workspace, section: str) -> None:
    workspace.configure("[core]\n fsmonitor = PROGRAM\n", workspace.top / "other")
    workspace.configure(f"[{section}]\n path = ../other\n")


def plant_submodule(workspace: Workspace, listed: bool) -> None:
    monitored(workspace, submodule(workspace, listed=listed) / ".git")


def plant_absorbed_submodule(workspace: Workspace) -> None:
    submodule(workspace, listed=True)
    workspace.git("submodule absorbgitdirs")
    assert (workspace.top / "sub/.git").is_file()
    monitored(workspace, workspace.top / ".git/modules/sub")


def plant_nested_submodule(workspace: Workspace) -> None:
    outer = submodule(workspace, listed=False)
    inner = workspace.create(outer / "inner")
    workspace.git("add inner", outer)
    monitored(workspace, inner / ".git")


def plant_version_four(workspace: Workspace) -> None:
    workspace.configure("[index]\n version = 4\n")
    plant_submodule(workspace, listed=False)
    workspace.git("update-index --index-version 4 --force-write-index")


def plant_split_index(workspace: Workspace) -> None:
    plant_submodule(workspace, listed=False)
    workspace.git("update-index --split-index")
    assert list((workspace.top / ".git").glob("sharedindex.*"))


def plant_gitfile(workspace: Workspace) -> None:
    (workspace.top / ".git").rename(workspace.top / "hidden")
    (workspace.top / ".git").write_text("gitdir: hidden\n", "utf-8")
    monitored(workspace, workspace.top / "hidden")


def plant_worktree_config(workspace: Workspace) -> None:
    workspace.configure("[core]\n repositoryFormatVersion = 1\n[extensions]\n worktreeConfig = true\n")
    workspace.configure("[core]\n fsmonitor = PROGRAM\n", workspace.top / ".git/config.worktree")


def plant_other_worktree(workspace: Workspace) -> None:
    """The folder becomes a linked work tree of a repository elsewhere."""
    main = workspace.top.with_name("main")
    workspace.top.rename(main)
    workspace.git(f"worktree add -q {workspace.top}", main)
    assert (workspace.top / ".git").is_file()
    monitored(workspace, main / ".git")


def plant_bare(workspace: Workspace) -> None:
    """The folder is itself a repository, without a `.git`."""
    for part in (workspace.top / ".git").iterdir():
        part.rename(workspace.top / part.name)
    (workspace.top / ".git").rmdir()
    workspace.configure("[core]\n bare = true\n pager = PROGRAM\n", workspace.top / "config")


def plant_invalid_inside(workspace: Workspace) -> None:
    """A `.git` that is no repository does not keep git from the one above."""
    above = workspace.top
    workspace.top = above / "below"
    (workspace.top / ".git").mkdir(parents=True)
    monitored(workspace, above / ".git")


def plant_submodule_of_a_commit(workspace: Workspace) -> None:
    """A commit that adds a submodule which the index does not hold; git then shows the diff from inside of it."""
    inner = submodule(workspace, listed=False)
    (inner / ".gitattributes").write_text("file diff=x\n", "utf-8")
    workspace.git("commit -q -m two")
    workspace.git("rm -q --cached sub")
    workspace.configure("[diff]\n submodule = diff\n")
    workspace.configure('[diff "x"]\n textconv = PROGRAM\n', inner / ".git/config")


def configured(text: str) -> Callable[[Workspace], None]:
    return lambda workspace: workspace.configure(text)


PLANTS: dict[str, Callable[[Workspace], None]] = {
    "fsmonitor": configured("[core]\n fsmonitor = PROGRAM\n"),
    "fsmonitor on the line of its section": configured("[CORE]FSMonitor=PROGRAM ; why not\n"),
    "fsmonitor over two lines": configured('[core]\n fsmonitor = \\\n"PROGRAM"\n'),
    "fsmonitor after a harmless one": configured("[core]\n fsmonitor = false\n[core]\n fsmonitor = PROGRAM\n"),
    "fsmonitor with CRLF": configured("[core]\r\n\tfsmonitor = PROGRAM\r\n"),
    "hooksPath": plant_hooks_path,
    "post-index-change": lambda workspace: plant_hook(workspace, ".git/hooks"),
    "clean": lambda workspace: plant_filter(workspace, "clean"),
    "process": lambda workspace: plant_filter(workspace, "process"),
    "external diff": configured("[diff]\n external = PROGRAM\n"),
    "diff command": lambda workspace: plant_driver(workspace, "command"),
    "textconv": lambda workspace: plant_driver(workspace, "textconv"),
    "pager": configured("[core]\n pager = PROGRAM\n"),
    "pager of a command": configured("[pager]\n log = PROGRAM\n"),
    "signature": plant_signature,
    "include": lambda workspace: plant_include(workspace, "include"),
    "conditional include": lambda workspace: plant_include(workspace, 'includeIf "gitdir:**"'),
    "submodule": lambda workspace: plant_submodule(workspace, listed=True),
    "submodule that nothing lists but the index": lambda workspace: plant_submodule(workspace, listed=False),
    "absorbed submodule": plant_absorbed_submodule,
    "submodule of a submodule": plant_nested_submodule,
    "submodule in an index of version 4": plant_version_four,
    "submodule in a split index": plant_split_index,
    "submodule of a commit": plant_submodule_of_a_commit,
    "git file": plant_gitfile,
    "config.worktree": plant_worktree_config,
    "linked work tree": plant_other_worktree,
    "bare repository": plant_bare,
    "no repository below": plant_invalid_inside,
}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_what_git_runs_at_start_is_found_beforehand(workspace: Workspace, plant: Callable[[Workspace], None]) -> None:
    assert programs_named_by(str(workspace.top)) == ()
    plant(workspace)
    assert not workspace.marker.exists() or workspace.marker.unlink() is None
    found = programs_named_by(str(workspace.top))
    assert not workspace.marker.exists()
    assert workspace.runs(*STARTS)
    assert found


LATER = {
    "ssh": ("[core]\n sshCommand = PROGRAM\n", "ls-remote ssh://127.0.0.1/x"),
    "git proxy": ("[core]\n gitProxy = PROGRAM\n", "ls-remote git://127.0.0.1/x"),
    "editor": ("[core]\n editor = PROGRAM\n", "commit --amend"),
    "sequence editor": ("[sequence]\n editor = PROGRAM\n", "rebase -i --root --autostash"),
    "alias": ("[alias]\n st = !PROGRAM\n", "st"),
    "alias with options": ("[alias]\n st = -c core.fsmonitor=PROGRAM status\n", "st"),
    "upload pack": ('[remote "o"]\n url = .\n uploadpack = PROGRAM\n', "ls-remote o"),
    "receive pack": ('[remote "o"]\n url = .\n receivepack = PROGRAM\n', "push o main:x"),
    "ext": ('[protocol "ext"]\n allow = always\n[remote "o"]\n url = ext::PROGRAM\n', "ls-remote o"),
    "ext by another name": ('[protocol]\n allow = always\n[url "ext::PROGRAM "]\n insteadOf = x:\n', "ls-remote x:y"),
    "credential helper": ("[credential]\n helper = PROGRAM\n", "credential fill"),
    "credential helper of a host": ('[credential "https://h"]\n helper = PROGRAM\n', "credential fill"),
    "ask pass": ("[core]\n askPass = PROGRAM\n", "credential fill"),
    "trailer": (
        '[trailer "x"]\n key = x\n command = PROGRAM\n ifMissing = add\n',
        "interpret-trailers --trailer x=y file",
    ),
    "diff tool": ('[difftool "x"]\n cmd = PROGRAM\n', "difftool -y -t x"),
    "signing": ("[commit]\n gpgSign = true\n[gpg]\n program = PROGRAM\n", "commit --amend --no-edit"),
    "signing with ssh": (
        '[commit]\n gpgSign = true\n[gpg]\n format = ssh\n[gpg "ssh"]\n program = PROGRAM\n[user]\n signingKey = f\n',
        "commit --amend --no-edit",
    ),
    "archive": ('[tar "x"]\n command = PROGRAM\n', "archive --format=x -o ../out HEAD"),
}


@pytest.mark.parametrize(("text", "command"), LATER.values(), ids=LATER)
def test_what_git_runs_later_is_found_too(workspace: Workspace, text: str, command: str) -> None:
    workspace.configure(text)
    found = programs_named_by(str(workspace.top))
    workspace.git(command, stdin="protocol=https\nhost=h\n\n" if command == "credential fill" else "")
    assert workspace.marker.exists()
    assert found


def test_the_hooks_of_commands_that_are_judged_are_no_findings(workspace: Workspace) -> None:
    for hook in ("pre-commit", "post-checkout", "pre-push"):
        workspace.program(workspace.top / ".git/hooks" / hook)
    assert not workspace.runs(*STARTS)
    assert programs_named_by(str(workspace.top)) == ()


def test_a_sample_of_a_hook_is_no_finding(workspace: Workspace) -> None:
    hook = workspace.program(workspace.top / ".git/hooks/post-index-change")
    hook.chmod(0o644)
    assert programs_named_by(str(workspace.top)) == ()


def test_a_folder_deep_inside_is_governed_by_the_repository_above(workspace: Workspace) -> None:
    deep = workspace.top / "a/b/c"
    deep.mkdir(parents=True)
    workspace.configure("[core]\n fsmonitor = ./evil.sh\n")
    assert programs_named_by(str(deep)) == (f"{workspace.top}/.git/config: core.fsmonitor = ./evil.sh",)


def test_a_repository_around_the_one_that_governs_is_no_finding(workspace: Workspace) -> None:
    inner = workspace.create(workspace.top / "inner")
    workspace.configure("[core]\n fsmonitor = PROGRAM\n")
    assert not workspace.runs(*STARTS, cwd=inner)
    assert programs_named_by(str(inner)) == ()


def test_a_folder_without_a_repository_has_none(tmp_path: Path) -> None:
    assert programs_named_by(str(tmp_path)) == ()


def test_a_link_to_a_folder_is_followed(workspace: Workspace, tmp_path: Path) -> None:
    workspace.configure("[core]\n fsmonitor = ./evil.sh\n")
    (tmp_path / "link").symlink_to(workspace.top)
    assert programs_named_by(str(tmp_path / "link")) == (".git/config: core.fsmonitor = ./evil.sh",)


def test_an_honest_repository_with_submodules_and_linked_work_trees_has_none(workspace: Workspace) -> None:
    submodule(workspace, listed=True)
    workspace.git("submodule absorbgitdirs")
    workspace.git("commit -q -m two")
    workspace.git("worktree add -q ../linked")
    assert programs_named_by(str(workspace.top)) == ()
    assert programs_named_by(str(workspace.top / "sub")) == ()
    assert programs_named_by(str(workspace.top.with_name("linked"))) == ()


def test_a_module_whose_folder_is_gone_is_judged(workspace: Workspace) -> None:
    plant_absorbed_submodule(workspace)
    (workspace.top / "sub/.git").unlink()
    assert programs_named_by(str(workspace.top)) == (
        f".git/modules/sub/config: core.fsmonitor = {workspace.top}/evil.sh",
    )


def test_a_work_tree_elsewhere_is_a_finding(workspace: Workspace) -> None:
    workspace.configure("[core]\n worktree = ../../..\n")
    assert programs_named_by(str(workspace.top)) == (".git/config: core.worktree = ../../.. (leaves the workspace)",)


def test_what_is_shown_is_plain_and_bounded(workspace: Workspace) -> None:
    workspace.configure(f'[core]\n pager = "a\\nb\\u001b{"c" * 5000}"\n'.replace("\\u001b", "\x1b"))
    (found,) = programs_named_by(str(workspace.top))
    assert found.isprintable()
    assert found.startswith(r".git/config: core.pager = a\nb\x1bccc")
    assert found.endswith("... (5004 characters)")
