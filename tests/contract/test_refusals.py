"""Bad values are refused where they are written, and the error names the field."""

from typing import Any

import pytest
from pydantic import ValidationError

from interlock.approval import Answer, Approve, Deny, Question, decision_adapter
from interlock.events import event_adapter
from interlock.hooks import (
    Allow,
    DenyCall,
    HookCall,
    HookOutcome,
    HooksFile,
    HookSpec,
    Modify,
    Replace,
    outcome_adapter,
)
from interlock.model import Model
from interlock.outcome import Outcome, Usage
from interlock.permission import Permission, rule_parts
from interlock.request import Limits, Request

REQUEST = {"agent": "claude", "prompt": "p"}
SPEC = {"name": "guard", "command": ["/opt/guard"]}
CALL = {
    "event": "pre_tool_use", "workspace": "/w", "agent_id": "main", "tool_call_id": "1", "tool_name": "Bash",
    "input": {},
    "agent": "claude", "run_id": "r", "cwd": "/w", "tool_kind": "shell", "subject": {},
}  # fmt: skip

BAD: list[tuple[type[Model], dict[str, Any], str]] = [
    (Request, {**REQUEST, "agent": ""}, "agent"),
    (Request, {"agent": "claude"}, "prompt"),
    (Request, {**REQUEST, "prompt": ""}, "prompt"),
    (Request, {**REQUEST, "prompt": " \n"}, "prompt"),
    (Request, {**REQUEST, "cwd": ""}, "cwd"),
    (Request, {**REQUEST, "cwd": "a\0b"}, "cwd"),
    (Request, {**REQUEST, "model": ""}, "model"),
    (Request, {**REQUEST, "instructions": "a\0"}, "instructions"),
    (Request, {**REQUEST, "mode": "yolo"}, "mode"),
    (Request, {**REQUEST, "prompts": "p"}, "prompts"),
    (Request, {**REQUEST, "session": {"kind": "resume"}}, "session.resume.id"),
    (Request, {**REQUEST, "session": {"kind": "reopen"}}, "session"),
    (Request, {**REQUEST, "session": {"kind": "new", "of": "x"}}, "session.new.of"),
    (Request, {**REQUEST, "add_dirs": "/w"}, "add_dirs"),
    (Request, {**REQUEST, "add_dirs": ["/w", ""]}, "add_dirs.1"),
    (Request, {**REQUEST, "images": [{"media_type": "image/tiff", "data": "AA=="}]}, "images.0.media_type"),
    (Request, {**REQUEST, "env": {"A": 1}}, "env.A"),
    (Request, {**REQUEST, "env": {"A=B": "1"}}, "env"),
    (Request, {**REQUEST, "env": {"": "1"}}, "env"),
    (Request, {**REQUEST, "env": {"A": "\0"}}, "env"),
    (Request, {**REQUEST, "env_policy": "everything"}, "env_policy"),
    (Request, {**REQUEST, "login": ""}, "login"),
    (Request, {**REQUEST, "mcp_servers": {"s": {"type": "stdio"}}}, "mcp_servers.s.stdio.command"),
    (Request, {**REQUEST, "mcp_servers": {"s": {"type": "carrier"}}}, "mcp_servers.s"),
    (Request, {**REQUEST, "output_schema": "string"}, "output_schema"),
    (Request, {**REQUEST, "limits": {"total": 0}}, "limits.total"),
    (Request, {**REQUEST, "hooks": [{"name": "x", "command": []}]}, "hooks.0.command"),
    (Request, {**REQUEST, "user_config": None}, "user_config"),
    (Request, {**REQUEST, "extra_args": ["--x", "a\0"]}, "extra_args.1"),
    (Request, {**REQUEST, "extra_args": "--x"}, "extra_args"),
    (Request, {**REQUEST, "permission": {"posture": "write"}}, "permission.posture"),
    (Limits, {"idle": -1}, "idle"),
    (Limits, {"start_up": "nan"}, "start_up"),
    (Limits, {"approval": 1e9}, "approval"),
    (Limits, {"chain": None}, "chain"),
    (Limits, {"max_turns": 0}, "max_turns"),
    (Limits, {"max_turns": 1.5}, "max_turns"),
    (Limits, {"budget_usd": 0}, "budget_usd"),
    (Limits, {"budget_tokens": -5}, "budget_tokens"),
    (Limits, {"unreplaceable": "show"}, "unreplaceable"),
    (Permission, {"allow": "shell"}, "allow"),
    (Permission, {"allow": ["shell", "Bash"]}, "allow.1"),
    (Permission, {"allow": ["shell(git status"]}, "allow.0"),
    (Permission, {"allow": ["shell()"]}, "allow.0"),
    (Permission, {"allow": ["shell( )"]}, "allow.0"),
    (Permission, {"allow": ["*(x)"]}, "allow.0"),
    (Permission, {"allow": ["shell(a\nb)"]}, "allow.0"),
    (Permission, {"deny": [""]}, "deny.0"),
    (Permission, {"deny": ["Shell"]}, "deny.0"),
    (Permission, {"deny": ["shell\n"]}, "deny.0"),
    (Permission, {"otherwise": "allow"}, "otherwise"),
    (Permission, {"backstop": "wall"}, "backstop"),
    (Permission, {"network": "lan"}, "network"),
    (Permission, {"writable": [""]}, "writable.0"),
    (HookSpec, {**SPEC, "name": ""}, "name"),
    (HookSpec, {**SPEC, "command": "/opt/guard --x"}, "command"),
    (HookSpec, {**SPEC, "command": [""]}, "command.0"),
    (HookSpec, {**SPEC, "events": []}, "events"),
    (HookSpec, {**SPEC, "events": ["PreToolUse"]}, "events.0"),
    (HookSpec, {**SPEC, "may": ["veto"]}, "may.0"),
    (HookSpec, {**SPEC, "may": []}, ""),
    (HookSpec, {**SPEC, "timeout": 0}, "timeout"),
    (HookSpec, {**SPEC, "on_failure": "ignore"}, "on_failure"),
    (HooksFile, {"hooks": []}, "schema"),
    (HooksFile, {"schema": 2, "hooks": []}, "schema"),
    (HooksFile, {"schema": 1, "hooks": [{**SPEC, "matcher": "x"}]}, "hooks.0.matcher"),
    (HookCall, {**CALL, "event": "stop"}, "event"),
    (HookCall, {**CALL, "hook_schema": 2}, "hook_schema"),
    (HookCall, {**CALL, "tool_kind": "Bash"}, "tool_kind"),
    (Approve, {"remember": "Bash(ls)"}, "remember"),
    (Approve, {"updated_input": "ls"}, "updated_input"),
    (Approve, {"decision": "deny"}, "decision"),
    (Deny, {"interrupt": "perhaps"}, "interrupt"),
    (Question, {"id": "q", "run_id": "r", "agent": "a", "items": []}, "items"),
    (Answer, {"answers": {"q": "yes"}}, "answers.q"),
    (Usage, {"input_tokens": -1}, "input_tokens"),
    (Outcome, {"run_id": "r", "agent": "a", "status": "done"}, "status"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fields", "place"), BAD)
def test_a_bad_value_is_refused_and_its_field_named(kind: type[Model], fields: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as refused:
        kind.model_validate(fields)
    places = [".".join(map(str, error["loc"])) for error in refused.value.errors()]
    assert places[0] == place
    assert {named.partition(".")[0] for named in places} == {place.partition(".")[0]}


def test_every_bad_field_is_named_at_once() -> None:
    with pytest.raises(ValidationError) as refused:
        Request.model_validate({"prompt": "", "mode": "x", "permission": {"allow": ["Bash"], "posture": "y"}})
    places = {".".join(map(str, error["loc"])) for error in refused.value.errors()}
    assert places == {"agent", "prompt", "mode", "permission.posture", "permission.allow.0"}


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        ("*", ("*", None)),
        ("shell", ("shell", None)),
        ("shell(git push:*)", ("shell", "git push:*")),
        ("shell(echo (a))", ("shell", "echo (a)")),
        ("write(src/**)", ("write", "src/**")),
        ("mcp(github/*)", ("mcp", "github/*")),
        ("shell_input", ("shell_input", None)),
    ],
)
def test_a_rule_is_a_kind_and_a_pattern(rule: str, parts: tuple[str, str | None]) -> None:
    assert Permission(allow=(rule,)).allow == (rule,)
    assert rule_parts(rule) == parts


def test_a_rule_that_names_no_kind_is_told_the_kinds() -> None:
    with pytest.raises(ValidationError, match=r"'bash' is no kind of tool; kinds: shell, .*unknown"):
        Permission(deny=("bash(rm:*)",))


@pytest.mark.parametrize(
    "text", ['{"decision":"maybe"}', "{}", "[]", '"approve"', '{"decision":"approve","why":"x"}', "", "nul"]
)
def test_what_is_no_decision_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        decision_adapter().validate_json(text)


def test_a_decision_is_tagged_json() -> None:
    assert decision_adapter().validate_json('{"decision":"approve"}') == Approve()
    assert decision_adapter().validate_json('{"decision":"deny","reason":"no"}') == Deny(reason="no")


@pytest.mark.parametrize(
    "text",
    [
        '{"decision":"approve"}',
        '{"decision":"deny"}',
        '{"decision":"deny","reason":null}',
        '{"decision":"modify"}',
        '{"decision":"replace"}',
        '{"reason":"no"}',
        '{"decision":"replace","output":1,"is_error":"yes"}',
        '{"decision":"replace","output":1,"is_error":0}',
        '{"decision":"allow","reason":1}',
    ],
)
def test_what_is_no_outcome_of_a_hook_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        outcome_adapter().validate_json(text)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('{"decision":"allow","seen":true}', Allow()),
        ('{"why":"x","decision":"deny","reason":"no"}', DenyCall(reason="no")),
        ('{"decision":"modify","input":{"a":1},"output":2}', Modify(input={"a": 1})),
        ('{"decision":"replace","output":null,"input":3}', Replace(output=None)),
    ],
)
def test_fields_that_an_outcome_does_not_have_are_ignored(text: str, outcome: HookOutcome) -> None:
    assert outcome_adapter().validate_json(text) == outcome


def test_an_event_without_a_known_type_is_refused() -> None:
    with pytest.raises(ValidationError):
        event_adapter().validate_json('{"type":"something_new"}')
