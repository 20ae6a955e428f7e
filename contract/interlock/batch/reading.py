"""Iterating over the results of a batch. A plain object: dropping it, or reading from another task, is harmless."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio.lowlevel

from interlock.batch.results import BatchResult

if TYPE_CHECKING:
    from interlock.batch.driver import Driver

__all__ = ["Results"]


class Results(AsyncIterator[BatchResult]):
    """Counted runs, each read from its files when its turn comes; raises `BatchError` once the batch cannot go on."""

    def __init__(self, driver: Driver, *, in_order: bool, earlier: bool) -> None:
        self._driver = driver
        self._in_order = in_order
        self._earlier = earlier
        self._at = 0

    async def __anext__(self) -> BatchResult:
        await anyio.lowlevel.checkpoint()
        while True:
            over = self._driver.finished.is_set()
            changed = self._driver.tally.changed
            while (index := self._next(over=over)) is not None:
                found = self._driver.result(index)
                if found is not None and (self._earlier or not found.earlier):
                    return found
            if over:
                if self._driver.failure is not None:
                    raise self._driver.failure
                raise StopAsyncIteration
            await changed.wait()

    def _next(self, *, over: bool) -> int | None:
        """The next index to look at; None if that must be waited for, or there is none. `over`: no more are counted."""
        driver = self._driver
        if not self._in_order:
            if self._at >= len(driver.tally.order):
                return None
            self._at += 1
            return driver.tally.order[self._at - 1]
        if self._at >= driver.store.total:
            return None
        if not over and not driver.is_counted(self._at):
            return None
        self._at += 1
        return self._at - 1
