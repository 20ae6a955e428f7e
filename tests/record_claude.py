"""Record the conversations under fixtures/recordings/claude anew, from both pinned CLIs: run this file by hand.

    python tests/record_claude.py [oldest|newest] [CASE...]

Each case is a real run of the real CLI through the whole engine against the scripted model. Ids, paths and times are
made the same every time; lists and prose of the CLI's own are left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from interlock import Answer, Approve, Deny, DenyCall, Modify, Replace
from interlock_fixtures.scripted_model import CutStream, Text, Thinking, ToolCall, Turn
from recording_cases import (
    ASK,
    BRANCH,
    DONE,
    ODD,
    OURS,
    PIXEL,
    PROSE,
    SERVER,
    SESSION,
    SHOWN,
    Case,
    Studio,
    call,
    error,
    go_on,
    interrupt,
    refuse,
    steer,
)

SCHEMA = {"type": "object", "properties": {"bird": {"type": "string"}}, "required": ["bird"]}
QUESTION = {
    "questions": [
        {
            "question": "Which?",
            "header": "Pick",
            "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}],
            "multiSelect": False,
        },
    ],
}


def bash(command: str, call_id: str = "t1") -> ToolCall:
    return call("Bash", {"command": command}, call_id)


AGENT = call("Agent", {"description": "d", "prompt": "p", "subagent_type": "general-purpose"})
CASES: Mapping[str, Case] = {
    "text": Case([Turn(Thinking("hm well", chunk=3), Text("an answer in pieces", chunk=6))]),
    "unicode": Case([Turn(Text(ODD, chunk=9), bash(f"printf '%s' '{SHOWN}'")), Turn(Text(ODD))]),
    "bash": Case([Turn(Text("I look."), bash("touch made; echo hi")), DONE]),
    "bash-fail": Case([Turn(bash("echo oops >&2; exit 3")), DONE]),
    "bash-deny": Case([Turn(bash("touch made")), DONE], before=refuse("t1")),
    "bash-modify": Case([Turn(bash("touch made")), DONE], before=lambda _: Modify(input={"command": "touch other"})),
    "bash-replace": Case([Turn(bash("echo heron")), DONE], after=lambda _: Replace(output="[redacted]")),
    "bash-withhold": Case([Turn(bash("echo heron; exit 3")), DONE], after=lambda _: DenyCall(reason="withheld")),
    "parallel": Case([Turn(bash("cat a.txt"), bash("cat b.txt", "t2")), DONE], before=refuse("t2")),
    "big-output": Case([Turn(bash("seq 1 1500")), DONE]),
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
    "write": Case([Turn(call("Write", {"file_path": "made.txt", "content": "x\n"})), DONE]),
    "edit": Case([
        Turn(call("Read", {"file_path": "a.txt"})),
        Turn(call("Edit", {"file_path": "a.txt", "old_string": "heron", "new_string": "egret"}, "t2")),
        DONE,
    ]),
    "search": Case([Turn(bash("grep -rn heron ."), bash("find . -name '*.txt'", "t2")), DONE]),
    "plan": Case([Turn(call("EnterPlanMode", {})), Turn(call("ExitPlanMode", {"plan": "one, two"}, "t2")), DONE]),
    "plan-mode": Case([Turn(Text("The plan: touch made.")), DONE], request={"mode": "plan"}),
    "sub-agent": Case([Turn(AGENT), Turn(bash("touch made", "t2")), Turn(Text("inner")), DONE]),
    "question": Case([Turn(call("AskUserQuestion", QUESTION)), DONE]),
    "question-declined": Case([Turn(call("AskUserQuestion", QUESTION)), DONE], answer=Answer(declined=True)),
    "interrupt": Case([Turn(bash("sleep 60")), DONE], act=interrupt),
    "steer": Case([Turn(bash("true")), DONE], act=steer),
    "conversation": Case([Turn(bash("echo one")), DONE, Turn(Text("more"))], act=go_on, conversation=True),
    "max-turns": Case([Turn(bash("true")), Turn(bash("true", "t2")), DONE], request={"limits": {"max_turns": 1}}),
    "budget": Case([Turn(bash("true")), Turn(bash("true", "t2")), DONE], request={"limits": {"budget_usd": 0.00001}}),
    "auth": Case(error(401, "authentication_error", 9)),
    "forbidden": Case(error(403, "permission_error", 9)),
    "bad-request": Case(error(400, "invalid_request_error", 9)),
    "not-found": Case(error(404, "not_found_error", 9)),
    "retry": Case([*error(429, "rate_limit_error", **{"retry-after": "0"}), DONE]),
    "overloaded": Case(error(529, "overloaded_error", 9, **{"retry-after": "0"})),
    "cut-stream": Case([Turn(Text("half an answer", chunk=4), CutStream(after="first_delta")), DONE]),
    "refusal": Case([Turn(Text("I will not."), stop_reason="refusal")] * 4),
    "max-output": Case([Turn(Text("and so on"), stop_reason="max_tokens")] * 9),
    "no-output": Case([Turn(Text("\n"))] * 3),
    "unknown-tool": Case([Turn(call("Teleport", {"to": "moon"})), DONE]),
    "bad-arguments": Case([Turn(call("Bash", {"cmd": "touch made"})), DONE]),
    "todo": Case([
        Turn(call("TaskCreate", {"subject": "one", "description": "do one", "activeForm": "doing one"})),
        Turn(call("TaskUpdate", {"taskId": "1", "status": "completed"}, "t2")),
        DONE,
    ]),
    "structured": Case(
        [Turn(call("StructuredOutput", {"bird": "heron"})), DONE], request={"output_schema": SCHEMA}
    ),
    "mcp": Case([Turn(call("mcp__birds__say", {"text": "heron"})), DONE], request={"mcp_servers": {"birds": {
        "type": "stdio", "command": sys.executable, "args": ["-c", SERVER],
    }}}),
    "options": Case([DONE], request={
        "instructions": "always say heron",
        "effort": "low",
        "add_dirs": ["/beside"],
        "images": [{"media_type": "image/png", "data": PIXEL}],
        "session": {"kind": "new", "id": SESSION},
    }),
    "resume": Case([DONE], first=[Turn(Text("first answer"))], request={"session": {"kind": "resume", "id": SESSION}}),
    "fork": Case(
        [DONE],
        first=[Turn(Text("first answer"))],
        request={"session": {"kind": "fork", "id": SESSION, "new_id": BRANCH}},
    ),
    "session-not-found": Case([DONE], request={"session": {"kind": "resume", "id": SESSION}}),
}  # fmt: skip

SERVICE = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "CLAUDE_CODE_MAX_RETRIES", "NO_PROXY")
NUMBERS = re.compile(r'"(\w+_ms|\w*end_time|pid|resetsAt)":-?[0-9.e-]+')
REDACTIONS = (
    "the reply to `initialize` and the `init` line are without lists of commands, models, agents and plugins",
    "the reply to `get_settings` is `sources` alone",
    "what the CLI says in prose of its own stands as (words of the CLI)",
    "times and durations are 1, message ids lose their number",
)
KEPT_INIT = {
    "type", "subtype", "cwd", "session_id", "tools", "mcp_servers", "model", "permissionMode", "claude_code_version",
    "uuid",
}  # fmt: skip
KEPT_REPLY = {"claude_code_version", "hooks_applied", "hook_on_failure_supported", "current_permission_mode"}


def trim(line: dict[str, Any]) -> dict[str, Any]:
    """What differs every time, and what the CLI says in words of its own."""
    text = NUMBERS.sub(r'"\1":1', json.dumps(line, separators=(",", ":"), ensure_ascii=False))
    text = re.sub(r'"timestamp":"[^"]*"', '"timestamp":"2026-01-01T00:00:00.000Z"', text)
    text = re.sub(r"msg_[0-9a-f]+_", "msg_", text)
    text = re.sub(r"\ba[0-9a-f]{16}\b", "a0000000000000001", text)
    text = re.sub(r'/tmp/claude-[^"]*', "/home/user/output", text)
    line = json.loads(text)
    match line:
        case {"type": "control_response", "response": {"response": {"commands": _} as body}}:
            line["response"]["response"] = {key: value for key, value in body.items() if key in KEPT_REPLY}
        case {"type": "control_response", "response": {"response": {"sources": _} as body}}:
            line["response"]["response"] = {"sources": body["sources"]}
        case {"type": "system", "subtype": "init"}:
            return {key: value for key, value in line.items() if key in KEPT_INIT}
        case {"type": "user", "message": {"content": [{"type": "tool_result", "content": str(said)} as block]}} if (
            "want to proceed" in said or "<tool_use_error>" in said
        ):
            block["content"] = line["tool_use_result"] = PROSE
        case {"type": "user", "message": {"content": [{"type": "tool_result", "content": [*blocks]}]}}:
            framed = any("agentId:" in block.get("text", "") for block in blocks)
            line["message"]["content"][0]["content"] = [{"type": "text", "text": "(frame) inner"}] if framed else blocks
        case {"type": "user", "message": {"content": [{"type": "text"} as block]}} if block["text"] not in OURS:
            block["text"] = PROSE
        case {"type": "assistant", "message": {"model": "<synthetic>", "content": [*blocks]}}:
            for block in blocks:
                block["text"] = PROSE
        case {"type": "result"}:
            line |= {"result": PROSE} if line.get("is_error") and "result" in line else {}
            line |= {"errors": [PROSE]} if line.get("errors") else {}
        case {"type": "system", "subtype": "informational" | "model_refusal_no_fallback"}:
            line |= {name: PROSE for name in ("content", "api_refusal_explanation") if line.get(name)}
        case _:
            pass
    return line


STUDIO = Studio("claude", CASES, "tests/record_claude.py", trim, REDACTIONS, SERVICE)

if __name__ == "__main__":
    STUDIO.main(sys.argv[1:])
