"""A terminal agent as an adapter with one transport; what it can do follows from its profile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from interlock.adapter import Argument, Codec, LadderStep, Launch, LaunchFile, Order, VersionRange
from interlock.capabilities import Capabilities, Hole, Unmet
from interlock.permission import Otherwise, Posture, rule_parts
from interlock.tools import ToolCall, ToolKind
from interlock_adapters.terminal.codec import TerminalCodec, subject_of
from interlock_adapters.terminal.profile import Profile

__all__ = ["TerminalAdapter"]

HOME = "home"
PROMPT = "prompt"
DESCENT = (LadderStep("signal", 2.0, "HUP"), LadderStep("signal", 2.0, "TERM"))
"""What a terminal says when its person leaves, then the usual."""
_COVERS = {
    Posture.NONE: frozenset[ToolKind](),
    Posture.READ: frozenset({ToolKind.READ, ToolKind.SEARCH}),
    Posture.EDIT: frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH}),
    Posture.FULL: frozenset(ToolKind),
}
"""What each posture lets an agent do that does not ask, wherever it does it."""
_CHANGES = frozenset({ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH})
_UNTYPEABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class TerminalAdapter:
    """One terminal agent; itself its only transport."""

    profile: Profile
    source: str
    """Where the profile came from."""
    folder: str | None = None
    """The folder of a user's own profile that was found by its name."""

    @property
    def agent(self) -> str:
        """What `Request.agent` says."""
        return f"terminal:{self.profile.name}"

    @property
    def name(self) -> str:
        """The transport's name, and the adapter's."""
        return self.agent

    @property
    def title(self) -> str:
        """The name for people."""
        return self.profile.title or self.profile.name

    @property
    def programs(self) -> tuple[str, ...]:
        """Names to look up on PATH."""
        return self.profile.programs

    @property
    def install_hint(self) -> str:
        """How to install it."""
        return self.profile.install or f"see {self.source}"

    @property
    def versions(self) -> VersionRange:
        """The tested range."""
        return self.profile.range

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Variables that carry keys."""
        return self.profile.keys

    @property
    def login_folder(self) -> str:
        """Keys come from the environment alone."""
        return ""

    @property
    def login_variable(self) -> str | None:
        """As above."""
        return None

    @property
    def login_files(self) -> tuple[str, ...]:
        """As above."""
        return ()

    def describe(self, call: ToolCall) -> ToolCall:
        """The call with kind and subject read anew from what its question shows."""
        kinds = {name: kind for question in self.profile.question for name, kind in question.calls.items()}
        kind = kinds.get(call.tool_name, ToolKind.UNKNOWN)
        return call.model_copy(update={"tool_kind": kind, "subject": subject_of(kind, call.input)})

    @property
    def transports(self) -> tuple[Pty, ...]:
        """The terminal."""
        return (Pty(self),)


@dataclass(frozen=True, slots=True)
class Pty:
    """The one transport of a terminal agent."""

    adapter: TerminalAdapter

    @property
    def name(self) -> str:
        """`pty`."""
        return "pty"

    @property
    def profile(self) -> Profile:
        """The agent's profile."""
        return self.adapter.profile

    @property
    def capabilities(self) -> Capabilities:
        """What the profile's questions show and no more: nothing can be changed, and much is never asked."""
        kinds = frozenset(kind for question in self.profile.question for kind in question.kinds)
        versions = self.profile.versions
        return Capabilities(
            agent=self.adapter.agent,
            transport=self.name,
            versions=f"{versions.oldest} to {versions.newest}" if versions else "none",
            asks=bool(kinds),
            sees_before="asked" if kinds else "none",
            deny=kinds,
            holes=tuple(self._holes()),
            needs_prompt=True,
            tamperable=True,
            otherwise=frozenset({Otherwise.DENY, Otherwise.ASK}) if kinds else frozenset({Otherwise.DENY}),
        )

    def _holes(self) -> Iterator[Hole]:
        yield Hole(what="whatever it does without a question on its screen that the profile describes")
        if self.profile.unasked:
            yield Hole(what=f"it does without asking: {', '.join(self.profile.unasked)}")
        yield from (Hole(what=hole) for hole in self.profile.holes)
        yield Hole(what="a command that it runs can write to its terminal, and so show a question of its own")

    def check(self, order: Order) -> Sequence[Unmet]:
        """What this profile cannot do of the request."""
        return (*self._files(order), *self._words(order), *self._permission(order), *self._prompt(order))

    def _files(self, order: Order) -> Iterator[Unmet]:
        folder, cwd = self.adapter.folder, order.request.cwd
        if folder is not None and f"{folder}/".startswith(f"{cwd.rstrip('/')}/"):
            reason = f"the agent could change its own profile, {self.adapter.source}"
            way = f"agent=terminal:{self.adapter.source}, if you trust it"
            yield Unmet(field="cwd", value=cwd, reason=reason, alternatives=("a narrower directory", way))

    def _words(self, order: Order) -> Iterator[Unmet]:
        request, agent = order.request, self.adapter.agent
        if request.extra_args:
            reason = f"nothing is known of what options do to the questions of {agent}"
            words = " ".join(request.extra_args)
            way = "a profile of your own with these arguments"
            yield Unmet(field="extra_args", value=words, reason=reason, alternatives=(way,))
        if request.model is not None and not self.profile.model:
            reason = f"the profile of {agent} does not say how a model is chosen"
            yield Unmet(field="model", value=request.model, reason=reason, alternatives=("leave it out",))

    def _permission(self, order: Order) -> Iterator[Unmet]:
        """What the agent does without asking must be allowed, and no rule may deny it: nobody could."""
        permission, unasked = order.request.permission, frozenset(self.profile.unasked)
        beyond = unasked - _COVERS[permission.posture]
        if beyond:
            ways = [f"posture={posture}" for posture, covered in _COVERS.items() if unasked <= covered]
            yield Unmet(
                field="permission.posture",
                value=permission.posture,
                reason=f"{self.adapter.agent} does without asking: {', '.join(sorted(beyond))}",
                alternatives=tuple(ways),
            )
        for rule in permission.deny:
            touched = _kinds(rule) & unasked
            if touched:
                reason = f"{self.adapter.agent} does without asking: {', '.join(sorted(touched))}"
                yield Unmet(field="permission.deny", value=rule, reason=reason, alternatives=("another agent",))

    def _prompt(self, order: Order) -> Iterator[Unmet]:
        prompt, how = order.request.prompt, self.profile.prompt
        if how.by != "keys":
            return
        if _UNTYPEABLE.search(prompt):
            reason = "it holds control characters, which are keys to the agent"
            yield Unmet(field="prompt", value="...", reason=reason, alternatives=("leave them out",))
        if "\n" in prompt and how.newline is None:
            reason = f"{self.adapter.agent} takes one line, and would take the first for the whole"
            yield Unmet(field="prompt", value="...", reason=reason, alternatives=("one line",))

    def launch(self, order: Order) -> Launch:
        """The program on a terminal of its own, with the profile's arguments, files and variables."""
        profile, request = self.profile, order.request
        argv = [Argument(order.host.binary)]
        argv += [Argument(word, template=True) for word in profile.arguments]
        argv += _chosen(profile.model, request.model) if request.model else ()
        files = [LaunchFile(path, content, template=True) for path, content in profile.files.items()]
        if profile.private_home and not any(file.path.startswith(f"{HOME}/") for file in files):
            files.append(LaunchFile(f"{HOME}/.keep", ""))
        match profile.prompt.by:
            case "file":
                text = profile.prompt.begin + request.prompt + profile.prompt.end
                files.append(LaunchFile(PROMPT, text, "prompt"))
                place = f"{{home}}/{PROMPT}"
                argv += [Argument(word.replace("{prompt}", place), template=True) for word in profile.prompt.arguments]
            case "arguments":
                argv += self._told(request.prompt)
            case "keys":
                argv += [Argument(word, template=True) for word in profile.prompt.arguments]
            case _:
                assert_never(profile.prompt.by)
        harvest = {ends for ends in (profile.ends.file, profile.answer and profile.answer.file) if ends}
        return Launch(
            argv=tuple(argv),
            env={**({"HOME": f"{{home}}/{HOME}"} if profile.private_home else {}), **profile.env},
            drop_env=frozenset({"COLUMNS", "LINES", *profile.drop}),
            files=tuple(files),
            ladder=DESCENT,
            harvest=tuple(sorted(harvest)),
            terminal=profile.size,
            obeys=profile.obeys,
            rooted=profile.rooted,
            compares=True,
        )

    def _told(self, prompt: str) -> Iterator[Argument]:
        how = self.profile.prompt
        for word in how.arguments:
            if "{prompt}" in word:
                text = word.replace("{prompt}", how.begin + prompt + how.end)
                yield Argument(text, "prompt")
            else:
                yield Argument(word, template=True)

    def codec(self, order: Order) -> Codec:
        """A fresh translator."""
        del order
        return TerminalCodec(self.profile)


def _chosen(words: Sequence[str], model: str) -> Iterator[Argument]:
    """The arguments that choose the model; the one with its name is taken as it stands."""
    for word in words:
        named = word.replace("{model}", model)
        yield Argument(named, template=named == word)


def _kinds(rule: str) -> frozenset[ToolKind]:
    """The kinds that a deny rule may be about."""
    word, _ = rule_parts(rule)
    if word == "*":
        return frozenset(ToolKind)
    kind = ToolKind(word)
    if kind in _CHANGES:
        return _CHANGES
    return frozenset({ToolKind.READ, ToolKind.SEARCH}) if kind is ToolKind.READ else frozenset({kind})
