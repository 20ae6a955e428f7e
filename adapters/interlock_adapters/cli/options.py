"""The options that `run` and `plan` share, and the request that they spell.

The parser leaves every value as it was typed: words and numbers are judged by the contract's own models, and what these
refuse is said again in terms of options.
"""

import dataclasses
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock_adapters.cli.mcp_file import McpFileProblem, read_servers

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from interlock.request import McpServer, Request

__all__ = ["FLAGS", "Options", "UsageProblem", "at_terminal", "environment", "option_of", "read_prompt", "request_of"]

PROMPT_LIMIT = 64 * 1024 * 1024
"""Bytes of a prompt on stdin."""


class UsageProblem(Exception):
    """What the person typed cannot be used; the text names the option, the value and the way out."""


@dataclass(frozen=True)
class Options:
    """Everything that the command line says about one run."""

    agent: Annotated[str, typer.Option("--agent", "-a", metavar="AGENT", help="The agent: claude, ...")]
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT | -]", help="The prompt; - or nothing reads it from stdin.", show_default=False
        ),
    ] = None
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="MODEL", help="The model, as the agent names it.")
    ] = None
    cwd: Annotated[str, typer.Option("-C", metavar="DIR", help="The directory the agent works in.")] = "."
    posture: Annotated[
        str | None,
        typer.Option(metavar="none|read|edit|full", help="What runs unasked. Default: the policy's, else read."),
    ] = None
    otherwise: Annotated[
        str | None,
        typer.Option(
            metavar="deny|ask|chain|agent",
            help="What becomes of the rest. Default: the policy's; else ask (terminal, --approve-with) or deny, as "
            "where --transport names one that cannot ask.",
        ),
    ] = None
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Let calls run beyond the posture, as in 'shell(git status:*)'; repeatable."),
    ] = None
    deny: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Never let calls run, as in 'read(**/.env)'; repeatable."),
    ] = None
    backstop: Annotated[
        str,
        typer.Option(
            metavar="any|gate|sandbox|flags|none", help="What must stand behind the chain on the agent's side."
        ),
    ] = "any"
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="A policy file, after the administrator's and your own; repeatable."),
    ] = None
    hooks: Annotated[str | None, typer.Option(metavar="FILE", help="A hooks file whose programs see every call.")] = (
        None
    )
    transport: Annotated[str, typer.Option(metavar="NAME", help="The way to drive the agent.")] = "auto"
    binary: Annotated[str | None, typer.Option(metavar="PATH", help="The agent's program.")] = None
    resume: Annotated[str | None, typer.Option(metavar="ID", help="Go on with a session.")] = None
    fork: Annotated[str | None, typer.Option(metavar="ID", help="Go on from a session in a new one.")] = None
    session_id: Annotated[str | None, typer.Option(metavar="ID", help="The id of the new session.")] = None
    timeout: Annotated[str | None, typer.Option(metavar="SECONDS", help="A bound on the whole run.")] = None
    effort: Annotated[
        str | None, typer.Option(metavar="WORD", help="How hard the model thinks, in the agent's words.")
    ] = None
    instructions: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Appended to the agent's system prompt."),
    ] = None
    add_dir: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="A directory beside -C that counts as inside; repeatable."),
    ] = None
    mcp: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help='MCP servers for the agent: {"mcpServers": {NAME: ...}}; repeatable.'),
    ] = None
    max_turns: Annotated[str | None, typer.Option(metavar="N", help="A bound on the model's turns.")] = None
    budget_usd: Annotated[str | None, typer.Option(metavar="X", help="A bound on the cost in USD.")] = None
    approve_with: Annotated[
        str | None,
        typer.Option(metavar="PROGRAM", help="Answers approvals: JSON on its stdin, a decision as JSON on its stdout."),
    ] = None
    audit: Annotated[str | None, typer.Option(metavar="FILE", help="Append every decision to this file.")] = None
    trust_workspace: Annotated[
        bool,
        typer.Option("--trust-workspace", help="Accept a workspace whose git configuration names programs."),
    ] = False
    user_config: Annotated[
        bool,
        typer.Option("--user-config", help="Let the agent load the user's and the project's own configuration."),
    ] = False
    workspace_hooks: Annotated[
        bool,
        typer.Option(
            "--workspace-hooks", help="Let the workspace's .interlock/hooks.json take part; it can only deny."
        ),
    ] = False
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE]",
            help="A variable for the agent; NAME alone passes on this environment's; repeatable.",
        ),
    ] = None
    login: Annotated[str, typer.Option(metavar="user|env|PATH", help="Whose login the agent uses.")] = "user"
    json: Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else: events one a line.")] = False


_OPTIONS = {
    "agent": "--agent",
    "prompt": "PROMPT",
    "cwd": "-C",
    "model": "--model",
    "effort": "--effort",
    "instructions": "--instructions",
    "permission.posture": "--posture",
    "permission.otherwise": "--otherwise",
    "permission.allow": "--allow",
    "permission.deny": "--deny",
    "permission.backstop": "--backstop",
    "add_dirs": "--add-dir",
    "mcp_servers": "--mcp",
    "env": "--env",
    "login": "--login",
    "hooks": "--hooks",
    "limits.total": "--timeout",
    "limits.max_turns": "--max-turns",
    "limits.budget_usd": "--budget-usd",
    "user_config": "--user-config",
    "workspace_hooks": "--workspace-hooks",
    "trust_workspace": "--trust-workspace",
    "transport": "--transport",
    "binary": "--binary",
    "session.new.id": "--session-id",
    "session.resume.id": "--resume",
    "session.fork.id": "--fork",
    "session.fork.new_id": "--session-id",
    "session.id": "--session-id",
    "otherwise": "--otherwise",
    "backstop": "--backstop",
}


FLAGS = frozenset({"--user-config", "--workspace-hooks", "--trust-workspace"})
"""Options that take no value."""


def option_of(field: str) -> str:
    """The option that sets a field of the request, or that it is a part of; the field itself where there is none."""
    option, rest = _OPTIONS.get(field), ""
    while option is None and "." in field:
        field, _, part = field.rpartition(".")
        rest = f" {part}{rest}"
        option = _OPTIONS.get(field)
    return f"{option or field}{rest}"


def at_terminal() -> bool:
    """Whether a person can be asked: they see stderr and type into stdin."""
    return os.isatty(0) and os.isatty(2)


def request_of(options: Options, prompt: str) -> "Request":
    """The request that the options spell; raises `UsageProblem`."""
    from pydantic import ValidationError  # noqa: PLC0415 -- `--help` needs no model

    from interlock.request import Request  # noqa: PLC0415 -- same

    if not Path(options.cwd).is_dir():
        raise UsageProblem(f"-C {options.cwd!r}: there is no such directory; make it, or name another")
    try:
        return Request.model_validate(_fields(options, prompt))
    except ValidationError as error:
        raise UsageProblem("\n".join(_spoken(error))) from None


def _fields(options: Options, prompt: str) -> dict[str, Any]:
    same = ("agent", "cwd", "model", "effort", "instructions", "login", "transport", "binary")
    flags = ("user_config", "workspace_hooks", "trust_workspace")
    values = dataclasses.asdict(options)
    limits = {"total": options.timeout, "max_turns": options.max_turns, "budget_usd": options.budget_usd}
    return {
        "prompt": prompt,
        **{name: values[name] for name in (*same, *flags)},
        "permission": _permission(options),
        "session": _session(options),
        "add_dirs": options.add_dir or [],
        "mcp_servers": _servers(options.mcp or []),
        "env": environment(options.env or []),
        "limits": limits,
    }


def _servers(files: list[str]) -> "dict[str, McpServer]":
    try:
        return read_servers(files)
    except McpFileProblem as error:
        raise UsageProblem(f"--mcp {error}") from None


def _permission(options: Options) -> dict[str, Any]:
    """What was typed; what was not is left to policies."""
    answered = options.approve_with is not None or (at_terminal() and not options.json)
    typed = {
        "posture": options.posture,
        "otherwise": options.otherwise or ("ask" if answered else None),
        "allow": options.allow,
        "deny": options.deny,
        "backstop": options.backstop,
    }
    return {name: value for name, value in typed.items() if value is not None}


def _session(options: Options) -> dict[str, Any]:
    if options.resume is not None and options.fork is not None:
        raise UsageProblem("--resume and --fork exclude each other: --fork leaves the old session as it is")
    if options.resume is not None:
        if options.session_id is not None:
            raise UsageProblem(
                "--session-id names a new session; with --resume there is none: use --fork, or leave it out"
            )
        return {"kind": "resume", "id": options.resume}
    if options.fork is not None:
        return {"kind": "fork", "id": options.fork, "new_id": options.session_id}
    return {"kind": "new", "id": options.session_id}


def environment(settings: list[str]) -> dict[str, str]:
    """The variables of `--env` settings; raises `UsageProblem`."""
    env: dict[str, str] = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator and name not in os.environ:
            raise UsageProblem(f"--env {setting!r}: this environment has no such variable; write {name}=VALUE")
        env[name] = value if separator else os.environ[name]
    return env


def _spoken(error: "ValidationError") -> list[str]:
    lines = [_spoken_detail(detail) for detail in error.errors(include_url=False)]
    return list(dict.fromkeys(lines))


def _spoken_detail(detail: "ErrorDetails") -> str:
    place = [str(part) for part in detail["loc"] if not isinstance(part, int)]
    while place and ".".join(place) not in _OPTIONS:
        place.pop()
    option = option_of(".".join(place)) if place else ".".join(map(str, detail["loc"]))
    problem = _problem(detail)
    if option == "--env":
        return f"--env: {problem}"
    if option == "PROMPT":
        return f"PROMPT: {problem}"
    return f"{option} {detail['input']!r}: {problem}"


def _problem(detail: "ErrorDetails") -> str:
    cause = (detail.get("ctx") or {}).get("error")
    if isinstance(cause, ValueError):
        return str(cause)
    if detail["type"] in {"string_too_short", "too_short"}:
        return "it must not be empty; leave the option out for the default"
    return detail["msg"].replace("Input should", "it should")


def read_prompt(options: Options) -> str:
    """The prompt of the command line, or of stdin; raises `UsageProblem`."""
    if options.prompt is not None and options.prompt != "-":
        return options.prompt
    if options.prompt is None and os.isatty(0):
        raise UsageProblem(
            'no prompt: give it as the last argument, as in interlock run -a claude "...", or pipe it in'
        )
    data = sys.stdin.buffer.read(PROMPT_LIMIT + 1)
    if len(data) > PROMPT_LIMIT:
        raise UsageProblem(f"the prompt on stdin is longer than {PROMPT_LIMIT} bytes; put it into a file and name that")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        bad = f"byte 0x{data[error.start]:02x} at offset {error.start}"
        raise UsageProblem(f"the prompt on stdin is not UTF-8: {bad}; convert it, as with iconv -t UTF-8") from None
