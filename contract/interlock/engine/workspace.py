"""What the git configuration of a workspace would run before any tool call is judged.

Agent CLIs call git when they start (`git status`, `diff`, `log`, `rev-parse`, `ls-files`), and git runs programs that
the repository itself names: a file system monitor, filters, text converters, pagers. A repository that came from
elsewhere as files (an archive, a shared folder, an earlier run) can so run code as our user, outside of any sandbox.

Strategy: follow git from the folder to every repository that it would enter, and judge each key of each configuration
file there. Git itself is never run, since that is the very danger. Upwards: every folder is looked at as git does, up
to the first that is a repository beyond doubt. Downwards: submodules that the index names, whatever lies in `modules`.
Everything fails closed: what cannot be read, parsed or bounded is a finding of its own. Other files that a
configuration includes are findings too and are not followed. Nothing here can hang: a file is looked at before it is
opened, and opened without waiting.

Of the hooks only those count that git runs without being told to change anything (`post-index-change`, run by `git
status` when it refreshes the index, and `reference-transaction`). The usual ones (`pre-commit`, ...) run on commands
that the agent's own, judged calls would have to give. The user's and the system's configuration is trusted; variables
such as GIT_DIR or GIT_CONFIG_COUNT are kept from the agent by `engine.environment`.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from pathlib import Path

from interlock.engine.git_config import BadLine, Setting, names_program, settings
from interlock.engine.git_index import Entries, entries

__all__ = ["programs_named_by"]

_CONFIG_BYTES = 1024 * 1024
_INDEX_BYTES = 64 * 1024 * 1024
_REPOSITORIES = 1000
_FINDINGS = 100
_MODULE_ENTRIES = 200_000
_SHOWN = 200
_HOOKS = ("post-index-change", "reference-transaction")
_HASH_SIZES = {"sha1": 20, "sha256": 32}
_HEAD = re.compile(rb"ref:\s*refs/|[0-9a-f]{40}")


def programs_named_by(folder: str) -> tuple[str, ...]:
    """Everything in the git configuration that governs `folder` by which git would run a program of the workspace's
    choice, and everything that kept us from seeing it: one fragment of a sentence each, empty if there is nothing."""
    if "\0" in folder:
        return (f"{_plain(folder)}: cannot be read (no path has a NUL in it)",)
    survey = _Survey(Path(os.path.realpath(folder)))
    survey.look()
    return tuple(survey.findings)


class _TooMuch(Exception):
    """A bound was reached; the message is the finding."""


class _Survey:
    """One look at one folder: the findings so far, and the repositories that were visited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.findings: dict[str, None] = {}
        self._visited: dict[tuple[str, Path | None], bool] = {}
        self._pending: list[tuple[Path, Path | None, Path]] = []
        self._module_entries = 0

    def look(self) -> None:
        try:
            self._look()
        except _TooMuch as bound:
            self.findings[str(bound)] = None

    def _look(self) -> None:
        if self._mode(self.folder) is None:
            self._found(self.folder, "cannot be read (there is nothing)")
        any(self._governed_from(place) for place in (self.folder, *self.folder.parents))
        while self._pending:
            self._repository(*self._pending.pop())

    def _governed_from(self, place: Path) -> bool:
        """Whether git, looking for its repository, would surely stop here; whatever is here is judged in any case."""
        gitdir = self._gitdir(place)
        if gitdir is not None and self._repository(gitdir, place, place):
            return True
        return self._looks_like_repository(place) and self._repository(place, None, place)

    def _gitdir(self, work_tree: Path) -> Path | None:
        """The folder that `.git` is or names; None if there is none."""
        path = work_tree / ".git"
        mode = self._mode(path)
        if mode is None or stat.S_ISDIR(mode):
            return None if mode is None else path
        return self._named_folder(path, b"gitdir: ")

    def _named_folder(self, path: Path, prefix: bytes) -> Path | None:
        """The folder that a file of git's names, absolute or from its own folder; None without such a file."""
        content = self._read(path, _CONFIG_BYTES)
        if content is None:
            return None
        if b"\0" in content or not content.startswith(prefix):
            self._found(path, "cannot be parsed")
            return None
        return path.parent / os.fsdecode(content[len(prefix) :].rstrip(b"\r\n"))

    def _repository(self, gitdir: Path, work_tree: Path | None, within: Path) -> bool:
        """Judge one repository; True if git would surely take it for one. `within` is where its files may lie."""
        key = (os.path.realpath(gitdir), work_tree)
        if key in self._visited:
            return self._visited[key]
        self._visited[key] = False
        if len(self._visited) > _REPOSITORIES:
            raise _TooMuch(f"more than {_REPOSITORIES} repositories, of which the others cannot be read")
        common = self._common(gitdir)
        config, own = self._config(common / "config"), self._config(gitdir / "config.worktree")
        for hook in _HOOKS:
            self._hook(common / "hooks" / hook)
        linked = common != gitdir
        top = self._top(gitdir, own if linked else config + own, work_tree, within)
        self._enter_submodules(gitdir, top, _hash_size(config))
        self._enter_modules(gitdir / "modules", within)
        if linked:
            self._enter_modules(common / "modules", Path(os.path.realpath(common)).parent)
        self._visited[key] = self._is_repository(gitdir, common)
        return self._visited[key]

    def _common(self, gitdir: Path) -> Path:
        """Where a linked work tree shares configuration and hooks with the others."""
        return self._named_folder(gitdir / "commondir", b"") or gitdir

    def _config(self, path: Path) -> list[Setting]:
        """Judge one configuration file; returns what it sets."""
        content = self._read(path, _CONFIG_BYTES) or b""
        read: list[Setting] = []
        try:
            for setting in settings(content.decode("utf-8", "surrogateescape")):
                read.append(setting)
                if names_program(setting):
                    self._found(path, f"{_plain(setting.name)} = {_plain(setting.value or '')}")
        except BadLine as bad:
            self._found(path, f"cannot be parsed (line {bad.line})")
        return read

    def _hook(self, path: Path) -> None:
        mode = self._mode(path)
        if mode is not None and mode & 0o111:
            self._found(path, "is a hook that git runs when it refreshes its index or references")

    def _top(self, gitdir: Path, config: list[Setting], work_tree: Path | None, within: Path) -> Path | None:
        """The top of the files that belong to a repository; one outside of `within` is a finding."""
        named = [setting.value for setting in config if setting.name == "core.worktree" and setting.value]
        if not named:
            return work_tree
        top = Path(os.path.realpath(gitdir / named[-1]))
        if not top.is_relative_to(os.path.realpath(within)):
            self._found(gitdir / "config", f"core.worktree = {_plain(named[-1])} (leaves the workspace)")
        return top

    def _enter_submodules(self, gitdir: Path, top: Path | None, hash_size: int | None) -> None:
        """Judge the repositories inside the work tree that git enters because the index lists them."""
        shared = (Path(entry) for entry in self._entries(gitdir) if entry.name.startswith("sharedindex."))
        for path in (gitdir / "index", *shared):
            content = self._read(path, _INDEX_BYTES)
            if content is not None:
                self._enter_listed(path, top, self._listed(path, content, hash_size))

    def _listed(self, path: Path, content: bytes, hash_size: int | None) -> Entries:
        try:
            return entries(content, hash_size)
        except ValueError as error:
            self._found(path, f"cannot be parsed ({error})")
            return Entries()

    def _enter_listed(self, index: Path, top: Path | None, listed: Entries) -> None:
        if b"" in listed.submodules or b"" in listed.left_out:
            self._found(index, "cannot be parsed (a split index that changes a submodule)")
        if top is None:
            return
        for place in (top / os.fsdecode(name) for name in listed.left_out):
            if self._mode(place) is not None:
                self._found(place, "cannot be read (the index leaves it out, and yet it exists)")
        for place in (top / os.fsdecode(name) for name in listed.submodules):
            gitdir = self._gitdir(place)
            if gitdir is not None:
                self._pending.append((gitdir, place, place))

    def _enter_modules(self, folder: Path, within: Path) -> None:
        """Judge the repositories of submodules whose folders may not be there; git can fall back on them."""
        unread = [folder]
        while unread:
            place = unread.pop()
            if self._looks_like_repository(place):
                self._pending.append((place, None, within))
            for entry in self._entries(place):
                self._module_entries += 1
                if self._module_entries > _MODULE_ENTRIES:
                    raise _TooMuch(f"{self._show(folder)}: cannot be read (it holds too much)")
                if entry.is_dir(follow_symlinks=False):
                    unread.append(Path(entry))
                elif entry.is_symlink() and self._is_folder(Path(entry)):
                    self._found(Path(entry), "cannot be read (a link to a folder)")

    def _looks_like_repository(self, place: Path) -> bool:
        """Whether git might take this very folder for a repository."""
        if self._mode(place / "HEAD", follow=False) is None:
            return False
        common = self._common(place)
        return self._is_folder(common / "objects") and self._is_folder(common / "refs")

    def _is_repository(self, gitdir: Path, common: Path) -> bool:
        """Whether git would take it for one beyond doubt, and look no further upwards."""
        head = self._read(gitdir / "HEAD", _CONFIG_BYTES)
        parts = (common / "objects", common / "refs")
        return head is not None and bool(_HEAD.match(head)) and all(os.access(part, os.X_OK) for part in parts)

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as listing:
                return list(itertools.islice(listing, _MODULE_ENTRIES + 1))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._found(folder, f"cannot be read ({error.strerror})")
            return []

    def _is_folder(self, path: Path) -> bool:
        mode = self._mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def _mode(self, path: Path, *, follow: bool = True) -> int | None:
        """The mode of what is there, None for nothing; what cannot be looked at is a finding."""
        try:
            return path.stat(follow_symlinks=follow).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._found(path, f"cannot be read ({error.strerror})")
            return None

    def _read(self, path: Path, limit: int) -> bytes | None:
        """The bytes of a plain file of at most `limit` bytes; None if there is none, or after a finding."""
        mode = self._mode(path)
        if mode is None:
            return None
        try:
            content = _content(path, limit) if stat.S_ISREG(mode) else None
        except OSError as error:
            self._found(path, f"cannot be read ({error.strerror})")
            return None
        if content is None:
            self._found(path, f"cannot be read (not a plain file of at most {limit} bytes)")
        return content

    def _found(self, path: Path, what: str) -> None:
        if len(self.findings) >= _FINDINGS:
            raise _TooMuch("and more, which is not listed")
        self.findings[f"{self._show(path)}: {what}"] = None

    def _show(self, path: Path) -> str:
        plain = Path(os.path.normpath(path))
        return _plain(str(plain.relative_to(self.folder) if plain.is_relative_to(self.folder) else plain))


def _content(path: Path, limit: int) -> bytes | None:
    """Opened without waiting and looked at again, since a file can be another by now."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        content = file.read(limit + 1)
        return None if len(content) > limit else content


def _hash_size(config: list[Setting]) -> int | None:
    """Bytes of an object's name; None if the repository names a format that is unknown here."""
    named = [setting.value for setting in config if setting.name == "extensions.objectformat"]
    return _HASH_SIZES.get(named[-1] or "") if named else _HASH_SIZES["sha1"]


def _plain(text: str) -> str:
    """Printable text as it is, the rest escaped, the tail of a long one cut."""
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:_SHOWN])
    return shown if len(text) <= _SHOWN else f"{shown}... ({len(text)} characters)"
