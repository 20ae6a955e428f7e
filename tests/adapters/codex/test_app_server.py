"""What the codec of the app-server makes of what the server says, of hooks, and of verdicts."""

import json
import shlex

import pytest

from interlock.actions import Consult, Defer, Keep, Proceed, Ready, Refuse, Reply, Send, Substitute, Wake, Withdraw
from interlock.events import Notice, Raw, TextDelta, ToolFinished, ToolRequested, UsageUpdated
from interlock.outcome import Reason, Status
from interlock_adapters.codex import hooks

DENIED = json.loads(hooks.REFUSAL)


def line(command: str) -> str:
    return shlex.join(["/bin/bash", "-lc", command])


# ---- the handshake ---------------------------------------------------------------------------------------------------


def test_the_prompt_goes_out_once_everything_is_confirmed(server):
    methods = [message.get("method") for message in server.sent()]
    wanted = [
        "initialize",
        "initialized",
        "hooks/list",
        "config/read",
        "skills/list",
        "account/read",
        "thread/start",
        "turn/start",
    ]
    assert methods == wanted
    assert len(server.of(Ready)) == 1
    assert server.of(Ready)[0].version == "0.171.0"


def test_the_token_is_said_over_stdin_and_stands_in_no_argument(server, order):
    started = next(message for message in server.sent() if message.get("method") == "thread/start")
    ours = started["params"]["config"]["mcp_servers"][hooks.SERVER]
    assert ours["http_headers"] == {"Authorization": "Bearer the-token"}
    assert ours["required"] is True


@pytest.mark.parametrize(
    "changed",
    [{"trustStatus": "untrusted"}, {"enabled": False}, {"currentHash": "sha256:0"}, {"server": "other"}],
)
def test_a_hook_that_would_not_run_stops_the_run_before_the_prompt(fresh, changed):
    server = fresh()
    server.hello()
    server.answer("hooks/list", {"data": [{"hooks": server.listed(**changed)}]})
    assert {stop.reason for stop in server.stops()} == {Reason.UNSUPPORTED}
    assert "thread/start" not in [message.get("method") for message in server.sent()]


def test_a_hook_of_somebody_else_stops_the_run(fresh):
    server = fresh()
    server.hello()
    more = {"eventName": "preToolUse", "source": "user", "trustStatus": "trusted", "enabled": True}
    server.answer("hooks/list", {"data": [{"hooks": [*server.listed(), more]}]})
    assert server.stops()


@pytest.mark.parametrize(
    "changed",
    [
        {"sandbox": {"type": "dangerFullAccess"}},
        {"sandbox": None},
        {"approvalPolicy": "never"},
        {"approvalsReviewer": "auto_review"},
        {"cwd": "/elsewhere"},
    ],
)
def test_what_is_in_force_is_compared_with_what_was_asked_for(fresh, changed):
    server = fresh()
    server.hello()
    server.hooked()
    server.answer("account/read", {"account": {}, "requiresOpenaiAuth": True})
    server.answer("thread/start", server.thread(**changed))
    server.done(server.codec.prompt("go"))
    assert server.stops()
    assert "turn/start" not in [message.get("method") for message in server.sent()]


def test_nobody_logged_in_is_known_before_the_prompt(fresh):
    server = fresh()
    server.hello()
    server.hooked()
    server.answer("account/read", {"account": None, "requiresOpenaiAuth": True})
    assert [stop.reason for stop in server.stops()] == [Reason.AUTH]


NOT_LOGGED_IN = {"account": None, "requiresOpenaiAuth": True}


@pytest.fixture
def keyed(fresh, order):
    server = fresh(order=order(environ={"OPENAI_API_KEY": "sk-48213"}))
    server.hello()
    server.hooked()
    return server


def test_a_key_is_told_once_over_stdin_and_the_login_is_read_back(keyed):
    keyed.answer("account/read", NOT_LOGGED_IN)
    told = [message["params"] for message in keyed.sent() if message.get("method") == "account/login/start"]
    assert told == [{"type": "apiKey", "apiKey": "sk-48213"}]
    keyed.answer("account/login/start", {"type": "apiKey"})
    keyed.answer("account/read", {"account": {"type": "apiKey"}, "requiresOpenaiAuth": True})
    assert keyed.sent()[-1]["method"] == "thread/start"
    assert "sk-48213" not in repr([action for action in keyed.actions if not isinstance(action, Send)])


def test_a_key_is_not_told_to_a_service_that_wants_none(keyed):
    keyed.answer("account/read", {"account": None, "requiresOpenaiAuth": False})
    assert "sk-48213" not in json.dumps(keyed.sent())
    assert keyed.sent()[-1]["method"] == "thread/start"


@pytest.mark.parametrize("answer", [{"error": "no, not sk-48213"}, {"result": {"type": "apiKey"}}])
def test_a_key_that_was_not_taken_stops_the_run_and_is_not_told_again(keyed, answer):
    keyed.answer("account/read", NOT_LOGGED_IN)
    keyed.answer("account/login/start", **answer)
    if "result" in answer:
        keyed.answer("account/read", NOT_LOGGED_IN)
    (stop,) = keyed.stops()
    assert stop.reason is Reason.AUTH
    assert "sk-48213" not in stop.message
    assert [message.get("method") for message in keyed.sent()].count("account/login/start") == 1


def test_every_skill_that_is_found_is_switched_off(fresh):
    server = fresh()
    server.hello()
    server.hooked("/repo/.agents/skills/a/SKILL.md", "/home/user/.agents/skills/b/SKILL.md")
    server.answer("account/read", {"account": {}, "requiresOpenaiAuth": True})
    config = server.sent()[-1]["params"]["config"]
    assert config["skills.config"] == [
        {"path": "/repo/.agents/skills/a/SKILL.md", "enabled": False},
        {"path": "/home/user/.agents/skills/b/SKILL.md", "enabled": False},
    ]


@pytest.mark.parametrize(
    "layer",
    [
        {"name": {"type": "project"}, "config": {"model": "x"}},
        {"name": {"type": "user"}, "config": {"projects": {}}, "disabledReason": None},
        {"name": {"type": "system"}, "config": {"model": "x", "mcp_servers": {}}},
        {"name": {"type": "enterpriseManaged"}, "config": {"features": {}}},
        {"name": {"type": "news"}, "config": {"hooks": {}}},
    ],
)
def test_settings_that_are_not_ours_stop_the_run_before_anything_of_them_starts(fresh, layer):
    server = fresh()
    server.hello()
    server.answer("hooks/list", {"data": [{"hooks": server.listed()}]})
    server.answer("config/read", {"layers": [layer]})
    (stop,) = server.stops()
    assert [unmet.field for unmet in stop.unmet] == ["user_config"]
    assert server.sent()[-1]["method"] == "config/read"


@pytest.mark.parametrize("answer", [None, {}, {"data": [{"skills": [{"name": "x"}]}]}])
def test_an_answer_of_the_handshake_that_cannot_be_read_ends_the_run(fresh, answer):
    server = fresh()
    server.hello()
    server.answer("hooks/list", {"data": [{"hooks": server.listed()}]})
    server.answer("config/read", {"layers": []})
    server.answer("skills/list", answer)
    assert [(ending.status, ending.reason) for ending in server.endings()] == [(Status.FAILED, Reason.PROTOCOL)]


@pytest.mark.parametrize(("version", "stops"), [("0.170.9", 1), ("0.171.0", 0), ("0.172.0", 0), ("x", 1)])
def test_a_version_below_the_tested_range_is_refused(fresh, version, stops):
    server = fresh()
    server.hello(version)
    assert len(server.stops()) == stops


# ---- hooks -----------------------------------------------------------------------------------------------------------


def test_a_command_is_told_wrapped_and_shown_as_it_was_written(server):
    told = server.let("echo 'a b'")
    assert told.startswith("exec </dev/null\n")
    assert shlex.quote("echo 'a b'") in told
    server.item("started", command=line(told))
    server.item("completed", command=line(told), status="completed", exitCode=0, aggregatedOutput="a b\n")
    server.ran("started", "postToolUse")
    server.hook("after", input={"command": told}, output="a b\n", key="h2")
    asked = server.of(Consult)[-1]
    assert (asked.stage, asked.call.input, asked.output, asked.is_error) == (
        "after",
        {"command": "echo 'a b'"},
        "a b\n",
        False,
    )
    server.keep()
    assert server.replies()[-1] == b""
    server.ran("completed", "postToolUse")
    assert [event.input for event in server.events(ToolRequested)] == [{"command": "echo 'a b'"}]
    assert [(event.status, event.output) for event in server.events(ToolFinished)] == [("ok", "a b\n")]
    assert server.suspicions() == []


def test_a_hook_after_a_call_waits_for_the_stream_and_not_for_ever(server):
    told = server.let("false")
    server.hook("after", input={"command": told}, output="", key="h2")
    assert [asked.stage for asked in server.of(Consult)] == ["before"]
    (wake,) = server.of(Wake)
    server.item("completed", command=line(told), status="failed", exitCode=1, aggregatedOutput="")
    server.ran("started", "postToolUse")
    assert (server.of(Consult)[-1].stage, server.of(Consult)[-1].is_error) == ("after", True)
    server.done(server.codec.woke(wake.key))
    assert len(server.of(Consult)) == 2
    other = server.let("true", "c2")
    server.hook("after", "c2", input={"command": other}, output="", key="h3")
    server.done(server.codec.woke(server.of(Wake)[-1].key))
    assert server.of(Consult)[-1].key.call == "c2"


@pytest.mark.parametrize("call", ["a:b", "call/config.toml:1", "x://y", ":"])
def test_the_id_of_a_call_may_hold_anything(server, call):
    told = server.let("echo", call)
    server.item("completed", id=call, command=line(told), status="completed", exitCode=0, aggregatedOutput="")
    server.ran("started", "postToolUse", call)
    server.hook("after", call, input={"command": told}, output="", key="h2")
    server.keep()
    server.ran("completed", "postToolUse", call)
    assert [event.tool_call_id for event in server.events(ToolFinished)] == [call]


def test_a_refused_call_is_told_although_the_stream_does_not(server):
    server.hook("before", input={"command": "rm x"})
    server.decide(Refuse("not that"))
    assert json.loads(server.replies()[-1]) == {"decision": "block", "reason": "not that"}
    (over,) = server.events(ToolFinished)
    assert (over.status, over.output) == ("denied", "not that")


def test_a_replaced_output_is_what_the_end_of_the_call_shows(server):
    told = server.let("cat x")
    server.item("completed", command=line(told), status="completed", exitCode=0, aggregatedOutput="secret")
    server.ran("started", "postToolUse")
    server.hook("after", input={"command": told}, output="secret", key="h2")
    server.decide(Substitute(output="hidden"))
    assert json.loads(server.replies()[-1]) == {"decision": "block", "reason": "hidden"}
    server.ran("completed", "postToolUse", status="blocked")
    assert [event.output for event in server.events(ToolFinished)] == ["hidden"]


def test_a_blank_replacement_still_replaces(server):
    told = server.let("cat x")
    server.ran("started", "postToolUse")
    server.hook("after", input={"command": told}, output="secret", key="h2")
    server.decide(Substitute(output=" "))
    assert json.loads(server.replies()[-1])["reason"].strip()


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"name": "before"}', b'{"name": "before", "arguments": 5}'])
def test_a_hook_that_cannot_be_read_is_refused(server, body):
    server.done(server.codec.called(hooks.ENDPOINT, "h9", body))
    assert server.replies()[-1] == hooks.REFUSAL
    assert server.suspicions() == ["not_confirmed"]


def test_a_second_hook_before_one_call_is_refused_and_said(server):
    server.let("echo")
    server.hook("before", input={"command": "echo"}, key="h2")
    assert json.loads(server.replies()[-1]) == DENIED
    assert server.suspicions() == ["second_consult"]


def test_a_second_hook_after_one_call_is_refused_and_said_whenever_it_comes(server):
    told = server.let("echo")
    server.hook("after", input={"command": told}, output="forged", key="h2")
    server.ran("started", "postToolUse")
    server.keep()
    server.hook("after", input={"command": told}, output="real", key="h3")
    assert json.loads(server.replies()[-1]) == DENIED
    assert server.suspicions() == ["second_consult"]


def test_a_hook_after_a_failed_call_that_has_none_keeps_the_model_from_being_asked(server):
    server.hook("before", input={"x": 1}, name="mcp__s__t")
    server.decide(Proceed(input={"x": 1}))
    server.hook("after", name="mcp__s__t", input={"x": 1}, output="forged", key="h2")
    failed = {"type": "mcpToolCall", "server": "s", "tool": "t", "arguments": {"x": 1}, "status": "failed"}
    server.item("completed", **failed, error={"message": "secret"})
    assert server.suspicions() == ["second_consult"]
    asked = server.hook("request", call="", key="h3")
    server.ran("started", "preModelRequest")
    assert [action for action in asked if isinstance(action, Reply)] == []
    assert "turn/interrupt" in [message.get("method") for message in server.sent()]
    assert "h3" not in [reply.key for reply in server.of(Reply)]


@pytest.mark.parametrize(
    "verdict",
    [
        Proceed(input={"command": "echo", "workdir": "/"}, changed=True),
        Proceed(input={"cmd": "echo"}, changed=True),
        Proceed(input="echo", changed=True),
        Keep(),
        Substitute(output="x"),
    ],
)
def test_a_verdict_that_cannot_be_said_is_a_no(server, verdict):
    server.hook("before", input={"command": "echo"})
    server.decide(verdict)
    assert json.loads(server.replies()[-1]) == DENIED
    assert [event.status for event in server.events(ToolFinished)] == ["denied"]


def test_a_hook_whose_caller_hung_up_is_withdrawn(server):
    server.hook("before", input={"command": "echo"}, key="h7")
    server.done(server.codec.hung_up(hooks.ENDPOINT, "h7"))
    (gone,) = server.of(Withdraw)
    assert gone.key.call == "c1"
    assert server.decide(Proceed(input={"command": "echo"})) == []


@pytest.mark.parametrize("ends", ["decided", "hung up"])
def test_while_a_call_waits_its_model_is_not_asked(server, ends):
    """A model that calls tools from a script is told after 30 s that it runs, and must not end the turn then."""
    server.hook("before", input={"command": "echo"}, key="h1")
    server.hook("request", call="", key="h2")
    server.ran("started", "preModelRequest")
    assert "h2" not in [reply.key for reply in server.of(Reply)]
    if ends == "decided":
        server.decide(Proceed(input={"command": "echo"}))
    else:
        server.done(server.codec.hung_up(hooks.ENDPOINT, "h1"))
    assert server.of(Reply)[-1].key == "h2"


# ---- what does not fit -----------------------------------------------------------------------------------------------


def test_a_command_that_nobody_decided_about_is_noticed_when_it_starts(server):
    server.item("started", command=line("touch x"))
    assert server.suspicions() == ["no_decision"]


def test_a_command_that_was_denied_and_starts_is_noticed(server):
    server.hook("before", input={"command": "touch x"})
    server.decide(Refuse("no"))
    server.item("started", command=line("touch x"))
    assert server.suspicions() == ["ran_after_deny"]


def test_another_command_than_was_told_is_noticed(server):
    server.let("touch x")
    server.item("started", command=line("touch x"))
    assert server.suspicions() == ["other_input"]


def test_a_patch_under_the_id_of_a_command_is_noticed(server):
    server.let("apply_patch <<'EOF'\nEOF")
    server.item("started", type="fileChange", changes=[])
    assert server.suspicions() == ["other_input"]


@pytest.mark.parametrize(
    ("event", "status"), [("preToolUse", "failed"), ("postToolUse", "failed"), ("sessionStart", "stopped")]
)
def test_a_hook_that_failed_is_noticed(server, event, status):
    server.let("touch x")
    server.ran("completed", event, status=status)
    assert server.suspicions() == ["not_confirmed"]


def test_a_denial_that_was_not_taken_as_one_is_noticed(server):
    server.hook("before", input={"command": "touch x"})
    server.decide(Refuse("no"))
    server.ran("completed", "preToolUse", status="completed")
    assert server.suspicions() == ["not_confirmed"]


def test_work_without_a_word_from_our_hooks_is_noticed(fresh):
    server = fresh()
    server.hello()
    server.hooked()
    server.answer("account/read", {"account": {}, "requiresOpenaiAuth": True})
    server.answer("thread/start", server.thread())
    server.done(server.codec.prompt("go"))
    server.item("started", type="agentMessage", id="m")
    assert server.suspicions() == ["not_confirmed"]


def test_an_answer_to_nothing_is_noticed(server):
    server.say(id=99, result={"decision": "accept"})
    server.say(id=1, result={})
    assert server.suspicions() == ["unknown_answer", "unknown_answer"]


# ---- requests --------------------------------------------------------------------------------------------------------


def ask(server, told: str, number: int = 0, **more: object):
    params = {
        "kind": "command",
        "itemId": "c1",
        "command": line(told),
        "reason": "why",
        "threadId": "thread-main",
        **more,
    }
    server.say(id=number, method="item/commandExecution/requestApproval", params=params)


def test_leaving_the_sandbox_is_asked_under_a_key_of_its_own(server):
    ask(server, server.let("touch /x"))
    asked = server.of(Consult)[-1]
    assert (asked.key.call, asked.stage, asked.leaves_sandbox, asked.description) == (
        "c1/outside-1",
        "before",
        True,
        "why",
    )
    assert asked.call.input == {"command": "touch /x"}
    server.decide(Proceed(input=asked.call.input))
    assert server.sent()[-1] == {"id": 0, "result": {"decision": "accept"}}


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Refuse("no"), "decline"),
        (Refuse("no", interrupt=True), "cancel"),
        (Proceed(input={"command": "other"}, changed=True), "decline"),
    ],
)
def test_what_is_no_plain_yes_does_not_leave_the_sandbox(server, verdict, said):
    ask(server, server.let("touch /x"))
    server.decide(verdict)
    answers = [message["result"] for message in server.sent() if "result" in message]
    assert answers == [{"decision": said}]


def test_where_the_agents_own_flow_decides_its_question_is_put_to_a_person(server):
    ask(server, server.let("touch /x"))
    server.decide(Defer(input={"command": "touch /x"}))
    asked = server.of(Consult)[-1]
    assert (asked.stage, asked.key.call) == ("confirm", "c1/outside-1")
    server.decide(Proceed(input=asked.call.input))
    assert server.sent()[-1]["result"] == {"decision": "accept"}


@pytest.mark.parametrize(
    "changed", [{"kind": "writeStdin"}, {"itemId": "c9"}, {"command": line("other")}, {"command": None}]
)
def test_a_question_about_anything_else_is_declined_and_noticed(server, changed):
    ask(server, server.let("touch /x"), **changed)
    assert server.sent()[-1]["result"] == {"decision": "decline"}
    assert server.suspicions() == ["no_decision"]


@pytest.mark.parametrize(
    ("method", "refusal"),
    [
        ("mcpServer/elicitation/request", {"action": "decline"}),
        ("item/permissions/requestApproval", {"permissions": {}, "scope": "turn"}),
        ("item/tool/call", {"contentItems": [], "success": False}),
        ("item/fileChange/requestApproval", {"decision": "decline"}),
        ("item/tool/requestUserInput", {"answers": {}}),
    ],
)
def test_other_requests_and_broken_ones_are_refused(server, method, refusal):
    server.say(id=5, method=method, params={"odd": 1})
    assert server.sent()[-1] == {"id": 5, "result": refusal}


def test_an_unknown_request_is_an_error(server):
    server.say(id=6, method="account/chatgptAuthTokens/refresh", params={})
    assert server.sent()[-1]["error"]["code"] == -32601


def test_a_question_that_the_server_withdraws_is_withdrawn(server):
    ask(server, server.let("touch /x"), number=3)
    server.note("serverRequest/resolved", requestId=3)
    (gone,) = server.of(Withdraw)
    assert gone.key.call == "c1/outside-1"


# ---- turns -----------------------------------------------------------------------------------------------------------


def test_the_turn_of_a_sub_agent_ends_nothing(server):
    server.note("turn/completed", threadId="child", turn={"id": "t9", "status": "completed"})
    assert server.endings() == []
    server.text("done")
    server.over()
    assert [(ending.status, ending.text) for ending in server.endings()] == [(Status.COMPLETED, "done")]


def test_a_turn_that_is_said_to_have_failed_has_failed(server):
    server.text("done")
    server.over("failed", error={"message": "no more", "codexErrorInfo": "usageLimitExceeded"})
    (ending,) = server.endings()
    assert (ending.status, ending.reason, ending.message, ending.text) == (
        Status.FAILED,
        Reason.RATE_LIMIT,
        "no more",
        None,
    )


def test_a_warning_and_a_retry_end_nothing(server):
    server.note("warning", message="careful")
    server.note("error", willRetry=True, error={"message": "again", "codexErrorInfo": {"x": {"httpStatusCode": 500}}})
    server.note("error", willRetry=False, error={"message": "over"})
    assert server.endings() == []
    assert [notice.message for notice in server.events(Notice)] == ["careful"]


def test_an_interrupted_turn_ends_when_its_commands_have(server):
    server.done(server.codec.interrupt())
    assert server.sent()[-1]["method"] == "turn/interrupt"
    server.over("interrupted")
    assert server.endings() == []
    server.answer("thread/backgroundTerminals/clean", {})
    assert [ending.status for ending in server.endings()] == [Status.CANCELLED]


def test_an_interrupt_before_the_turn_has_a_name_is_said_when_it_has(fresh):
    server = fresh()
    server.hello()
    server.hooked()
    server.answer("account/read", {"account": {}, "requiresOpenaiAuth": True})
    server.answer("thread/start", server.thread())
    server.done(server.codec.prompt("go"))
    server.done(server.codec.interrupt())
    assert server.sent()[-1]["method"] == "turn/start"
    server.answer("turn/start", {"turn": {"id": "t1"}})
    assert server.sent()[-1]["params"] == {"threadId": "thread-main", "turnId": "t1"}


def test_a_message_that_came_too_late_has_the_next_turn(server):
    server.done(server.codec.steer("more"))
    server.text("done")
    server.over()
    assert server.endings() == []
    server.answer("turn/steer", error="no active turn")
    (ending,) = server.endings()
    assert ending.more
    assert server.sent()[-1]["params"]["input"][0]["text"] == "more"


def test_usage_is_that_of_this_run(server):
    def tokens(turn: str, total: int, last: int) -> None:
        usage = {"total": {"inputTokens": total, "outputTokens": 1}, "last": {"inputTokens": last, "outputTokens": 1}}
        server.note("thread/tokenUsage/updated", turnId=turn, tokenUsage=usage)

    tokens("an earlier turn", 500, 100)
    tokens("turn-1", 510, 10)
    tokens("turn-1", 530, 20)
    assert server.events(UsageUpdated)[-1].usage.input_tokens == 30


# ---- lines that are none ---------------------------------------------------------------------------------------------


def test_noise_and_unknown_messages_stop_nothing(server):
    server.done(server.codec.received("stdout", b"not json\n\n"))
    server.note("item/completed", item=5)
    server.note("brand/new", x=1)
    server.text("done")
    server.over()
    assert [notice.code for notice in server.events(Notice)] == ["stdout_noise", "unreadable_line"]
    assert len(server.events(Raw)) == 2
    assert [ending.status for ending in server.endings()] == [Status.COMPLETED]


@pytest.mark.parametrize(
    "message",
    [
        {"method": "news/told", "params": {"x": 1}, "emittedAtMs": 5},
        {"method": "news/told", "emittedAtMs": 5},
        {"method": "item/completed", "params": {"threadId": "thread-main", "item": {"type": "news"}}, "emittedAtMs": 5},
        {"method": "item/completed", "params": {"item": 5}, "emittedAtMs": 5},
    ],
)
def test_what_is_unknown_is_kept_whole(server, message):
    server.say(**message)
    assert [event.data for event in server.events(Raw)] == [message]


DELTA = "item/agentMessage/delta"


@pytest.mark.parametrize(
    ("message", "seen"),
    [
        ({"method": DELTA, "params": {"threadId": "thread-main", "delta": "a"}, "at": 1}, [("a", "main")]),
        ({"params": {"threadId": "thread-main", "delta": "a"}, "method": DELTA}, [("a", "main")]),
        ({"method": DELTA, "params": {"threadId": "child", "delta": ""}}, [("", "child")]),
        ({"method": DELTA, "params": {"threadId": "thread-main"}}, []),
        ({"method": DELTA, "params": {"threadId": "thread-main", "delta": "a"}, "id": 7}, []),
        ({"method": DELTA + "d", "params": {"threadId": "thread-main", "delta": "a"}}, []),
    ],
)
def test_a_piece_of_text_is_told_however_its_line_is_written(server, message, seen):
    server.say(**message)
    assert [(event.text, event.agent_id) for event in server.events(TextDelta)] == seen
    assert ("error" in server.sent()[-1]) is ("id" in message)


def test_the_end_of_a_turn_that_cannot_be_read_ends_the_run(server):
    server.note("turn/completed", turn=7)
    assert [(ending.status, ending.reason) for ending in server.endings()] == [(Status.FAILED, Reason.PROTOCOL)]


def test_lines_cut_anywhere_mean_the_same(server, fresh):
    other = fresh().ready()
    raw = b"".join(
        json.dumps(message).encode() + b"\n"
        for message in (
            {"method": "item/agentMessage/delta", "params": {"threadId": "thread-main", "delta": "h\u00e9"}},
            {"method": "warning", "params": {"message": "x"}},
        )
    )
    whole = server.done(server.codec.received("stdout", raw))
    pieces = [action for byte in raw for action in other.codec.received("stdout", bytes([byte]))]
    flat = lambda actions: [event.model_dump() for action in actions for event in action.events]  # noqa: E731
    assert flat(whole) == flat(pieces)


def test_a_process_that_is_gone_is_a_crash(server):
    server.done(server.codec.exited(101, None, {}))
    assert [(ending.status, ending.reason) for ending in server.endings()] == [(Status.FAILED, Reason.CRASHED)]
