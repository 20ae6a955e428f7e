"""A team's rules as one program for every agent: nothing is pushed, no file outside is touched, no secret is shown.

`python guard.py --hooks-file > hooks.json` writes the hooks file that names this very file and interpreter.
"""

import json
import sys
from pathlib import Path
from typing import Any

import anyio

from interlock import Allow, HookCall, HookOutcome
from interlock.hook import Answer, serve
from interlock_adapters.guards import PushGuard, SecretRedactor, WorkspaceConfinement

REDACTOR = SecretRedactor()
PUSHES = PushGuard(reason="pull requests are opened by people")
FILES = WorkspaceConfinement(shell="allow")  # noqa: S604  commands are a sandbox's to confine: see README.md


def before(call: dict[str, Any]) -> Answer:
    """The first no counts; each guard denies what it cannot read."""
    asked = HookCall.model_validate(call)
    for guard in (PUSHES, FILES, REDACTOR):
        outcome = anyio.run(guard.before, asked)
        if not isinstance(outcome, Allow):
            return answer(outcome)
    return answer(Allow())


def after(call: dict[str, Any]) -> Answer:
    return answer(anyio.run(REDACTOR.after, HookCall.model_validate(call)))


def answer(outcome: HookOutcome) -> Answer:
    return outcome.model_dump(mode="json")


def hooks_file() -> dict[str, Any]:
    return {
        "schema": 1,
        "hooks": [
            {
                "name": "team-guard",
                "command": [sys.executable, str(Path(__file__).resolve())],
                "events": ["pre_tool_use", "post_tool_use"],
                "may": ["deny", "replace"],
                "resident": True,
                "timeout": 20,
            }
        ],
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["--hooks-file"]:
        print(json.dumps(hooks_file(), indent=2))
    else:
        serve(before=before, after=after)
