"""Who may speak to the page's server: the page itself, and nothing else that runs on this machine or in the browser.

Three things must hold, since whoever answers an approval acts as you:

- the Host is ours to the letter, so a name that was rebound to 127.0.0.1 is refused;
- what changes something has our Origin, so another site cannot send it;
- everything but the empty page carries the token. It is sent as a header and never as a cookie, which a browser
  would show to every other server on 127.0.0.1 too.
"""

import secrets

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = frozenset({"/", "/page.js", "/page.css"})
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Door:
    """Refuses what did not come from the page; every answer forbids frames, foreign scripts and caches."""

    def __init__(self, app: ASGIApp, *, origin: str, token: str) -> None:
        self._app = app
        self._origin = origin
        self._host = origin.removeprefix("http://")
        self._bearer = f"Bearer {token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        refusal = self._refusal(HTTPConnection(scope))
        answer = self._app if refusal is None else PlainTextResponse(refusal + "\n", 403)
        await answer(scope, receive, sealed)

    def _refusal(self, asked: HTTPConnection) -> str | None:
        headers = asked.headers
        if headers.get("host") != self._host:
            return "this is not the name of this server"
        origin = headers.get("origin")
        if origin not in {None, self._origin} or headers.get("sec-fetch-site") not in {None, "none", "same-origin"}:
            return "another site asked"
        if asked.scope.get("method") not in {"GET", "HEAD"} and origin is None:
            return "only the page itself may change something"
        given = headers.get("authorization", "")
        if asked.url.path not in OPEN and not secrets.compare_digest(given.encode(), self._bearer.encode()):
            return "the token is missing or wrong: open the address that was printed"
        return None
