"""How the host and its guardian talk: frames with file descriptors over an AF_UNIX connection.

A frame is a length, a count of file descriptors, and a JSON object. What is bytes to the system (argv, env, paths)
travels as latin-1 text. A request with `seq` is answered with it; an exit is told without being asked.
"""

from __future__ import annotations

import array
import json
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Message = dict[str, Any]

NO_SIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)
"""Flag for send: a broken connection is an error, never SIGPIPE."""

_MAX_FRAME = 256 << 20
_HEADER = 5
_READ = 1 << 18


def pack(message: Message, fds: int = 0) -> bytes:
    """One frame; `fds` descriptors go with its first byte."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return len(body).to_bytes(4, "big") + bytes((fds,)) + body


def send_with(sock: socket.socket, data: bytes | memoryview, fds: Sequence[int], flags: int = 0) -> int:
    """Send what fits, descriptors with the first byte (socket.send_fds of Python 3.11 loses its flags)."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    return sock.sendmsg([data], rights, NO_SIGNAL | flags)


class Inbox:
    """Bytes and descriptors as they arrive, to frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._fds: list[int] = []

    def feed(self, data: bytes, fds: list[int]) -> None:
        """Add what one read brought."""
        self._bytes += data
        self._fds += fds

    def take(self) -> tuple[Message, list[int]] | None:
        """The next whole frame; one that is no JSON object is an empty message. Raises ValueError past the cap."""
        size = int.from_bytes(self._bytes[:4], "big")
        if size > _MAX_FRAME:
            raise ValueError("a frame beyond the cap")
        if len(self._bytes) < _HEADER + size:
            return None
        count, body = self._bytes[4], bytes(self._bytes[_HEADER : _HEADER + size])
        del self._bytes[: _HEADER + size]
        fds, self._fds = self._fds[:count], self._fds[count:]
        return _parse(body), fds

    def close(self) -> None:
        """Close descriptors that no frame claimed."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()


def _parse(body: bytes) -> Message:
    try:
        message: Message = json.loads(body) if body.startswith(b"{") else {}
    except (ValueError, RecursionError):
        return {}
    return message


class Line:
    """One connection to the host. Sending never blocks; what does not fit is kept until it does."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.inbox = Inbox()
        self.outbox = bytearray()

    def read(self) -> bool:
        """Take in what is there; False at the end of the connection, or if descriptors were lost on the way."""
        try:
            data, fds, flags, _ = socket.recv_fds(self.sock, _READ, 8)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
        self.inbox.feed(data, fds)
        return bool(data) and not flags & socket.MSG_CTRUNC

    def send(self, message: Message) -> None:
        """Queue a message and send what can be sent now."""
        self.outbox += pack(message)
        self.flush()

    def flush(self) -> None:
        """Send what waits; a broken connection shows when it is read."""
        try:
            del self.outbox[: self.sock.send(self.outbox, NO_SIGNAL)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.outbox.clear()

    def close(self) -> None:
        """Let go of the socket and of what came with it."""
        self.inbox.close()
        self.sock.close()
