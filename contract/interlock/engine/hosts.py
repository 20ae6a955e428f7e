"""The host of a URL, read so that no client can read another one; and the host patterns of fetch rules.

An allow rule needs a URL that every parser reads alike: http or https, no user name, no backslash, an ASCII host
spelled out. A deny rule compares every host that a lenient client might see, numbers and international names included.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

__all__ = ["HostPattern", "host_pattern", "plain_host"]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\]")
_NUMERIC = re.compile(r"(?:.*\.)?(?:0x[0-9a-f]*|[0-9]+)")


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`host`, `*.host` (below it, not itself), either with `:port` or `:*`."""

    host: str
    below: bool
    port: int | None
    """None: the default port of the scheme for an allow rule, any port for a deny rule."""
    any_port: bool

    def allows(self, url: str) -> bool:
        """Whether this and nothing else is the URL's host and port."""
        read = plain_host(url)
        if read is None:
            return False
        scheme, host, port = read
        if not self.any_port and port != (self.port or _DEFAULT_PORTS[scheme]):
            return False
        return host.endswith("." + self.host) if self.below else host == self.host

    def denies(self, url: str) -> bool:
        """Whether any reading of the URL could reach the host, or one below it; true if none can be read."""
        hosts = _possible_hosts(url)
        if hosts is None:
            return True
        if not any(host == self.host or host.endswith("." + self.host) for host in hosts):
            return False
        return self.port is None or self.any_port or _port(url) in {None, self.port}


def host_pattern(text: str) -> HostPattern | None:
    """The pattern of a fetch rule; None if it is no host."""
    host, port, any_port = text.strip().lower(), None, False
    if tail := re.search(r":(\d{1,5}|\*)\Z", host if not host.endswith("]") else ""):
        host, any_port = host[: tail.start()], tail[1] == "*"
        port = None if any_port else int(tail[1])
    below = host.startswith("*.")
    host = (host[2:] if below else host).rstrip(".")
    ascii_host = _ascii(host)
    if ascii_host is None or not _HOST.fullmatch(ascii_host) or (port is not None and port > 65_535):
        return None
    return HostPattern(_address(ascii_host), below, port, any_port)


def plain_host(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of a URL that every client reads alike, else None."""
    if not url.isascii() or not url.isprintable() or any(char in url for char in " \\"):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    scheme, netloc = parts.scheme, parts.netloc.lower()
    host = netloc.rpartition(":")[0] if port is not None else netloc.removesuffix(":")
    if scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(host.removesuffix(".")):
        return None
    host = host.removesuffix(".")
    if _NUMERIC.fullmatch(host) and _address(host) != host:
        return None
    return scheme, _address(host), _DEFAULT_PORTS[scheme] if port is None else port


def _possible_hosts(url: str) -> frozenset[str] | None:
    """Every host that some client might take the URL to name."""
    text = "".join(char for char in url if char.isprintable()).strip()
    authority = re.match(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?[/\\]*([^?#]*)", text)
    if authority is None or not authority[1]:
        return None
    ends = [re.split(r"[/\\]", authority[1])[0], authority[1].split("/")[0]]
    found: set[str] = set()
    for end in ends:
        for part in (end.rpartition("@")[2], *end.split("@")):
            found |= _spelled(re.sub(r":\d*\Z", "", part))
    return frozenset(found) or None


def _spelled(host: str) -> set[str]:
    raw = unquote(host).lower().rstrip(".")
    forms = {form for form in (raw, _ascii(raw)) if form}
    return forms | {_address(form) for form in forms}


def _ascii(host: str) -> str | None:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None


def _address(host: str) -> str:
    """An IP address in its usual spelling; any other host as it is."""
    try:
        if _NUMERIC.fullmatch(host):
            return socket.inet_ntoa(socket.inet_aton(host))
        if host.startswith("["):
            address = ipaddress.IPv6Address(host.strip("[]"))
            return str(address.ipv4_mapped or address)
    except (OSError, ValueError):
        pass
    return host


def _port(url: str) -> int | None:
    try:
        parts = urlsplit(url)
        return parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
