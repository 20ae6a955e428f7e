"""Hooks files: `{"schema": 1, "hooks": [...]}`, read strictly, since a guard that was misspelled guards nothing.

A file that is not there means no hooks; anything else that is not exactly a hooks file is an error at the start, which
names the file, the entry and the field.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from interlock.errors import ConfigurationError
from interlock.framing.json_objects import NotJson, parse_object
from interlock.hooks import HooksFile, HookSpec

__all__ = ["ADMINISTRATORS_FILE", "FoundSpec", "owned_content", "read_hooks_file", "users_file", "workspace_file"]

ADMINISTRATORS_FILE = "/etc/interlock/hooks.json"
LONGEST = 4 * 1024 * 1024
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class FoundSpec:
    """A spec and where it stood: `source` for errors, `folder` for relative paths (None: not from a file)."""

    spec: HookSpec
    source: str
    folder: str | None


def users_file(environ: Mapping[str, str], home: str) -> str:
    """`$XDG_CONFIG_HOME/interlock/hooks.json`, by default under `~/.config`."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return f"{base if base.startswith('/') else home + '/.config'}/interlock/hooks.json"


def workspace_file(workspace: str) -> str:
    """`.interlock/hooks.json` of the workspace."""
    return f"{workspace}/.interlock/hooks.json"


def read_hooks_file(path: str, *, must_exist: bool = False, owner: int | None = None) -> tuple[FoundSpec, ...]:
    """The specs of a hooks file; raises `ConfigurationError`. `owner`: the one user id that may write it."""
    data = owned_content(path, must_exist=must_exist, owner=owner)
    if data is None:
        return ()
    value = parse_object(data)
    if isinstance(value, NotJson):
        raise ConfigurationError(path, f"it is not exactly one JSON object: {value.reason}")
    _check_keys(data, path)
    if value.get("schema") != 1 or isinstance(value.get("schema"), bool):
        raise ConfigurationError(path, f"`schema` must be 1, not {json.dumps(value.get('schema'))}")
    folder = str(Path(path).absolute().parent)
    return tuple(FoundSpec(spec, f"{path}: hook {spec.name!r}", folder) for spec in _specs(data, path, value))


def _specs(data: bytes, path: str, value: dict[str, object]) -> tuple[HookSpec, ...]:
    try:
        return HooksFile.model_validate_json(data, strict=True).hooks
    except ValidationError as error:
        problems = [_problem(dict(detail), value) for detail in error.errors(include_url=False)]
        raise ConfigurationError(path, "; ".join(problems)) from error


def _problem(detail: dict[str, object], value: dict[str, object]) -> str:
    """One complaint, with the entry by number and name, and the field."""
    where = list(cast("tuple[str | int, ...]", detail["loc"]))
    entry = ""
    if len(where) > 1 and where[0] == "hooks" and isinstance(where[1], int):
        hooks = cast("list[object]", value["hooks"])
        found = hooks[where[1]]
        name = cast("dict[str, object]", found).get("name") if isinstance(found, dict) else None
        entry = f"hook {where[1] + 1}" + (f" ({name!r})" if isinstance(name, str) else "") + ", "
        where = where[2:]
    spot = ".".join(map(str, where))
    return f"{entry}field `{spot}`: {detail['msg']}" if spot else f"{entry}{detail['msg']}"


def _check_keys(data: bytes, path: str) -> None:
    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        names = dict(found)
        if len(names) != len(found):
            twice = next(key for key, _ in found if sum(key == other for other, _ in found) > 1)
            raise ConfigurationError(path, f"the key `{twice}` stands twice in one object")
        return names

    try:
        json.loads(data, object_pairs_hook=pairs)
    except (RecursionError, ValueError) as error:
        raise ConfigurationError(path, f"it cannot be read: {error}") from error


def owned_content(path: str, *, must_exist: bool, owner: int | None) -> bytes | None:
    """The content of a configuration file; None if there is none. Raises `ConfigurationError`; `owner` as above."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        if must_exist or Path(path).is_symlink():
            raise ConfigurationError(path, "there is no such file") from error
        return None
    except OSError as error:
        raise ConfigurationError(path, f"it cannot be read: {error.strerror}") from error
    try:
        return _read(file, path, owner)
    except OSError as error:
        raise ConfigurationError(path, f"it cannot be read: {error.strerror}") from error
    finally:
        os.close(file)


def _read(file: int, path: str, owner: int | None) -> bytes:
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigurationError(path, "it is no regular file")
    if owner is not None:
        _check_owner(path, facts, owner)
    data = bytearray()
    while len(data) <= LONGEST and (chunk := os.read(file, 1 << 16)):
        data += chunk
    if len(data) > LONGEST:
        raise ConfigurationError(path, f"it is longer than {LONGEST} bytes")
    return bytes(data)


def _check_owner(path: str, facts: os.stat_result, owner: int) -> None:
    folder = Path(os.path.realpath(path)).parent
    for what, found in (("it", facts), (f"its folder {folder}", folder.stat())):
        if found.st_uid != owner:
            raise ConfigurationError(path, f"{what} must belong to root, not to user {found.st_uid}")
        if found.st_mode & _WRITABLE_BY_OTHERS:
            raise ConfigurationError(path, f"{what} must not be writable by others than root")
