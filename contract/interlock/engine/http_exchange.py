"""One connection of an HTTP client: its requests and our answers, in turn. Loaded only by who has an endpoint."""

from __future__ import annotations

import anyio
import h11
from anyio.abc import ByteStream

__all__ = ["GONE", "Exchange"]

LONGEST_HEAD = 64 * 1024
FAILED = 400
"""From this HTTP status on."""
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, h11.RemoteProtocolError)
_CHUNK = 1 << 18


class Exchange:
    """HTTP requests and their answers, in turn; raises what `GONE` lists when the caller is gone or speaks no HTTP."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self.method = b""
        self.held = 0
        """Bytes of the body of the request in turn."""

    async def head(self) -> h11.Request:
        """The request without its body."""
        event = await self._next()
        if not isinstance(event, h11.Request):
            raise anyio.EndOfStream
        self.method = event.method
        return event

    async def piece(self) -> bytes | None:
        """The next piece of the body; None at its end."""
        if self._connection.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        event = await self._next()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if isinstance(event, h11.EndOfMessage):
            return None
        raise anyio.EndOfStream

    async def closed(self) -> None:
        """Wait until the caller closes the connection; the start of a next request is kept for its turn."""
        try:
            while len(self._connection.trailing_data[0]) < LONGEST_HEAD:
                self._connection.receive_data(await self._stream.receive(_CHUNK))
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        await anyio.sleep_forever()

    async def send(self, status: int, body: bytes) -> None:
        """The whole answer; nothing follows one that is no success."""
        headers = [("content-length", str(len(body)))]
        if status >= FAILED:
            headers.append(("connection", "close"))
        if body:
            headers.append(("content-type", "application/json"))
        await self._send(h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage())

    async def next(self) -> bool:
        """Wait for the next request; False where the caller or our answer said that there is none."""
        if self._connection.our_state is not h11.DONE or self._connection.their_state is not h11.DONE:
            return False
        self._connection.start_next_cycle()
        if not self._connection.trailing_data[0]:
            self._connection.receive_data(await self._stream.receive(_CHUNK))
        return True

    async def _next(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._connection.next_event()
            if not isinstance(event, type):
                return event
            if event is not h11.NEED_DATA:
                return h11.PAUSED
            self._connection.receive_data(await self._stream.receive(_CHUNK))

    async def _send(self, *events: h11.Event) -> None:
        data = b"".join(self._connection.send(event) or b"" for event in events)
        if data:
            await self._stream.send(data)
