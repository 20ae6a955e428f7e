"""Tasks: a request each, a stable id, and in which directory it runs; from code, from JSONL, or as a matrix.

A line of JSONL is a request as JSON, with `id`, `workspace` and `retry_lost` beside the request's own fields if wanted.
Paths are made absolute when a task is read, so that a batch which is resumed elsewhere runs in the same directories.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Discriminator, Field, ValidationError, field_validator

from interlock.errors import ConfigurationError
from interlock.framing.json_objects import NotJson, parse_object
from interlock.model import Model
from interlock.permission import Otherwise, Posture
from interlock.request import NewSession, Request

__all__ = ["Copy", "Given", "Task", "Workspace", "Worktree", "matrix", "read_tasks"]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LONGEST_LINE = 64 * 1024 * 1024


class Given(Model):
    """The run works in `Request.cwd` itself.

    `exclusive`: two attempts of this batch never share the directory at one time. None: so if the run may write,
    which is what posture `edit` and `full`, allow rules, and any `otherwise` but `deny` mean.
    """

    kind: Literal["given"] = "given"
    exclusive: bool | None = None


class Copy(Model):
    """Each attempt works in a fresh copy of `Request.cwd`.

    Copied are files, folders, their modes and times, and links as links, also those that lead out of the directory: an
    attempt that follows one is at the original, and a warning says how many there are. Sockets, fifos and devices are
    left out, with a warning. Owners, ACLs, extended attributes and hard links are not kept; holes stay holes.
    """

    kind: Literal["copy"] = "copy"
    ignore: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Globs over the name of a file or folder, as `node_modules` or `*.pyc`."""
    keep: Literal["counted", "all", "none"] = "counted"
    """Which attempts' directories stay: that of the attempt which counts, all, or none."""


class Worktree(Model):
    """Each attempt works in a git worktree of the repository around `Request.cwd`, on a branch of its own.

    The branch is `interlock/<batch>/<run>/<attempt>`, from `base`; it stays when the worktree is removed. Hooks never
    run. Filters that the repository's own configuration names run only with `Request.trust_workspace`.
    """

    kind: Literal["worktree"] = "worktree"
    base: Annotated[str, Field(min_length=1, pattern=r"^[^-]")] = "HEAD"
    keep: Literal["counted", "all", "none"] = "counted"


Workspace = Annotated[Given | Copy | Worktree, Discriminator("kind")]
"""Where the attempts of a task run; as JSON, `kind` tells which."""


class Task(Model):
    """One run of a batch."""

    request: Request
    id: str = ""
    """Names the run in files and commands: letters, digits, `.`, `_`, `-`, at most 100. Empty: its number, from 1."""
    workspace: Workspace | None = None
    """None: what the batch says."""
    retry_lost: bool | None = None
    """Whether a run that was lost in the middle (its worker or the driver died) is run again. None: unless the request
    goes on with a session or names one, which the lost attempt has changed."""

    @field_validator("id")
    @classmethod
    def _names_a_folder(cls, value: str) -> str:
        if value and not _ID.fullmatch(value):
            message = (
                f"{value!r} is no id: letters, digits, `.`, `_` and `-`, beginning with a letter or digit, up to 100"
            )
            raise ValueError(message)
        return value

    @property
    def may_run_again(self) -> bool:
        """`retry_lost`, decided."""
        if self.retry_lost is not None:
            return self.retry_lost
        return isinstance(self.request.session, NewSession) and self.request.session.id is None

    @property
    def may_write(self) -> bool:
        """Whether the permission lets the run change files, as far as that can be told before."""
        permission = self.request.permission
        return (
            permission.posture in {Posture.EDIT, Posture.FULL}
            or bool(permission.allow)
            or permission.otherwise is not Otherwise.DENY
        )

    def rooted(self) -> Task:
        """This task with the directories of its request absolute and real."""
        request = self.request
        cwd = str(Path(request.cwd).expanduser().resolve())
        add_dirs = tuple(str(Path(path).expanduser().resolve()) for path in request.add_dirs)
        if (cwd, add_dirs) == (request.cwd, request.add_dirs):
            return self
        return self.model_copy(update={"request": request.model_copy(update={"cwd": cwd, "add_dirs": add_dirs})})


def read_tasks(path: str | os.PathLike[str], defaults: Mapping[str, Any] | None = None) -> Iterator[Task]:
    """The tasks of a JSONL file, one by one; blank lines are skipped.

    `defaults` are members for lines that lack them. Raises `ConfigurationError` naming file and line.
    """
    try:
        with open(path, "rb") as lines:  # noqa: PTH123  # as it was named
            for number, line in enumerate(iter(lambda: lines.readline(LONGEST_LINE + 1), b""), 1):
                if line.strip():
                    yield _task(f"{os.fspath(path)}:{number}", line, defaults or {})
    except OSError as error:
        raise ConfigurationError(os.fspath(path), f"the tasks cannot be read: {error.strerror}") from error


def _task(source: str, line: bytes, defaults: Mapping[str, Any]) -> Task:
    if len(line) > LONGEST_LINE:
        raise ConfigurationError(source, f"the line is longer than {LONGEST_LINE} bytes")
    value = parse_object(line.strip())
    if isinstance(value, NotJson):
        raise ConfigurationError(source, f"it is not one JSON object: {value.reason}")
    if (name := _twice(line)) is not None:
        raise ConfigurationError(source, f"{name!r} is there twice in one object")
    members = {**defaults, **cast("dict[str, Any]", value)}
    own = {name: members.pop(name) for name in ("id", "workspace", "retry_lost") if name in members}
    if isinstance(own.get("id"), int) and not isinstance(own["id"], bool):
        own["id"] = str(own["id"])
    try:
        return Task.model_validate({**own, "request": members})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"] if part != "request")
        raise ConfigurationError(source, f"`{place}`: {first['msg']}") from error


def _twice(line: bytes) -> str | None:
    """A name that an object has twice: which of the two counts is not what every reader would say."""
    found: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> None:
        found.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)

    json.loads(line, object_pairs_hook=note)
    return found[0] if found else None


def matrix(
    request: Request,
    *,
    agents: Sequence[str] = (),
    models: Sequence[str] = (),
    cwds: Sequence[str] = (),
    prompts: Sequence[str] = (),
    repeats: int = 1,
) -> Iterable[Task]:
    """One task for each combination of what is given; what is not given is the request's own. Ids are readable.

    A model may be written `agent:model`, and is then combined with that agent alone.
    """
    axes = (
        agents or (request.agent,),
        models or (request.model,),
        cwds or (request.cwd,),
        prompts or (request.prompt,),
    )
    for number, (agent, model, cwd, prompt) in enumerate(
        (agent, _model_for(agent, model), cwd, prompt)
        for agent, model, cwd, prompt in itertools.product(*axes)
        if _fits(agent, model)
        for _ in range(repeats)
    ):
        fields = {"agent": agent, "model": model, "cwd": cwd, "prompt": prompt}
        words = (f"{number + 1:04d}", agent, model or "", Path(cwd).name if cwds else "")
        name = "-".join(re.sub(r"[^A-Za-z0-9._]+", "_", word) for word in words if word)
        yield Task(id=name[:100], request=Request.model_validate({**request.model_dump(), **fields}))


def _fits(agent: str, model: str | None) -> bool:
    return model is None or ":" not in model or model.partition(":")[0] == agent


def _model_for(agent: str, model: str | None) -> str | None:
    return model.removeprefix(f"{agent}:") if model is not None else None
