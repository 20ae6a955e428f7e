"""The codec of an agent at its own screen, in the words of each agent's hooks."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from interlock.actions import (
    Action,
    Consult,
    Defer,
    Emit,
    Keep,
    Key,
    Proceed,
    Ready,
    Refuse,
    Reply,
    RunDone,
    Suspicion,
    Withdraw,
)
from interlock.attached import AttachedCodec, Dialect
from interlock.events import Notice
from interlock.model import JsonValue
from interlock_adapters.claude import attach as claude
from interlock_adapters.codex import attach as codex
from interlock_adapters.copilot import attach as copilot


@dataclass(frozen=True)
class Words:
    """How one agent calls its hooks about a command."""

    name: str
    dialect: type[Any]
    before: str
    after: str
    permission: str | None
    has_ids: bool = True

    def codec(self) -> AttachedCodec:
        made: Dialect = self.dialect(trusted=False) if self.name == "copilot" else self.dialect()
        return AttachedCodec(made)

    def body(self, event: str, call: str, native: Any, tool: str | None = None) -> bytes:
        tool = tool or ("bash" if self.name == "copilot" else "Bash")
        said: dict[str, Any]
        match self.name:
            case "claude":
                said = {"hook_event_name": event, "cwd": "/w", "tool_name": tool, "tool_input": native}
                said |= {"tool_use_id": call} if event != self.permission else {}
            case "copilot":
                said = {"sessionId": "s", "cwd": "/w", "toolName": tool}
                said |= {"toolInput": native} if event == self.permission else {"toolArgs": native}
            case _:
                called = {"event": event, "session": "s", "cwd": "/w", "id": call, "name": tool, "input": native}
                said = {"name": event, "arguments": called, "_meta": {"threadId": "main"}}
        return json.dumps(said).encode()

    def channel(self, event: str) -> str:
        return "hooks" if self.name == "codex" else event


CLAUDE = Words("claude", claude.Dialect, "PreToolUse", "PostToolUse", "PermissionRequest")
COPILOT = Words("copilot", copilot.Dialect, "before", "after", "permission", has_ids=False)
CODEX = Words("codex", codex.Dialect, "before", "after", None)
ALL = [pytest.param(one, id=one.name) for one in (CLAUDE, COPILOT, CODEX)]
ASKING = [pytest.param(one, id=one.name) for one in (CLAUDE, COPILOT)]
LS: JsonValue = {"command": "ls"}
RM: JsonValue = {"command": "rm x"}


class Talk:
    """One codec, and the agent that calls it."""

    def __init__(self, words: Words) -> None:
        self.words, self.codec, self.count = words, words.codec(), 0

    def call(self, event: str | None, call: str, native: Any, tool: str | None = None) -> Sequence[Action]:
        assert event is not None
        self.count += 1
        body = self.words.body(event, call, native, tool)
        return self.codec.called(self.words.channel(event), f"r{self.count}", body)

    def before(self, call: str, native: Any, tool: str | None = None) -> Key:
        (asked,) = self.call(self.words.before, call, native, tool)
        assert isinstance(asked, Consult)
        assert (asked.stage, asked.call.input, asked.call.cwd) == ("before", native, "/w")
        return asked.key

    def said(self, actions: Sequence[Action]) -> bytes:
        """The one answer among the actions."""
        (reply,) = (action for action in actions if isinstance(action, Reply))
        return reply.data

    def permission(self, native: Any, tool: str | None = None) -> bytes:
        return self.said(self.call(self.words.permission, "", native, tool))


def suspicions(actions: Sequence[Action]) -> list[str]:
    return [action.kind for action in actions if isinstance(action, Suspicion)]


@pytest.mark.parametrize("words", ALL)
def test_what_is_refused_is_denied_with_the_reason_and_a_blank_one_is_none(words: Words) -> None:
    talk = Talk(words)
    first, second = talk.before("t1", RM), talk.before("t2", RM)
    assert b"not that" in talk.said(talk.codec.decided(first, "before", Refuse("not that")))
    blank = talk.said(talk.codec.decided(second, "before", Refuse(" ")))
    assert b"the answer about this call could not be given" in blank
    assert talk.codec.decided(first, "before", Proceed(RM)) == ()


@pytest.mark.parametrize("words", ALL)
def test_a_call_that_may_run_and_has_run_is_no_suspicion_one_that_was_denied_is(words: Words) -> None:
    talk = Talk(words)
    allowed, denied = talk.before("t1", LS), talk.before("t2", RM)
    talk.codec.decided(allowed, "before", Proceed(LS))
    talk.codec.decided(denied, "before", Refuse("no"))
    ran: JsonValue = {"command": "exec </dev/null\neval ls"} if words.name == "codex" else LS
    assert suspicions(talk.call(words.after, "t1", ran)) == []
    assert suspicions(talk.call(words.after, "t2", RM)) == ["ran_after_deny"]
    assert suspicions(talk.call(words.after, "t3", {"command": "other"})) == ["no_decision"]


@pytest.mark.parametrize("words", ALL)
def test_a_call_that_ran_while_it_was_not_decided_is_a_suspicion(words: Words) -> None:
    talk = Talk(words)
    talk.before("t1", LS)
    assert suspicions(talk.call(words.after, "t1", LS)) == ["ran_after_deny"]


@pytest.mark.parametrize("words", ALL)
def test_a_rewrite_is_what_the_agent_is_told_and_one_that_it_cannot_be_told_is_a_denial(words: Words) -> None:
    talk = Talk(words)
    first, second = talk.before("t1", RM), talk.before("t2", RM)
    assert b"touch two" in talk.said(talk.codec.decided(first, "before", Proceed({"command": "touch two"}, True)))
    actions = talk.codec.decided(second, "before", Proceed("a text", True))
    assert talk.said(actions) == talk.codec.dialect.refusals[words.channel(words.before)]
    assert [type(action) for action in actions] == [Emit, Reply]


@pytest.mark.parametrize("words", ALL)
def test_a_verdict_that_is_none_before_a_call_is_a_denial(words: Words) -> None:
    talk = Talk(words)
    key = talk.before("t1", LS)
    refusal = talk.codec.dialect.refusals[words.channel(words.before)]
    assert talk.said(talk.codec.decided(key, "before", Keep())) == refusal


@pytest.mark.parametrize("words", ASKING)
def test_a_permission_is_granted_for_what_may_run_and_for_nothing_else(words: Words) -> None:
    talk = Talk(words)
    talk.codec.decided(talk.before("t1", LS), "before", Proceed(LS))
    talk.codec.decided(talk.before("t2", RM), "before", Defer(RM))
    assert talk.permission(LS) == talk.codec.dialect.grant
    assert talk.permission(RM) == b"{}"
    assert talk.permission({"command": "other"}) == b"{}"


@pytest.mark.parametrize("words", ASKING)
def test_after_a_rewrite_the_new_input_alone_is_granted(words: Words) -> None:
    talk = Talk(words)
    talk.codec.decided(talk.before("t1", RM), "before", Proceed(LS, True))
    assert talk.permission(LS) == talk.codec.dialect.grant
    assert talk.permission(RM) == b"{}"


@pytest.mark.parametrize("words", ASKING)
def test_of_two_calls_alike_of_which_one_is_the_persons_none_is_granted(words: Words) -> None:
    talk = Talk(words)
    talk.codec.decided(talk.before("t1", LS), "before", Proceed(LS))
    talk.codec.decided(talk.before("t2", LS), "before", Defer(LS))
    assert talk.permission(LS) == b"{}"


@pytest.mark.parametrize("words", ASKING)
def test_a_permission_for_what_was_never_shown_or_was_denied_is_refused_and_a_suspicion(words: Words) -> None:
    talk = Talk(words)
    talk.codec.decided(talk.before("t1", RM), "before", Refuse("no"))
    actions = talk.call(words.permission, "", RM)
    assert talk.said(actions) == talk.codec.dialect.refusals[words.channel(words.permission or "")]
    assert suspicions(actions) == ["no_decision"]


def test_copilot_asks_for_a_path_so_every_change_that_could_be_meant_must_be_allowed() -> None:
    talk = Talk(COPILOT)
    edit: JsonValue = {"path": "/w/a", "old_str": "x", "new_str": "y"}
    talk.codec.decided(talk.before("t1", edit, "edit"), "before", Proceed(edit))
    assert talk.permission({"file_path": "/w/a"}, "edit") == talk.codec.dialect.grant
    talk.codec.decided(talk.before("t2", {"path": "/w/b"}, "create"), "before", Defer({"path": "/w/b"}))
    assert talk.permission({"file_path": "/w/a"}, "edit") == b"{}"


def test_copilot_is_not_let_start_a_sub_agent_that_the_workspace_could_define() -> None:
    talk = Talk(COPILOT)
    native: JsonValue = {"agent_type": "explore", "prompt": "x"}
    said = talk.said(talk.codec.decided(talk.before("t1", native, "task"), "before", Proceed(native)))
    assert json.loads(said)["permissionDecision"] == "deny"


def test_codex_runs_every_command_without_input_and_where_it_was_judged() -> None:
    talk = Talk(CODEX)
    said = json.loads(talk.said(talk.codec.decided(talk.before("t1", LS), "before", Proceed(LS))))
    command = said["hookSpecificOutput"]["updatedInput"]["command"]
    assert command.startswith("exec </dev/null\n")
    assert "/w" in command


@pytest.mark.parametrize("words", [pytest.param(one, id=one.name) for one in (CLAUDE, CODEX)])
def test_a_second_hook_before_one_call_is_refused_and_a_suspicion(words: Words) -> None:
    talk = Talk(words)
    talk.codec.decided(talk.before("t1", LS), "before", Proceed(LS))
    actions = talk.call(words.before, "t1", LS)
    assert talk.said(actions) == talk.codec.dialect.refusals[words.channel(words.before)]
    assert suspicions(actions) == ["second_consult"]


@pytest.mark.parametrize("words", ALL)
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"name": 1}', b"\xff", b'{"name":"other","arguments":{"event":"x","session":"s"}}']
)
def test_what_cannot_be_read_is_refused_and_a_suspicion(words: Words, body: bytes) -> None:
    codec, channel = words.codec(), words.channel(words.before)
    actions = codec.called(channel, "r1", body)
    assert actions[0] == Reply(channel, "r1", codec.dialect.refusals[channel])
    assert suspicions(actions) == ["not_confirmed"]


@pytest.mark.parametrize("words", ALL)
def test_an_agent_that_no_longer_waits_is_not_answered(words: Words) -> None:
    talk = Talk(words)
    key = talk.before("t1", LS)
    assert talk.codec.hung_up(words.channel(words.before), "r1") == (Withdraw(key, "before"),)
    assert talk.codec.decided(key, "before", Proceed(LS)) == ()
    assert talk.codec.hung_up(words.channel(words.before), "r1") == ()


@pytest.mark.parametrize("words", ALL)
def test_it_is_ready_at_once_and_its_end_says_whether_a_hook_was_ever_heard(words: Words) -> None:
    talk = Talk(words)
    assert talk.codec.start() == (Ready(),)
    silent = words.codec().exited(0, None, {})
    assert [type(action) for action in silent] == [Emit, RunDone]
    assert isinstance(silent[0], Emit)
    assert isinstance(silent[0].events[0], Notice)
    talk.before("t1", LS)
    assert [type(action) for action in talk.codec.exited(0, None, {})] == [RunDone]
    assert talk.codec.exited(0, None, {}) == ()
