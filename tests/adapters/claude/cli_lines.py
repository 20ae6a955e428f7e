"""Lines as the CLI writes them, and what a codec makes of one."""

import json

from interlock.actions import Emit

SETTINGS = {"permissions": {"ask": ["*"], "disableAutoMode": "disable"}}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s"}


def line(value):
    """One line of the CLI."""
    return json.dumps(value).encode() + b"\n"


def reply(request_id, body):
    """An answer to a request of ours."""
    return line(
        {"type": "control_response", "response": {"subtype": "success", "request_id": request_id, "response": body}}
    )


def settings(*sources):
    """The answer to get_settings."""
    return reply("settings", {"sources": [{"source": name, "settings": value} for name, value in sources]})


def hook(event="PreToolUse", request_id="h1", call="t1", **more):
    """A hook request for a Bash call."""
    told = {
        "hook_event_name": event,
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": call,
        "cwd": "/repo",
    }
    request = {"subtype": "hook_callback", "callback_id": "before", "input": {**told, **more}}
    return line({"type": "control_request", "request_id": request_id, "request": request})


def given(codec, data):
    """The actions, with events apart."""
    actions = list(codec.received("stdout", data))
    events = [event for action in actions if isinstance(action, Emit) for event in action.events]
    return [action for action in actions if not isinstance(action, Emit)], events
