"""What a request says is taken as it stands: no template of any adapter holds a text of the request."""

import pytest

from interlock.adapter import Host, Order
from interlock.capabilities import Needs
from interlock.engine.registry import find_adapter
from interlock.permission import Backstop
from interlock.request import Request

SAID = "{home} {state} {endpoint:before} {token:before}"
WAYS = [
    ("claude", "stream-json"),
    ("codex", "exec"),
    ("codex", "app-server"),
    ("copilot", "prompt"),
    ("copilot", "server"),
    ("terminal:aider", "pty"),
]


def an_order(agent: str) -> Order:
    """A request that says it in every field which takes a text."""
    binary = "/usr/bin/agent"
    host = Host(home="/home/u", environ={}, binary=binary, binary_folder="/usr/bin", platform="linux", root=False)
    server = {"type": "stdio", "command": "run", "args": [SAID], "env": {"KEY": SAID}}
    request = Request.model_validate(
        {
            "agent": agent,
            "prompt": SAID,
            "cwd": f"/repo/{SAID}",
            "add_dirs": [f"/more/{SAID}"],
            "instructions": SAID,
            "model": SAID,
            "env": {"SAID": SAID},
            "extra_args": [SAID],
            "mcp_servers": {"birds": server},
            "output_schema": {"type": "object", "description": SAID},
        }
    )
    return Order("run-1", request, Needs(), host, Backstop.NONE, hook_timeout=60.0, hooks=True)


@pytest.mark.parametrize(("agent", "transport"), WAYS)
def test_no_template_holds_a_text_of_the_request(agent: str, transport: str) -> None:
    (chosen,) = [one for one in find_adapter(agent).transports if one.name == transport]
    launch = chosen.launch(an_order(agent))
    filled = [arg.text for arg in launch.argv if arg.template]
    filled += [file.content for file in launch.files if file.template]
    assert not any("{token:before} " in text or SAID in text for text in filled)
    whole = str(launch.argv) + str(launch.files)
    assert SAID in whole or transport == "server"


@pytest.mark.parametrize(("agent", "transport"), WAYS)
def test_placeholders_that_are_not_filled_in_stand_nowhere(agent: str, transport: str) -> None:
    (chosen,) = [one for one in find_adapter(agent).transports if one.name == transport]
    launch = chosen.launch(an_order(agent))
    literal = [arg.text for arg in launch.argv if not arg.template]
    literal += [file.content for file in launch.files if not file.template]
    assert not any(mark in text.replace(SAID, "") for text in literal for mark in ("{home}", "{state}", "{token:"))
