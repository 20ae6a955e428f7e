"""What a batch was begun with beside its tasks, kept in its folder as `command.json`.

A batch that goes on has the hooks, policies, budgets and workspaces that it was begun with, unless they are given anew:
what is not said again is never dropped, since a guard could be among it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError

from interlock.batch.journal import replace_file
from interlock.batch.options import Budget, Retries
from interlock.batch.tasks import Copy, Given, Workspace, Worktree
from interlock.engine.client import Client
from interlock.engine.registry import find_adapter
from interlock.errors import JournalFailed
from interlock.model import FrozenMap, Map, Model
from interlock_adapters.cli.approve_with import ProgramApprover
from interlock_adapters.cli.batch_options import BatchOptions
from interlock_adapters.cli.options import UsageProblem

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["Command", "command_of"]

NAME = "command.json"
Amount = Annotated[float, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, le=31_536_000)]
_FILES = ("work", "hooks", "audit")


class Command(Model):
    """`command.json`; None and nothing mean the defaults of `interlock.batch`."""

    command: Literal[1] = 1
    concurrency: int | None = None
    per_agent: Map[int] = Field(default_factory=FrozenMap[int])
    workspace: Literal["given", "copy", "worktree"] = "given"
    ignore: tuple[str, ...] = ()
    keep: Literal["counted", "all", "none"] = "counted"
    work: str | None = None
    budget_usd: Amount | None = None
    run_usd: Amount | None = None
    budget_tokens: int | None = None
    run_tokens: int | None = None
    timeout: Seconds | None = None
    run_timeout: Seconds | None = None
    attempt_timeout: Seconds | None = None
    retries: int | None = None
    lost: int | None = None
    longest_pause: Seconds | None = None
    hooks: str | None = None
    policy: tuple[str, ...] = ()
    approve_with: str | None = None
    audit: str | None = None
    approvals: bool = False
    engine: Literal["local", "dask"] = "local"
    scheduler: str | None = None
    shared_files: bool = False
    artifacts: tuple[str, ...] = ()
    artifacts_to: str | None = None

    def arguments(self) -> dict[str, Any]:
        """What `interlock.batch` takes."""
        given = {
            "concurrency": self.concurrency,
            "agents": self.per_agent,
            "workspace": self._workspace(),
            "work": self.work,
            "total": self.timeout,
            "run_total": self.run_timeout,
            "attempt_total": self.attempt_timeout,
            "budget": Budget(
                usd=self.budget_usd, run_usd=self.run_usd, tokens=self.budget_tokens, run_tokens=self.run_tokens
            ),
            "retries": Retries(
                **_said({"transient": self.retries, "lost": self.lost}), longest_pause=self.longest_pause
            ),
        }
        return _said(given)

    def _workspace(self) -> Workspace:
        match self.workspace:
            case "given":
                return Given()
            case "copy":
                return Copy(ignore=self.ignore, keep=self.keep)
            case "worktree":
                return Worktree(keep=self.keep)

    def client(self, places: Iterable[str]) -> Client:
        """Who guards and answers; `places` are the directories in which agents work. Raises `UsageProblem`."""
        approver: ProgramApprover | None = None
        if self.approve_with is not None:
            approver = ProgramApprover.of(self.approve_with, tuple(places))
        policy = list(self.policy) or None
        return Client(hooks=self.hooks, approver=approver, audit=self.audit, policy=policy, user_policy=True)

    def keep_in(self, folder: Path) -> None:
        """Write it; raises `JournalFailed`."""
        try:
            replace_file(folder / NAME, self.model_dump_json(indent=1).encode() + b"\n", sync=True)
        except OSError as error:
            raise JournalFailed(str(folder), NAME, error.strerror or str(error)) from error


def command_of(options: BatchOptions, folder: Path, *, goes_on: bool) -> Command:
    """What holds for the batch in `folder`, over what it was begun with; raises `UsageProblem`.

    `goes_on`: no tasks are given, so that it must be known what it was begun with.
    """
    kept = _kept(folder)
    if kept is None and goes_on and (folder / "batch.json").exists():
        raise UsageProblem(
            f"--out {options.out!r}: what this batch was begun with is not known (it was begun from code, or killed as "
            "it began): give the command that began it, with its tasks"
        )
    try:
        command = Command.model_validate({**(kept or {}), **_typed(options)})
    except ValidationError as error:
        raise UsageProblem("\n".join(_spoken(detail) for detail in error.errors(include_url=False))) from None
    _check(command)
    return command


def _kept(folder: Path) -> dict[str, Any] | None:
    try:
        content = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageProblem(f"{folder / NAME}: it cannot be read: {error.strerror}") from None
    try:
        return Command.parse_json(content).model_dump(mode="json")
    except ValidationError:
        raise UsageProblem(
            f"{folder / NAME}: it cannot be understood; remove it, and give the command that began the batch, with its "
            "tasks"
        ) from None


def _typed(options: BatchOptions) -> dict[str, Any]:
    same = Command.model_fields.keys() - {"command", "per_agent", "policy", *_FILES}
    values = {name: getattr(options, name) for name in same}
    values |= {name: _absolute(getattr(options, name)) for name in _FILES}
    values["per_agent"] = dict(map(_share, options.per_agent)) if options.per_agent else None
    values["policy"] = [_absolute(path) for path in options.policy] if options.policy else None
    return _said(values)


def _said(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


def _share(text: str) -> tuple[str, int]:
    agent, separator, number = text.rpartition("=")
    if not separator or not number.isdecimal() or not int(number):
        raise UsageProblem(f"--per-agent {text!r}: write AGENT=N, as in claude=4")
    find_adapter(agent)
    return agent, int(number)


def _check(command: Command) -> None:
    if command.workspace != "copy" and command.ignore:
        raise UsageProblem("--ignore: nothing is copied; it goes with --workspace copy")


def _spoken(detail: ErrorDetails) -> str:
    option = "--" + str(detail["loc"][0]).replace("_", "-")
    return f"{option} {detail['input']!r}: {detail['msg'].replace('Input should', 'it should')}"
