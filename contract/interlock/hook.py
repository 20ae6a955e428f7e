"""Hooks as programs in Python: say what to do before and after a call, and `serve` does the rest.

    from interlock.hook import allow, deny, serve

    def before(call):
        return deny("no pushes") if "git push" in (call["subject"].get("command") or "") else allow()

    serve(before=before)

This file needs the standard library alone and may be copied as `interlock_hook.py` to where Interlock is not
installed: `python3 interlock_hook.py guard.py` then runs a guard that says `from interlock_hook import ...`.

Strategy: what comes on stdin decides between one call and many (a resident hook is told so in its environment). The
answer has stdout to itself: whatever else is printed goes to stderr. What raises ends the program with code 1, which
counts as broken, and broken means deny.
"""

import json
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any, cast

__all__ = ["allow", "deny", "modify", "replace", "serve"]

Answer = dict[str, Any]
Handler = Callable[[dict[str, Any]], Answer]
_AnyHandler = Callable[[dict[str, Any]], object]


def allow(reason: str = "") -> Answer:
    """No objection."""
    return {"decision": "allow", "reason": reason}


def deny(reason: str) -> Answer:
    """The call does not run, or its output is withheld; the model reads `reason`."""
    return {"decision": "deny", "reason": reason}


def modify(input: Any, reason: str = "") -> Answer:  # noqa: A002  # the name on the wire
    """The call runs with another input; before the call only."""
    return {"decision": "modify", "input": input, "reason": reason}


def replace(output: Any, *, is_error: "bool | None" = None, reason: str = "") -> Answer:
    """The model sees another output; after the call only. `is_error` None keeps the tool's verdict."""
    return {"decision": "replace", "output": output, "is_error": is_error, "reason": reason}


def serve(*, before: "Handler | None" = None, after: "Handler | None" = None) -> None:
    """Answer the call on stdin, or in a resident hook all calls, one after the other, until the run is over.

    A call for which there is no handler is allowed. A handler that raises or answers nothing ends the program, which
    denies; `input` and `output` of a call may be changed freely, since only the answer counts.
    """
    speak = _own_stdout()
    if os.environ.get("INTERLOCK_HOOK_RESIDENT") != "1":
        speak(_answer(json.loads(sys.stdin.buffer.read()), before, after))
        return
    for line in sys.stdin.buffer:
        call = json.loads(line)
        number = call.pop("id")
        speak({"id": number, **_answer(call, before, after)})


def _answer(call: dict[str, Any], before: "_AnyHandler | None", after: "_AnyHandler | None") -> Answer:
    handler = before if call["event"] == "pre_tool_use" else after
    if handler is None:
        return allow()
    answer = handler(call)
    if not isinstance(answer, dict):
        raise TypeError(f"a handler must return allow(), deny(), modify() or replace(), not {answer!r}")
    return cast("Answer", answer)


def _own_stdout() -> Callable[[Answer], None]:
    """Keep stdout for answers; what else is printed, also by programs that are started, goes to stderr."""
    answers = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def speak(answer: Answer) -> None:
        rest = memoryview(json.dumps(answer, allow_nan=False).encode() + b"\n")
        while rest:
            rest = rest[os.write(answers, rest) :]

    return speak


if __name__ == "__main__":
    sys.modules["interlock_hook"] = sys.modules["__main__"]
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
