"""The scripted model of these benchmarks: `python -m benchmarks.real.model AGENT`; prints its URL, serves until killed.

A prompt says how many calls the model makes before it is done.
"""

from __future__ import annotations

import re
import sys
import threading

from benchmarks.real import agent
from interlock_fixtures.scripted_model import ModelRequest, ScriptedModel, Text, ToolCall, Turn

ANSWERS = 1_000_000
"""More than are ever asked for."""


def main() -> None:
    """Serve."""
    call = agent(sys.argv[1]).call

    def reply(request: ModelRequest) -> Turn:
        wanted = int(re.findall(rb"make (\d+) calls", request.raw)[-1])
        made = len(request.shown)
        if made >= wanted:
            return Turn(Text("done"))
        return Turn(ToolCall(str(call["name"]), call["input"], f"call-{made}"))  # type: ignore[arg-type]

    with ScriptedModel([reply] * ANSWERS) as model:
        print(model.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
