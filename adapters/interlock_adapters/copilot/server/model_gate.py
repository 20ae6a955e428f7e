"""Before each request to a model provider of one's own the server asks us for the key, and keeps none (1.0.102).

So no model is asked before our hooks were called, none once the turn was told to end, and none when nobody is here any
more: a channel that closes counts as no objection of an open hook, and the output that it is about would be shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from interlock.actions import Action, Suspicion
from interlock.framing.jsonrpc import Call
from interlock.model import JsonValue
from interlock_adapters.copilot.server.channel import Channel
from interlock_adapters.copilot.server.hook_calls import HookCalls
from interlock_adapters.copilot.server.intent import Intent

__all__ = ["METHOD", "ModelGate", "gated"]

METHOD = "providerToken.getToken"
REFUSED = -32000
KEYLESS = "none"
"""What is said to a provider that wants no key."""


def gated(provider: dict[str, JsonValue]) -> tuple[dict[str, JsonValue], str | None]:
    """The provider as the server is told of it, and the key that it must ask for; None where it is told the key.

    Only where the key goes into the header that a token does: another type of provider has one of its own.
    """
    if provider.get("type") != "openai":
        return provider, None
    key = provider.get("bearerToken") or provider.get("apiKey")
    told = {name: value for name, value in provider.items() if name not in {"apiKey", "bearerToken"}}
    return told | {"hasBearerTokenProvider": True}, key if isinstance(key, str) else KEYLESS


@dataclass(slots=True)
class ModelGate:
    """Gives the key, or not."""

    channel: Channel
    hooks: HookCalls
    intent: Intent
    key: str | None

    def asked(self, call: Call) -> Iterator[Action]:
        """One request to the model is about to be made."""
        if self.key is None or self.intent.ends:
            yield self.channel.refuse(call.id, REFUSED, "the model is not asked any more")
        elif not self.hooks.alive:
            yield self.channel.refuse(call.id, REFUSED, "the hooks of this session were not called")
            yield Suspicion("not_confirmed", "the model is to be asked, and our hooks were not called before")
        else:
            yield self.channel.answer(call.id, {"token": self.key})
