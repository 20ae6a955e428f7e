"""The port that an adapter implements, and all that it may know of the world.

An adapter is pure: it reads a request and the host's facts, and gives a `Launch` (the process to start) and a `Codec`
(a sans-IO translator between the agent's bytes and ours). It never decides: whether a call may run, what a person
answers and when time is up are the engine's to say. The engine does all I/O, on the codec's actions.

Who speaks first: the engine starts the process, performs `Codec.start()`, then `Codec.prompt(...)`. The codec holds
the prompt back until the agent has confirmed what was planned. From then on bytes go in by `received`, and actions
come out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from interlock.actions import Action, Key, Stage, Verdict
from interlock.approval import Answer
from interlock.capabilities import Capabilities, Needs, Unmet
from interlock.model import JsonValue
from interlock.permission import Backstop
from interlock.request import Request
from interlock.tools import ToolCall

__all__ = [
    "Adapter",
    "Argument",
    "Attaching",
    "Codec",
    "Endpoint",
    "Family",
    "Host",
    "LadderStep",
    "Launch",
    "LaunchFile",
    "LaunchLink",
    "Listening",
    "LoggingIn",
    "Order",
    "Place",
    "Sensitivity",
    "Serving",
    "Showing",
    "Transport",
    "VersionRange",
    "WindowSize",
]

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")

Sensitivity = Literal["public", "prompt", "session", "secret", "unchecked"]
"""How an argument, variable or file may be shown: everything but `public` is replaced when a plan is printed."""


# ---- What an adapter is given ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Host:
    """Facts about this machine that the engine gathered, so that an adapter needs no I/O."""

    home: str
    """The person's home directory."""
    environ: Mapping[str, str]
    binary: str
    """The agent's program, absolute."""
    binary_folder: str
    platform: Literal["linux", "darwin"]
    root: bool
    """Whether we run as root."""
    login_files: frozenset[str] = frozenset()
    """Which of the adapter's `login_files` exist under the login's folder."""
    login_folder: str = ""
    """Where the login lies that the request chose; empty for `login="env"`."""


@dataclass(frozen=True, slots=True)
class Order:
    """One run to be planned: the request with absolute paths, what the client needs, and the host."""

    run_id: str
    request: Request
    needs: Needs
    host: Host
    backstop: Backstop
    """Chosen by the engine from what the transport offers."""
    hook_timeout: float
    """Seconds that the agent must give our side to answer about one call: above every deadline of ours."""
    hooks: bool
    """Whether the agent's calls must be fed to us."""


# ---- What an adapter plans ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Argument:
    """One element of argv, taken as it stands unless it is a template."""

    text: str
    sensitivity: Sensitivity = "public"
    template: bool = False
    """`{home}` in it stands for the run's private folder, which exists only once it runs, `{state}` for the adapter's
    durable folder. Never for a word that holds a text of the request."""


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """A file to be written under the run's private folder before the start."""

    path: str
    """Relative to the private folder."""
    content: str
    sensitivity: Sensitivity = "public"
    executable: bool = False
    template: bool = False
    """Placeholders in it are filled in, as in arguments. Never for a content that holds a text of the request."""


@dataclass(frozen=True, slots=True)
class LaunchLink:
    """A link in the run's private folder to something that outlives the run: the login, or the sessions."""

    path: str
    """Relative to the private folder."""
    target: str
    """Absolute; `{state}` stands for the adapter's durable folder."""
    make: Literal["nothing", "folder"] = "nothing"
    """What is made at the target if it is not there; a link to nothing is left out."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address on loopback that the agent calls as its hook; it has a bearer token of its own, made for the run.

    `{endpoint:NAME}` in templates and in the variables of a launch stands for its URL, `{token:NAME}` in files that are
    templates and of sensitivity `secret` for the token, which belongs into no argv and no environment. Each call is
    handed to `Codec.called` with the name as channel, and is answered by a `Reply`.
    """

    name: str
    """Letters, digits and `_`."""
    style: Literal["mcp", "http"]
    """`http`: the body of a POST, answered with the bytes of the reply. `mcp`: a server of tools which the model does
    not see; the body is the `params` of `tools/call` as JSON (`name`, `arguments`, `_meta`), and the reply is the text
    of the only block of the result."""
    tools: tuple[str, ...] = ()
    """What an `mcp` endpoint serves."""
    unrefused: tuple[str, ...] = ()
    """Tools, or for `http` the endpoint's own name, whose calls no answer refuses: when the run winds down they wait
    until the agent is gone."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an endpoint listens, and the token for `Authorization: Bearer TOKEN`."""

    url: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One rung of the way down: what is done, and the seconds it is given. KILL for every descendant always follows."""

    action: Literal["interrupt", "close_input", "signal"]
    wait: float
    signal: Literal["INT", "TERM", "HUP"] = "TERM"


@dataclass(frozen=True, slots=True)
class WindowSize:
    """The size of a terminal's window, in characters."""

    rows: int = 50
    columns: int = 200


@dataclass(frozen=True, slots=True)
class Launch:
    """The process to start, apart from the prompt."""

    argv: tuple[Argument, ...]
    env: Mapping[str, str]
    """What the adapter sets, placeholders filled in; the engine adds the baseline, the agent's key variables and the
    request's own, all of them as they stand."""
    secret_env: frozenset[str] = frozenset()
    """Names whose values are never shown."""
    drop_env: frozenset[str] = frozenset()
    """Names that never reach the child, whoever sets them: nesting markers, switches that turn guards off."""
    files: tuple[LaunchFile, ...] = ()
    links: tuple[LaunchLink, ...] = ()
    session_file: str | None = None
    """Where the session that the run goes on with must lie, `{state}` as in links; None: none, or only the agent knows.
    A run whose session is not there is `Unsupported`, and never quietly a new session."""
    endpoints: tuple[Endpoint, ...] = ()
    refusals: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """By the name of each endpoint: the denial, in the agent's dialect, for a call that our side cannot decide."""
    ladder: tuple[LadderStep, ...] = ()
    harvest: tuple[str, ...] = ()
    """Files under the private folder that are read after the exit and handed to `Codec.exited`."""
    terminal: WindowSize | None = None
    """The agent gets a terminal of this size as stdin, stdout and stderr, instead of sockets: raw, without echo, and
    never connected to the person's. `received` is given what it writes there, `Send` types into it, and a `Wake` comes
    due only when all that it has written so far was received."""
    obeys: tuple[str, ...] = ()
    """Files, relative to the working directory, that the agent would obey if they were there: settings, or code. A run
    where one lies in the working directory or at the root of its git repository is `Unsupported`."""
    rooted: bool = False
    """Whether the agent names paths from the root of the git repository, so that it must be started there."""
    compares: bool = False
    """Whether the workspace after the run is compared with the one before, and what differs is `FilesChanged`."""
    confined: bool = False
    """Commands run in a sandbox of the agent, and leave it only if a person or the chain lets one."""
    enforces_posture: bool = False
    """That sandbox lets a command do no more than the posture says, which then covers every command in it."""
    backstop: Backstop | None = None
    """What truly stands behind the chain, where that is less than what was ordered."""
    warnings: tuple[str, ...] = ()


class Codec(Protocol):
    """One agent process, sans-IO: bytes and verdicts in, actions out. Pure: it neither waits nor decides."""

    def start(self) -> Sequence[Action]:
        """What is said to the agent before any prompt."""
        ...

    def prompt(self, prompt: str) -> Sequence[Action]:
        """A new turn; held back until the agent is `Ready`."""
        ...

    def steer(self, text: str) -> Sequence[Action]:
        """A message into the running turn."""
        ...

    def interrupt(self) -> Sequence[Action]:
        """Ask the agent, by its own protocol, to end the turn."""
        ...

    def received(self, channel: str, data: bytes) -> Sequence[Action]:
        """Bytes from the agent, in pieces of any size; never raises."""
        ...

    def called(self, channel: str, key: str, body: bytes) -> Sequence[Action]:
        """A request of the agent that came by an endpoint or a shim; `Reply` answers it under the same key."""
        ...

    def decided(self, key: Key, stage: Stage | None, verdict: Verdict | Answer) -> Sequence[Action]:
        """The verdict on a `Consult` (with its stage), or the answer to an `Ask` (stage None)."""
        ...

    def woke(self, key: str) -> Sequence[Action]:
        """A `Wake` came due."""
        ...

    def eof(self, channel: str) -> Sequence[Action]:
        """The agent closed a channel."""
        ...

    def exited(self, code: int | None, signal: int | None, files: Mapping[str, bytes]) -> Sequence[Action]:
        """The process is gone and stdout is drained; a codec without a `RunDone` so far gives one now."""
        ...


@runtime_checkable
class Listening(Protocol):
    """What a codec may have besides, if its launch has endpoints."""

    def listening(self, places: Mapping[str, Place]) -> None:
        """Once, before `start`: where each endpoint listens, for a codec that tells the agent so itself."""
        ...

    def hung_up(self, channel: str, key: str) -> Sequence[Action]:
        """The agent no longer waits for the answer to a call."""
        ...


class Transport(Protocol):
    """One way to drive one agent."""

    @property
    def name(self) -> str:
        """`stream-json`, `app-server`, ..."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """At the minimum of the tested range."""
        ...

    def check(self, order: Order) -> Sequence[Unmet]:
        """What only this adapter can see is impossible: bad extra arguments, root without a sandbox, ..."""
        ...

    def launch(self, order: Order) -> Launch:
        """The process for this order; deterministic, and no secret in argv."""
        ...

    def codec(self, order: Order) -> Codec:
        """A fresh translator for one process."""
        ...


@runtime_checkable
class Showing(Protocol):
    """What a codec has besides, if its agent shows a person something where others send messages."""

    def showing(self) -> str:
        """The last line that stands on the agent's screen; empty if there is none."""
        ...


@runtime_checkable
class Serving(Protocol):
    """What a codec has besides, if its transport takes MCP servers of the application."""

    def served(self, key: str, reply: JsonValue) -> Sequence[Action]:
        """A server's answer to a `Serve`: a message of JSON-RPC."""
        ...


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Tested versions: from `oldest` to `newest`, both included."""

    oldest: str
    newest: str

    def judge(self, version: str) -> Literal["older", "tested", "newer", "unknown"]:
        """Where a version stands; `unknown` where the first three numbers of one cannot be read."""
        found, oldest, newest = (_numbers(text) for text in (version, self.oldest, self.newest))
        if found is None or oldest is None or newest is None:
            return "unknown"
        if found < oldest:
            return "older"
        return "newer" if found > newest else "tested"


def _numbers(version: str) -> tuple[int, ...] | None:
    match = _VERSION.match(version)
    return tuple(int(number) for number in match.groups()) if match else None


@runtime_checkable
class Adapter(Protocol):
    """One agent: its program, login and transports. Found by name in the entry-point group `interlock.adapters`."""

    @property
    def name(self) -> str:
        """What `Request.agent` says."""
        ...

    @property
    def title(self) -> str:
        """The name for people."""
        ...

    @property
    def programs(self) -> tuple[str, ...]:
        """Names to look up on PATH, in order."""
        ...

    @property
    def install_hint(self) -> str:
        """How to install it."""
        ...

    @property
    def versions(self) -> VersionRange:
        """The tested range."""
        ...

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Environment variables that carry keys or choose the service; passed on under the minimal policy."""
        ...

    @property
    def login_folder(self) -> str:
        """Where the person's login lies, relative to their home; a variable in `login_variable` overrides it."""
        ...

    @property
    def login_variable(self) -> str | None:
        """The environment variable that moves the login's folder."""
        ...

    @property
    def login_files(self) -> tuple[str, ...]:
        """The files of the login, relative to its folder."""
        ...

    def describe(self, call: ToolCall) -> ToolCall:
        """The call with kind and subject read anew from its native name and input, for instance after a rewrite."""
        ...

    @property
    def transports(self) -> tuple[Transport, ...]:
        """The plainest first."""
        ...


@runtime_checkable
class Attaching(Protocol):
    """What an adapter has besides, if a person can be given the agent's own interactive screen."""

    @property
    def attached(self) -> Transport:
        """The way to it, which is none of `transports`. Its process gets the person's own terminal, of which its codec
        hears nothing: it is `called` by hooks alone. It is sent no prompt."""
        ...


@runtime_checkable
class LoggingIn(Protocol):
    """What an adapter has besides, if its program has a command that logs a person in."""

    @property
    def login_arguments(self) -> tuple[str, ...]:
        """What follows the program's name."""
        ...


@runtime_checkable
class Family(Protocol):
    """Many agents behind one entry point, each described by a file: `terminal:aider` is `aider` of `terminal`.

    The engine finds and reads the file: one that `NAME.EXTENSION` names in `package`, or in the user's own folder
    `$XDG_CONFIG_HOME/interlock/FAMILY`; or, where the name holds a `/`, the file at that path.
    """

    @property
    def package(self) -> str:
        """The importable package that holds the files which come with it."""
        ...

    @property
    def extension(self) -> str:
        """`toml`, ..."""
        ...

    def member(self, text: str, source: str, *, folder: str | None) -> Adapter:
        """The agent that a file describes; `source` names the file in messages.

        `folder` is where a user's own file lies that was found by its name alone; None for one that came with the
        package, or that was named by its path. Raises `ConfigurationError` with field, value and way out.
        """
        ...
