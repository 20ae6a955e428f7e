"""`interlock login`: the agent's own login command, at the person's terminal and in their own home.

That is its purpose: what it leaves is the login that runs take over later. So everything of the environment passes but
what would switch a guard off, name code, or make the agent think that it is nested in another one. It starts in the
home folder, where no workspace's settings take part, and nothing that it started is left when it ends.
"""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import anyio

from interlock.adapter import Adapter, LoggingIn
from interlock.capabilities import Unmet
from interlock.engine.environment import child_environment
from interlock.engine.host import find_binary
from interlock.engine.process import Exit, TerminalProcess, spawn_on_terminal
from interlock.engine.registry import find_adapter
from interlock.errors import InterlockError, NotInstalled, StartFailed, Unsupported
from interlock.request import Request
from interlock_adapters.cli.attach_screen import AttachScreen, no_terminal
from interlock_adapters.cli.doctor import print_checks
from interlock_adapters.cli.doctor_agent import login_check
from interlock_adapters.cli.output import print_line, safe_line
from interlock_adapters.cli.problems import COMPLETED, FAILED, INTERRUPTED, USAGE, code_of, explain

__all__ = ["login"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LAST_WORDS = 1.0
"""Seconds that the output of a program that has ended is read for."""


def login(name: str, binary: str | None) -> int:
    """Run the command and say what is there then; returns the exit code."""
    try:
        adapter = find_adapter(name)
        argv = _argv(adapter, binary)
        if no_terminal("login", f"run it in one, or set a key as `interlock doctor {name}` says"):
            return USAGE
        print_line(safe_line(f"interlock: {' '.join(argv)}, in your own home ({Path.home()})"), 2)
        ended = anyio.run(partial(_log_in, argv))
    except InterlockError as error:
        for line in explain(error):
            print_line(line, 2)
        return code_of(error)
    if ended is None:
        return INTERRUPTED
    check = login_check(adapter, Request(agent=name, prompt="-", binary=binary))
    print_checks([check])
    if ended.code != 0:
        how = f"signal {ended.signal}" if ended.code is None else f"exit {ended.code}"
        print_line(f"interlock: the login command ended with {how}", 2)
    return COMPLETED if ended.code == 0 and check.verdict == "ok" else FAILED


def _argv(adapter: Adapter, binary: str | None) -> list[str]:
    """The command; raises `Unsupported` where there is none, and `NotInstalled`."""
    if not isinstance(adapter, LoggingIn):
        reason = f"no command is known that logs in to {adapter.title}"
        keys = adapter.key_variables
        way = f"set {keys[0]}, or log in by its own means" if keys else "log in by its own means"
        raise Unsupported(adapter.name, (Unmet(field="login", value=adapter.name, reason=reason, alternatives=(way,)),))
    path = find_binary(adapter, Request(agent=adapter.name, prompt="-", binary=binary))
    if not path:
        raise NotInstalled(adapter.name, (binary,) if binary else adapter.programs, adapter.install_hint)
    return [path, *adapter.login_arguments]


async def _log_in(argv: list[str]) -> Exit | None:
    """How the command ended; None where we were told to end it. Raises `StartFailed`."""
    screen = AttachScreen()
    ended: Exit | None = None

    async def watch(whole: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            async for _ in signals:
                whole.cancel()

    with screen.handed_through():
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as whole:
                group.start_soon(watch, whole)
                process = await _started(argv, screen)
                try:
                    ended = await _to_its_end(process, screen)
                finally:
                    await process.kill_tree()
                    process.terminal.close()
            group.cancel_scope.cancel()
    return ended


async def _started(argv: list[str], screen: AttachScreen) -> TerminalProcess:
    env = child_environment(
        host=os.environ, request_env={}, policy="inherit", key_variables=(), set_={}, drop=frozenset()
    )
    try:
        return await spawn_on_terminal(argv, cwd=str(Path.home()), env=env, size=screen.size, modes=screen.modes)
    except (OSError, ValueError) as error:
        raise StartFailed(argv[0], str(error)) from error


async def _to_its_end(process: TerminalProcess, screen: AttachScreen) -> Exit | None:
    """Hand the terminal through until the command has ended; None where the person's terminal is gone."""
    drained = anyio.Event()
    ended: Exit | None = None

    async def show() -> None:
        while data := await process.stdout.receive():
            await screen.show(data)
        drained.set()

    async def serve(group: anyio.abc.TaskGroup) -> None:
        await screen.serve(process.terminal)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(show)
        group.start_soon(serve, group)
        ended = await process.wait()
        with anyio.move_on_after(LAST_WORDS):
            await drained.wait()
        group.cancel_scope.cancel()
    return ended
