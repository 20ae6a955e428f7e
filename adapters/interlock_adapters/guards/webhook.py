"""An approver that asks by HTTP: the approval is posted, and the answer is the decision, at once or later.

200 with a decision in JSON is the answer. 202 means that somebody was asked: its `Location`, a path on the same host,
is then read until it says 200. Anything else, and whatever goes wrong, is a denial; only a connection that fails while
an answer is awaited is tried again.
"""

from __future__ import annotations

import hmac
import ssl
from collections.abc import Mapping

import anyio
from pydantic import ValidationError

from interlock.approval import Approval, Approve, Deny, decision_adapter
from interlock.errors import ConfigurationError
from interlock.framing.json_objects import NotJson, parse_object
from interlock_adapters.guards.http_client import Address, HttpFailed, Reply, request

__all__ = ["WebhookApprover"]

SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
FAILURES_IN_A_ROW = 5


class _NoDecision(Exception):
    """What came is no decision; the text says what it is instead."""


class WebhookApprover:
    """Asks at `url` (https, or http on this machine) whether a call may run.

    `token` goes along as a bearer token, `secret` signs each approval (`Interlock-Signature: sha256=HMAC of the body`).
    `pause`: seconds between questions for a late answer, unless `Retry-After` says more; `timeout`: for one request.
    `context`: TLS authorities of your own. Raises `ConfigurationError`.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        secret: bytes | None = None,
        pause: float = 2.0,
        timeout: float = 30.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        try:
            self._address = Address.of(url)
        except ValueError as error:
            raise ConfigurationError("WebhookApprover", str(error)) from error
        if context is not None and (context.verify_mode is not ssl.CERT_REQUIRED or not context.check_hostname):
            raise ConfigurationError("WebhookApprover", "the TLS context verifies nobody")
        self._headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._secret = secret
        self._pause = pause
        self._timeout = timeout
        self._context = context

    async def __call__(self, approval: Approval, /) -> Approve | Deny:
        """Ask, and wait for the answer as long as the run does; never raises but for cancellation."""
        try:
            reply = await self._request(self._address, "POST", approval.to_json().encode())
            if reply.status == 202:
                reply = await self._later(reply)
            return _decision(reply)
        except (_NoDecision, HttpFailed) as error:
            return Deny(reason=f"the approval could not be asked for: {error}")

    async def _later(self, reply: Reply) -> Reply:
        """Ask until there is an answer."""
        try:
            address = self._address.at(reply.headers.get("location", ""))
        except ValueError as error:
            raise _NoDecision(f"its `Location` leads nowhere: {error}") from error
        failures = 0
        while reply.status == 202:
            await anyio.sleep(self._wait(reply))
            try:
                reply = await self._request(address, "GET")
                failures = 0
            except HttpFailed:
                failures += 1
                if failures >= FAILURES_IN_A_ROW:
                    raise
        return reply

    def _wait(self, reply: Reply) -> float:
        said = reply.headers.get("retry-after", "")
        wanted = float(said) if said.isascii() and said.isdigit() else self._pause
        return min(max(wanted, SHORTEST_PAUSE), LONGEST_PAUSE)

    async def _request(self, address: Address, method: str, body: bytes = b"") -> Reply:
        headers = {**self._headers, **self._about(body)}
        try:
            with anyio.fail_after(self._timeout):
                return await request(address, method, headers=headers, body=body, context=self._context)
        except TimeoutError as error:
            raise HttpFailed(f"{address.authority} gave no answer within {self._timeout:g} s") from error

    def _about(self, body: bytes) -> Mapping[str, str]:
        if not body:
            return {}
        kind = {"Content-Type": "application/json"}
        if self._secret is None:
            return kind
        return kind | {"Interlock-Signature": "sha256=" + hmac.new(self._secret, body, "sha256").hexdigest()}


def _decision(reply: Reply) -> Approve | Deny:
    if reply.status != 200:
        raise _NoDecision(f"it answered with status {reply.status}")
    found = parse_object(bytes(reply.body))
    if isinstance(found, NotJson):
        raise _NoDecision("it answered something other than exactly one JSON object")
    try:
        return decision_adapter().validate_python(found)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, detail["loc"]))
        raise _NoDecision(f"what it answered is no decision: {place}: {detail['msg']}") from error
