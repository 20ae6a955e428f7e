"""The commands about this machine: `interlock agents`, `interlock doctor` and `interlock login`."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["agents", "doctor", "login"]

_Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


def agents(*, json: _Json = False) -> None:
    """Show which agents are here, their versions and logins, and what each way of driving them can do.

    Nothing is started but `PROGRAM --version`, under an empty home folder. Exit code 0 whatever is found.
    """
    from interlock_adapters.cli.agents import agents as show  # noqa: PLC0415 -- the engine is loaded only for it

    raise typer.Exit(show(as_json=json))


def login(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent to log in to.")],
    *,
    binary: Annotated[str | None, typer.Option(metavar="PATH", help="The agent's program.")] = None,
) -> None:
    """Log in with the agent's own command, in your own home, and say what doctor finds then.

    It needs a terminal. Exit codes: 0 a login is there, 1 none is or the command failed, 2 usage or unsupported,
    130 interrupted.
    """
    from interlock_adapters.cli.login import login as log_in  # noqa: PLC0415 -- the engine is loaded only for it

    raise typer.Exit(log_in(agent, binary))


def doctor(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[AGENT]...", help="The agents to look at; default: all.")
    ] = None,
    *,
    binary: Annotated[str | None, typer.Option(metavar="PATH", help="The program of the one AGENT.")] = None,
    cwd: Annotated[str, typer.Option("-C", metavar="DIR", help="The directory that an agent would work in.")] = ".",
    guard: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Prove the guard on the program of this agent instead.")
    ] = None,
    transport: Annotated[
        str | None, typer.Option(metavar="T", help="With --guard, this transport alone; default: all.")
    ] = None,
    json: _Json = False,
) -> None:
    """Check whether agents can be run here, and say what to do where they cannot.

    Each agent is started once and ended before any prompt; no request leaves this machine. Exit codes: 0 all is well or
    there are warnings only, 1 a problem, 2 usage.

    With --guard the agent's real program plays a scripted session, offline and in a home that is thrown away, and every
    promise of the guard is held against what happened. Exit codes: 0 all that is claimed holds, 4 a promise is broken,
    2 the session cannot be played.
    """
    if guard is not None or transport is not None:
        from interlock_adapters.cli.doctor_guard import Session, doctor_guard  # noqa: PLC0415 -- same

        raise typer.Exit(doctor_guard(Session(guard, tuple(names or ()), binary, transport), as_json=json))
    from interlock_adapters.cli.doctor import Visit  # noqa: PLC0415 -- same
    from interlock_adapters.cli.doctor import doctor as examine  # noqa: PLC0415 -- same

    raise typer.Exit(examine(Visit(tuple(names or ()), binary, Path(cwd).expanduser().resolve()), as_json=json))
