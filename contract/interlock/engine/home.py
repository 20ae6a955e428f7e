"""The private folder of one run: made fresh before the start, gone after the end.

An agent finds its configuration there and nowhere else, so nothing that an earlier run left behind, or that the person
configured for themselves, takes part. Only the login and the sessions outlive a run, through links.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio

from interlock.adapter import Launch, LaunchFile, Place
from interlock.engine.leftovers import claimed, sweep_once
from interlock.engine.off_loop import off_loop
from interlock.errors import ConfigurationError

__all__ = ["Home", "default_state"]

REMOVED_WITHIN = 10.0
"""Seconds that the end of a run waits for its folder to be gone."""

_PLACEHOLDER = re.compile(r"\{(?:home|state|(?:endpoint|token):[A-Za-z0-9_]+)\}")


def default_state() -> Path:
    """The durable folder of this library: `$XDG_STATE_HOME/interlock`, else `~/.local/state/interlock`."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "interlock"


@dataclass(frozen=True, slots=True)
class Home:
    """The private folder of a run and the durable folder beside it."""

    folder: Path
    state: Path
    places: Mapping[str, Place] = field(default_factory=dict[str, Place])
    """Where the endpoints of the run listen."""

    @classmethod
    async def make(cls, run_id: str, state: Path, launch: Launch, places: Mapping[str, Place]) -> Home:
        """Make the folder with the files and links of the launch; a leftover of that name is an error."""
        home = cls(state / "runs" / claimed(run_id), state, places)
        try:
            home.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            await sweep_once(home.folder.parent)
            home._fill_folder(launch)
        except OSError as error:
            await home.remove()
            raise ConfigurationError(str(state), f"the run's private folder cannot be made: {error}") from error
        return home

    def _fill_folder(self, launch: Launch) -> None:
        self.folder.mkdir(mode=0o700)
        for file in launch.files:
            self._write(file.path, self._content(file), 0o700 if file.executable else 0o600)
        for link in launch.links:
            self._link(link.path, Path(self.fill(link.target)), make=link.make == "folder")

    def fill(self, text: str, *, tokens: bool = False) -> str:
        """Text with `{home}`, `{state}` and the URLs of endpoints filled in, and their tokens if they may be told.

        What was filled in is not looked at again.
        """
        known = {"{home}": str(self.folder), "{state}": str(self.state)}
        for name, place in self.places.items():
            known[f"{{endpoint:{name}}}"] = place.url
            if tokens:
                known[f"{{token:{name}}}"] = place.token
        return _PLACEHOLDER.sub(lambda found: known.get(found[0], found[0]), text)

    def _content(self, file: LaunchFile) -> str:
        """The content of a file; tokens are for secret files alone."""
        return self.fill(file.content, tokens=file.sensitivity == "secret") if file.template else file.content

    def harvest(self, paths: tuple[str, ...], limit: int = 16 * 1024 * 1024) -> dict[str, bytes]:
        """What the agent left in the named files; missing ones and links are left out, long ones cut."""
        found: dict[str, bytes] = {}
        for path in paths:
            file = self.folder / path
            if file.is_file() and not file.is_symlink():
                with file.open("rb") as stream:
                    found[path] = stream.read(limit)
        return found

    async def remove(self) -> None:
        """Remove the folder, in `REMOVED_WITHIN` seconds, shielded from cancellation; what its links point to stays."""
        with anyio.move_on_after(REMOVED_WITHIN, shield=True):
            await off_loop(partial(shutil.rmtree, self.folder, ignore_errors=True))

    def _write(self, path: str, content: str, mode: int) -> None:
        target = self.folder / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as stream:
            stream.write(content)

    def _link(self, path: str, target: Path, *, make: bool) -> None:
        if make:
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
        if target.exists():
            place = self.folder / path
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.symlink_to(target)
