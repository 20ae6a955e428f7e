"""Record the conversations under fixtures/recordings/claude anew, from the pinned CLIs: run this file by hand.

Ids, paths and times are made the same every time; what the CLI says in words of its own is cut.
"""

import importlib.util
import itertools
import json
import re
import sys
import tempfile
from pathlib import Path

from interlock_fixtures.clis import cli_version, require_cli
from interlock_fixtures.scripted_model import HttpError, ScriptedModel, Text, Thinking, ToolCall, Turn

_SPEC = importlib.util.spec_from_file_location("claude_driving", Path(__file__).with_name("conftest.py"))
driving = importlib.util.module_from_spec(_SPEC)
sys.modules["claude_driving"] = driving
_SPEC.loader.exec_module(driving)

DONE = Turn(Text("done"))
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


def bash(command, call_id="t1"):
    return ToolCall("Bash", {"command": command}, id=call_id)


AGENT = ToolCall("Agent", {"description": "d", "prompt": "p", "subagent_type": "general-purpose"}, id="t1")
CASES = {
    "text": ([Turn(Thinking("hm well", chunk=3), Text("an answer \u2028 in pieces", chunk=4))], [], {}),
    "allow": ([Turn(bash("touch made; echo hi")), DONE], [], {}),
    "deny": ([Turn(bash("touch made")), DONE], [{"stage": "before", "refuse": "out of bounds"}], {}),
    "deny-second-gate": ([Turn(bash("touch made")), DONE], [{"stage": "confirm", "refuse": "gate"}], {}),
    "deny-and-stop": (
        [Turn(bash("touch made")), DONE],
        [{"stage": "before", "refuse": "enough", "interrupt": True}],
        {},
    ),
    "modify": ([Turn(bash("touch made")), DONE], [{"stage": "before", "modify": {"command": "touch other"}}], {}),
    "replace": ([Turn(bash("echo secret")), DONE], [{"stage": "after", "replace": "[redacted]"}], {}),
    "withhold": ([Turn(bash("echo secret; exit 3")), DONE], [{"stage": "after", "replace": "[redacted]"}], {}),
    "fail": ([Turn(bash("exit 3")), DONE], [], {}),
    "parallel": (
        [Turn(bash("echo 1"), bash("echo 2", "t2")), DONE],
        [{"stage": "before", "call": "t2", "refuse": "no"}],
        {},
    ),
    "write": ([Turn(ToolCall("Write", {"file_path": "made", "content": "x"}, id="t1")), DONE], [], {}),
    "sub-agent": ([Turn(AGENT), Turn(bash("touch made", "t2")), Turn(Text("inner")), DONE], [], {}),
    "question": (
        [Turn(ToolCall("AskUserQuestion", QUESTION, id="t1")), DONE],
        [{"stage": "ask", "answers": {"1": ["B"]}}],
        {},
    ),
    "retry": ([Turn(HttpError(429, "rate_limit_error", headers={"retry-after": "0"})), DONE], [], {}),
    "bad-request": ([Turn(HttpError(400, "invalid_request_error", "bad"))] * 9, [], {}),
    "max-turns": ([Turn(bash("true")), Turn(bash("true", "t2")), DONE], [], {"limits": {"max_turns": 1}}),
}  # fmt: skip

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NUMBERS = re.compile(r'"(\w+_ms|total_cost_usd|costUSD|\w*end_time|pid|retry_delay_ms)":-?[0-9.e-]+')
KEPT_INIT = {
    "type",
    "subtype",
    "cwd",
    "session_id",
    "tools",
    "mcp_servers",
    "model",
    "permissionMode",
    "claude_code_version",
}
KEPT_REPLY = {"claude_code_version", "hooks_applied", "hook_on_failure_supported", "current_permission_mode"}


class Cleaner:
    """Takes out of one conversation what is different every time, what is private, and what is not ours to copy."""

    def __init__(self, folder):
        self.folder, self.ids = folder, {}

    def number(self, match):
        return self.ids.setdefault(match[0], f"00000000-0000-4000-8000-{len(self.ids) + 1:012}")

    def clean(self, data):
        text = data.decode().replace(f"{self.folder}/repo", "/repo").replace(str(self.folder), "/home/user")
        text = text.replace(re.sub(r"[^a-zA-Z0-9]", "-", str(self.folder)), "-home-user")
        text = UUID.sub(self.number, text)
        text = re.sub(r"\ba[0-9a-f]{16}\b", "a0000000000000001", text)
        text = re.sub(r"msg_[0-9a-f]+_", "msg_", text)
        text = re.sub(r'"timestamp":"[^"]*"', '"timestamp":"2026-01-01T00:00:00.000Z"', text)
        text = NUMBERS.sub(r'"\1":1', text)
        return "".join(
            json.dumps(trim(json.loads(line)), separators=(",", ":"), ensure_ascii=False) + "\n"
            for line in text.split("\n")
            if line
        )


def trim(line):
    match line:
        case {"type": "control_response", "response": {"response": {"commands": _} as body}}:
            line["response"]["response"] = {key: value for key, value in body.items() if key in KEPT_REPLY}
        case {"type": "control_response", "response": {"response": {"sources": _} as body}}:
            line["response"]["response"] = {"sources": body["sources"]}
        case {"type": "system", "subtype": "init"}:
            return {key: value for key, value in line.items() if key in KEPT_INIT}
        case {"type": "user", "message": {"content": [{"type": "tool_result", "content": str(text)} as block]}} if (
            "want to proceed" in text
        ):
            block["content"] = line["tool_use_result"] = "(rejected)"
        case {"type": "user", "message": {"content": [{"type": "tool_result", "content": [*blocks]}]}}:
            framed = any("agentId:" in block.get("text", "") for block in blocks)
            line["message"]["content"][0]["content"] = [{"type": "text", "text": "(frame) inner"}] if framed else blocks
        case {"type": "result", "errors": [*_]} if line.get("subtype") == "error_during_execution":
            line["errors"] = ["(diagnostic)"]
    return line


def record(which, name):
    script, verdicts, request = CASES[name]
    folder = Path(tempfile.mkdtemp(prefix="recording"))
    driver = driving.Driver(folder, str(require_cli("claude", which)), which)
    with ScriptedModel(script) as model:
        talk = driver.run(model, driver.request(**request), driving.as_scripted(verdicts))
    target, cleaner = driving.RECORDINGS / cli_version("claude", which) / name, Cleaner(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / "stdout.jsonl").write_text(cleaner.clean(talk.received), "utf-8")
    (target / "stdin.jsonl").write_text(cleaner.clean(talk.sent), "utf-8")
    told = {"code": talk.code, "request": request, "verdicts": verdicts}
    (target / "exit.json").write_text(json.dumps(told, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    for which, name in itertools.product(("oldest", "newest"), sys.argv[1:] or CASES):
        record(which, name)
