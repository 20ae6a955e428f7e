"""The capability check: every need that is not met is found, alone and together with all the others."""

from typing import Any

import pytest

from interlock.capabilities import EVERY_KIND, Capabilities, Hole, Needs, Unmet, check
from interlock.permission import Backstop, Otherwise
from interlock.request import Request
from interlock.tools import ToolKind

NOTHING = Capabilities(agent="meek", transport="pipe", versions="1")
EVERYTHING = Capabilities(
    agent="able",
    transport="pipe",
    versions="1",
    asks=True,
    sees_before="all",
    sees_after="all",
    deny=EVERY_KIND,
    modify=EVERY_KIND,
    replace=EVERY_KIND,
    replace_failed=EVERY_KIND,
    backstops=tuple(Backstop),
    otherwise=frozenset(Otherwise),
    confines=True,
    network_switch=True,
    new_session_id=True,
    resume=True,
    fork=True,
    images=True,
    mcp_servers=frozenset({"stdio", "http", "sse"}),
    output_schema=True,
    plan_mode=True,
    efforts=("low", "high"),
    instructions=True,
    add_dirs=True,
    max_turns=True,
    budget_usd=True,
    budget_tokens=True,
    user_config=True,
)
ALL_NEEDS = Needs(chain_before=True, chain_after=True, modify=True, replace=True, grants=True, answered=True)
IMAGE = {"media_type": "image/png", "data": "AA=="}
SERVERS = {"files": {"type": "stdio", "command": "x"}, "web": {"type": "sse", "url": "http://127.0.0.1"}}

ROWS: list[tuple[dict[str, Any], Needs, dict[str, Any], str, str]] = [
    # what is asked, what the client needs, what the transport lacks, the unmet field and value, words of the reason
    (
        {"permission": {"otherwise": "ask"}},
        Needs(answered=True),
        {"asks": False},
        "permission.otherwise=ask",
        "cannot ask",
    ),
    ({"permission": {"otherwise": "ask"}}, Needs(), {}, "permission.otherwise=ask", "nobody is there to answer"),
    (
        {"permission": {"otherwise": "agent"}},
        Needs(),
        {"otherwise": frozenset({Otherwise.DENY})},
        "permission.otherwise=agent",
        "nothing that could decide",
    ),
    ({"permission": {"otherwise": "chain"}}, Needs(), {}, "permission.otherwise=chain", "no participant"),
    (
        {"permission": {"backstop": "sandbox"}},
        Needs(),
        {"backstops": (Backstop.GATE, Backstop.NONE)},
        "permission.backstop=sandbox",
        "offers gate, none",
    ),
    (
        {"permission": {"backstop": "gate", "otherwise": "agent"}},
        Needs(),
        {},
        "permission.backstop=gate",
        "would decide nothing",
    ),
    ({"permission": {"network": False}}, Needs(), {"network_switch": False}, "permission.network=False", "no sandbox"),
    ({"permission": {"writable": ["/x"]}}, Needs(), {"confines": False}, "permission.writable=('/x',)", "no sandbox"),
    ({}, Needs(chain_before=True), {"sees_before": "asked"}, "hooks=pre_tool_use", "does not show every call"),
    ({}, Needs(chain_before=True), {"deny": EVERY_KIND - {ToolKind.MCP}}, "hooks=deny", "cannot stop a call of: mcp"),
    ({}, Needs(chain_after=True), {"sees_after": "none"}, "hooks=post_tool_use", "does not show every output"),
    (
        {},
        Needs(modify=True),
        {"modify": EVERY_KIND - {ToolKind.SHELL, ToolKind.MCP}},
        "hooks=modify",
        "changed input of: mcp, shell",
    ),
    (
        {},
        Needs(replace=True),
        {"holes": (Hole(what="logs"), Hole(what="files", closed_by="a flag"), Hole(what="calls", after=False))},
        "hooks=replace",
        "nobody is asked about: logs",
    ),
    (
        {"limits": {"unreplaceable": "refuse"}},
        Needs(replace=True),
        {"replace": EVERY_KIND - {ToolKind.READ}},
        "limits.unreplaceable=refuse",
        "the output of: read",
    ),
    (
        {"limits": {"unreplaceable": "refuse"}},
        Needs(replace=True),
        {"replace_failed": EVERY_KIND - {ToolKind.READ}},
        "limits.unreplaceable=refuse",
        "failed calls of: read",
    ),
    ({"session": {"kind": "new", "id": "x"}}, Needs(), {"new_session_id": False}, "session.id=x", "session id"),
    (
        {"session": {"kind": "fork", "id": "x", "new_id": "y"}},
        Needs(),
        {"new_session_id": False},
        "session.id=y",
        "session id",
    ),
    ({"session": {"kind": "resume", "id": "x"}}, Needs(), {"resume": False}, "session=resume", "cannot resume"),
    ({"session": {"kind": "fork", "id": "x"}}, Needs(), {"fork": False}, "session=fork", "cannot fork"),
    ({"images": [IMAGE]}, Needs(), {"images": False}, "images=1", "takes no images"),
    ({"output_schema": {}}, Needs(), {"output_schema": False}, "output_schema=...", "takes no output schema"),
    ({"mode": "plan"}, Needs(), {"plan_mode": False}, "mode=plan", "has no plan mode"),
    ({"instructions": "secret"}, Needs(), {"instructions": False}, "instructions=...", "takes no instructions"),
    ({"add_dirs": ["/x"]}, Needs(), {"add_dirs": False}, "add_dirs=('/x',)", "no further directories"),
    ({"limits": {"max_turns": 3}}, Needs(), {"max_turns": False}, "limits.max_turns=3", "cannot count turns"),
    ({"limits": {"budget_usd": 0.5}}, Needs(), {"budget_usd": False}, "limits.budget_usd=0.5", "reports no cost"),
    ({"limits": {"budget_tokens": 9}}, Needs(), {"budget_tokens": False}, "limits.budget_tokens=9", "no such bound"),
    ({"user_config": True}, Needs(), {"user_config": False}, "user_config=True", "cannot load"),
    ({"effort": "max"}, Needs(), {}, "effort=max", "does not know this effort"),
    (
        {"mcp_servers": SERVERS},
        Needs(),
        {"mcp_servers": frozenset({"stdio"})},
        "mcp_servers.web=sse",
        "takes no MCP servers of this type",
    ),
]


def request(fields: dict[str, Any]) -> Request:
    return Request.model_validate({"agent": "x", "prompt": "p", **fields})


@pytest.mark.parametrize(("asked", "needs", "lacks", "place", "words"), ROWS)
def test_what_is_lacking_is_named(
    asked: dict[str, Any], needs: Needs, lacks: dict[str, Any], place: str, words: str
) -> None:
    unmet = check(request(asked), needs, EVERYTHING.model_copy(update=lacks))
    assert [f"{item.field}={item.value}" for item in unmet] == [place]
    assert words in unmet[0].reason
    assert unmet[0].alternatives


@pytest.mark.parametrize(("asked", "needs"), [row[:2] for row in ROWS if row[2]])
def test_what_is_offered_is_not_named(asked: dict[str, Any], needs: Needs) -> None:
    assert check(request(asked), needs, EVERYTHING) == ()


def test_a_plain_request_needs_nothing() -> None:
    assert check(request({}), Needs(), NOTHING) == ()


def test_everything_that_is_unmet_is_named_at_once() -> None:
    asked = {
        "permission": {"otherwise": "ask", "backstop": "gate", "network": True, "writable": ["/x"]},
        "limits": {"unreplaceable": "refuse", "max_turns": 1, "budget_usd": 1, "budget_tokens": 1},
        "session": {"kind": "fork", "id": "x", "new_id": "y"},
        "images": [IMAGE],
        "output_schema": {},
        "mode": "plan",
        "instructions": "i",
        "add_dirs": ["/x"],
        "user_config": True,
        "effort": "low",
        "mcp_servers": SERVERS,
    }
    needs = Needs(chain_before=True, chain_after=True, modify=True, replace=True)
    blind = NOTHING.model_copy(update={"holes": (Hole(what="logs"),)})
    named = [(item.field, item.value) for item in check(request(asked), needs, blind)]
    assert named == [
        ("permission.otherwise", "ask"),
        ("permission.otherwise", "ask"),
        ("permission.backstop", "gate"),
        ("permission.network", "True"),
        ("permission.writable", "('/x',)"),
        ("hooks", "pre_tool_use"),
        ("hooks", "post_tool_use"),
        ("hooks", "deny"),
        ("hooks", "modify"),
        ("hooks", "replace"),
        ("limits.unreplaceable", "refuse"),
        ("limits.unreplaceable", "refuse"),
        ("session.id", "y"),
        ("session", "fork"),
        ("images", "1"),
        ("output_schema", "..."),
        ("mode", "plan"),
        ("instructions", "..."),
        ("add_dirs", "('/x',)"),
        ("limits.max_turns", "1"),
        ("limits.budget_usd", "1.0"),
        ("limits.budget_tokens", "1"),
        ("user_config", "True"),
        ("effort", "low"),
        ("mcp_servers.files", "stdio"),
        ("mcp_servers.web", "sse"),
    ]
    assert check(request(asked), ALL_NEEDS, EVERYTHING) == ()


def test_no_prompt_and_no_instructions_stand_in_what_is_unmet() -> None:
    unmet = check(request({"instructions": "the secret word"}), Needs(), NOTHING)
    assert "secret" not in "".join(item.describe() for item in unmet)


def test_an_unmet_need_says_in_one_line_what_would_work_instead() -> None:
    assert (
        Unmet(field="effort", value="max", reason="not known", alternatives=("effort=low", "leave it out")).describe()
        == "effort=max: not known (effort=low; or leave it out)"
    )
    assert Unmet(field="effort", value="max", reason="not known").describe() == "effort=max: not known"
