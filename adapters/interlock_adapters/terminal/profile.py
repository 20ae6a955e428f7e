"""A profile: all that is known of one terminal agent, as data.

It says how the agent is started and given its prompt, which questions it asks and which keys answer them, what ends its
run, and what it does without asking. Nothing in it decides: a question that it describes becomes an approval, and a
question that it does not describe is never answered.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from interlock.adapter import VersionRange, WindowSize
from interlock.errors import ConfigurationError
from interlock.model import FrozenMap, Map, Model
from interlock.outcome import Reason
from interlock.tools import ToolKind

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["Ends", "Profile", "Prompt", "Question", "parse"]


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        message = f"is no regular expression of Python: {error}"
        raise ValueError(message) from None
    return text


def _inside(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or not path:
        message = f"{path!r} is no path below the run's private folder: give it relative, without `..`"
        raise ValueError(message)
    return path


def _below(files: Map[str]) -> Map[str]:
    for path in files:
        _inside(path)
    return files


Pattern = Annotated[str, AfterValidator(_pattern)]
Inside = Annotated[str, AfterValidator(_inside)]
Keys = Annotated[str, Field(min_length=1)]

GROUPS = {
    **dict.fromkeys((ToolKind.READ, ToolKind.SEARCH, ToolKind.EDIT, ToolKind.WRITE, ToolKind.PATCH), "path"),
    ToolKind.SHELL: "command",
    ToolKind.FETCH: "url",
}
"""What a question must show of a call of each kind, as a named group of its pattern."""


class Question(Model):
    """One question that the agent asks on its screen, and the keys that answer it."""

    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9_-]+$")]
    """What a call that is asked about is called."""
    pattern: Pattern
    """What stands before the cursor; `$` is the cursor. Named groups `command`, `path` and `url` are what is asked."""
    kinds: tuple[ToolKind, ...] = ()
    """What a yes lets the agent do; of several each is decided, and one no is no."""
    yes: Keys | None = None
    no: Keys | None = None
    always: Keys | None = None
    """These keys answer it every time, and nobody is asked: for questions about nothing that is a tool."""
    each_line: bool = False
    """Each line of `command` is run by itself, so that each is decided by itself; `#` begins a comment."""
    exact: bool = True
    """Its text must have been printed plainly. If not, what the screen shows is all that can be said of the call: its
    kind is unknown."""

    @model_validator(mode="after")
    def _fits_together(self) -> Question:
        if self.always is not None:
            if self.kinds or self.yes or self.no:
                raise ValueError("a question with `always` is about no call: leave out `kinds`, `yes` and `no`")
            return self
        if not (self.yes and self.no and self.kinds):
            raise ValueError("a question needs `kinds`, `yes` and `no`, or `always`")
        if not self.exact and self.kinds != (ToolKind.UNKNOWN,):
            raise ValueError('a question that is not exact has kinds = ["unknown"]: no rule can be held against it')
        groups = re.compile(self.pattern).groupindex
        for kind in self.kinds:
            if kind is not ToolKind.UNKNOWN and GROUPS.get(kind) not in groups:
                wanted = f"a group (?P<{GROUPS[kind]}>...)" if kind in GROUPS else "another kind: unknown, for one"
                message = f"a question of kind {kind} needs {wanted} in its pattern"
                raise ValueError(message)
        if self.each_line and "command" not in groups:
            raise ValueError("`each_line` needs a group (?P<command>...) in the pattern")
        return self

    @property
    def calls(self) -> dict[str, ToolKind]:
        """The kind of each call, by its name."""
        if len(self.kinds) == 1:
            return {self.name: self.kinds[0]}
        return {f"{self.name}.{kind}": kind for kind in self.kinds}


class Prompt(Model):
    """How the agent is given its prompt."""

    by: Literal["arguments", "file", "keys"]
    """`arguments`: on the command line; `file`: in a private file, named there; `keys`: typed, once `ready` stands
    before the cursor."""
    arguments: tuple[str, ...] = ()
    """What the command line ends with; `{prompt}` is the prompt, or the path of its file."""
    ready: Pattern | None = None
    begin: str = ""
    """Before the prompt."""
    newline: str | None = None
    """The keys that stand for a new line, where the prompt is typed; None: there are none."""
    end: str = ""
    """After the prompt: the keys that send it."""

    @model_validator(mode="after")
    def _fits_together(self) -> Prompt:
        if self.by == "keys" and not (self.ready and self.end):
            raise ValueError("a prompt that is typed needs `ready` (what stands before the cursor) and `end` (the key)")
        if self.by != "keys" and not any("{prompt}" in word for word in self.arguments):
            raise ValueError("`arguments` must hold {prompt}")
        return self


class Failure(Model):
    """What tells a run that failed, although the exit status may not."""

    pattern: Pattern
    """A group `message` is what is said of it."""
    reason: Reason = Reason.API


class Ends(Model):
    """What ends a run, and what it then was; a screen alone is never success."""

    statuses: tuple[int, ...] = (0,)
    """The exit statuses of a run that completed."""
    quit: Keys | None = None
    """The keys that end the agent, typed once `ready` stands before the cursor again."""
    file: Inside | None = None
    """A file in the private folder in which the agent writes what happened."""
    marker: Pattern | None = None
    """Without it the run did not complete: looked for in `file`, or else in the lines that were printed."""
    missing: Reason = Reason.PROTOCOL
    """Why a run without the marker failed, if that is known."""
    failures: tuple[Failure, ...] = ()
    """Looked for where `marker` is."""
    usage: Pattern | None = None
    """One request to a model: groups `input_tokens`, `output_tokens`, `cost_usd`. Looked for in `file`."""


class Answer(Model):
    """Where the answer stands, for an agent that writes it to a file."""

    file: Inside
    pattern: Pattern
    """What is the answer, as group `text`; of several matches the last."""
    prefix: str = ""
    """What each of its lines begins with there."""

    @model_validator(mode="after")
    def _has_a_text(self) -> Answer:
        if "text" not in re.compile(self.pattern).groupindex:
            raise ValueError("`pattern` needs a group (?P<text>...)")
        return self


class Versions(Model):
    """The tested range."""

    oldest: str
    newest: str
    pattern: Pattern | None = None
    """The line on which the agent says its version, as group `version`."""


class Window(Model):
    """The size of the terminal's window."""

    rows: Annotated[int, Field(ge=2, le=1000)] = 50
    columns: Annotated[int, Field(ge=20, le=20_000)] = 200


class Profile(Model):
    """One terminal agent."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: str = ""
    programs: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names to look up on PATH, in order, or absolute paths."""
    install: str = ""
    versions: Versions | None = None
    arguments: tuple[str, ...] = ()
    """`{home}` is the private folder."""
    model: tuple[str, ...] = ()
    """The arguments that choose the model `{model}`; none: it cannot be chosen."""
    keys: tuple[str, ...] = ()
    """Variables that carry keys or choose the service."""
    env: Map[str] = Field(default_factory=FrozenMap[str])
    drop: tuple[str, ...] = ()
    """Variables that never reach the agent; a final `*` stands for any ending."""
    private_home: bool = True
    """Whether HOME is an empty folder of the run's own."""
    files: Annotated[Map[str], AfterValidator(_below)] = Field(default_factory=FrozenMap[str])
    """What is written into the private folder, by path; HOME is `home` there."""
    obeys: tuple[str, ...] = ()
    """Files of a workspace that the agent would obey, and no option keeps it from that."""
    rooted: bool = False
    """Whether the agent names paths from the root of the git repository, so that it must be started there."""
    unasked: tuple[ToolKind, ...] = ()
    """What it does without asking: a posture that does not cover it, or a rule that denies it, is Unsupported."""
    holes: tuple[str, ...] = ()
    """What else nobody is asked about."""
    window: Window = Field(default_factory=Window)
    prompt: Prompt
    question: tuple[Question, ...] = ()
    noise: tuple[Pattern, ...] = ()
    """Whole lines that are not shown."""
    ends: Ends = Field(default_factory=Ends)
    answer: Answer | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> Profile:
        names = [name for question in self.question for name in {question.name, *question.calls}]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            message = f"question: the name {twice[0]!r} is there twice; give each question a name of its own"
            raise ValueError(message)
        if self.ends.quit is not None and self.prompt.ready is None:
            raise ValueError("ends.quit needs prompt.ready, which it waits for")
        return self

    @property
    def size(self) -> WindowSize:
        """The size of the terminal's window."""
        return WindowSize(self.window.rows, self.window.columns)

    @property
    def range(self) -> VersionRange:
        """The tested range."""
        return VersionRange(self.versions.oldest, self.versions.newest) if self.versions else VersionRange("0", "0")


def parse(text: str, source: str) -> Profile:
    """The profile in a TOML document; raises `ConfigurationError` with field, value and way out."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(source, f"is no TOML: {error}") from None
    try:
        return Profile.model_validate(document)
    except ValidationError as error:
        problems = [_words(problem) for problem in error.errors(include_url=False)]
        raise ConfigurationError(source, "; ".join(problems)) from None


def _words(problem: ErrorDetails) -> str:
    """Field, value, what is wrong, and what would be right."""
    field = ".".join(str(part) for part in problem["loc"]) or "the profile"
    wrong = problem["msg"].removeprefix("Value error, ")
    match problem["type"]:
        case "missing":
            return f"{field} is missing"
        case "extra_forbidden":
            holder = _HOLDERS.get(str(problem["loc"][0]), Profile) if len(problem["loc"]) > 1 else Profile
            return f"{field} is no field; fields here: {', '.join(holder.model_fields)}"
        case "value_error" if not isinstance(problem["input"], str):
            return f"{field}: {wrong}"
        case _:
            return f"{field} = {problem['input']!r}: {wrong}"


_HOLDERS: dict[str, type[Model]] = {
    "prompt": Prompt,
    "question": Question,
    "ends": Ends,
    "answer": Answer,
    "versions": Versions,
    "window": Window,
}
