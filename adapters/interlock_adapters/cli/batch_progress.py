"""How far a batch is, for people: a block of lines that is painted again and again, or a line a change.

The block is painted by our own writes, which wait for no terminal: one that was stopped stops no agent. It is as wide
as the terminal is now, and never wider.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol

import anyio

from interlock.batch.results import Progress
from interlock.batch.wire import Started
from interlock_adapters.cli.batch_words import clock, paused_words, spent_words
from interlock_adapters.cli.output import safe_line
from interlock_adapters.cli.show import Screen

__all__ = ["Block", "Lines", "Shown", "shown_on"]

MOST_RUNNING = 10
NARROWEST = 20
BLOCK_EVERY = 0.2
"""Seconds between two paintings, at least."""
LINES_EVERY = 1.0


class Shown(Protocol):
    """What shows a batch while it runs; one task writes at a time."""

    every: float
    """Seconds after which `tick` is wanted again."""

    async def started(self, news: Started, run: str, /) -> None:
        """An attempt has begun."""
        ...

    async def result(self, line: bytes) -> None:
        """A line for stdout."""
        ...

    async def note(self, text: str, style: str = "") -> None:
        """A line about the batch."""
        ...

    async def tick(self) -> None:
        """Look how far it is."""
        ...

    async def end(self) -> None:
        """There is nothing more to come but notes."""
        ...


def shown_on(screen: Screen, progress: Callable[[], Progress]) -> Shown:
    """The block where stderr is a terminal that can move its cursor, else lines."""
    able = screen.err.terminal and os.environ.get("TERM", "dumb") not in {"", "dumb"}
    return Block(screen, progress) if able else Lines(screen, progress)


class Lines:
    """A line a change on stderr."""

    every = LINES_EVERY

    def __init__(self, screen: Screen, progress: Callable[[], Progress]) -> None:
        self._screen = screen
        self._progress = progress
        self._paused: frozenset[str] = frozenset()
        self._throttled = progress().throttled

    async def started(self, news: Started, run: str, /) -> None:
        """Which attempt, if it is not the first."""
        number = int(news.attempt.partition("-")[0])
        await self.note(f"{run} started" + (f" (attempt {number})" if number > 1 else ""))

    async def result(self, line: bytes) -> None:
        """As it is."""
        await self._screen.raw(line)

    async def note(self, text: str, style: str = "") -> None:
        """As it is."""
        await self._screen.note(text, style)

    async def tick(self) -> None:
        """Say what changed beside starts and results."""
        now = self._progress()
        paused = {paused.agent: paused_words(paused) for paused in now.paused}
        for agent in paused.keys() - self._paused:
            await self.note(paused[agent])
        if now.throttled > self._throttled:
            await self.note(f"throttled by their services: {now.throttled} times so far")
        self._paused, self._throttled = frozenset(paused), now.throttled

    async def end(self) -> None:
        """Nothing stays to be removed."""
        await self.tick()


class Block:
    """A block of lines at the foot of a terminal, painted again where it stood."""

    every = BLOCK_EVERY

    def __init__(self, screen: Screen, progress: Callable[[], Progress]) -> None:
        self._screen = screen
        self._progress = progress
        self._turn = anyio.Lock()
        self._painted: list[int] = []
        """How wide each line of the block is."""

    async def started(self, _news: Started, _run: str, /) -> None:
        """It is seen in the block."""

    async def result(self, line: bytes) -> None:
        """Above the block, if stdout is the terminal too."""
        if not self._screen.out.terminal:
            await self._screen.raw(line)
            return
        async with self._turn:
            await self._erase()
            await self._screen.raw(line)
            await self._paint()

    async def note(self, text: str, style: str = "") -> None:
        """Above the block."""
        async with self._turn:
            await self._erase()
            await self._screen.note(text, style)
            await self._paint()

    async def tick(self) -> None:
        """Paint it as it is now."""
        async with self._turn:
            await self._erase()
            await self._paint()

    async def end(self) -> None:
        """Remove it, and paint it no more."""
        async with self._turn:
            await self._erase()
        self._progress = _over

    async def _erase(self) -> None:
        """Where the terminal has become narrower, it has broken the lines."""
        if self._painted:
            width, _ = _size(self._screen.err.descriptor)
            rows = sum(max(1, -(-length // width)) for length in self._painted)
            self._painted = []
            await self._screen.err.write(f"\r\x1b[{rows}A\x1b[J".encode())

    async def _paint(self) -> None:
        progress = self._progress()
        if progress.total == 0:
            return
        width, height = _size(self._screen.err.descriptor)
        text, self._painted = _rendered(progress, width, max(1, min(MOST_RUNNING, height - 4)))
        await self._screen.err.write(text.encode(errors="backslashreplace"))


def _over() -> Progress:
    return Progress(total=0, counted=0, completed=0, failed=0)


def _size(descriptor: int) -> tuple[int, int]:
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return 80, 24
    return max(size.columns or 80, NARROWEST), size.lines or 24


def _rendered(progress: Progress, width: int, most: int) -> tuple[str, list[int]]:
    """The block as bytes for the terminal, and how wide each line is; the last column stays free."""
    import io  # noqa: PLC0415 -- rich is loaded only for a terminal, and this with it

    from rich.cells import cell_len  # noqa: PLC0415 -- same
    from rich.console import Console  # noqa: PLC0415 -- same
    from rich.progress_bar import ProgressBar  # noqa: PLC0415 -- same
    from rich.text import Text  # noqa: PLC0415 -- same

    console = Console(file=io.StringIO(), force_terminal=True, width=width - 1, legacy_windows=False)
    lines = [Text(line, style=style, no_wrap=True, overflow="ellipsis") for line, style in _lines(progress, most)]
    with console.capture() as captured:
        console.print(ProgressBar(total=progress.total, completed=progress.counted, width=min(width - 1, 60)))
        console.print()
        for line in lines:
            console.print(line, no_wrap=True, overflow="ellipsis", crop=True, highlight=False)
    shown = captured.get()
    return shown, [min(width - 1, 60), *(min(width - 1, cell_len(line.plain)) for line in lines)]


def _lines(progress: Progress, most: int) -> list[tuple[str, str]]:
    """Line and style; nothing in it can move a cursor."""
    left = f"about {clock(progress.time_left)} left" if progress.time_left is not None else ""
    counts = [
        f"{progress.counted}/{progress.total} done",
        f"{len(progress.running)} running",
        f"{progress.failed} failed",
        f"{progress.denials} denied",
        spent_words(progress.spent),
        clock(progress.elapsed),
        left,
    ]
    lines = [(" · ".join(part for part in counts if part), "bold")]
    now = time.time()
    for running in progress.running[:most]:
        parts = [running.run, safe_line(running.agent, 40), clock(max(0.0, now - running.since))]
        parts += [f"${running.usd:.4f}"] if running.usd is not None else []
        parts += [safe_line(running.doing, 40)] if running.doing else []
        lines.append(("  " + " ".join(parts), "dim"))
    if len(progress.running) > most:
        lines.append((f"  and {len(progress.running) - most} more", "dim"))
    lines += [(paused_words(paused), "yellow") for paused in progress.paused]
    return lines
