"""Record the conversations under fixtures/recordings/codex anew, from the pinned CLI: run this file by hand.

    python tests/record_codex.py [CASE...]

Each case is a real run of the real CLI through the whole engine against the scripted model. Ids, paths and times are
made the same every time; lists and prose of the CLI's own are left out. Names that begin with `exec-` are of the
transport `exec`, all others of `app-server`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock import Answer, Approve, Deny, DenyCall, Modify, Replace
from interlock.engine.run import Run
from interlock.events import ApprovalRequested, BaseEvent
from interlock_fixtures.scripted_model import (
    CutStream,
    HttpError,
    ModelRequest,
    ScriptedModel,
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
    SHOWN,
    Case,
    Studio,
    call,
    go_on,
    interrupt,
    refuse,
    steer,
)

DIRECT, CODE, FALLBACK = "gpt-5.5", "gpt-6.2-sol", "gpt-5.4"
IN_CODE = {"model": CODE}
READ, EDIT = {"permission": {"posture": "read"}}, {"permission": {"posture": "edit"}}
LEAVING = {"permission": {"posture": "edit", "otherwise": "ask"}}
GATE = {"permission": {"posture": "full", "backstop": "gate"}}
OUTSIDE = {"sandbox_permissions": "require_escalated", "justification": "must"}
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch\n"
EDITED = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a heron\n+an egret\n*** End Patch\n"
SCHEMA = {
    "type": "object", "properties": {"bird": {"type": "string"}}, "required": ["bird"], "additionalProperties": False,
}  # fmt: skip
QUESTION = {"questions": [{
    "id": "q1", "header": "Pick", "question": "Which?", "options": [
        {"label": "A", "description": "a"}, {"label": "B", "description": "b"},
    ],
}]}  # fmt: skip
BIRDS = {"birds": {"type": "stdio", "command": sys.executable, "args": ["-c", SERVER]}}


def shell(command: str, call_id: str = "t1", **more: Any) -> ToolCall:
    return call("exec_command", {"cmd": command, **more}, call_id)


def code(script: str, call_id: str = "t1") -> ToolCall:
    return call("exec", {"input": script}, call_id)


def in_code(command: str, call_id: str = "t1") -> ToolCall:
    return code(f"text(await tools.exec_command({json.dumps({'cmd': command})}))", call_id)


def patch(text: str = PATCH, call_id: str = "t1") -> ToolCall:
    return call("apply_patch", {"input": text}, call_id)


def trouble(status: int, kind: str, times: int = 4) -> list[Turn]:
    return [Turn(HttpError(status, kind, "scripted"))] * times


def with_inner(request: ModelRequest) -> Turn:
    """The main agent starts a sub-agent and waits for it; both ask at once, so what is said follows from who asks."""
    shown = {one.tool_use_id for one in request.shown}
    if b"INNER" in request.raw and "t1" not in shown:
        return Turn(Text("inner")) if shown else Turn(shell("touch made", "t2"))
    if not shown:
        return Turn(call("multi_agent_v1/spawn_agent", {"message": "INNER"}))
    return DONE if "t3" in shown else Turn(shell("sleep 2", "t3"))


async def interrupt_question(run: Run, event: BaseEvent) -> None:
    if isinstance(event, ApprovalRequested):
        await run.interrupt()


APP_SERVER: Mapping[str, Case] = {
    "text": Case([Turn(Thinking("hm well", chunk=3), Text("an answer in pieces", chunk=6))]),
    "unicode": Case([Turn(Text(ODD, chunk=9), shell(f"printf '%s' '{SHOWN}'")), Turn(Text(ODD))]),
    "shell": Case([Turn(Text("I look."), shell("touch made; echo hi")), DONE]),
    "shell-fail": Case([Turn(shell("echo oops >&2; exit 3")), DONE]),
    "shell-deny": Case([Turn(shell("touch made")), DONE], before=refuse("t1")),
    "shell-modify": Case([Turn(shell("touch made")), DONE], before=lambda _: Modify(input={"command": "touch other"})),
    "shell-replace": Case([Turn(shell("echo heron")), DONE], after=lambda _: Replace(output="[redacted]")),
    "shell-withhold": Case([Turn(shell("echo heron; exit 3")), DONE], after=lambda _: DenyCall(reason="withheld")),
    "parallel": Case([Turn(shell("cat a.txt"), shell("cat b.txt", "t2")), DONE], before=refuse("t2")),
    "big-output": Case([Turn(shell("seq 1 1500")), DONE]),
    "approve": Case([Turn(shell("touch made")), DONE], request={"permission": ASK}),
    "approve-two": Case([Turn(shell("cat a.txt"), shell("cat b.txt", "t2")), DONE], request={"permission": ASK}),
    "approve-edited": Case(
        [Turn(shell("touch made")), DONE],
        request={"permission": ASK},
        respond=lambda _: Approve(updated_input={"command": "touch edited"}),
    ),
    "decline": Case([Turn(shell("touch made")), DONE], request={"permission": ASK}, respond=lambda _: Deny()),
    "decline-and-stop": Case(
        [Turn(shell("touch made")), DONE],
        request={"permission": ASK},
        respond=lambda _: Deny(reason="enough", interrupt=True),
    ),
    "leave-sandbox": Case([Turn(shell("touch made", **OUTSIDE)), DONE], request=LEAVING),
    "stay-in-sandbox": Case(
        [Turn(shell("touch made", **OUTSIDE)), DONE], request=LEAVING, respond=lambda _: Deny()
    ),
    "gate": Case([Turn(shell("touch made")), Turn(patch(call_id="t2")), DONE], request=GATE),
    "sandboxed": Case([Turn(shell("sleep 0.3; touch made")), DONE], request=READ),
    "patch": Case([Turn(patch()), Turn(patch(EDITED, "t2")), DONE], request=EDIT),
    "patch-deny": Case([Turn(patch()), DONE], before=refuse("t1")),
    "patch-modify": Case(
        [Turn(patch()), DONE], before=lambda _: Modify(input={"command": PATCH.replace("made", "other")})
    ),
    "patch-bad": Case([Turn(patch(EDITED.replace("heron", "stork"))), DONE]),
    "code": Case([Turn(in_code("echo hi")), DONE], request=IN_CODE),
    "code-deny": Case(
        [Turn(in_code("touch made")), DONE], before=lambda _: DenyCall(reason="out of bounds"), request=IN_CODE
    ),
    "code-patch": Case(
        [Turn(code(f"text(await tools.apply_patch({json.dumps(PATCH)}))")), DONE], request=IN_CODE
    ),
    "sub-agent": Case([with_inner] * 5, request={"model": FALLBACK}),
    "question": Case([Turn(call("request_user_input", QUESTION)), DONE], answer=Answer(answers={"q1": ("B",)})),
    "question-declined": Case([Turn(call("request_user_input", QUESTION)), DONE], answer=Answer(declined=True)),
    "interrupt": Case([Turn(shell("sleep 60")), DONE], act=interrupt),
    "interrupt-question": Case(
        [Turn(shell("touch made")), DONE],
        request={"permission": ASK},
        respond=lambda _: None,
        act=interrupt_question,
    ),
    "steer": Case([Turn(shell("sleep 0.5")), DONE], act=steer),
    "conversation": Case([Turn(shell("echo one")), DONE, Turn(Text("more"))], act=go_on, conversation=True),
    "auth": Case(trouble(401, "invalid_api_key")),
    "limit": Case(trouble(429, "usage_limit_reached")),
    "not-found": Case(trouble(404, "model_not_found")),
    "bad-request": Case(trouble(400, "invalid_request")),
    "overloaded": Case(trouble(503, "server_is_overloaded")),
    "context": Case([Turn(StreamError("context_length_exceeded", "scripted"))] * 4),
    "retry": Case([*trouble(500, "server_error", 1), DONE]),
    "cut-stream": Case([Turn(Text("half an answer", chunk=4), CutStream(after="first_delta")), DONE]),
    "max-output": Case([Turn(Text("and so on"), stop_reason="max_output_tokens")] * 4),
    "no-output": Case([Turn(Text(" "))]),
    "unknown-tool": Case([Turn(call("teleport", {"to": "moon"})), DONE]),
    "bad-arguments": Case([Turn(call("exec_command", {"command": "touch made"})), DONE]),
    "mcp": Case([Turn(call("mcp__birds/say", {"text": "heron"})), DONE], request={"mcp_servers": BIRDS}),
    "mcp-deny": Case(
        [Turn(call("mcp__birds/say", {"text": "heron"})), DONE],
        before=refuse("t1"), request={"mcp_servers": BIRDS},
    ),
    "structured": Case([Turn(Text('{"bird": "heron"}'))], request={"output_schema": SCHEMA}),
    "options": Case([DONE], request={
        "instructions": "always say heron",
        "effort": "low",
        "add_dirs": ["/beside"],
        "images": [{"media_type": "image/png", "data": PIXEL}],
    }),
    "resume": Case([DONE], first=[Turn(Text("first answer"))], request={"session": {"kind": "resume", "id": "x"}}),
    "fork": Case([DONE], first=[Turn(Text("first answer"))], request={"session": {"kind": "fork", "id": "x"}}),
    "session-not-found": Case(
        [DONE], request={"session": {"kind": "resume", "id": "00000000-0000-7000-8000-0000000000a1"}}
    ),
}  # fmt: skip
EXEC: Mapping[str, Case] = {
    "text": Case([Turn(Thinking("hm well"), Text("an answer"), usage=Usage(100, 20, cache_read_tokens=40))]),
    "unicode": Case([Turn(Text(ODD), shell(f"sleep 0.3; printf '%s' '{SHOWN}'")), Turn(Text(ODD))]),
    "shell": Case([Turn(Text("I look."), shell("sleep 0.3; touch made; echo hi")), DONE]),
    "shell-fail": Case([Turn(shell("sleep 0.3; echo oops >&2; exit 3")), DONE]),
    "sandboxed": Case([Turn(shell("sleep 0.3; touch made")), DONE], request=READ),
    "patch": Case([Turn(patch()), Turn(patch(EDITED, "t2")), DONE], request=EDIT),
    "code": Case([Turn(in_code("sleep 0.3; echo hi")), DONE], request=IN_CODE),
    "mcp": Case([Turn(call("mcp__birds/say", {"text": "heron"})), DONE], request={"mcp_servers": BIRDS}),
    "auth": Case(trouble(401, "invalid_api_key")),
    "limit": Case(trouble(429, "usage_limit_reached")),
    "overloaded": Case(trouble(503, "server_is_overloaded")),
    "context": Case([Turn(StreamError("context_length_exceeded", "scripted"))] * 4),
    "retry": Case([*trouble(500, "server_error", 1), DONE]),
    "cut-stream": Case([Turn(Text("half an answer", chunk=4), CutStream(after="first_delta")), DONE]),
    "no-output": Case([Turn(Text(" "))]),
    "unknown-tool": Case([Turn(call("teleport", {"to": "moon"})), DONE]),
    "structured": Case([Turn(Text('{"bird": "heron"}'))], request={"output_schema": SCHEMA}),
    "options": Case([DONE], request={
        "instructions": "always say heron", "effort": "low", "add_dirs": ["/beside"], **EDIT,
    }),
    "resume": Case([DONE], first=[Turn(Text("first answer"))], request={"session": {"kind": "resume", "id": "x"}}),
    "fork": Case([DONE], first=[Turn(Text("first answer"))], request={"session": {"kind": "fork", "id": "x"}}),
    "session-not-found": Case(
        [DONE], request={"session": {"kind": "resume", "id": "00000000-0000-7000-8000-0000000000a1"}}
    ),
}  # fmt: skip


def over(transport: str, case: Case) -> Case:
    """The case by a transport; `exec` shows no call, so nobody can take part."""
    fields = {"transport": transport, "model": DIRECT, **case.request}
    return replace(case, request=fields, chain=case.chain and transport != "exec")


CASES = {name: over("app-server", case) for name, case in APP_SERVER.items()}
CASES |= {f"exec-{name}": over("exec", case) for name, case in EXEC.items()}

REDACTIONS = (
    "times, durations and process ids are 1, message ids lose their number",
    "lists of hooks, layers of the configuration and threads have only the members that say what is in force",
    "what the CLI warns of in prose of its own stands as (words of the CLI)",
)


def leads(model: ScriptedModel, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Codex is told of its service by options."""
    words = [word for word in model.arguments("codex", fields["model"]) if word.startswith("model_provider")]
    return {"extra_args": [word for setting in words for word in ("-c", setting)]}


TIMES = re.compile(r'"(\w+Ms|\w+At)":[0-9]+')
OTHERS = (
    (re.compile(r'"processId":"[0-9]+"'), '"processId":"1"'),
    (re.compile(r"\b(msg|rs|item|call|resp)_[0-9a-f]{6,}_"), r"\1_"),
    (re.compile(r"run-[0-9a-f]{32}"), "run-recorded"),
    (re.compile(r"sessions/\d+/\d+/\d+/rollout-[0-9T-]+?-(?=[0-9a-f]{8}-)"), "sessions/2026/01/01/rollout-"),
    (re.compile(r'"userAgent":"(interlock/[0-9.]+) [^"]*"'), r'"userAgent":"\1 (Linux; x86_64)"'),
    (re.compile(r'"serverName":"[^"]*"'), '"serverName":"host"'),
)
KEPT_HOOK = {
    "key", "eventName", "handlerType", "server", "tool", "source", "sourcePath", "enabled", "currentHash",
    "trustStatus",
}  # fmt: skip
KEPT_THREAD = {"id", "sessionId", "forkedFromId", "parentThreadId", "preview", "path", "cwd", "cliVersion", "turns"}
KEPT_BEGUN = {"thread", "model", "modelProvider", "cwd", "approvalPolicy", "approvalsReviewer", "sandbox"}


def trim(line: dict[str, Any]) -> dict[str, Any]:
    """What differs every time, and what the CLI says in words of its own."""
    text = TIMES.sub(r'"\1":1', json.dumps(line, separators=(",", ":"), ensure_ascii=False))
    for pattern, shown in OTHERS:
        text = pattern.sub(shown, text)
    line = json.loads(text)
    line.pop("emittedAtMs", None)
    match line:
        case {"result": {"data": [{"hooks": _}, *_]}}:
            for place in line["result"]["data"]:
                place["hooks"] = [{key: hook[key] for key in hook if key in KEPT_HOOK} for hook in place["hooks"]]
        case {"result": {"layers": [*layers]}}:
            line["result"] = {"layers": [_layer(layer) for layer in layers]}
        case {"result": {"thread": {**thread}}}:
            begun = {key: value for key, value in line["result"].items() if key in KEPT_BEGUN}
            line["result"] = {**begun, "thread": {key: thread[key] for key in thread if key in KEPT_THREAD}}
        case {"method": "thread/started", "params": {"thread": {**thread}}}:
            line["params"] = {"thread": {key: thread[key] for key in thread if key in KEPT_THREAD}}
        case {"method": "configWarning", "params": {"summary": _}}:
            line["params"]["summary"] = PROSE
        case {"method": "warning", "params": {"message": _}}:
            line["params"]["message"] = PROSE
        case _:
            pass
    return line


def _layer(layer: dict[str, Any]) -> dict[str, Any]:
    """Of a layer of the configuration whose it is; our own stands in argv."""
    ours = layer["name"]["type"] == "sessionFlags"
    return {key: {} if ours and key == "config" else layer[key] for key in layer if key != "version"}


STUDIO = Studio(
    "codex",
    CASES,
    "tests/record_codex.py",
    trim,
    REDACTIONS,
    ("SCRIPTED_MODEL_KEY", "NO_PROXY"),
    leads=leads,
    names_sessions=False,
)

if __name__ == "__main__":
    STUDIO.main(sys.argv[1:])
