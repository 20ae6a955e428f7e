"""A person at the agent's own screen: a run whose process has their terminal, and whose hooks call us.

What the agent writes goes to the person as it is, and their keys to the agent. Everything else is as in any run: the
private folder, the environment, the endpoints, the judge, the audit, and the way down, after which nothing is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import anyio

from interlock.adapter import Adapter, Attaching, Transport, VersionRange, WindowSize
from interlock.capabilities import Unmet
from interlock.engine.drive import Drive
from interlock.engine.process import Process, TerminalProcess, spawn_on_terminal
from interlock.engine.pty import Modes, Terminal
from interlock.engine.setting import Setting
from interlock.errors import Unsupported
from interlock.tools import ToolCall

__all__ = ["AttachDrive", "Person", "attached_adapter"]


class Person(Protocol):
    """The terminal of the person who is attached."""

    @property
    def size(self) -> WindowSize:
        """Of its window, now."""
        ...

    @property
    def modes(self) -> Modes:
        """What a program that is started on it finds."""
        ...

    async def show(self, data: bytes) -> None:
        """Write it all, as it is; returns once there is room for more."""
        ...

    async def serve(self, terminal: Terminal) -> None:
        """Hand keys and new sizes on until cancelled; returns once the person is gone."""
        ...


class AttachDrive(Drive):
    """The root task of one such run."""

    def __init__(self, setting: Setting, person: Person) -> None:
        super().__init__(setting)
        self._person = person
        self._terminal: Terminal

    async def _spawn(self, argv: Sequence[str], env: Mapping[str, str]) -> Process | TerminalProcess:
        cwd, person = self.setting.prepared.order.request.cwd, self._person
        process = await spawn_on_terminal(argv, cwd=cwd, env=env, size=person.size, modes=person.modes)
        self._terminal = process.terminal
        return process

    async def _on_bytes(self, data: bytes) -> None:
        await self._person.show(data)

    async def _watch_loss(self) -> None:
        """As in every run; and the person is served until the process is gone, which ends if they go."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._serve_person)
            await super()._watch_loss()
            group.cancel_scope.cancel()

    async def _serve_person(self) -> None:
        await self._person.serve(self._terminal)
        self.cancel("the person's terminal is gone")


def attached_adapter(adapter: Adapter) -> Adapter:
    """The same agent with the way to its own screen as its only transport; raises `Unsupported` where it has none."""
    if isinstance(adapter, Attaching):
        return _Attached(adapter, (adapter.attached,))
    reason = f"of {adapter.title} it is not known how to give its screen to a person and have its hooks call us"
    ways = ("interlock run", f"{adapter.programs[0]} by itself, which nothing guards")
    raise Unsupported(adapter.name, (Unmet(field="attach", value=adapter.name, reason=reason, alternatives=ways),))


class _Attached:
    """An adapter with another list of transports."""

    def __init__(self, adapter: Adapter, transports: tuple[Transport, ...]) -> None:
        self._adapter = adapter
        self.transports = transports

    @property
    def name(self) -> str:
        return self._adapter.name

    @property
    def title(self) -> str:
        return self._adapter.title

    @property
    def programs(self) -> tuple[str, ...]:
        return self._adapter.programs

    @property
    def install_hint(self) -> str:
        return self._adapter.install_hint

    @property
    def versions(self) -> VersionRange:
        return self._adapter.versions

    @property
    def key_variables(self) -> tuple[str, ...]:
        return self._adapter.key_variables

    @property
    def login_folder(self) -> str:
        return self._adapter.login_folder

    @property
    def login_variable(self) -> str | None:
        return self._adapter.login_variable

    @property
    def login_files(self) -> tuple[str, ...]:
        return self._adapter.login_files

    def describe(self, call: ToolCall) -> ToolCall:
        return self._adapter.describe(call)
