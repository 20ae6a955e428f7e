"""The credentials of Copilot: the login of the person, a token of GitHub, or a model provider of one's own.

The login lies in `config.json` of the config home, which holds the CLI's own state; the person's settings, hooks and
servers stand in other files (1.0.102). A provider is chosen by `COPILOT_PROVIDER_BASE_URL` and needs no GitHub account.
Only what was chosen is passed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from interlock.adapter import Order
from interlock.capabilities import Unmet
from interlock.login import Login
from interlock.model import JsonValue

__all__ = [
    "CREDENTIALS_FILE",
    "KEYS",
    "PROVIDER",
    "SECRETS",
    "SERVICE",
    "chosen_login",
    "provider",
    "unmet_key",
    "unmet_login",
    "unmet_model",
    "variable",
]

CREDENTIALS_FILE = "config.json"
TOKENS = ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN")
"""In the order in which the CLI looks for them."""
BASE_URL = "COPILOT_PROVIDER_BASE_URL"
PROVIDER: Mapping[str, str] = {
    BASE_URL: "baseUrl",
    "COPILOT_PROVIDER_TYPE": "type",
    "COPILOT_PROVIDER_API_KEY": "apiKey",
    "COPILOT_PROVIDER_BEARER_TOKEN": "bearerToken",
    "COPILOT_PROVIDER_WIRE_API": "wireApi",
    "COPILOT_PROVIDER_TRANSPORT": "transport",
    "COPILOT_PROVIDER_MODEL_ID": "modelId",
    "COPILOT_PROVIDER_WIRE_MODEL": "wireModel",
    "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "maxPromptTokens",
    "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": "maxOutputTokens",
    "COPILOT_PROVIDER_AZURE_API_VERSION": "azure",
    "COPILOT_PROVIDER_HEADERS": "headers",
}
"""The variables of a provider, and what the server calls the same. `COPILOT_PROVIDER_API_KEY_COMMAND` is none of them:
it names a program."""
SERVICE = ("COPILOT_MODEL", "COPILOT_OFFLINE", "COPILOT_GH_HOST", "GH_HOST")
KEYS = (*TOKENS, *PROVIDER, *SERVICE)
"""All that carries a key or chooses the service."""
SECRETS = frozenset({*TOKENS, "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN", "COPILOT_PROVIDER_HEADERS"})
SHORTEST_KEY = 8
"""Characters: a shorter one may be a word, or a piece of the protocol."""
_MASKED = ("COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN")
_NUMBERS = frozenset({"maxPromptTokens", "maxOutputTokens"})


def chosen_login(order: Order) -> Login:
    """What the request itself sets; else the person's login, unless `login="env"`; else a provider, or a token."""
    request, host = order.request, order.host
    given = [name for name in (*TOKENS, *PROVIDER) if name in request.env]
    found = [name for name in TOKENS if name in host.environ]
    if any(name in PROVIDER for name in given):
        return Login("environment", "a model provider of the request", frozenset(TOKENS) - set(given))
    if given:
        others = {*TOKENS, *PROVIDER} - set(given)
        return Login("environment", f"{', '.join(given)} of the request", frozenset(others))
    if request.login != "env" and CREDENTIALS_FILE in host.login_files:
        kept_out = [*found, *([BASE_URL] if BASE_URL in host.environ else [])]
        words = f"; {', '.join(kept_out)} of the environment is not used" if kept_out else ""
        return Login("file", f"the login in {host.login_folder}{words}", frozenset({*TOKENS, *PROVIDER}))
    if BASE_URL in host.environ:
        return Login("environment", f"the model provider of {BASE_URL}", frozenset(TOKENS))
    if found:
        return Login("environment", f"{found[0]} of the environment", frozenset(found[1:]))
    described = f"no login was found: no {CREDENTIALS_FILE}, and none of {BASE_URL}, {', '.join(TOKENS)}"
    return Login("none", described)


def unmet_login(order: Order) -> Iterator[Unmet]:
    """What is wrong with the login that the request names."""
    login = order.request.login
    if login not in {"user", "env"} and CREDENTIALS_FILE not in order.host.login_files:
        ways = ("login=user", "login=env")
        yield Unmet(field="login", value=login, reason=f"there is no {CREDENTIALS_FILE}", alternatives=ways)
    elif login == "env" and chosen_login(order).source == "none":
        reason = f"none of {BASE_URL}, {', '.join(TOKENS)} is set"
        yield Unmet(field="login", value=login, reason=reason, alternatives=("login=user",))


def unmet_model(order: Order) -> Iterator[Unmet]:
    """A provider has no default model."""
    if order.request.model is None and provider(order) is not None and variable(order, "COPILOT_MODEL") is None:
        reason = "with a model provider of one's own the model must be named"
        yield Unmet(field="model", value="None", reason=reason, alternatives=("a name", "COPILOT_MODEL"))


def unmet_key(order: Order) -> Iterator[Unmet]:
    """Over its plain output the CLI puts stars in the place of a key wherever its text stands (1.0.102)."""
    for name in _MASKED:
        key = variable(order, name)
        if key and len(key) < SHORTEST_KEY:
            reason = (
                f"the agent blanks the key out of all that it says; under {SHORTEST_KEY} characters it may be a word"
            )
            ways = ("a longer key", "leave it out, if the provider wants none", "transport=server")
            yield Unmet(field="env", value=name, reason=reason, alternatives=ways)


def variable(order: Order, name: str) -> str | None:
    """The value with which a variable reaches the child, None where it does not."""
    if name in order.request.env:
        return order.request.env[name]
    return None if name in chosen_login(order).dropped else order.host.environ.get(name)


def provider(order: Order) -> dict[str, JsonValue] | None:
    """The provider as the server is told of it, which takes none from its environment (1.0.102); None: GitHub's."""
    given = {name: value for name in PROVIDER if (value := variable(order, name))}
    if BASE_URL not in given:
        return None
    return {"type": "openai"} | {PROVIDER[name]: _told(PROVIDER[name], value) for name, value in given.items()}


def _told(name: str, value: str) -> JsonValue:
    if name in _NUMBERS and value.isascii() and value.isdigit():
        return int(value)
    if name == "azure":
        return {"apiVersion": value}
    if name == "headers":
        lines = [line.partition(":") for line in value.replace("\\n", "\n").split("\n")]
        return {key.strip(): text.strip() for key, colon, text in lines if colon}
    return value
