"""News for whoever looks: each listener has its own bounded queue, and nobody waits for it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

import anyio

from interlock.batch.wire import News

__all__ = ["Feed"]

MOST_UNREAD = 10_000


class Feed:
    """Carries news to its listeners; a slow one loses the oldest."""

    def __init__(self) -> None:
        self._listeners: set[_Listener] = set()
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def listen(self) -> AsyncIterator[News]:
        """The news from now on; ends with the batch."""
        listener = _Listener(self._listeners)
        listener.closed = self._closed
        return listener

    def publish(self, news: News) -> None:
        """Give it to all."""
        for listener in self._listeners:
            listener.queue.append(news)
            listener.changed.set()

    def close(self) -> None:
        """No more news."""
        self._closed = True
        for listener in self._listeners:
            listener.closed = True
            listener.changed.set()


class _Listener:
    def __init__(self, among: set[_Listener]) -> None:
        self.queue: deque[News] = deque(maxlen=MOST_UNREAD)
        self.changed = anyio.Event()
        self.closed = False
        self._among = among
        among.add(self)

    def __aiter__(self) -> AsyncIterator[News]:
        return self

    async def __anext__(self) -> News:
        while not self.queue:
            if self.closed:
                self._among.discard(self)
                raise StopAsyncIteration
            self.changed = anyio.Event()
            await self.changed.wait()
        return self.queue.popleft()
