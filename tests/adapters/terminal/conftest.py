"""A terminal codec driven by hand: bytes in, looks until it rests, verdicts when a test gives them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from interlock.actions import Action, Consult, Emit, Key, Proceed, Refuse, RunDone, Send, Wake, Withdraw
from interlock.events import BaseEvent, ToolFinished
from interlock.tools import ToolCall
from interlock_adapters.terminal.codec import TerminalCodec
from interlock_adapters.terminal.profile import Profile, parse

PROFILE = r"""
name = "tool"
programs = ["tool"]
noise = ["Tool [0-9.]+", '.*\(y/n\) ']
prompt = { by = "arguments", arguments = ["{prompt}"] }
ends = { marker = "^bye$" }

[[question]]
name = "run"
kinds = ["shell"]
pattern = '(?:\A|\n)\n(?P<command>(?:[^\n]+\n)+)Run it\? \(y/n\) $'
each_line = true
yes = "y\n"
no = "n\n"

[[question]]
name = "open"
kinds = ["read", "edit"]
pattern = '\n(?P<path>[^\n]+)\nOpen it\? \(y/n\) $'
yes = "y\n"
no = "n\n"

[[question]]
name = "news"
pattern = 'Read the news\? $'
always = "n\n"
"""


@dataclass
class Driven:
    """A codec and all that it asked for."""

    codec: TerminalCodec
    actions: list[Action] = field(default_factory=list)

    def do(self, actions: Any) -> None:
        """Take actions in, and look as often as the codec wants."""
        waiting = list(actions)
        while waiting:
            action = waiting.pop(0)
            if isinstance(action, Wake):
                waiting += self.codec.woke(action.key)
            else:
                self.actions.append(action)

    def hear(self, text: str | bytes) -> list[Action]:
        """The agent writes, then rests; what the codec then wanted."""
        before = len(self.actions)
        data = text.replace("\n", "\r\n").encode() if isinstance(text, str) else text
        self.do(self.codec.received("stdout", data))
        return self.actions[before:]

    def say(self, verdict: Proceed | Refuse, call: ToolCall | None = None) -> list[Action]:
        """Give the verdict on the last call that was asked about."""
        before = len(self.actions)
        asked = call or self.asked[-1]
        self.do(self.codec.decided(Key("main", asked.tool_call_id), "before", verdict))
        return self.actions[before:]

    def end(self, code: int | None = 0, signal: int | None = None, files: Mapping[str, bytes] | None = None) -> RunDone:
        """The process is gone."""
        self.do(self.codec.exited(code, signal, files or {}))
        done = self.actions[-1]
        assert isinstance(done, RunDone)
        return done

    @property
    def asked(self) -> list[ToolCall]:
        """The calls that were asked about."""
        return [action.call for action in self.actions if isinstance(action, Consult)]

    @property
    def sent(self) -> list[bytes]:
        """The keys."""
        return [action.data for action in self.actions if isinstance(action, Send)]

    @property
    def events(self) -> list[BaseEvent]:
        """All events."""
        return [event for action in self.actions if isinstance(action, Emit) for event in action.events]

    @property
    def ends(self) -> list[tuple[str, str]]:
        """How each call ended."""
        return [(event.tool_name, event.status) for event in self.events if isinstance(event, ToolFinished)]

    @property
    def withdrawn(self) -> int:
        """How many questions went away."""
        return sum(isinstance(action, Withdraw) for action in self.actions)


@pytest.fixture
def profile() -> Profile:
    return parse(PROFILE, "test.toml")


@pytest.fixture
def profile_text() -> str:
    return PROFILE


@pytest.fixture
def driven(profile: Profile) -> Driven:
    return Driven(TerminalCodec(profile))


@pytest.fixture
def drive() -> Callable[[str], Driven]:
    return lambda text: Driven(TerminalCodec(parse(text, "test.toml")))
