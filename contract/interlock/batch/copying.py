"""A copy of a directory, while others may write in it: what a name stood for a moment ago is nothing to go by.

Every folder and file is opened below its parent without following a link, and looked at once it is open. So nothing
outside of the directory is ever read, whatever is put in place of a name meanwhile, and nothing is waited for.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import shutil
import stat
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Copying"]

CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = _READ | os.O_DIRECTORY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Copying:
    """One copy in progress, in a thread; `stop` ends it."""

    def __init__(self, ignore: tuple[str, ...], source: Path, target: Path) -> None:
        self.stop = threading.Event()
        self._ignore = ignore
        self._source = os.path.realpath(source)
        self._target = str(target)
        self._links_out = 0
        self._special = 0

    def copy(self) -> None:
        """Copy all of it, unless it is stopped; raises OSError. What cannot be copied whole leaves nothing."""
        os.mkdir(self._target, 0o700)  # noqa: PTH102
        try:
            self._copy_tree()
        except OSError:
            shutil.rmtree(self._target, ignore_errors=True)
            raise
        if self.stop.is_set():
            shutil.rmtree(self._target, ignore_errors=True)

    def _copy_tree(self) -> None:
        pending, folders = [""], list[tuple[str, os.stat_result]]()
        while pending and not self.stop.is_set():
            folder = pending.pop()
            with self._opened(folder) as fd:
                folders.append((folder, os.fstat(fd)))
                pending.extend(self._copy_entries(folder, fd))
        for folder, seen in reversed(folders):  # modes last: a folder may not be writable
            place = self._target + folder
            os.utime(place, ns=(seen.st_atime_ns, seen.st_mtime_ns))
            os.chmod(place, stat.S_IMODE(seen.st_mode))  # noqa: PTH101

    @contextmanager
    def _opened(self, folder: str) -> Generator[int]:
        """A folder of the source, reached step by step."""
        fd = os.open(self._source, _FOLDER)
        try:
            for name in folder.split("/")[1:]:
                below = _open(name, _FOLDER, fd, self._source + folder)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    def _copy_entries(self, folder: str, fd: int) -> Iterator[str]:
        """Copy what is in a folder but the folders in it, which are made, and given."""
        for name in os.listdir(fd):  # only so of a descriptor
            if self.stop.is_set():
                return
            if any(fnmatch.fnmatchcase(name, glob) for glob in self._ignore):
                continue
            path = f"{folder}/{name}"
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                self._copy_link(name, fd, path)
            elif stat.S_ISDIR(mode):
                os.mkdir(self._target + path, 0o700)  # noqa: PTH102
                yield path
            elif stat.S_ISREG(mode):
                self._copy_file(name, fd, path)
            else:
                self._special += 1

    def _copy_file(self, name: str, fd: int, path: str) -> None:
        original = _open(name, _READ, fd, self._source + path)
        try:
            seen = os.fstat(original)
            if not stat.S_ISREG(seen.st_mode):
                raise OSError(errno.EINVAL, "it has become something else", self._source + path)
            place = self._target + path
            made = os.open(place, _NEW, 0o600)
            try:
                self._copy_content(original, made, seen.st_size)
                os.utime(made, ns=(seen.st_atime_ns, seen.st_mtime_ns))
                os.fchmod(made, stat.S_IMODE(seen.st_mode))
            except OSError as error:
                raise OSError(error.errno, error.strerror, place) from error
            finally:
                os.close(made)
        finally:
            os.close(original)

    def _copy_content(self, original: int, made: int, size: int) -> None:
        """Copy up to `size` bytes; where nothing was written, nothing is."""
        at = 0
        while (at := _data(original, at, size)) < size:
            end = _hole(original, at, size)
            while at < end:
                if self.stop.is_set() or not (data := os.pread(original, min(CHUNK, end - at), at)):
                    return  # it was made shorter
                rest = memoryview(data)
                while rest:
                    written = os.pwrite(made, rest, at)
                    at, rest = at + written, rest[written:]
        os.ftruncate(made, size)

    def _copy_link(self, name: str, fd: int, path: str) -> None:
        text = os.readlink(name, dir_fd=fd)  # as it stands
        os.symlink(text, self._target + path)  # noqa: PTH211
        leads_to = os.path.realpath(self._source + path)
        inside = leads_to == self._source or leads_to.startswith(self._source + "/")
        self._links_out += text.startswith("/") or not inside

    def warnings(self) -> Iterator[str]:
        """What of it is no copy."""
        if self._links_out:
            yield f"{self._links_out} link(s) in the copy lead out of it: what is written through them is the original"
        if self._special:
            yield f"{self._special} socket(s), fifo(s) or device(s) were not copied"


def _open(name: str, flags: int, folder: int, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _data(fd: int, at: int, size: int) -> int:
    """Where the next bytes stand that were written; `size` if there are none."""
    if at >= size:
        return size
    try:
        return min(size, os.lseek(fd, at, os.SEEK_DATA))
    except OSError as error:  # none follow, or the file system does not say
        return size if error.errno == errno.ENXIO else at


def _hole(fd: int, at: int, size: int) -> int:
    """Where they end."""
    try:
        return min(size, os.lseek(fd, at, os.SEEK_HOLE))
    except OSError:
        return size
