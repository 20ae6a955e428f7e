"""Fake agents with what they say: a folder each, which holds the program `claude` and its script."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

__all__ = ["deltas", "ending", "gate", "install", "long_line", "mix", "remove"]

SESSION = "7d0c9a52-6f0e-4b8f-9a53-2f6f1d1f6a10"
MARK = "3b6cf6f7-a93a-49b4-8856-b47edea4d597"
FAKE = Path(__file__).with_name("fake_claude.py")

Line = dict[str, object]


def install(folder: Path, output: bytes, **script: object) -> str:
    """A fake agent in a new folder; the path of its program."""
    folder.mkdir(parents=True)
    program = folder / "claude"
    program.write_text(f"#!{sys.executable} -IS\n{FAKE.read_text(encoding='utf-8')}", encoding="utf-8")
    program.chmod(0o755)
    (folder / "output").write_bytes(output)
    (folder / "ending").write_bytes(ending())
    todo = {"output": folder / "output", "ending": folder / "ending", **script}
    (folder / "script").write_text("".join(f"{key}={value}\n" for key, value in todo.items()), encoding="utf-8")
    return str(program)


def gate(folder: Path) -> Path:
    """A fifo that an agent may wait at."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gate"
    os.mkfifo(path)
    return path


def remove(folder: Path) -> None:
    """Take a folder away."""
    shutil.rmtree(folder, ignore_errors=True)


def deltas(count: int) -> bytes:
    """The start of a turn and so many pieces of text."""
    return _lines([_init(), *(_delta({"type": "text_delta", "text": f"Hello world {i}"}) for i in range(count))])


def mix(count: int) -> bytes:
    """About so many lines as a coding session has them: thinking, text, tool inputs in pieces, calls and results."""
    lines = [_init()]
    number = 0
    while len(lines) < count:
        number += 1
        lines += _round(number)
    return _lines(lines)


def long_line(size: int) -> bytes:
    """A turn whose one message is a line of about so many bytes."""
    return _lines([_init(), _assistant({"type": "text", "text": "x" * size})])


def ending() -> bytes:
    """The answer and the result."""
    result: Line = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "done",
        "num_turns": 1,
        "duration_ms": 1,
        "duration_api_ms": 1,
        "stop_reason": "end_turn",
        "terminal_reason": "completed",
        "session_id": SESSION,
        "total_cost_usd": 0.002,
        "usage": {"input_tokens": 200, "output_tokens": 40},
        "modelUsage": {},
        "permission_denials": [],
    }
    return _lines([_assistant({"type": "text", "text": "done"}), result])


def _round(number: int) -> list[Line]:
    """One step of a session: the model thinks, says something and calls a tool, which answers."""
    call = f"toolu_{number}"
    command = {"command": f"grep -rn 'pattern {number}' src | head -20", "description": "Search the sources"}
    found = "\n".join(f"src/module_{i}.py:{i * 7}: a line that was found" for i in range(12))
    result = {"type": "tool_result", "tool_use_id": call, "content": found, "is_error": False}
    return [
        _event({"type": "message_start", "message": {"id": f"msg_{number}", "role": "assistant", "content": []}}),
        *(_delta({"type": "thinking_delta", "thinking": f"let me see {i} "}) for i in range(8)),
        *(_delta({"type": "text_delta", "text": f"I will look at part {i} "}) for i in range(24)),
        _assistant({"type": "text", "text": "I will look at the sources, part by part, and say what is there." * 4}),
        *(_delta({"type": "input_json_delta", "partial_json": f'{{"part{i}'}) for i in range(8)),
        _assistant({"type": "tool_use", "id": call, "name": "Bash", "input": command}),
        {"#call": f"{call} {json.dumps(command)}"},
        _event({"type": "content_block_stop", "index": 1}),
        _line("user", {"role": "user", "content": [result]}, tool_use_result={"stdout": found, "stderr": ""}),
    ]


def _init() -> Line:
    return {
        "type": "system",
        "subtype": "init",
        "cwd": "/repo",
        "session_id": SESSION,
        "tools": ["Bash"],
        "mcp_servers": [],
        "model": "M",
        "permissionMode": "default",
        "claude_code_version": "2.1.332",
        "slash_commands": [],
        "apiKeySource": "ANTHROPIC_API_KEY",
        "uuid": MARK,
    }


def _delta(delta: Line) -> Line:
    return _event({"type": "content_block_delta", "index": 0, "delta": delta})


def _event(event: Line) -> Line:
    return {"type": "stream_event", "event": event, "session_id": SESSION, "parent_tool_use_id": None, "uuid": MARK}


def _assistant(block: Line) -> Line:
    message = {"id": "msg_1", "role": "assistant", "model": "M", "content": [block], "stop_reason": None, "usage": {}}
    return _line("assistant", message)


def _line(kind: str, message: Line, **more: object) -> Line:
    shared = {"parent_tool_use_id": None, "session_id": SESSION, "uuid": MARK}
    return {"type": kind, "message": message, **shared, **more}


def _lines(lines: list[Line]) -> bytes:
    return b"".join(map(_spelt, lines))


def _spelt(line: Line) -> bytes:
    text = f"#call {line['#call']}" if "#call" in line else json.dumps(line, separators=(",", ":"))
    return text.encode() + b"\n"
