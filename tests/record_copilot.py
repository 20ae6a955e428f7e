"""Record the conversations under fixtures/recordings/copilot anew, from the pinned CLI: run this file by hand.

    python tests/record_copilot.py [CASE...]

Each case is a real run of the real CLI through the whole engine against the scripted model. Ids, paths and times are
made the same every time; lists and prose of the CLI's own are left out. Names that begin with `prompt-` are of the
transport `prompt`, all others of `server`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from interlock import Answer, Approve, Deny, DenyCall, Modify, Replace
from interlock_fixtures.clis import copilot_cache
from interlock_fixtures.scripted_model import (
    CutStream,
    HttpError,
    ModelRequest,
    StreamError,
    Text,
    Thinking,
    ToolCall,
    Turn,
    Usage,
)
from recording_cases import (
    ASK,
    DONE,
    ODD,
    PIXEL,
    PROSE,
    SERVER,
    SESSION,
    SHOWN,
    Case,
    Studio,
    call,
    go_on,
    interrupt,
    refuse,
    steer,
)

EDITS, PATCHES = "gpt-4.1", "gpt-5.4"
IN_PATCHES = {"model": PATCHES}
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch\n"
SCHEMA = {"type": "object", "properties": {"bird": {"type": "string"}}, "required": ["bird"]}
QUESTION = {"question": "Which?", "choices": ["A", "B"]}
BIRDS = {"birds": {"type": "stdio", "command": sys.executable, "args": ["-c", SERVER]}}
INNER = {"name": "inner", "description": "d", "prompt": "p", "agent_type": "general-purpose", "mode": "sync"}


def bash(command: str, call_id: str = "t1") -> ToolCall:
    return call("bash", {"command": command, "description": "d"}, call_id)


def patch(text: str = PATCH, call_id: str = "t1") -> ToolCall:
    return call("apply_patch", {"input": text}, call_id)


def in_repo(turn: Callable[[str], Turn]) -> Callable[[ModelRequest], Turn]:
    """Tools for files take whole paths: the turn is made of that of the workspace, which the model was told."""

    def answer(request: ModelRequest) -> Turn:
        found = re.search(rb"/[^\s\"'\\]*/repo\b", request.raw)
        assert found
        return turn(found[0].decode())

    return answer


def trouble(status: int, kind: str, times: int = 9) -> list[Turn]:
    return [Turn(HttpError(status, kind, "scripted", headers={"retry-after": "0"}))] * times


COMMON: Mapping[str, Case] = {
    "text": Case([
        Turn(Thinking("hm well", chunk=3), Text("an answer in pieces", chunk=6), usage=Usage(100, 20, 40))
    ]),
    "unicode": Case([Turn(Text(ODD, chunk=9), bash(f"printf '%s' '{SHOWN}'")), Turn(Text(ODD))]),
    "bash": Case([Turn(Text("I look."), bash("touch made; echo hi")), DONE]),
    "bash-fail": Case([Turn(bash("echo oops >&2; exit 3")), DONE]),
    "bash-deny": Case([Turn(bash("touch made")), DONE], before=refuse("t1")),
    "bash-modify": Case([Turn(bash("touch made")), DONE], before=lambda _: Modify(input={"command": "touch other"})),
    "bash-replace": Case([Turn(bash("echo heron")), DONE], after=lambda _: Replace(output="[redacted]")),
    "parallel": Case([Turn(bash("cat a.txt"), bash("cat b.txt", "t2")), DONE], before=refuse("t2")),
    "big-output": Case([Turn(bash("seq 1 300")), DONE]),
    "create": Case([
        in_repo(lambda repo: Turn(call("create", {"path": f"{repo}/made.txt", "file_text": "x\n"}))), DONE,
    ]),
    "search": Case([
        Turn(call("grep", {"pattern": "heron"}), call("glob", {"pattern": "*.txt"}, "t2")), DONE,
    ]),
    "patch": Case([Turn(patch()), DONE], request=IN_PATCHES),
    "patch-deny": Case([Turn(patch()), DONE], before=refuse("t1"), request=IN_PATCHES),
    "sub-agent": Case([Turn(call("task", INNER)), Turn(bash("touch made", "t2")), Turn(Text("inner")), DONE]),
    "mcp": Case([Turn(call("birds-say", {"text": "heron"})), DONE], request={"mcp_servers": BIRDS}),
    "mcp-deny": Case(
        [Turn(call("birds-say", {"text": "heron"})), DONE], before=refuse("t1"), request={"mcp_servers": BIRDS}
    ),
    "auth": Case(trouble(401, "invalid_api_key")),
    "limit": Case(trouble(429, "rate_limit_exceeded")),
    "bad-request": Case(trouble(400, "invalid_request_error", 1)),
    "retry": Case([*trouble(429, "rate_limit_exceeded", 1), DONE]),
    "stream-error": Case([Turn(Text("half"), StreamError("server_error", "scripted", after="first_delta")), DONE]),
    "cut-stream": Case([Turn(Text("half an answer", chunk=4), CutStream(after="first_delta")), DONE]),
    "max-output": Case([Turn(Text("and so on"), stop_reason="length")] * 9),
    "unknown-tool": Case([Turn(call("teleport", {"to": "moon"})), DONE]),
    "bad-arguments": Case([Turn(call("bash", {"cmd": "touch made"})), DONE]),
    "no-json": Case([Turn(ToolCall("bash", id="t1", raw='{"command":')), DONE]),
    "resume": Case([DONE], first=[Turn(Text("first answer"))], request={"session": {"kind": "resume", "id": SESSION}}),
    "max-turns": Case([Turn(bash("true")), Turn(bash("true", "t2")), DONE], request={"limits": {"max_turns": 1}}),
}  # fmt: skip
SERVER_ONLY: Mapping[str, Case] = {
    "bash-withhold": Case([Turn(bash("echo heron; exit 3")), DONE], after=lambda _: DenyCall(reason="withheld")),
    "approve": Case([Turn(bash("touch made")), DONE], request={"permission": ASK}),
    "approve-two": Case([Turn(bash("cat a.txt"), bash("cat b.txt", "t2")), DONE], request={"permission": ASK}),
    "approve-edited": Case(
        [Turn(bash("touch made")), DONE],
        request={"permission": ASK},
        respond=lambda _: Approve(updated_input={"command": "touch edited"}),
    ),
    "decline": Case([Turn(bash("touch made")), DONE], request={"permission": ASK}, respond=lambda _: Deny()),
    "decline-and-stop": Case(
        [Turn(bash("touch made")), DONE],
        request={"permission": ASK},
        respond=lambda _: Deny(reason="enough", interrupt=True),
    ),
    "edit": Case([
        in_repo(lambda repo: Turn(call("view", {"path": f"{repo}/a.txt"}))),
        in_repo(
            lambda repo: Turn(call("edit", {"path": f"{repo}/a.txt", "old_str": "heron", "new_str": "egret"}, "t2"))
        ),
        DONE,
    ]),
    "question": Case(
        [Turn(call("ask_user", QUESTION)), DONE], request={"permission": ASK}, answer=Answer(answers={"1": ("B",)})
    ),
    "question-declined": Case(
        [Turn(call("ask_user", QUESTION)), DONE], request={"permission": ASK}, answer=Answer(declined=True)
    ),
    "interrupt": Case([Turn(bash("sleep 60")), DONE], act=interrupt),
    "steer": Case([Turn(bash("true")), DONE, DONE], act=steer),
    "conversation": Case([Turn(bash("echo one")), DONE, Turn(Text("more"))], act=go_on, conversation=True),
    "options": Case([DONE], request={
        "instructions": "always say heron",
        "effort": "low",
        "model": PATCHES,
        "add_dirs": ["/beside"],
        "images": [{"media_type": "image/png", "data": PIXEL}],
        "session": {"kind": "new", "id": SESSION},
    }),
    "structured": Case([Turn(Text('{"bird": "heron"}'))], request={"output_schema": SCHEMA}),
    "fork": Case([DONE], first=[Turn(Text("first answer"))], request={"session": {"kind": "fork", "id": SESSION}}),
}  # fmt: skip
PROMPT_ONLY: Mapping[str, Case] = {
    "options": Case(
        [DONE],
        request={
            "instructions": "always say heron",
            "effort": "low",
            "model": PATCHES,
            "add_dirs": ["/beside"],
            "session": {"kind": "new", "id": SESSION},
        },
    ),
}


def over(transport: str, case: Case) -> Case:
    """The case by a transport."""
    return replace(case, request={"transport": transport, "model": EDITS, **case.request})


CASES = {name: over("server", case) for name, case in (COMMON | SERVER_ONLY).items()}
CASES |= {f"prompt-{name}": over("prompt", case) for name, case in (COMMON | PROMPT_ONLY).items()}

REDACTIONS = (
    "times and durations are 1, events have neither time nor parent, message ids lose their number",
    "what the model is told at first stands as (words of the CLI), and no skills are listed",
    "copies of what passed to and from the model, and what is measured, are left out",
    "notices of work in the background, of changed sessions and of waiting messages are left out",
)
NUMBERS = re.compile(r'"(\w+Ms|timestamp|\w*[dD]uration\w*)":-?[0-9.e-]+')
TEXTS = (
    (re.compile(r"\b(chatcmpl-|call_)[0-9a-f]{8}_"), r"\1"),
    (re.compile(r"<current_datetime>[^<]*</current_datetime>"), "<current_datetime>2026-01-01</current_datetime>"),
    (re.compile(r'"(\w+Time)":"[^"]*"'), r'"\1":"2026-01-01T00:00:00.000Z"'),
    (re.compile(r'/tmp/[^"\s\\]*'), "/home/user/output"),
)
UNTOLD = ("session.lifecycle", "host.event")
LEFT_OUT = (
    "assistant.streaming_delta",
    "pending_messages.modified",
    "session.background_tasks_changed",
    "session.usage_info",
)
KEPT_USAGE = {"model", "inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"}


def trim(line: dict[str, Any]) -> dict[str, Any] | None:
    """What differs every time, what the CLI says in words of its own, and what it says many times over."""
    if line.get("method") in UNTOLD:
        return None
    text = NUMBERS.sub(r'"\1":1', json.dumps(line, separators=(",", ":"), ensure_ascii=False))
    for pattern, shown in TEXTS:
        text = pattern.sub(shown, text)
    line = json.loads(text)
    event = line["params"]["event"] if line.get("method") == "session.event" else line
    for name in ("timestamp", "parentId"):
        event.pop(name, None)
    match event:
        case {"type": kind} if kind in LEFT_OUT or (kind.startswith("model.") and kind != "model.call_failure"):
            return None
        case {"type": "session.skills_loaded"}:
            event["data"] = {"skills": []}
        case {"type": "system.message"}:
            event["data"] = {"role": "system", "content": PROSE}
        case {"type": "assistant.usage", "data": data}:
            event["data"] = {key: value for key, value in data.items() if key in KEPT_USAGE}
        case _:
            _measured(event)
    return line


def _measured(value: Any) -> None:
    """Leave out what is measured, wherever it stands."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _measured(inner)
    if isinstance(value, dict):
        value.pop("toolTelemetry", None)


def share_packages(folder: Path) -> None:
    """What the CLI unpacks at its first start is not unpacked for each run."""
    packages = folder / "state" / "copilot" / "packages"
    packages.parent.mkdir(parents=True)
    packages.symlink_to(copilot_cache() / "copilot")


STUDIO = Studio(
    "copilot",
    CASES,
    "tests/record_copilot.py",
    trim,
    REDACTIONS,
    (
        "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_API_KEY", "COPILOT_OFFLINE",
        "NO_PROXY", "no_proxy",
    ),
    prepare=share_packages,
)  # fmt: skip

if __name__ == "__main__":
    STUDIO.main(sys.argv[1:])
