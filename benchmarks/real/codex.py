"""Codex over `exec` and `app-server`, bare and driven, and the official SDK, which drives the `app-server`.

The bare contestants are given the very options that Interlock gives, but for those of its hooks; each run of theirs has
an empty config home, as each of Interlock's has. The SDK is given the same binary, options and home. It has no hooks,
so nothing of what it runs is asked about.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from benchmarks.real.contestants import Agent, Contestant, Stage, prompt
from benchmarks.real.ours import driven
from interlock import Client, Request
from interlock_fixtures.scripted_model.environment import arguments, environment

MODEL = "gpt-5.5"


def _request(stage: Stage, transport: str, calls: int = 0) -> Request:
    provider = [word for word in arguments("codex", stage.url, MODEL) if word.startswith("model_provider")]
    return Request(
        agent="codex",
        prompt=prompt(calls),
        cwd=str(stage.workspace),
        binary=str(stage.cli),
        model=MODEL,
        permission={"posture": "full"},  # type: ignore[arg-type]  # a mapping is taken for one
        transport=transport,
        login="env",
        env=environment("codex", stage.url),
        extra_args=tuple(word for setting in provider for word in ("-c", setting)),
    )


def _driven(transport: str, *events: str) -> Any:
    return driven(lambda stage, calls: _request(stage, transport, calls), lambda stage: stage.folder / "state", *events)


# ---- bare -----------------------------------------------------------------------------------------------------------


@cache
def _options(stage: Stage, transport: str) -> tuple[str, ...]:
    """What Interlock would start, without its hooks."""
    return tuple(_without_hooks(stage, transport))


def _without_hooks(stage: Stage, transport: str) -> Iterator[str]:
    plan = Client(state=stage.folder / "state").plan(_request(stage, transport))
    words = iter([argument.text for argument in plan.argv])
    for word in words:
        value = next(words) if word == "-c" else ""
        if not value.startswith("hooks."):
            yield word
            yield from [value] if value else []


def _environ(stage: Stage) -> dict[str, str]:
    return stage.environ(CODEX_HOME=str(stage.fresh()), **environment("codex", stage.url))


async def _bare_exec(stage: Stage, calls: int) -> None:
    done = subprocess.run(  # noqa: ASYNC221  # nothing else is to run meanwhile
        _options(stage, "exec"),
        input=prompt(calls).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environ(stage),
        check=True,
    )
    last = [json.loads(line) for line in done.stdout.splitlines()][-1]
    if last["type"] != "turn.completed":
        raise RuntimeError(str(last))


async def _bare_app_server(stage: Stage, calls: int) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    argv = _options(stage, "app-server")
    how = {"env": _environ(stage), "cwd": stage.workspace, **pipes}
    with subprocess.Popen(argv, **how) as process:  # noqa: ASYNC220  # nothing else is to run meanwhile

        def say(**message: object) -> None:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()

        def answer(wanted: int) -> dict[str, Any]:
            return next(said for said in map(json.loads, process.stdout) if said.get("id") == wanted)["result"]

        say(id=1, method="initialize", params={"clientInfo": {"name": "bare", "version": "1"}})
        answer(1)
        say(method="initialized")
        where = {"cwd": str(stage.workspace), "model": MODEL}
        say(id=2, method="thread/start", params={**where, "sandbox": "danger-full-access", "approvalPolicy": "never"})
        thread = answer(2)["thread"]["id"]
        asked = [{"type": "text", "text": prompt(calls), "text_elements": []}]
        say(id=3, method="turn/start", params={"threadId": thread, "input": asked})
        over = next(said for said in map(json.loads, process.stdout) if said.get("method") == "turn/completed")
        process.stdin.close()
    if over["params"]["turn"]["status"] != "completed":
        raise RuntimeError(str(over))


# ---- the official SDK -----------------------------------------------------------------------------------------------


async def _sdk(stage: Stage, calls: int) -> None:
    from openai_codex import AsyncCodex, CodexConfig, Sandbox  # noqa: PLC0415  # it may be missing
    from openai_codex.api import ApprovalMode  # noqa: PLC0415  # see above

    words = _options(stage, "app-server")
    settings = tuple(value for word, value in pairwise(words) if word == "-c")
    config = CodexConfig(
        codex_bin=str(stage.cli), config_overrides=settings, cwd=str(stage.workspace), env=_environ(stage)
    )
    async with AsyncCodex(config) as codex:
        thread = await codex.thread_start(
            approval_mode=ApprovalMode.deny_all, cwd=str(stage.workspace), model=MODEL, sandbox=Sandbox.full_access
        )
        result = await thread.run(prompt(calls))
    if result.final_response != "done":
        raise RuntimeError(str(result))


AGENT = Agent(
    "codex",
    {"name": "exec_command", "input": {"cmd": "true"}},
    (
        Contestant("bare exec", _bare_exec),
        Contestant("interlock exec", _driven("exec"), "bare exec"),
        Contestant("bare app-server", _bare_app_server),
        Contestant("interlock app-server", _driven("app-server"), "bare app-server"),
        Contestant("with a chain before", _driven("app-server", "pre_tool_use"), "bare app-server"),
        Contestant(
            "with a chain before and after", _driven("app-server", "pre_tool_use", "post_tool_use"), "bare app-server"
        ),
        Contestant("openai-codex", _sdk, "bare app-server", package="openai-codex"),
    ),
)
