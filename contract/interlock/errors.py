"""Every error that the library raises, and what it carries.

    InterlockError
    +-- ContractError           the caller asked for something that cannot be
    |   +-- Unsupported         .agent, .unmet: all that the agent cannot do, raised before it is started
    |   +-- UnknownAgent        .agent, .known
    |   +-- ConfigurationError  .source, .problem: a hooks file or another configuration cannot be used
    |   +-- NotOpen             .id, .why: an answer to an approval or question that is not (or no longer) open
    |   +-- RunEnded            .run_id: the run is over, so it takes no more input
    |   +-- SessionBusy         .agent, .session_id: another run goes on with this session
    +-- AgentError              the agent, or the machine under it, failed
    |   +-- NotInstalled        .agent, .looked_for, .hint
    |   +-- StartFailed         .argv0, .problem: the operating system refused to start it
    |   +-- RunFailed           .outcome: the run ended other than `completed`
    +-- BatchError              .folder: a batch cannot be opened, or cannot go on; nothing that was counted is lost
        +-- BatchBusy           .folder, .holder: another driver has it
        +-- TasksChanged        .folder, .problem: it holds other tasks than those given
        +-- JournalDamaged      .folder, .file, .line, .problem: what was recorded is not what was written
        +-- JournalFailed       .folder, .file, .problem: it cannot be written (disk full, ...); it can be resumed
        +-- ExecutorFailed      .folder, .problem: what made the attempts is gone; it can be resumed

Errors carry data; nothing in the library decides by matching their text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.capabilities import Unmet
    from interlock.outcome import Outcome

__all__ = [
    "AgentError",
    "BatchBusy",
    "BatchError",
    "ConfigurationError",
    "ContractError",
    "ExecutorFailed",
    "InterlockError",
    "JournalDamaged",
    "JournalFailed",
    "NotInstalled",
    "NotOpen",
    "RunEnded",
    "RunFailed",
    "SessionBusy",
    "StartFailed",
    "TasksChanged",
    "UnknownAgent",
    "Unsupported",
]


class InterlockError(Exception):
    """The root of the tree; every error survives pickling and copying with its data."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.args), self.__dict__


def _rebuilt(kind: type[InterlockError], args: tuple[object, ...]) -> InterlockError:
    """An error without its constructor, which takes the data and not the message."""
    return kind.__new__(kind, *args)


class ContractError(InterlockError):
    """The caller asked for something that cannot be; nothing was started for it."""


class Unsupported(ContractError):
    """What the request needs and the agent cannot do: every reason at once, before any process is started."""

    def __init__(self, agent: str, unmet: Sequence[Unmet]) -> None:
        self.agent = agent
        self.unmet = tuple(unmet)
        lines = "".join(f"\n  - {item.describe()}" for item in self.unmet)
        super().__init__(f"{agent} cannot do what this request asks for:{lines}")


class UnknownAgent(ContractError):
    """No adapter of that name is installed."""

    def __init__(self, agent: str, known: Sequence[str]) -> None:
        self.agent = agent
        self.known = tuple(known)
        super().__init__(f"no adapter is named {agent!r}; installed: {', '.join(self.known) or 'none'}")


class ConfigurationError(ContractError):
    """A configuration that cannot be used as it stands; `source` says where it came from."""

    def __init__(self, source: str, problem: str) -> None:
        self.source = source
        self.problem = problem
        super().__init__(f"{source}: {problem}")


class NotOpen(ContractError):
    """An answer to an approval or question that this run never asked, or that is already answered."""

    def __init__(self, answered_id: str, why: str) -> None:
        self.id = answered_id
        self.why = why
        super().__init__(f"{answered_id!r} cannot be answered: {why}")


class RunEnded(ContractError):
    """The run is over and takes no more input."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} is over")


class SessionBusy(ContractError):
    """Another run of this library, in any process, goes on with this session; try again once it is over, or fork it."""

    def __init__(self, agent: str, session_id: str) -> None:
        self.agent = agent
        self.session_id = session_id
        super().__init__(f"another run goes on with the session {session_id} of {agent}; wait for its end, or fork it")


class AgentError(InterlockError):
    """The agent, or the machine under it, failed."""


class NotInstalled(AgentError):
    """The agent's program was not found; `looked_for` lists the names and paths that were tried."""

    def __init__(self, agent: str, looked_for: Sequence[str], hint: str = "") -> None:
        self.agent = agent
        self.looked_for = tuple(looked_for)
        self.hint = hint
        tried = ", ".join(self.looked_for)
        super().__init__(f"{agent} is not installed (looked for {tried})" + (f"; {hint}" if hint else ""))


class StartFailed(AgentError):
    """The operating system refused to start the agent's program."""

    def __init__(self, argv0: str, problem: str) -> None:
        self.argv0 = argv0
        self.problem = problem
        super().__init__(f"cannot start {argv0}: {problem}")


class RunFailed(AgentError):
    """The run ended other than `completed`; everything that is known of it is in `outcome`."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(outcome.describe())


class BatchError(InterlockError):
    """A batch cannot be opened, or cannot go on; nothing that was counted is lost."""

    def __init__(self, folder: str, message: str) -> None:
        self.folder = folder
        super().__init__(f"batch {folder}: {message}")


class BatchBusy(BatchError):
    """Another driver, in any process of this machine, has the batch; `holder` is what it said of itself."""

    def __init__(self, folder: str, holder: str) -> None:
        self.holder = holder
        super().__init__(folder, f"another driver has it ({holder or 'which said nothing of itself'})")


class TasksChanged(BatchError):
    """The batch was begun with other tasks than those given now."""

    def __init__(self, folder: str, problem: str) -> None:
        self.problem = problem
        super().__init__(folder, f"{problem}; resume it with the tasks it has, or use another folder")


class JournalDamaged(BatchError):
    """What was recorded is not what was written: a line in the middle of a file cannot be read, or a digest differs."""

    def __init__(self, folder: str, file: str, line: int, problem: str) -> None:
        self.file = file
        self.line = line
        self.problem = problem
        super().__init__(folder, f"{file}:{line}: {problem}" if line else f"{file}: {problem}")


class JournalFailed(BatchError):
    """The batch's folder cannot be written: the disk is full, or it may not be. Once mended, it can be resumed."""

    def __init__(self, folder: str, file: str, problem: str) -> None:
        self.file = file
        self.problem = problem
        super().__init__(folder, f"{file} cannot be written: {problem}; nothing more is started, and it can be resumed")


class ExecutorFailed(BatchError):
    """What made the attempts is gone, as a cluster whose scheduler was killed. With another, it can be resumed."""

    def __init__(self, folder: str, problem: str) -> None:
        self.problem = problem
        super().__init__(folder, f"the executor can be used no more: {problem}; it can be resumed with another")
