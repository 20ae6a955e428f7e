"""Copilot over `prompt` and `server`, bare and driven, and the official SDK, which drives the server.

The bare contestants are given the options that Interlock gives, but for those of its hooks: over `prompt` a flag lets
everything run instead, over the server every question is approved beforehand. Each run has an empty config home, as
each of Interlock's has, and all share what the CLI unpacks at its first start. The SDK has hooks too, and uses none.
"""

from __future__ import annotations

import json
import logging
import subprocess
from functools import cache
from typing import Any

from benchmarks.real.contestants import Agent, Contestant, Stage, prompt
from benchmarks.real.ours import driven
from interlock import Client, Request
from interlock_fixtures.clis import copilot_cache
from interlock_fixtures.scripted_model.environment import environment

MODEL = "gpt-4.1"
_LEAN = {
    "enableConfigDiscovery": False,
    "enableFileHooks": False,
    "enableOnDemandInstructionDiscovery": False,
    "enableSessionStore": False,
    "enableSkills": False,
    "manageScheduleEnabled": False,
    "memory": {"enabled": False},
    "skipCustomInstructions": True,
}
"""What Interlock has left out of a session too."""
_OURS = ("--plugin-dir", "--usage-output-file", "--session-id")


@cache
def _state(stage: Stage) -> str:
    """The durable folder, with what the CLI unpacks in it."""
    unpacked = stage.folder / "state" / "copilot" / "packages"
    unpacked.parent.mkdir(parents=True)
    unpacked.symlink_to(copilot_cache() / "copilot")
    return str(stage.folder / "state")


def _request(stage: Stage, transport: str, calls: int = 0) -> Request:
    return Request(
        agent="copilot",
        prompt=prompt(calls),
        cwd=str(stage.workspace),
        binary=str(stage.cli),
        model=MODEL,
        permission={"posture": "full"},  # type: ignore[arg-type]  # a mapping is taken for one
        transport=transport,
        login="env",
        env={name: value for name, value in environment("copilot", stage.url).items() if "AUTO_UPDATE" not in name},
    )


def _driven(transport: str, *events: str) -> Any:
    return driven(lambda stage, calls: _request(stage, transport, calls), _state, *events)


# ---- bare -----------------------------------------------------------------------------------------------------------


@cache
def _options(stage: Stage, transport: str) -> tuple[str, ...]:
    """What Interlock would start, without its hooks."""
    plan = Client(state=_state(stage)).plan(_request(stage, transport))
    return tuple(arg.text for arg in plan.argv if not arg.text.startswith(_OURS))


def _environ(stage: Stage) -> dict[str, str]:
    packages = f"{_state(stage)}/copilot/packages"
    home = str(stage.fresh())
    return stage.environ(COPILOT_HOME=home, COPILOT_PKG_CACHE_HOME=packages, **environment("copilot", stage.url))


async def _bare_prompt(stage: Stage, calls: int) -> None:
    done = subprocess.run(  # noqa: ASYNC221  # nothing else is to run meanwhile
        [*_options(stage, "prompt"), "--allow-all-tools"],
        input=prompt(calls).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environ(stage),
        check=True,
    )
    last = [json.loads(line) for line in done.stdout.splitlines()][-1]
    if last["type"] != "result" or last["exitCode"]:
        raise RuntimeError(str(last))


class _Channel:
    """JSON-RPC over the pipes of a process, and no more of it than is needed here."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.number = process, 0

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """The result of a request; what else is said meanwhile is passed over."""
        self.number += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()
        while (said := self.next()).get("id") != self.number or "method" in said:
            pass
        result: dict[str, Any] = said["result"]
        return result

    def next(self) -> dict[str, Any]:
        """The next message."""
        assert self.process.stdout is not None
        length = 0
        while line := self.process.stdout.readline().strip():
            length = int(line.partition(b":")[2])
        said: dict[str, Any] = json.loads(self.process.stdout.read(length))
        return said


async def _bare_server(stage: Stage, calls: int) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    how = {"env": _environ(stage), "cwd": stage.workspace, **pipes}
    with subprocess.Popen(_options(stage, "server"), **how) as process:  # noqa: ASYNC220  # see above
        channel = _Channel(process)
        channel.ask("connect")
        where = {"workingDirectory": str(stage.workspace), "model": MODEL, "provider": _provider(stage)}
        session = channel.ask("session.create", streaming=True, requestPermission=True, **_LEAN, **where)["sessionId"]
        channel.ask("session.permissions.setApproveAll", sessionId=session, enabled=True)
        channel.ask("session.send", sessionId=session, prompt=prompt(calls))
        answers = []
        while (kind := (event := channel.next().get("params", {}).get("event", {})).get("type")) != "session.idle":
            if kind == "assistant.message":
                answers.append(event["data"]["content"])
        assert process.stdin is not None
        process.stdin.close()
    if answers[-1] != "done":
        raise RuntimeError(str(answers))


def _provider(stage: Stage) -> dict[str, str]:
    told = environment("copilot", stage.url)
    return {
        "type": "openai",
        "baseUrl": told["COPILOT_PROVIDER_BASE_URL"],
        "apiKey": told["COPILOT_PROVIDER_API_KEY"],
    }


# ---- the official SDK -----------------------------------------------------------------------------------------------


async def _sdk(stage: Stage, calls: int) -> None:
    from copilot import CopilotClient, PermissionHandler, RuntimeConnection  # noqa: PLC0415  # it may be missing

    logging.getLogger("copilot").setLevel(logging.CRITICAL)  # that this CLI lacks a newer method, which it makes up for
    told = _provider(stage)
    connection = RuntimeConnection.for_stdio(path=str(stage.cli), args=["--no-auto-update", "--no-auto-login"])
    client = CopilotClient(
        connection=connection,
        working_directory=str(stage.workspace),
        log_level="none",
        env=_environ(stage),
        use_logged_in_user=False,
    )
    await client.start()
    try:
        session = await client.create_session(
            on_permission_request=PermissionHandler.approve_all,
            model=MODEL,
            provider={"type": "openai", "base_url": told["baseUrl"], "api_key": told["apiKey"]},
            streaming=True,
            working_directory=str(stage.workspace),
        )
        last = await session.send_and_wait(prompt(calls))
        await session.disconnect()
    finally:
        await client.stop()
    if last is None or last.data.content != "done":
        raise RuntimeError(str(last))


AGENT = Agent(
    "copilot",
    {"name": "bash", "input": {"command": "true", "description": "x"}},
    (
        Contestant("bare prompt", _bare_prompt),
        Contestant("interlock prompt", _driven("prompt"), "bare prompt"),
        Contestant("prompt, with a chain", _driven("prompt", "pre_tool_use", "post_tool_use"), "bare prompt"),
        Contestant("bare server", _bare_server),
        Contestant("interlock server", _driven("server"), "bare server"),
        Contestant("server, with a chain", _driven("server", "pre_tool_use", "post_tool_use"), "bare server"),
        Contestant("github-copilot-sdk", _sdk, "bare server", package="github-copilot-sdk"),
    ),
)
