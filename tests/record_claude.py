"""Record the conversations under fixtures/recordings/claude anew, from both pinned CLIs: run this file by hand.

    python tests/record_claude.py [oldest|newest] [CASE...]

Each case is a real run of the real CLI through the whole engine against the scripted model. Ids, paths and times are
made the same every time; lists and prose of the CLI's own are left out.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from interlock import Allow, Answer, Approve, Client, Deny, DenyCall, HookCall, Modify, Replace, Request
from interlock.engine.run import Run
from interlock.events import ApprovalRequested, BaseEvent, QuestionAsked, ToolDecided, TurnFinished
from interlock_adapters.claude import adapter
from interlock_fixtures.clis import Which, cli_version, require_cli
from interlock_fixtures.record import Recorder
from interlock_fixtures.recording import save_recording
from interlock_fixtures.scripted_model import CutStream, HttpError, ScriptedModel, Text, Thinking, ToolCall, Turn

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"
DONE = Turn(Text("done"))
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ASK = {"posture": "none", "otherwise": "ask"}
SESSION, BRANCH = (f"00000000-0000-4000-8000-0000000000{number}" for number in ("a1", "a2"))
SCHEMA = {"type": "object", "properties": {"bird": {"type": "string"}}, "required": ["bird"]}
ODD = "line\u2028paragraph\u2029next\u0085vt\u000bff\u000c bird \U0001f426 e\u0301 \u202e"
SHOWN = "line\u2028paragraph\u2029next bird \U0001f426 e\u0301"
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
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    done = {
        "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "birds", "version": "1"}},
        "tools/list": {"tools": [{"name": "say", "description": "says", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "said"}]},
    }.get(asked["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": done}), flush=True)
"""

Says = Callable[[HookCall], Any]


class Participant:
    """Two functions as a participant."""

    name = "policy"

    def __init__(self, before: Says | None, after: Says | None) -> None:
        self.events = ("pre_tool_use", *(("post_tool_use",) if after else ()))
        self._before, self._after = before, after

    async def before(self, call: HookCall) -> Any:
        return self._before(call) if self._before else Allow()

    async def after(self, call: HookCall) -> Any:
        return self._after(call) if self._after else Allow()


async def _nothing(_: Run, __: BaseEvent) -> None:
    return


async def _interrupt(run: Run, event: BaseEvent) -> None:
    if isinstance(event, ToolDecided):
        await run.interrupt()


async def _steer(run: Run, event: BaseEvent) -> None:
    if isinstance(event, ToolDecided):
        await run.send("and an egret")


async def _go_on(run: Run, event: BaseEvent) -> None:
    if isinstance(event, TurnFinished) and event.turn == 1:
        await run.send("go on")
    elif isinstance(event, TurnFinished):
        await run.finish()


@dataclass(frozen=True)
class Case:
    """What the model says, what our side answers, and what the request asks for."""

    turns: Sequence[Any]
    before: Says | None = None
    after: Says | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    respond: Callable[[ApprovalRequested], Approve | Deny] = lambda _: Approve()
    answer: Answer = field(default_factory=lambda: Answer(answers={"1": ("B",)}))
    act: Callable[[Run, BaseEvent], Any] = _nothing
    conversation: bool = False
    first: Sequence[Any] = ()
    """Turns of a run before, in the session that this one goes on with."""


def call(name: str, given: Mapping[str, Any], call_id: str = "t1") -> ToolCall:
    return ToolCall(name, given, id=call_id)


def bash(command: str, call_id: str = "t1") -> ToolCall:
    return call("Bash", {"command": command}, call_id)


def refuse(*calls: str) -> Says:
    return lambda asked: DenyCall(reason="out of bounds") if asked.tool_call_id in calls else Allow()


def error(status: int, kind: str, times: int = 1, **headers: str) -> list[Turn]:
    return [Turn(HttpError(status, kind, "scripted", headers=headers))] * times


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
    "interrupt": Case([Turn(bash("sleep 60")), DONE], act=_interrupt),
    "steer": Case([Turn(bash("true")), DONE], act=_steer),
    "conversation": Case([Turn(bash("echo one")), DONE, Turn(Text("more"))], act=_go_on, conversation=True),
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

FULL = {"posture": "full"}
SERVICE = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "CLAUDE_CODE_MAX_RETRIES", "NO_PROXY")
NUMBERS = re.compile(r'"(\w+_ms|\w*end_time|pid|resetsAt)":-?[0-9.e-]+')
REDACTIONS = (
    "the reply to `initialize` and the `init` line are without lists of commands, models, agents and plugins",
    "the reply to `get_settings` is `sources` alone",
    "what the CLI says in prose of its own stands as (words of the CLI)",
    "times and durations are 1, message ids lose their number",
)
PROSE = "(words of the CLI)"
OURS = ("go", "p", "and an egret", "go on")
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


async def follow(run: Run, case: Case) -> None:
    """Read the run to its end and answer what it asks."""
    async for event in run:
        match event:
            case ApprovalRequested():
                run.respond(event.approval.id, case.respond(event))
            case QuestionAsked():
                run.answer(event.question.id, case.answer)
            case _:
                await case.act(run, event)


async def play(case: Case, program: Path, folder: Path, model: ScriptedModel, **fields: Any) -> str:
    """One run through the engine."""
    env = {name: value for name, value in model.environment("claude").items() if name in SERVICE}
    given = {"permission": FULL, **case.request, **fields, "env": env, "login": "env"}
    if "add_dirs" in given:
        given["add_dirs"] = [str(folder / "beside")]
    request = Request(agent="claude", prompt="go", cwd=str(folder / "repo"), binary=str(program), **given)
    chain = [Participant(case.before, case.after)]
    with anyio.fail_after(90):
        client = Client(interceptors=chain, state=folder / "state")
        async with client, client.stream(request, conversation=case.conversation) as run:
            await follow(run, case)
            return (await run.outcome()).describe()


def record(which: Which, name: str) -> str:
    """Record one case of one CLI; gives the outcome."""
    case, version = CASES[name], cli_version("claude", which)
    assert version
    with tempfile.TemporaryDirectory(prefix="record") as made:
        folder = Path(made).resolve()
        for path in ("repo", "beside"):
            (folder / path).mkdir()
        for path in ("a.txt", "b.txt"):
            (folder / "repo" / path).write_text("a heron\n", "utf-8")
        cli = require_cli("claude", which)
        if case.first:
            with ScriptedModel(case.first) as model:
                session = {"kind": "new", "id": SESSION}
                anyio.run(lambda: play(Case(()), cli, folder, model, **{**case.request, "session": session}))
        paths = {str(folder / "beside"): "/beside", str(folder): "/home/user", sys.executable: "/usr/bin/python3"}
        with Recorder(adapter, cli, version, trim, REDACTIONS, paths) as recorder:
            with ScriptedModel(case.turns) as model:
                told = anyio.run(lambda: play(case, recorder.program, folder, model))
            save_recording(recorder.recording(name, recorded_by="tests/record_claude.py"), RECORDINGS)
    return told


def main(words: Sequence[str]) -> None:
    """Record what the words name, or everything."""
    ends: list[Which] = [end for end in ("oldest", "newest") if end in words] or ["oldest", "newest"]
    for name in [word for word in words if word not in ends] or CASES:
        for which in ends:
            print(f"{which} {name}: {record(which, name)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
