"""One HTTP request at a time over a connection of its own: no redirects, no proxies, bounded answers.

https is verified against the system's authorities unless another context is given; plain http is for this machine.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import anyio
import h11
from anyio.abc import ByteStream

__all__ = ["Address", "HttpFailed", "Reply", "request"]

LONGEST_REPLY = 1024 * 1024
CHUNK = 65_536
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class HttpFailed(Exception):
    """No answer came of a request; the text says why and holds no part of the URL's query."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go."""

    secure: bool
    host: str
    port: int
    target: str

    @classmethod
    def of(cls, url: str) -> Address:
        """Read a URL; raises `ValueError` for one that is not https, or http on this machine."""
        parts = urlsplit(url)
        host = parts.hostname
        if parts.scheme not in {"http", "https"} or not host or parts.username is not None:
            raise ValueError("it must be an https URL without a user name")
        if parts.scheme == "http" and host not in LOOPBACK:
            raise ValueError("plain http would show approvals to the network; use https")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not target.isascii() or any(char.isspace() for char in target):
            raise ValueError("its path must be ASCII without blanks")
        secure = parts.scheme == "https"
        return cls(secure, host, parts.port or (443 if secure else 80), target)

    def at(self, target: str) -> Address:
        """The same host with another path; raises `ValueError` for anything that leads elsewhere."""
        if not target.startswith("/") or target.startswith("//") or not target.isascii() or not target.isprintable():
            raise ValueError("it must be a path on the same host")
        return Address(self.secure, self.host, self.port, target.replace(" ", "%20"))

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


@dataclass(slots=True)
class Reply:
    """An answer: names of headers in lower case."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytearray = field(default_factory=bytearray)


async def request(
    address: Address,
    method: str,
    *,
    headers: Mapping[str, str],
    body: bytes = b"",
    context: ssl.SSLContext | None = None,
) -> Reply:
    """Send a request and read the whole answer; raises `HttpFailed`."""
    try:
        stream = await _connect(address, context)
    except (OSError, ssl.SSLError) as error:
        raise HttpFailed(f"no connection to {address.authority}: {error}") from error
    try:
        return await _exchange(stream, address, method, headers, body)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ssl.SSLError, OSError) as error:
        raise HttpFailed(f"{address.authority} broke off: {type(error).__name__}") from error
    except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
        raise HttpFailed(f"{address.authority} speaks no HTTP: {error}") from error
    finally:
        await anyio.aclose_forcefully(stream)


async def _connect(address: Address, context: ssl.SSLContext | None) -> ByteStream:
    if not address.secure:
        return await anyio.connect_tcp(address.host, address.port)
    return await anyio.connect_tcp(
        address.host, address.port, ssl_context=context or ssl.create_default_context(), tls_hostname=address.host
    )


async def _exchange(
    stream: ByteStream, address: Address, method: str, headers: Mapping[str, str], body: bytes
) -> Reply:
    connection = h11.Connection(h11.CLIENT)
    fixed = {"Host": address.authority, "Connection": "close", "Content-Length": str(len(body)), **headers}
    first = connection.send(h11.Request(method=method, target=address.target, headers=list(fixed.items())))
    parts = [first, connection.send(h11.Data(data=body)) if body else b"", connection.send(h11.EndOfMessage())]
    await stream.send(b"".join(part or b"" for part in parts))
    reply = Reply()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await _received(stream))
        elif isinstance(event, h11.Response):
            reply.status = event.status_code
            reply.headers = {name.decode("ascii").lower(): value.decode("latin-1") for name, value in event.headers}
        elif isinstance(event, h11.Data):
            reply.body += event.data
            if len(reply.body) > LONGEST_REPLY:
                raise HttpFailed(f"{address.authority} answered more than {LONGEST_REPLY} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return reply
        elif isinstance(event, h11.ConnectionClosed):
            raise HttpFailed(f"{address.authority} broke off")


async def _received(stream: ByteStream) -> bytes:
    try:
        return await stream.receive(CHUNK)
    except anyio.EndOfStream:
        return b""
