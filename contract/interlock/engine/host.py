"""The facts about this machine that an adapter may know: where the agent's program and the person's login are."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from interlock.adapter import Adapter, Host
from interlock.errors import ConfigurationError
from interlock.request import Request

__all__ = ["BinaryFacts", "find_binary", "survey"]


@dataclass(frozen=True, slots=True)
class BinaryFacts:
    """Which file is started: enough to see later whether it was the same one."""

    path: str
    inode: int
    size: int
    modified: float

    @classmethod
    def of(cls, path: str) -> BinaryFacts:
        """The facts of the file at `path`."""
        stat = Path(path).stat()
        return cls(path, stat.st_ino, stat.st_size, stat.st_mtime)


def find_binary(adapter: Adapter, request: Request) -> str:
    """The absolute path of the agent's program; empty where there is none."""
    names = (request.binary,) if request.binary is not None else adapter.programs
    for name in names:
        if "/" in name:
            path = Path(name).expanduser().absolute()
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
        elif found := shutil.which(name):
            return str(Path(found).absolute())
    return ""


def survey(adapter: Adapter, request: Request) -> Host:
    """What the adapter may know; raises `ConfigurationError` on a platform where no agent can be started."""
    platform = _platform()
    binary = find_binary(adapter, request)
    folder = _login_folder(adapter, request)
    present = [name for name in adapter.login_files if folder and (Path(folder) / name).is_file()]
    return Host(
        home=str(Path.home()),
        environ=dict(os.environ),
        binary=binary,
        binary_folder=str(Path(binary).parent) if binary else "",
        platform=platform,
        root=os.geteuid() == 0,
        login_files=frozenset(present),
        login_folder=folder,
    )


def _platform() -> Literal["linux", "darwin"]:
    found: str = sys.platform
    match found:
        case "linux" | "darwin":
            return found
        case _:
            raise ConfigurationError(found, "agents can be started on Linux and macOS; Windows is not supported yet")


def _login_folder(adapter: Adapter, request: Request) -> str:
    if request.login == "env":
        return ""
    if request.login != "user":
        return str(Path(request.login).expanduser().absolute())
    moved = os.environ.get(adapter.login_variable, "") if adapter.login_variable else ""
    return moved or str(Path.home() / adapter.login_folder)
