"""The tasks of `interlock batch run`: of a file, of one prompt over a matrix, or those that the folder holds."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interlock.batch.store import Store
from interlock.batch.tasks import Task, matrix, read_tasks
from interlock.engine.registry import find_adapter
from interlock.request import Request
from interlock_adapters.cli.batch_options import BatchOptions
from interlock_adapters.cli.options import UsageProblem, environment

__all__ = ["Survey", "TaskSource", "survey"]

_OF_A_PROMPT = ("agents", "models", "dirs")
_OF_REQUESTS = ("posture", "otherwise", "allow", "deny", "transport", "binary", "login", "env")


@dataclass(frozen=True)
class TaskSource:
    """Tasks that can be gone through more than once."""

    options: BatchOptions
    folder: Path
    prompt: str | None = None

    @classmethod
    def of(cls, options: BatchOptions, folder: Path) -> TaskSource:
        """The source that the options name; raises `UsageProblem` for what does not fit together."""
        if options.tasks is not None and options.prompt is not None:
            raise UsageProblem(f"--prompt: the tasks come from {options.tasks}; give one of the two")
        if options.prompt is None and (extra := _first_given(options, _OF_A_PROMPT)):
            raise UsageProblem(f"--{extra}: it goes with --prompt; tasks of a file name their own")
        source = cls(options, folder, _read(options.prompt))
        if source.goes_on and (extra := _first_given(options, _OF_REQUESTS)):
            raise UsageProblem(f"--{extra}: the tasks in {options.out} do not change; give it with new tasks")
        return source

    @property
    def goes_on(self) -> bool:
        """Whether the tasks are those that the folder holds."""
        return self.options.tasks is None and self.prompt is None

    def given(self) -> Iterable[Task] | None:
        """What `interlock.batch` takes; raises, while it is gone through, `ConfigurationError` by file and line."""
        return None if self.goes_on else self.tasks()

    def tasks(self) -> Iterable[Task]:
        """All tasks, one by one; raises `UsageProblem`, and what reading them raises."""
        options = self.options
        if self.prompt is not None:
            return _of_prompt(options, self.prompt)
        if options.tasks is not None:
            return read_tasks(options.tasks, _defaults(options))
        return _kept(self.folder)


def _first_given(options: BatchOptions, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if getattr(options, name) is not None), None)


def _read(prompt: str | None) -> str | None:
    if prompt != "-":
        return prompt
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise UsageProblem("--prompt -: what comes on stdin is not UTF-8") from None


def _kept(folder: Path) -> Iterator[Task]:
    tasks = Store.look(folder).tasks
    return (tasks.read(index) for index in range(tasks.head.total))


def _defaults(options: BatchOptions) -> dict[str, Any]:
    """Members of a request that were typed."""
    permission = {name: getattr(options, name) for name in ("posture", "otherwise", "allow", "deny")}
    members: dict[str, Any] = {name: getattr(options, name) for name in ("transport", "binary", "login")}
    members["permission"] = {name: value for name, value in permission.items() if value is not None} or None
    members["env"] = environment(options.env) if options.env else None
    return {name: value for name, value in members.items() if value is not None}


def _of_prompt(options: BatchOptions, prompt: str) -> Iterable[Task]:
    agents, models, dirs = (_words(getattr(options, name)) for name in _OF_A_PROMPT)
    if not agents:
        raise UsageProblem("--agents: whom is the prompt for? Name them, as in --agents claude,codex")
    for folder in dirs:
        if not Path(folder).is_dir():
            raise UsageProblem(f"--dirs {folder!r}: there is no such directory; make it, or name another")
    try:
        request = Request.model_validate({"agent": agents[0], "prompt": prompt, **_defaults(options)})
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        place = next((str(part) for part in reversed(detail["loc"]) if not isinstance(part, int)), "")
        raise UsageProblem(f"--{place} {detail['input']!r}: {detail['msg']}") from None
    return matrix(request, agents=agents, models=models, cwds=dirs, repeats=options.repeats)


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


@dataclass(frozen=True)
class Survey:
    """What must be known of all tasks before the first is started."""

    first: dict[str, Task] = field(default_factory=dict[str, Task])
    """Of each agent."""
    places: set[str] = field(default_factory=set[str])
    """The directories in which agents work."""


def survey(tasks: Iterable[Task]) -> Survey:
    """Go through all tasks; raises `ConfigurationError` by file and line, and `UnknownAgent`."""
    found = Survey()
    for task in tasks:
        request = task.request
        if request.agent not in found.first:
            find_adapter(request.agent)
            found.first[request.agent] = task
        found.places.update((request.cwd, *request.add_dirs))
    return found
