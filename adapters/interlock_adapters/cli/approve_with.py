"""`--approve-with PROGRAM`: each approval as JSON on the program's stdin, its decision as JSON on its stdout, exit 0.

The program is resolved once, may not lie where the agent works, and must still be the same file at each approval. It
gets our environment, since it acts for the person, and `/` as its directory. Anything but exactly one decision is a
denial that names the trouble. The approval's deadline is the engine's: past it, or when the approval is withdrawn, the
program is killed with all that it started.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from interlock.approval import Approval, Approve, Deny, decision_adapter
from interlock.engine.exchange import Heard, NotStarted, converse
from interlock.engine.places import inside
from interlock.engine.programs import Program, resolve_program
from interlock.errors import ConfigurationError
from interlock.framing.json_objects import NotJson, parse_object
from interlock_adapters.cli.options import UsageProblem
from interlock_adapters.cli.output import print_line, safe_line

__all__ = ["ProgramApprover"]

OPTION = "--approve-with"


class _NoDecision(Exception):
    """The program gave no decision that counts; the text says why, `complaints` what it wrote to stderr."""

    def __init__(self, why: str, complaints: str = "") -> None:
        super().__init__(why)
        self.complaints = complaints


@dataclass(frozen=True, slots=True)
class ProgramApprover:
    """An `Approver` that asks a program."""

    program: Program

    @classmethod
    def of(cls, command_line: str, workspace: Sequence[str]) -> ProgramApprover:
        """The program of a command line; `workspace` lists the directories in which no file of it may lie.

        The line is split as a shell would, and no shell runs it. Raises `UsageProblem`.
        """
        try:
            words = shlex.split(command_line)
        except ValueError as error:
            raise UsageProblem(f"{OPTION} {command_line!r}: {error}; quote it as for a shell") from None
        if not words:
            raise UsageProblem(f"{OPTION} {command_line!r}: it names no program; leave it out, or name one")
        found = shutil.which(words[0])
        if found is None:
            raise UsageProblem(
                f"{OPTION} {command_line!r}: {words[0]!r} is no program that can be started; give its path"
            )
        command = [str(Path(found).absolute()), *words[1:]]
        try:
            program = resolve_program(command, source=OPTION, folder=str(Path.cwd()), outside=(), in_workspace=True)
        except ConfigurationError as error:
            raise UsageProblem(f"{OPTION} {command_line!r}: {error.problem}") from None
        _refuse_inside(program, workspace)
        return cls(program)

    async def __call__(self, approval: Approval, /) -> Approve | Deny:
        """Ask the program; never raises but for cancellation."""
        try:
            return _decision(await self._ask(approval.to_json().encode()))
        except _NoDecision as error:
            for line in error.complaints.splitlines()[-5:]:
                print_line(safe_line(f"{OPTION}: {line}"), 2)
            return Deny(reason=f"the program that approves could not answer: {error}")

    async def _ask(self, question: bytes) -> Heard:
        change = self.program.change()
        if change is not None:
            raise _NoDecision(f"it is not the program of the start: {change}")
        env = {**os.environ, "PYTHONSAFEPATH": "1"}
        try:
            return await converse(self.program.argv, cwd="/", env=env, question=question)
        except NotStarted as error:
            raise _NoDecision(f"it could not be started: {error}") from error


def _refuse_inside(program: Program, workspace: Sequence[str]) -> None:
    roots = {os.path.realpath(root) for root in workspace}
    for file in program.files:
        if any(inside(path, root) for path in (file.path, file.real) for root in roots):
            raise UsageProblem(
                f"{OPTION} {file.path!r}: it lies where the agent works, which could change it; move it elsewhere"
            )


def _decision(heard: Heard) -> Approve | Deny:
    trouble = heard.trouble()
    if trouble is not None:
        raise _NoDecision(trouble, heard.tail())
    if not heard.answer.strip():
        raise _NoDecision("it printed nothing", heard.tail())
    found = parse_object(bytes(heard.answer))
    if isinstance(found, NotJson):
        raise _NoDecision("it printed something other than exactly one JSON object", heard.tail())
    try:
        return decision_adapter().validate_python(found)
    except ValidationError as error:
        raise _NoDecision(f"what it printed is no decision: {_first_problem(error)}", heard.tail()) from error


def _first_problem(error: ValidationError) -> str:
    detail = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, detail["loc"]))
    return f"{place}: {detail['msg']}" if place else detail["msg"]
