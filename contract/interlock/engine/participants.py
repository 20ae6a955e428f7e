"""Those who take part in the chain, reduced to what the runner needs to know of them.

What a participant may do, and which calls concern it, is read once when the chain is made; nothing that it does later
changes that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, cast, get_args

from interlock.engine.rules import CHANGES, name_glob
from interlock.errors import ConfigurationError
from interlock.hooks import DEFAULT_POWERS, HookCall, HookEvent, HookSpec, Power
from interlock.permission import Binding

__all__ = ["BrokenAnswer", "Participant", "from_interceptor", "from_program", "tool_matcher"]

AskOne = Callable[[HookCall], Awaitable[object]]
Concerns = Callable[[HookCall], bool]
POWERS: frozenset[Power] = frozenset(get_args(Power))
METHODS: Mapping[HookEvent, str] = {"pre_tool_use": "before", "post_tool_use": "after"}


class BrokenAnswer(Exception):
    """A participant gave no answer that counts. `detail` is for the audit; the model is told `why` alone."""

    def __init__(self, why: str, detail: str = "", *, denies: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.detail = detail
        self.denies = denies
        """It meant to deny, so that no `on_failure` lets the call pass."""


@dataclass(frozen=True, slots=True)
class Participant:
    """One participant, whatever its binding."""

    name: str
    binding: Binding
    asks: Mapping[HookEvent, AskOne]
    may: frozenset[Power] = frozenset(DEFAULT_POWERS)
    deadline: float = 5.0
    """Seconds for one answer."""
    own_deadline: bool = False
    """It asked for this deadline itself."""
    concerns: Concerns | None = None
    """None: every call."""
    on_failure: Literal["deny", "allow"] = "deny"
    title: str = field(init=False)
    """`interceptor 'name'` or `hook 'name'`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", f"{self.binding} {self.name!r}")

    def asked_about(self, call: HookCall) -> AskOne | None:
        """How this participant is asked about the call; None if it does not concern it."""
        ask = self.asks.get(call.event)
        return ask if ask is not None and (self.concerns is None or self.concerns(call)) else None


def tool_matcher(globs: tuple[str, ...] | None) -> Concerns | None:
    """Whether one of the globs matches the call's kind or native name, in any case; of edit, write and patch, any."""
    if globs is None:
        return None
    patterns = [name_glob(glob, fold=True) for glob in globs]

    def concerns(call: HookCall) -> bool:
        kinds = CHANGES if call.tool_kind in CHANGES else (call.tool_kind,)
        return any(pattern.match(name) for pattern in patterns for name in (call.tool_name, *kinds))

    return concerns


def from_interceptor(interceptor: object, default_deadline: float) -> Participant:
    """A participant in this process; raises `ConfigurationError` for one that cannot take part as it says."""
    name = getattr(interceptor, "name", None)
    source = f"interceptor {name!r}" if isinstance(name, str) else f"interceptor {type(interceptor).__name__}"
    if not isinstance(name, str) or not name:
        raise ConfigurationError(source, "`name` must be a text that is not empty")
    asks = _methods(interceptor, source)
    deadline = getattr(interceptor, "deadline", default_deadline)
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not isfinite(deadline) or deadline <= 0:
        raise ConfigurationError(source, f"`deadline` must be a number of seconds above 0, not {deadline!r}")
    return Participant(
        name=name,
        binding="interceptor",
        asks=asks,
        may=_powers(interceptor, source),
        deadline=float(deadline),
        own_deadline=hasattr(interceptor, "deadline"),
        concerns=tool_matcher(_words(interceptor, "tools", source)),
    )


def from_program(spec: HookSpec, ask: AskOne) -> Participant:
    """A participant that is a program, asked by `ask`."""
    return Participant(
        name=spec.name,
        binding="hook",
        asks=dict.fromkeys(spec.events, ask),
        may=frozenset(spec.may),
        deadline=spec.timeout,
        own_deadline="timeout" in spec.model_fields_set,
        concerns=tool_matcher(spec.tools),
        on_failure=spec.on_failure,
    )


def _methods(interceptor: object, source: str) -> dict[HookEvent, AskOne]:
    found: dict[HookEvent, object] = {event: getattr(interceptor, method, None) for event, method in METHODS.items()}
    wanted = _words(interceptor, "events", source)
    unknown = sorted(set(wanted or ()) - set(METHODS))
    if unknown:
        raise ConfigurationError(source, f"`events` names unknown events: {', '.join(unknown)}")
    asks: dict[HookEvent, AskOne] = {
        event: cast("AskOne", ask)
        for event, ask in found.items()
        if callable(ask) and (wanted is None or event in wanted)
    }
    if not asks:
        raise ConfigurationError(
            source, "it has neither `before` nor `after` for its events, so it would guard nothing"
        )
    return asks


def _powers(interceptor: object, source: str) -> frozenset[Power]:
    words = _words(interceptor, "may", source)
    if words is None:
        return frozenset(DEFAULT_POWERS)
    powers: frozenset[Power] = frozenset(power for power in POWERS if power in words)
    if not powers or len(powers) != len(set(words)):
        raise ConfigurationError(source, f"`may` is a choice of {', '.join(sorted(POWERS))}, not {words!r}")
    return powers


def _words(interceptor: object, attribute: str, source: str) -> tuple[str, ...] | None:
    value = getattr(interceptor, attribute, None)
    if value is None:
        return None
    if not isinstance(value, list | tuple | set | frozenset):
        raise ConfigurationError(source, f"`{attribute}` must be a tuple of texts, not {value!r}")
    words = tuple(cast("tuple[object, ...]", value))
    if not words or not all(isinstance(word, str) and word for word in words):
        raise ConfigurationError(source, f"`{attribute}` must be a tuple of texts that are not empty, not {value!r}")
    return cast("tuple[str, ...]", words)
