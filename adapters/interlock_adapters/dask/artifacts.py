"""Files that an attempt made, brought home or uploaded from the machine where it ran.

They are taken after everything of the attempt has ended: regular files of its workspace alone, never through a link.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from interlock.batch.journal import replace_file
from interlock.model import Model, canonical_json

if TYPE_CHECKING:
    from interlock.batch.wire import AttemptResult, AttemptSpec

__all__ = ["Artifacts", "ArtifactsFailed", "store", "take"]

LIST = "artifacts.json"


class ArtifactsFailed(Exception):
    """They cannot be taken or stored; the attempt itself is as it is."""


class Artifacts(Model):
    """Which files of an attempt's directory are kept, and where.

    `to` is a folder of the driver's machine, to which they come back with the result; or an fsspec URL, as
    `s3://bucket/runs`, to which the worker uploads them with its own credentials. Either has `<run>/<attempt>/` below
    it, and there `artifacts.json`, which lists each file with its size and SHA-256.
    """

    files: tuple[Annotated[str, Field(min_length=1)], ...]
    """Globs relative to the directory, as `dist/*.whl` or `**/*.patch`."""
    to: Annotated[str, Field(min_length=1)]
    most: int = Field(default=64 * 1024 * 1024, ge=1)
    """Bytes of one attempt, all files together; more is an error, and nothing is kept."""

    @property
    def uploaded(self) -> bool:
        """Whether the worker uploads them."""
        return "://" in self.to


def take(wanted: Artifacts, spec: AttemptSpec, result: AttemptResult) -> dict[str, bytes]:
    """On the worker: the files for the driver, or none after an upload; raises `ArtifactsFailed`."""
    root = Path(result.workspace or spec.request.cwd)
    try:
        found = dict(_found(wanted, root))
    except OSError as error:
        raise ArtifactsFailed(f"{error.filename}: {error.strerror}") from error
    found[LIST] = canonical_json(_listed(found))
    if not wanted.uploaded:
        return found
    _upload(f"{wanted.to.rstrip('/')}/{spec.run}/{result.attempt}", found)
    return {}


def store(wanted: Artifacts, run: str, attempt: str, files: Mapping[str, bytes]) -> None:
    """On the driver: write what came back; raises `ArtifactsFailed`."""
    folder = Path(wanted.to).expanduser() / run / attempt
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise ArtifactsFailed(f"{name!r} would lead out of the folder")
        try:
            replace_file(folder / path, content)
        except OSError as error:
            raise ArtifactsFailed(f"{error.filename}: {error.strerror}") from error


def _found(wanted: Artifacts, root: Path) -> Iterator[tuple[str, bytes]]:
    left, real = wanted.most, os.path.realpath(root)
    names = {path for glob in wanted.files for path in root.glob(glob)}
    for path in sorted(names):
        inside = os.path.realpath(path.parent)
        if not f"{inside}/".startswith(f"{real}/") or not stat.S_ISREG(path.lstat().st_mode):
            continue
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(left + 1)
        left -= len(content)
        if left < 0:
            raise ArtifactsFailed(f"the artifacts are larger than {wanted.most} bytes")
        yield path.relative_to(root).as_posix(), content


def _listed(found: Mapping[str, bytes]) -> Any:
    return [
        {"path": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in found.items()
    ]


def _upload(url: str, files: Mapping[str, bytes]) -> None:
    from importlib import import_module  # noqa: PLC0415  # fsspec has no types; only who uploads needs it

    try:
        open_url: Any = import_module("fsspec.core").url_to_fs
        system, base = open_url(url)
        for name, content in files.items():
            path = f"{base}/{name}"
            system.makedirs(path.rpartition("/")[0], exist_ok=True)
            system.pipe_file(path, content)
    except Exception as error:
        raise ArtifactsFailed(f"{url}: {error}") from error
