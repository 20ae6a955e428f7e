"""What the codec of the server makes of what the server says, and of verdicts."""

import json

import pytest

from interlock.actions import Ask, Consult, Keep, Proceed, Ready, Refuse, Substitute, Suspicion, Wake, Withdraw
from interlock.approval import Answer
from interlock.capabilities import Needs
from interlock.events import (
    FilesChanged,
    Notice,
    Raw,
    Retrying,
    SubagentStarted,
    Text,
    TextDelta,
    ToolFinished,
    ToolRequested,
    UsageUpdated,
)
from interlock.outcome import Reason, Status
from interlock.tools import ToolKind
from interlock_adapters.copilot.server.alike import alike
from interlock_adapters.copilot.server.channel import framed

COMMAND = {"command": "touch f", "description": "x"}
AT_ONCE = {**COMMAND, "mode": "sync", "detach": False, "initial_wait": 86_400}
BEFORE_ONLY = Needs(chain_before=True, answered=True)


# ---- the handshake ---------------------------------------------------------------------------------------------------


def test_the_prompt_goes_out_once_everything_is_confirmed(server):
    methods = [message["method"] for message in server.sent() if "method" in message]
    assert methods == ["connect", "hooks.discover", "session.create", "session.permissions.getMode", "session.send"]
    assert [ready.version for ready in server.of(Ready)] == ["1.0.102"]


def test_the_guards_are_said_when_the_session_begins_and_the_key_of_a_provider_is_not(server):
    told = server.asks("session.create")[0]
    assert told["provider"] == {"type": "openai", "baseUrl": "http://127.0.0.1:1/v1", "hasBearerTokenProvider": True}
    guards = {"hooks": True, "requestPermission": True, "enableFileHooks": False, "enableConfigDiscovery": False}
    assert guards.items() <= told.items()
    assert "read_bash" in told["excludedTools"]


def test_a_resumed_session_is_told_all_guards_anew(fresh, order):
    server = fresh(order(session={"kind": "resume", "id": "s1"}))
    server.hello()
    server.begun("session.resume")
    created = fresh().confirmed().asks("session.create")[0]
    assert server.asks("session.resume")[0] == {**created, "sessionId": "s1"}


@pytest.mark.parametrize(("version", "stops"), [("1.0.101", 1), ("1.0.102", 0), ("1.0.103", 0), ("x", 1)])
def test_a_version_below_the_tested_range_is_refused(fresh, version, stops):
    server = fresh()
    server.hello(version=version)
    assert len(server.stops()) == stops
    assert bool(server.asks("hooks.discover")) is not bool(stops)


def test_another_protocol_is_refused(fresh):
    server = fresh()
    server.hello(protocolVersion=4)
    assert [stop.reason for stop in server.stops()] == [Reason.UNSUPPORTED]


@pytest.mark.parametrize("hooks", [[{"command": "x"}], None])
def test_a_hook_of_somebody_else_stops_the_run_before_the_session(fresh, hooks):
    server = fresh()
    server.hello()
    server.answer("hooks.discover", {"hooks": hooks})
    assert [stop.unmet[0].field for stop in server.stops()] == ["hooks"]
    assert server.asks("session.create") == []


@pytest.mark.parametrize("changed", [{"mode": "autopilot"}, {"mode": None}])
def test_another_mode_stops_the_run_before_the_prompt(fresh, changed):
    server = fresh()
    server.hello()
    server.begun(**changed)
    server.done(server.codec.prompt("go"))
    assert server.stops()
    assert server.asks("session.send") == []


@pytest.mark.parametrize("mode", ["approve-all", None])
def test_a_session_that_asks_for_no_leave_stops_the_run(fresh, mode):
    server = fresh()
    server.hello()
    server.begun()
    server.answer("session.permissions.getMode", {"mode": mode})
    server.done(server.codec.prompt("go"))
    assert [stop.unmet[0].field for stop in server.stops()] == ["permission"]
    assert server.asks("session.send") == []


def test_nobody_logged_in_is_known_before_the_prompt(fresh, order):
    server = fresh(order(env={}))
    server.confirmed()
    server.answer("session.gitHubAuth.getStatus", {"isAuthenticated": False})
    assert [stop.reason for stop in server.stops()] == [Reason.AUTH]
    assert server.of(Ready) == []


@pytest.mark.parametrize("known", [True, False])
def test_an_id_that_exists_is_not_taken_for_a_new_session(fresh, order, known):
    server = fresh(order(session={"kind": "new", "id": "s1"}))
    server.hello()
    server.answer("hooks.discover", {"hooks": []})
    server.answer("sessions.getMetadata", {"session": {"sessionId": "s1"}} if known else {})
    assert len(server.stops()) == known
    assert len(server.asks("session.create")) == (not known)


def test_a_session_that_is_not_there_is_not_found(fresh, order):
    server = fresh(order(session={"kind": "resume", "id": "s1"}))
    server.hello()
    server.answer("hooks.discover", {"hooks": []})
    server.answer("session.resume", error="Failed to load session events: Session not found: s1")
    assert [stop.reason for stop in server.stops()] == [Reason.SESSION_NOT_FOUND]


def test_a_resumed_session_that_begins_anew_stops_the_run(fresh, order):
    server = fresh(order(session={"kind": "resume", "id": "s1"}))
    server.hello()
    server.begun("session.resume")
    server.answer("session.permissions.getMode", {"mode": "manual"})
    server.done(server.codec.prompt("go"))
    server.hook("sessionStart", source="new")
    assert [stop.reason for stop in server.stops()] == [Reason.SESSION_NOT_FOUND]


def test_a_forked_session_is_gone_on_with_under_its_own_id(fresh, order):
    server = fresh(order(session={"kind": "fork", "id": "old"}))
    server.hello()
    server.answer("hooks.discover", {"hooks": []})
    server.answer("sessions.fork", {"sessionId": "s1"})
    assert server.asks("session.resume")[0]["sessionId"] == "s1"


# ---- proof of life ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["assistant.turn_start", "tool.execution_start"])
def test_an_agent_that_works_before_our_hooks_were_heard_of_is_not_trusted(fresh, type_):
    server = fresh().confirmed()
    server.done(server.codec.prompt("go"))
    server.answer("session.send", {"messageId": "m0"})
    server.event(type_, turnId="0", toolCallId="c1", toolName="bash", arguments={})
    assert server.suspicions() == ["not_confirmed"]


def test_the_key_is_said_before_each_request_to_the_model_and_never_kept(server):
    assert "the-key" not in json.dumps(server.sent())
    for _ in range(2):
        request = server.ask("providerToken.getToken", providerName="default")
        assert server.said(request) == {"token": "the-key"}


def test_no_model_is_asked_before_our_hooks_were_heard_of(fresh):
    server = fresh().confirmed()
    server.done(server.codec.prompt("go"))
    request = server.ask("providerToken.getToken", providerName="default")
    assert "code" in server.said(request)
    assert server.suspicions() == ["not_confirmed"]


def test_no_model_is_asked_once_the_turn_was_told_to_end(server):
    server.done(server.codec.interrupt())
    assert "code" in server.said(server.ask("providerToken.getToken", providerName="default"))


@pytest.mark.parametrize(("given", "key"), [({}, "none"), ({"COPILOT_PROVIDER_BEARER_TOKEN": "b"}, "b")])
def test_a_provider_without_a_key_is_asked_for_one_too(fresh, order, given, key):
    server = fresh(order(env={"COPILOT_PROVIDER_BASE_URL": "http://a", **given})).ready()
    assert server.said(server.ask("providerToken.getToken", providerName="default")) == {"token": key}


def test_a_provider_with_a_header_of_its_own_is_told_its_key(fresh, order):
    more = {"COPILOT_PROVIDER_TYPE": "azure", "COPILOT_PROVIDER_API_KEY": "k"}
    server = fresh(order(env={"COPILOT_PROVIDER_BASE_URL": "http://a", **more})).ready()
    assert server.asks("session.create")[0]["provider"] == {"type": "azure", "baseUrl": "http://a", "apiKey": "k"}
    assert "code" in server.said(server.ask("providerToken.getToken", providerName="default"))


# ---- before a call ---------------------------------------------------------------------------------------------------


def test_no_objection_is_the_empty_answer_and_never_allow(fresh, order):
    server = fresh(order(needs=BEFORE_ONLY)).ready()
    request = server.before()
    assert server.said(request) is None
    server.decide(Proceed(input=COMMAND))
    assert server.said(request) == {}
    assert "allow" not in json.dumps(server.sent())


def test_a_denial_has_its_reason_and_the_call_ends_denied(server):
    request = server.before()
    server.decide(Refuse("not here"))
    wanted = {"permissionDecision": "deny", "permissionDecisionReason": "not here"}
    assert server.said(request) == {"output": wanted}
    server.ends(success=False, result=None, error={"message": "Denied by preToolUse hook: not here", "code": "denied"})
    assert [(event.status, event.output, event.by) for event in server.events(ToolFinished)] == [
        ("denied", "not here", "")
    ]


def test_a_changed_input_comes_without_a_decision(fresh, order):
    server = fresh(order(needs=BEFORE_ONLY)).ready()
    request = server.before()
    server.decide(Proceed({"command": "touch g", "description": "x"}, changed=True))
    assert server.said(request) == {"output": {"modifiedArgs": {"command": "touch g", "description": "x"}}}


def test_where_outputs_are_judged_nothing_runs_in_the_background(server):
    assert server.let(args={**COMMAND, "mode": "async", "detach": True, "shellId": "a"}) == AT_ONCE
    assert server.let("c2", "task", {"prompt": "p", "mode": "background"}) == {"prompt": "p", "mode": "sync"}
    shown = server.of(Consult)[0].call
    assert shown.input == {**COMMAND, "mode": "async", "detach": True, "shellId": "a"}


def test_a_command_runs_where_it_was_judged_whatever_shell_it_names(fresh, order):
    server = fresh(order(needs=BEFORE_ONLY)).ready()
    assert server.let(args={**COMMAND, "shellId": "a"}) == COMMAND


def test_a_patch_is_a_text_and_is_changed_as_one(server):
    patch = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\n"
    request = server.before("c1", "apply_patch", patch)
    call = server.of(Consult)[0].call
    assert (call.tool_kind, call.subject.paths) == (ToolKind.PATCH, ("a.txt",))
    server.decide(Proceed(patch.replace("+x", "+y"), changed=True))
    assert server.said(request)["output"]["modifiedArgs"] == patch.replace("+x", "+y")


@pytest.mark.parametrize(
    ("name", "args", "verdict"),
    [
        ("bash", COMMAND, Proceed("touch g", changed=True)),
        ("bash", COMMAND, Keep()),
        ("bash", COMMAND, Substitute("x")),
        ("apply_patch", "*** Begin Patch", Proceed({"input": "x"}, changed=True)),
    ],
)
def test_what_cannot_be_said_is_a_denial(server, name, args, verdict):
    request = server.before("c1", name, args)
    server.decide(verdict)
    assert server.said(request)["output"]["permissionDecision"] == "deny"
    assert [notice.code for notice in server.events(Notice)] == ["unanswerable"]


def test_a_second_hook_before_one_call_is_denied_and_told(server):
    server.before()
    server.lists(("c1", "bash", COMMAND), batch="b2")
    again = server.hook("preToolUse", toolName="bash", toolArgs=COMMAND)
    assert server.said(again)["output"]["permissionDecision"] == "deny"
    assert server.suspicions() == ["second_consult"]


def test_hooks_are_told_apart_by_the_order_of_the_list(server):
    calls = [(f"c{n}", "bash", {"command": f"touch {n}", "description": "x"}) for n in range(3)]
    server.lists(*calls)
    for call, _, args in calls:
        server.hook("preToolUse", toolName="bash", toolArgs=args)
        assert server.of(Consult)[-1].key.call == call
        server.decide(Refuse("no"))


def test_the_list_may_come_after_the_hook_and_each_agent_has_its_own(server):
    first = server.hook("preToolUse", "sub", toolName="bash", toolArgs=COMMAND)
    assert server.of(Consult) == []
    server.before("c2")
    server.lists(("c1", "bash", COMMAND), agent="sub")
    assert [tuple(one.key) for one in server.of(Consult)] == [("main", "c2"), ("sub", "c1")]
    server.decide(Refuse("no"))
    assert server.said(first)["output"]["permissionDecision"] == "deny"


def test_a_hook_that_no_list_tells_of_is_denied_in_the_end(server):
    request = server.hook("preToolUse", toolName="bash", toolArgs=COMMAND)
    wake = server.of(Wake)[0]
    server.done(server.codec.woke(wake.key))
    assert server.said(request)["output"]["permissionDecision"] == "deny"
    assert server.suspicions() == ["not_confirmed"]


@pytest.mark.parametrize("told", [("view", COMMAND), ("bash", {"command": "rm -rf /"})])
def test_a_hook_about_another_call_than_was_listed_is_denied(server, told):
    server.lists(("c1", "bash", COMMAND))
    request = server.hook("preToolUse", toolName=told[0], toolArgs=told[1])
    assert server.said(request)["output"]["permissionDecision"] == "deny"
    assert server.suspicions() == ["not_confirmed"]


def test_what_an_abort_left_out_of_a_batch_does_not_shift_the_next(server):
    server.lists(("c1", "bash", COMMAND), ("c2", "view", {"path": "a"}))
    server.hook("preToolUse", toolName="bash", toolArgs=COMMAND)
    server.decide(Refuse("no"))
    server.event("hook.end", hookInvocationId="b1", hookType="preToolUse", success=True)
    server.before("c3")
    assert server.of(Consult)[-1].key.call == "c3"
    assert server.suspicions() == []


@pytest.mark.parametrize("params", [None, {}, {"hookType": "preToolUse"}, {"hookType": "preToolUse", "input": 1}])
def test_a_hook_that_cannot_be_read_is_denied(server, params):
    server.say(id=99, method="hooks.invoke", params=params)
    assert server.said(99)["output"]["permissionDecision"] == "deny"
    assert server.suspicions() == ["not_confirmed"]


# ---- permission requests ---------------------------------------------------------------------------------------------


def test_a_request_is_approved_for_what_was_decided_and_once(server):
    server.let()
    server.permission()
    asked = server.of(Consult)[-1]
    assert (asked.stage, asked.call.input) == ("confirm", COMMAND)
    server.decide(Proceed(COMMAND), asked)
    assert server.permissions() == [("p1", "approve-once")]
    server.answer("session.permissions.handlePendingPermissionRequest", {"success": True})
    assert server.suspicions() == []


def test_both_requests_about_one_call_are_answered_in_turn(server):
    server.let("c1", "view", {"path": "/etc/hostname"})
    for request in ("p1", "p2"):
        server.permission(request=request, kind="read", path="/etc/hostname")
    assert len(server.of(Consult)) == 2
    server.decide(Proceed(COMMAND))
    server.decide(Proceed(COMMAND))
    assert server.permissions() == [("p1", "approve-once"), ("p2", "approve-once")]


@pytest.mark.parametrize("verdict", [Refuse("no"), Refuse(""), Proceed({"command": "x"}, changed=True), Keep()])
def test_a_refusal_of_a_request_has_words_so_that_the_turn_goes_on(server, verdict):
    server.let()
    server.permission()
    server.decide(verdict)
    answer = server.asks("session.permissions.handlePendingPermissionRequest")[0]["result"]
    assert answer["kind"] == "reject"
    assert answer["feedback"]


def test_a_request_about_a_call_that_nobody_let_through_is_refused_and_told(server):
    server.starts()
    server.permission()
    server.permission("unknown", "p2")
    assert server.permissions() == [("p1", "reject"), ("p2", "reject")]
    assert server.suspicions() == ["no_decision", "no_decision"]


def test_a_request_about_a_denied_call_is_refused(server):
    server.before()
    server.decide(Refuse("no"))
    server.permission()
    assert server.permissions() == [("p1", "reject")]


MCP = {"text": "hi"}


@pytest.mark.parametrize(
    ("name", "args", "asked", "fits"),
    [
        ("bash", COMMAND, {"fullCommandText": "touch g"}, False),
        ("bash", COMMAND, {"fullCommandText": None}, False),
        ("bash", COMMAND, {"kind": "hook", "toolName": "bash"}, False),
        ("bash", COMMAND, {"kind": "memory"}, False),
        ("view", {"path": "a"}, {"kind": "read", "path": "/repo/a"}, True),
        ("view", {"path": "a"}, {"kind": "read", "path": "/repo/b"}, False),
        ("view", {"path": "~/a"}, {"kind": "read", "path": "/home/user/a"}, True),
        ("view", {"path": "a"}, {"kind": "write", "fileName": "/repo/a"}, False),
        ("grep", {"pattern": "x"}, {"kind": "read", "path": "/repo"}, True),
        ("grep", {"pattern": "x", "paths": ["a", "/b"]}, {"kind": "read", "path": "/b"}, True),
        ("glob", {"pattern": "/etc/*.py"}, {"kind": "read", "path": "/etc"}, True),
        ("glob", {"pattern": "*.py"}, {"kind": "read", "path": "/etc"}, False),
        ("create", {"path": "a", "file_text": ""}, {"kind": "write", "fileName": "/repo/a"}, True),
        ("create", {"path": "a", "file_text": ""}, {"kind": "write", "fileName": "/repo/.git/a"}, False),
        ("birds-say", MCP, {"kind": "mcp", "serverName": "birds", "toolName": "birds-say", "args": MCP}, True),
        ("birds-say", MCP, {"kind": "mcp", "serverName": "cats", "toolName": "birds-say", "args": MCP}, False),
        ("birds-say", MCP, {"kind": "mcp", "serverName": "birds", "toolName": "birds-say", "args": {}}, False),
        ("web_fetch", {"url": "http://a"}, {"kind": "url", "url": "http://a"}, True),
        ("web_fetch", {"url": "http://a"}, {"kind": "url", "url": "http://b"}, False),
    ],
)
def test_a_request_must_be_about_what_the_agent_was_told_to_run(fresh, order, name, args, asked, fits):
    servers = {"birds": {"type": "stdio", "command": "x"}, "cats": {"type": "stdio", "command": "x"}}
    server = fresh(order(mcp_servers=servers)).ready()
    server.let("c1", name, args)
    server.permission(**asked)
    assert len([one for one in server.of(Consult) if one.stage == "confirm"]) == fits
    assert server.permissions() == ([] if fits else [("p1", "reject")])


def test_every_file_of_a_patch_must_be_one_that_it_names(server):
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Add File: b\n+x\n*** End Patch\n"
    server.let("c1", "apply_patch", patch)
    edits = [{"path": "/repo/a"}, {"path": "/repo/b"}]
    server.permission(kind="write", fileName="/repo/a", fileEdits=edits)
    server.permission(request="p2", kind="write", fileName="/repo/a", fileEdits=[*edits, {"path": "/repo/c"}])
    assert server.permissions() == [("p2", "reject")]


def test_a_request_in_a_sub_agent_belongs_to_its_own_call(server):
    server.let(agent="sub")
    server.permission()
    assert server.permissions() == [("p1", "reject")]
    server.permission(request="p2", agent="sub")
    assert tuple(server.of(Consult)[-1].key) == ("sub", "c1")


@pytest.mark.parametrize("result", [{"success": False}, {}, None])
def test_an_answer_that_was_not_taken_means_that_another_came_first(server, result):
    server.let()
    server.permission()
    server.decide(Proceed(COMMAND))
    server.answer("session.permissions.handlePendingPermissionRequest", result)
    assert server.suspicions() == ["unknown_answer"]


def test_a_request_that_somebody_else_approved_is_told(server):
    server.let()
    server.permission()
    server.event("permission.completed", requestId="p1", toolCallId="c1", result={"kind": "approved"})
    assert server.suspicions() == ["unknown_answer"]
    assert [tuple(one.key) for one in server.of(Withdraw)] == [("main", "c1")]


def test_a_hook_that_is_not_ours_and_answers_is_told(server):
    server.let()
    server.event("permission.requested", requestId="p1", resolvedByHook=True, permissionRequest={"kind": "shell"})
    assert server.suspicions() == ["unknown_answer"]


def test_a_request_that_cannot_be_read_is_refused(server):
    server.event("permission.requested", requestId="p1", permissionRequest="?")
    assert server.permissions() == [("p1", "reject")]


# ---- after a call ----------------------------------------------------------------------------------------------------


def test_an_output_is_replaced_in_all_its_forms(server):
    told = server.let()
    request = server.after(told, text="secret", sessionLog="secret", structuredContent={"a": "secret"})
    asked = server.of(Consult)[-1]
    assert (asked.stage, asked.output, asked.is_error, asked.call.input) == ("after", "secret", False, COMMAND)
    server.decide(Substitute("clean"))
    shown = server.said(request)["output"]["modifiedResult"]
    assert shown == {
        "resultType": "success",
        "textResultForLlm": "clean",
        "sessionLog": "clean",
        "contents": [],
        "structuredContent": None,
    }
    server.ends(text="clean")
    assert [(event.status, event.output) for event in server.events(ToolFinished)] == [("ok", "clean")]
    assert server.suspicions() == []


def test_an_output_that_is_kept_is_left_alone(server):
    request = server.after(server.let())
    server.keep()
    assert server.said(request) == {}


def test_a_withheld_output_is_an_error_with_the_reason(server):
    request = server.after(server.let(), text="secret")
    server.decide(Refuse("not for you"))
    shown = server.said(request)["output"]["modifiedResult"]
    assert (shown["resultType"], shown["textResultForLlm"], shown["error"]) == ("failure", "not for you", "not for you")


def test_an_image_is_shown_to_the_chain_beside_its_text(server):
    server.let("c1", "view", {"path": "a.png"})
    server.after({"path": "a.png"}, "view", "viewed", binaryResultsForLlm=[{"type": "image", "data": "x"}])
    assert server.of(Consult)[-1].output == {"text": "viewed", "binary": [{"type": "image", "data": "x"}]}


def test_a_command_that_failed_is_one_whose_output_can_be_replaced(server):
    server.after(server.let(), contents=[{"type": "shell_exit", "exitCode": 3}])
    asked = server.of(Consult)[-1]
    assert (asked.is_error, asked.replaceable) == (True, True)


def test_an_output_that_was_not_replaced_is_told(server):
    server.after(server.let(), text="secret")
    server.decide(Substitute("clean"))
    server.ends(text="secret")
    assert server.suspicions() == ["not_confirmed"]


def test_of_two_calls_that_are_alike_the_end_says_which_it_was(server):
    told = [server.let(call) for call in ("c1", "c2")]
    for call, shown in (("c2", "two"), ("c1", "one")):
        server.after(told[0])
        server.decide(Substitute(shown))
        server.ends(call, shown)
    assert [(event.tool_call_id, event.output) for event in server.events(ToolFinished)] == [
        ("c2", "two"),
        ("c1", "one"),
    ]
    assert server.suspicions() == []


def test_a_call_that_ran_with_another_input_is_told_and_its_output_withheld(server):
    server.let()
    request = server.after({"command": "touch g"}, text="secret")
    assert "secret" not in json.dumps(server.said(request))
    assert server.said(request)["output"]["modifiedResult"]["resultType"] == "failure"
    assert server.suspicions() == ["other_input"]


def test_a_call_that_ran_undecided_is_told(server):
    server.after(COMMAND)
    assert server.suspicions() == ["no_decision"]


def test_arguments_that_are_no_json_raise_no_alarm(server):
    server.starts(args={})
    request = server.hook("postToolUseFailure", toolName="bash", toolArgs={}, error="bad JSON")
    assert server.said(request) == {}
    server.ends(success=False, result=None, error={"message": "bad JSON", "code": "failure"})
    assert server.suspicions() == []
    assert [event.status for event in server.events(ToolFinished)] == ["error"]


def test_a_command_that_goes_on_is_stopped_before_its_output_is_judged(server):
    told = server.let()
    request = server.after(told, text="so far", contents=[])
    assert server.of(Consult)[-1].stage == "before"
    tasks = [
        {"id": "0", "status": "running", "executionMode": "background"},
        {"id": "1", "status": "running", "executionMode": "sync"},
        {"id": "2", "status": "completed", "executionMode": "background"},
    ]
    server.answer("session.tasks.list", {"tasks": tasks})
    assert [one["id"] for one in server.asks("session.tasks.cancel")] == ["0"]
    server.answer("session.tasks.cancel", {"cancelled": True})
    assert server.of(Consult)[-1].output.startswith("so far\n<the command was stopped")
    server.keep()
    assert server.said(request)["output"]["modifiedResult"]["textResultForLlm"].startswith("so far\n<the command")


def test_what_cannot_be_stopped_ends_the_run(server):
    server.after(server.let(), contents=[])
    server.answer("session.tasks.list", error="no")
    assert [stop.reason for stop in server.stops()] == [Reason.UNREPLACEABLE]


@pytest.mark.parametrize("name", ["read_bash", "read_agent"])
def test_what_the_runtime_reads_by_itself_is_an_alarm_only_where_outputs_are_judged(fresh, order, name):
    for needs, found in ((Needs(chain_before=True), []), (Needs(chain_after=True), ["no_decision"])):
        server = fresh(order(needs=needs)).ready()
        server.event("tool.execution_start", toolCallId="u1", toolName=name, arguments={})
        server.ends("u1", turnId=None)
        assert server.suspicions() == found
        assert server.events(ToolFinished) == []


def test_a_call_without_a_turn_that_is_no_reader_is_no_exception(server):
    server.event("tool.execution_start", toolCallId="u1", toolName="bash", arguments=COMMAND)
    server.ends("u1", turnId=None)
    assert [event.tool_call_id for event in server.events(ToolFinished)] == ["u1"]


# ---- outputs that can only be withheld by stopping -------------------------------------------------------------------


def refused_failure(server):
    """A call that failed, and whose output must not be shown; gives the request of its hook."""
    message = {"messageId": "m1", "content": "", "turnId": "0", "toolRequests": [{"toolCallId": "c1", "name": "view"}]}
    server.event("assistant.message", id_="the-message", **message)
    server.let("c1", "view", {"path": "a"})
    request = server.failed({"path": "a"}, error="secret")
    assert server.of(Consult)[-1].replaceable is False
    server.decide(Refuse("not for you"))
    return request


def test_a_failed_output_is_withheld_by_an_abort_before_the_hook_is_answered(server):
    request = refused_failure(server)
    assert len(server.asks("session.abort")) == 1
    assert server.said(request) is None
    server.event("abort", reason="user_initiated")
    assert server.said(request) == {}


def test_and_the_session_forgets_it(server):
    refused_failure(server)
    server.event("abort", reason="user_initiated")
    server.idle(aborted=True)
    assert server.asks("session.history.truncate") == [{"sessionId": "s1", "eventId": "the-message"}]
    assert server.endings() == []
    server.answer("session.history.truncate", {"eventsRemoved": 3})
    assert [(one.status, one.reason) for one in server.endings()] == [(Status.FAILED, Reason.UNREPLACEABLE)]


def test_an_agent_that_does_not_stop_is_stopped(server):
    refused_failure(server)
    server.done(server.codec.woke("withholding"))
    assert [stop.reason for stop in server.stops()] == [Reason.UNREPLACEABLE]


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"n": 1.0}, {"n": 1}, True),
        ([2**53 + 1], [2**53], True),
        ({"n": 1}, {"n": True}, False),
        ({"n": 0}, {"n": False}, False),
        ({"n": 0}, {"n": None}, False),
        ({"n": "1"}, {"n": 1}, False),
        ([1, 2], [1], False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": [{"b": None}]}, {"a": [{"b": None}]}, True),
        ([10**400], [10**401], True),
    ],
)
def test_inputs_are_compared_as_the_runtime_of_the_agent_has_them(left, right, same):
    assert alike(left, right) is alike(right, left) is same


# ---- questions -------------------------------------------------------------------------------------------------------


def asked_question(server):
    server.let("c1", "ask_user", {"question": "Which?", "choices": ["red", "blue"]})
    server.event("user_input.requested", requestId="q", question="Which?", toolCallId="c1")
    return server.ask("userInput.request", question="Which?", choices=["red", "blue"], allowFreeform=True)


@pytest.mark.parametrize(("words", "free"), [("red", False), ("green", True)])
def test_a_question_is_asked_and_answered(server, words, free):
    request = asked_question(server)
    asked = server.of(Ask)[0]
    assert (tuple(asked.key), [one.label for one in asked.items[0].choices]) == (("main", "c1"), ["red", "blue"])
    server.done(server.codec.decided(asked.key, None, Answer(answers={"1": (words,)})))
    assert server.said(request) == {"answer": words, "wasFreeform": free}


@pytest.mark.parametrize("answer", [Answer(declined=True), Answer()])
def test_no_answer_is_an_error_and_no_words_of_ours(server, answer):
    request = asked_question(server)
    server.done(server.codec.decided(server.of(Ask)[0].key, None, answer))
    assert "code" in server.said(request)


def test_a_question_may_come_before_the_event_that_names_its_call(server):
    server.let("c1", "ask_user", {"question": "Which?"})
    server.ask("userInput.request", question="Which?")
    assert server.of(Ask) == []
    server.event("user_input.requested", requestId="q", question="Which?", toolCallId="c1")
    assert len(server.of(Ask)) == 1


def test_a_question_of_a_call_that_nobody_let_through_is_not_asked(server):
    server.event("user_input.requested", requestId="q", question="Which?", toolCallId="c1")
    request = server.ask("userInput.request", question="Which?")
    assert "code" in server.said(request)
    assert server.of(Ask) == []


def test_a_question_without_a_call_is_declined_in_the_end(server):
    request = server.ask("userInput.request", question="Which?")
    server.done(server.codec.woke(server.of(Wake)[0].key))
    assert "code" in server.said(request)


@pytest.mark.parametrize("method", ["elicitation.request", "x/unknown", "session.unknown"])
def test_any_other_request_is_refused_and_told(server, method):
    request = server.ask(method)
    assert server.said(request)["code"] == -32601
    assert [notice.code for notice in server.events(Notice)] == ["request_refused"]


# ---- the end of a turn -----------------------------------------------------------------------------------------------


def test_a_turn_is_over_when_the_session_is_idle(server):
    server.text("the answer")
    server.event("assistant.idle")
    assert server.endings() == []
    server.idle()
    ending = server.endings()[0]
    assert (ending.status, ending.text, ending.session_id, ending.version) == (
        Status.COMPLETED,
        "the answer",
        "s1",
        "1.0.102",
    )


def test_the_answer_is_the_last_message_of_the_main_agent_that_asks_for_nothing(server):
    server.text("first")
    call = {"toolCallId": "c1", "name": "bash"}
    server.event("assistant.message", messageId="m2", content="thinking", toolRequests=[call], turnId="1")
    server.event("assistant.message", "sub", messageId="m3", content="inner", toolRequests=[], turnId="0")
    server.idle()
    assert server.endings()[0].text == "first"
    assert [event.text for event in server.events(Text)] == ["first", "thinking", "inner"]


def test_an_empty_answer_is_no_answer(server):
    server.text("  ")
    server.idle()
    assert server.endings()[0].reason is Reason.NO_OUTPUT


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"errorType": "authentication", "statusCode": 401}, Reason.AUTH),
        ({"errorType": "rate_limit", "statusCode": 429}, Reason.RATE_LIMIT),
        ({"errorType": "query", "statusCode": 400}, Reason.BAD_REQUEST),
        ({"errorType": "query", "statusCode": 404}, Reason.MODEL_NOT_FOUND),
        ({"errorType": "query", "statusCode": 500}, Reason.API),
        ({"errorType": "query", "statusCode": 503}, Reason.OVERLOADED),
        ({"errorType": "query", "message": "it exceeds the model's prompt budget"}, Reason.CONTEXT),
        ({"errorType": "new"}, Reason.API),
    ],
)
def test_an_error_of_the_service_fails_the_run_even_after_words(server, error, reason):
    server.text("half an answer")
    server.event("session.error", **{"message": "why", **error})
    server.idle()
    ending = server.endings()[0]
    assert (ending.status, ending.reason, ending.text) == (Status.FAILED, reason, None)
    assert ending.api_status == error.get("statusCode")


def test_an_abort_that_nobody_asked_for_is_no_success(server):
    server.text("done")
    server.idle(aborted=True)
    assert server.endings()[0].reason is Reason.PROTOCOL


def test_an_abort_in_a_sub_agent_ends_that_one_alone(server):
    server.event("abort", "sub", reason="user_initiated")
    server.event("session.error", "sub", errorType="query", message="inner")
    server.text("done")
    server.idle()
    assert server.endings()[0].status is Status.COMPLETED


def test_the_process_that_goes_without_a_word_crashed(server):
    server.done(server.codec.exited(1, None, {}))
    assert server.endings()[0].reason is Reason.CRASHED


def test_turns_are_bounded(fresh, order):
    server = fresh(order(limits={"max_turns": 1})).ready()
    server.event("assistant.turn_start", turnId="1")
    assert len(server.asks("session.abort")) == 1
    server.idle(aborted=True)
    assert [(one.reason, one.turns) for one in server.endings()] == [(Reason.MAX_TURNS, 1)]


def test_a_structured_answer_is_asked_for_and_read(fresh, order):
    server = fresh(order(output_schema={"type": "object"})).ready()
    wanted = {"type": "json_schema", "jsonSchema": {"name": "answer", "schema": {"type": "object"}}}
    assert server.asks("session.send")[0]["responseFormat"] == wanted
    server.text('{"a": 1}')
    server.idle()
    assert server.endings()[0].structured == {"a": 1}


def test_the_same_words_are_none_where_no_json_comes(fresh, order):
    server = fresh(order(output_schema={"type": "object"})).ready()
    server.text("sorry")
    server.idle()
    assert server.endings()[0].reason is Reason.INVALID_OUTPUT


def test_usage_is_that_of_every_request_and_cached_tokens_count_once(server):
    used = {"inputTokens": 100, "outputTokens": 10, "cacheReadTokens": 60}
    server.event("assistant.usage", model="m", **used)
    server.event("assistant.usage", "sub", model="m", **used)
    server.text()
    server.idle()
    usage = server.endings()[0].usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.model_requests) == (80, 120, 20, 2)
    assert server.events(UsageUpdated)[0].usage.input_tokens == 40


def test_usage_that_cannot_be_is_told_and_not_counted(server):
    server.event("assistant.usage", model="m", inputTokens=-1, outputTokens=1)
    server.done(server.codec.exited(1, None, {}))
    assert [notice.code for notice in server.events(Notice)] == ["unreadable_line"]
    assert server.endings()[0].usage.input_tokens is None


def test_unknown_usage_is_not_zero(server):
    server.event("assistant.usage", model="m")
    server.text()
    server.idle()
    assert server.endings()[0].usage.input_tokens is None


# ---- interrupts ------------------------------------------------------------------------------------------------------


def test_an_interrupt_answers_every_open_hook_and_the_turn_ends_cancelled(server):
    request = server.before()
    server.done(server.codec.interrupt())
    assert server.said(request) is None
    server.event("abort", reason="user_initiated")
    assert server.said(request)["output"]["permissionDecision"] == "deny"
    assert [tuple(one.key) for one in server.of(Withdraw)] == [("main", "c1")]
    server.idle(aborted=True)
    assert [one.status for one in server.endings()] == [Status.CANCELLED]
    assert [event.status for event in server.events(ToolFinished)] == ["denied"]


def test_calls_that_an_abort_cut_short_are_told_to_have_ended(server):
    server.let()
    server.permission()
    server.done(server.codec.interrupt())
    server.idle(aborted=True)
    assert [event.status for event in server.events(ToolFinished)] == ["error"]
    assert server.permissions() == []
    assert server.suspicions() == []


def test_an_answer_that_an_abort_overtook_is_no_alarm(server):
    server.let()
    server.permission()
    server.decide(Proceed(COMMAND))
    server.event("permission.completed", requestId="p1", toolCallId="c1", result={"kind": "cancelled"})
    server.answer("session.permissions.handlePendingPermissionRequest", {"success": False})
    assert server.suspicions() == []


def test_an_output_that_waits_when_the_turn_is_interrupted_is_shown_to_nobody(server):
    request = server.after(server.let(), text="secret")
    server.done(server.codec.interrupt())
    server.event("abort", reason="user_initiated")
    assert server.said(request)["output"]["modifiedResult"]["resultType"] == "failure"


def test_hooks_are_answered_in_the_end_though_the_agent_says_nothing_of_the_abort(server):
    request = server.before()
    server.done(server.codec.interrupt())
    server.done(server.codec.woke("aborting"))
    assert server.said(request)["output"]["permissionDecision"] == "deny"


def test_a_failure_that_nobody_has_judged_when_the_turn_is_interrupted_is_forgotten(server):
    message = {"messageId": "m1", "content": "", "turnId": "0", "toolRequests": [{"toolCallId": "c1", "name": "view"}]}
    server.event("assistant.message", id_="the-message", **message)
    server.let("c1", "view", {"path": "a"})
    request = server.failed({"path": "a"}, error="secret")
    server.done(server.codec.interrupt())
    server.done(server.codec.woke("aborting"))
    assert server.said(request) is None
    server.event("abort", reason="user_initiated")
    server.idle(aborted=True)
    server.answer("session.history.truncate", {"eventsRemoved": 3})
    assert [one.status for one in server.endings()] == [Status.CANCELLED]


def test_a_hook_that_comes_after_the_interrupt_is_denied(server):
    server.done(server.codec.interrupt())
    request = server.before()
    assert server.said(request)["output"]["permissionDecision"] == "deny"
    assert server.of(Consult) == []


def test_an_interrupt_that_came_before_the_turn_had_begun_is_said_again(fresh):
    server = fresh().confirmed()
    server.done(server.codec.prompt("go"))
    server.done(server.codec.interrupt())
    server.answer("session.send", {"messageId": "m0"})
    server.hook("sessionStart", source="new")
    server.event("assistant.turn_start", turnId="0")
    assert len(server.asks("session.abort")) == 2


def test_an_interrupt_before_the_prompt_just_ends_the_run(fresh):
    server = fresh()
    server.hello()
    server.done(server.codec.prompt("go"))
    server.done(server.codec.interrupt())
    assert [one.status for one in server.endings()] == [Status.CANCELLED]
    assert server.asks("session.abort") == []


def test_a_denial_that_ends_the_run_denies_and_aborts(server):
    request = server.before()
    server.decide(Refuse("stop", interrupt=True))
    assert (server.said(request), len(server.asks("session.abort"))) == (None, 1)
    server.event("abort", reason="user_initiated")
    assert server.said(request)["output"]["permissionDecision"] == "deny"
    server.idle(aborted=True)
    assert server.endings()[0].reason is Reason.DENIED


# ---- messages into the turn ------------------------------------------------------------------------------------------


def test_a_message_into_the_turn_goes_out_at_once_where_no_command_runs(server):
    server.done(server.codec.steer("hurry"))
    assert server.asks("session.send")[1] == {"sessionId": "s1", "prompt": "hurry", "mode": "immediate"}


def test_a_message_waits_for_the_command_that_it_would_put_into_the_background(server):
    told = server.let()
    server.done(server.codec.steer("hurry"))
    assert len(server.asks("session.send")) == 1
    server.after(told)
    server.keep()
    methods = [one.get("method", "answer") for one in server.sent()]
    assert methods[-2:] == ["session.send", "answer"]


def test_a_message_waits_for_a_command_that_is_only_announced(server):
    server.starts()
    server.done(server.codec.steer("hurry"))
    assert len(server.asks("session.send")) == 1
    server.lists(("c1", "bash", COMMAND))
    server.hook("preToolUse", toolName="bash", toolArgs=COMMAND)
    server.decide(Refuse("no"))
    server.ends(success=False, result=None, error={"message": "no", "code": "denied"})
    assert len(server.asks("session.send")) == 2


def test_a_message_that_came_too_late_has_a_turn_of_its_own(server):
    server.text("first")
    server.let()
    server.done(server.codec.steer("and then"))
    server.idle()
    assert [(one.text, one.more) for one in server.endings()] == [("first", True)]
    assert [one["prompt"] for one in server.asks("session.send")] == ["go", "and then"]
    server.answer("session.send", {"messageId": "m9"})
    server.event("assistant.turn_start", turnId="0")
    server.text("second")
    server.idle()
    assert [(one.text, one.more) for one in server.endings()] == [("first", True), ("second", False)]


def test_a_message_that_the_agent_took_and_has_not_shown_begins_a_turn_by_itself(server):
    server.text("first")
    server.done(server.codec.steer("and then"))
    server.answer("session.send", {"messageId": "m9"})
    server.idle()
    assert [one.more for one in server.endings()] == [True]
    server.event("user.message", messageId="m9", content="and then")
    server.event("assistant.turn_start", turnId="0")
    server.text("second")
    server.idle()
    assert [one.text for one in server.endings()] == ["first", "second"]


def test_a_message_that_is_never_taken_up_does_not_hold_the_run(server):
    server.text("first")
    server.done(server.codec.steer("and then"))
    server.idle()
    server.done(server.codec.woke(server.of(Wake)[-1].key))
    assert [one.more for one in server.endings()] == [True, False]
    assert "message_lost" in [notice.code for notice in server.events(Notice)]


def test_a_message_that_was_read_needs_no_further_turn(server):
    server.done(server.codec.steer("hurry"))
    server.answer("session.send", {"messageId": "m9"})
    server.event("user.message", messageId="m9", content="hurry", delivery="steering")
    server.text()
    server.idle()
    assert [one.more for one in server.endings()] == [False]


# ---- further turns ---------------------------------------------------------------------------------------------------


def test_each_turn_has_its_own_words_and_usage(server):
    server.event("assistant.usage", model="m", inputTokens=10, outputTokens=1)
    server.text("one")
    server.idle()
    server.done(server.codec.prompt("again"))
    server.answer("session.send", {"messageId": "m2"})
    server.event("assistant.usage", model="m", inputTokens=5, outputTokens=2)
    server.text("two")
    server.idle()
    assert [(one.text, one.usage.input_tokens) for one in server.endings()] == [("one", 10), ("two", 5)]


# ---- news ------------------------------------------------------------------------------------------------------------


def test_an_unknown_event_is_kept_and_ends_nothing(server):
    server.event("session.brand_new", a=1)
    server.say(method="brand.new", params={"b": 2})
    assert [raw.data for raw in server.events(Raw)] == [
        {"type": "session.brand_new", "data": {"a": 1}},
        {"jsonrpc": "2.0", "method": "brand.new", "params": {"b": 2}},
    ]


def test_a_message_that_breaks_our_reader_ends_nothing(server):
    server.event("assistant.message_delta", nothing=1)
    server.event("tool.execution_complete", nothing=1)
    assert [notice.code for notice in server.events(Notice)] == ["unreadable_line"] * 2
    server.text()
    server.idle()
    assert server.endings()[0].status is Status.COMPLETED


def test_deltas_retries_files_and_sub_agents_are_told(server):
    server.event("assistant.message_delta", messageId="m", deltaContent="Hel")
    server.event("model.call_failure", statusCode=500, retryAttempt=0, errorMessage="oops")
    server.let("c1", "task", {"prompt": "p"})
    server.event("subagent.started", "sub", toolCallId="c1", agentName="x", agentDescription="d")
    server.let("c2", "edit", {"path": "a"})
    server.ends("c2", fileEdits=[{"path": "/repo/a", "kind": "edit"}])
    assert server.events(TextDelta)[0].text == "Hel"
    assert (server.events(Retrying)[0].attempt, server.events(Retrying)[0].status) == (1, 500)
    assert server.events(SubagentStarted)[0].subagent_id == "sub"
    assert server.events(FilesChanged)[0].changes[0].change == "update"
    assert server.suspicions() == []


def test_a_sub_agent_that_nobody_let_start_is_told(server):
    server.event("subagent.started", "sub", toolCallId="c1", agentName="x")
    assert server.suspicions() == ["no_decision"]


def test_a_call_of_a_server_that_nobody_decided_about_is_told(server):
    server.hook("preMcpToolCall", toolCallId="m1", serverName="birds", arguments={})
    assert server.suspicions() == ["no_decision"]


def test_a_call_of_a_server_with_another_input_is_told(fresh, order):
    server = fresh(order(mcp_servers={"birds": {"type": "stdio", "command": "x"}})).ready()
    server.let("m1", "birds-say", MCP)
    server.hook("preMcpToolCall", toolCallId="m1", serverName="birds", arguments={"text": "other"})
    assert server.suspicions() == ["other_input"]


def test_an_answer_to_nothing_that_we_asked_is_told(server):
    server.say(id=4711, result={})
    assert server.suspicions() == ["unknown_answer"]


def test_a_request_id_that_comes_twice_is_told(server):
    server.before()
    server.say(id=server.asked, method="hooks.invoke", params={})
    assert server.suspicions() == ["unknown_answer"]


def test_text_on_the_channel_is_noise_and_the_next_message_is_read(server):
    server.done(server.codec.received("stdout", b"Update available!\r\n\r\n"))
    server.text("after it")
    server.idle()
    assert "stdout_noise" in [notice.code for notice in server.events(Notice)]


# ---- every cut -------------------------------------------------------------------------------------------------------


def conversation(server):
    """A whole run as one piece of bytes, from the server's side."""
    said = []
    real = server.codec.received

    def keep(channel, data):
        said.append(data)
        return real(channel, data)

    server.codec.received = keep
    told = server.let()
    server.permission()
    server.decide(Proceed(COMMAND))
    server.after(told)
    server.decide(Substitute("clean"))
    server.ends(text="clean")
    server.text("the répønse")
    server.idle()
    return said


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1_000_000])
def test_the_same_comes_of_any_cut(fresh, size):
    whole = fresh().ready()
    said = conversation(whole)
    pieces = fresh().ready()
    for message in said:
        for start in range(0, len(message), size):
            for action in pieces.done(pieces.codec.received("stdout", message[start : start + size])):
                if isinstance(action, Consult):
                    verdict = Substitute("clean") if action.stage == "after" else Proceed(COMMAND)
                    pieces.done(pieces.codec.decided(action.key, action.stage, verdict))
    assert pieces.sent() == whole.sent()
    assert pieces.endings() == whole.endings()
    kinds = [event for kind in (ToolRequested, ToolFinished, Text) for event in pieces.events(kind)]
    assert kinds == [event for kind in (ToolRequested, ToolFinished, Text) for event in whole.events(kind)]


def test_a_run_that_breaks_off_anywhere_ends_once(fresh):
    said = b"".join(conversation(fresh().ready()))
    for cut in range(0, len(said), 97):
        server = fresh().ready()
        server.done(server.codec.received("stdout", said[:cut]))
        server.done(server.codec.eof("stdout"))
        server.done(server.codec.exited(1, None, {}))
        assert len(server.endings()) == 1


def test_an_oversized_message_is_told_and_the_next_is_read(server):
    limit = 64 * 1024 * 1024
    head = b"Content-Length: %d\r\n\r\n" % (limit + 1)
    server.done(server.codec.received("stdout", head))
    piece = b"x" * (1024 * 1024)
    for _ in range(64):
        server.done(server.codec.received("stdout", piece))
    server.done(server.codec.received("stdout", b"x" + framed(b'{"method":"session.lifecycle","params":{}}')))
    assert [notice.code for notice in server.events(Notice)] == ["line_too_long"]
    server.text()
    server.idle()
    assert len(server.endings()) == 1


def test_a_verdict_on_nothing_that_is_open_says_nothing(server):
    server.before()
    asked = server.of(Consult)[0]
    server.decide(Refuse("no"), asked)
    before = len(server.actions)
    server.decide(Proceed(COMMAND), asked)
    assert len(server.actions) == before
    assert not [found for found in server.of(Suspicion) if found.kind != "second_consult"]
