"""What a command is wrapped in before it runs, after it was decided and shown.

What no hook of Codex is told of is closed by the text of the command itself (Codex 0.171.0). Input typed into a
running command (`write_stdin`): it reads from nothing. Output handed to the model while a command still runs, and the
output of a patch that is written as a heredoc: all of it is said at the end, where the hook is asked. And a command
refuses to run in another directory than the one in which it was judged.

The command is one quoted word of `eval`, so that nothing in it can end the wrapping.
"""

from __future__ import annotations

import shlex

__all__ = ["ran_command", "wrapped"]

_SILENT = "exec </dev/null\n"
_PLACE = '[ "$(pwd -P)" = {cwd} ] || {{ echo {words}; exit 126; }}\n'
_WORDS = "this command was to run in {cwd}"
_AT_ONCE = (
    '__interlock=$( (eval {command}) 2>&1; echo ".$?"); __interlock_code=${{__interlock##*.}}; '
    'printf %s "${{__interlock%.*}}"; {pause}exit "$__interlock_code"'
)
_PAUSE = '[ "$__interlock_code" = 0 ] || sleep 0.3; '
"""Under the policy `untrusted` a command that fails within 0.1 s with words of a sandbox is run again without one."""


def wrapped(command: str, *, at_once: bool, cwd: str | None, slow_to_fail: bool = False) -> str:
    """The command without input; `at_once`: with its whole output at its end; `cwd`: there and nowhere else."""
    place = "" if cwd is None else _PLACE.format(cwd=shlex.quote(cwd), words=shlex.quote(_WORDS.format(cwd=cwd)))
    quoted = shlex.quote(command)
    if not at_once and not slow_to_fail:
        return f"{_SILENT}{place}eval {quoted}"
    return _SILENT + place + _AT_ONCE.format(command=quoted, pause=_PAUSE if slow_to_fail else "")


def ran_command(line: str) -> str | None:
    """The command in a command line as items and questions show it: `/bin/bash -lc 'COMMAND'`."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    return words[-1] if words else None
