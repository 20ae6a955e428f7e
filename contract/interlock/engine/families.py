"""Finding the file that describes one agent of a family: with the family's package, in the user's folder, or at a path.

A workspace is never searched: a file of its own would choose the program and the keys that answer its questions. A name
that both the package and the user's folder know is an error, so that neither quietly stands in for the other.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from interlock.adapter import Adapter, Family
from interlock.errors import ConfigurationError, UnknownAgent

__all__ = ["member_of", "members"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LARGEST = 1 << 20


def members(family_name: str, family: Family) -> list[str]:
    """The names under which a family's agents are found without a path."""
    names = {*_shipped(family), *_users(family_name, family)}
    return [f"{family_name}:{name}" for name in sorted(names)]


def member_of(family_name: str, family: Family, name: str) -> Adapter:
    """The agent of a family; raises `UnknownAgent`, or `ConfigurationError` for a file that is none."""
    if "/" in name:
        return _named(family_name, family, Path(name).expanduser())
    shipped, users = _shipped(family), _users(family_name, family)
    if name in shipped and name in users:
        raise ConfigurationError(
            str(users[name]), f"{name!r} comes with {family.package} too: give your own another name, or name its path"
        )
    if name in shipped:
        return family.member(shipped[name], f"{family.package}/{name}.{family.extension}", folder=None)
    if name in users:
        adapter = family.member(_read(users[name]), str(users[name]), folder=str(users[name].parent))
        if adapter.name != f"{family_name}:{name}":
            raise ConfigurationError(
                str(users[name]), f"calls itself {adapter.name}: give it a name of its own, {name}"
            )
        return adapter
    raise UnknownAgent(f"{family_name}:{name}", tuple(members(family_name, family)))


def _named(family_name: str, family: Family, path: Path) -> Adapter:
    """The agent that the file at a path describes, which must not pass for one that comes with the package."""
    adapter = family.member(_read(path), str(path), folder=None)
    if adapter.name in {f"{family_name}:{name}" for name in _shipped(family)}:
        raise ConfigurationError(str(path), f"calls itself {adapter.name}, as another does: give it a name of its own")
    return adapter


def _shipped(family: Family) -> dict[str, str]:
    return _packaged(family.package, f".{family.extension}")


@cache
def _packaged(package: str, ending: str) -> dict[str, str]:
    from importlib.resources import files  # noqa: PLC0415  # slow to import, and only a family needs it

    found = (item for item in files(package).iterdir() if item.name.endswith(ending))
    return {item.name.removesuffix(ending): item.read_text(encoding="utf-8") for item in found}


def _users(family_name: str, family: Family) -> dict[str, Path]:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = (Path(base) if base.startswith("/") else Path.home() / ".config") / "interlock" / family_name
    try:
        found = [path for path in folder.iterdir() if path.suffix == f".{family.extension}"]
    except OSError:
        return {}
    return {path.stem: path for path in found if _NAME.fullmatch(path.stem)}


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            raise ConfigurationError(str(path), "cannot be read: there is no such file")
        if path.stat().st_size > LARGEST:
            raise ConfigurationError(str(path), f"cannot be read: it is larger than {LARGEST} bytes")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(path), f"cannot be read: {error}") from error
