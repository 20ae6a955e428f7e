"""What the codec of prompts makes of hooks and lines, in every order, and of their absence."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from interlock.actions import (
    CloseInput,
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
    Send,
    Stop,
    Substitute,
    Suspicion,
    Wake,
    Withdraw,
)
from interlock.adapter import Host, Order
from interlock.capabilities import Needs
from interlock.events import Notice, Raw, Text, ToolDecided, ToolFinished, ToolRequested
from interlock.outcome import Reason, Status
from interlock.permission import Backstop
from interlock.request import Request
from interlock_adapters.copilot.prompt import hooks
from interlock_adapters.copilot.prompt.codec import PromptCodec
from interlock_adapters.copilot.prompt.hook_calls import PLACEHOLDER

CWD = "/repo"
CHAIN = Needs(chain_before=True, chain_after=True, modify=True, replace=True)
TOUCH = {"command": "touch f", "description": "x"}


def an_order(*, needs: Needs = CHAIN, **fields: object) -> Order:
    host = Host(
        home="/home/user",
        environ={},
        binary="/usr/bin/copilot",
        binary_folder="/usr/bin",
        platform="linux",
        root=False,
    )
    request = Request.model_validate({"agent": "copilot", "prompt": "go", "cwd": CWD, "model": "m"} | fields)
    return Order("run-1", request, needs, host, Backstop.FLAGS, hook_timeout=60.0, hooks=True)


@dataclass
class Agent:
    """Plays the agent to a codec: lines and hooks in, actions out."""

    order: Order = field(default_factory=an_order)
    codec: PromptCodec = field(init=False)
    asked: int = 0

    def __post_init__(self) -> None:
        self.codec = PromptCodec(self.order)
        assert list(self.codec.start()) == []
        assert list(self.codec.prompt("go")) == [Send(PLACEHOLDER.encode()), CloseInput()]

    def hook(self, channel: str, **fields: object) -> list[Any]:
        self.asked += 1
        body = {"sessionId": "s1", "timestamp": 1, "cwd": CWD, **fields}
        return list(self.codec.called(channel, str(self.asked), json.dumps(body).encode()))

    def begin(self) -> "Agent":
        self.hook(hooks.START)
        assert self.hook(hooks.PROMPT, prompt=PLACEHOLDER)[-1] == Reply(hooks.PROMPT, "2", hooks.release("go"))
        return self

    def says(self, type_: str, agent: str | None = None, **data: object) -> list[Any]:
        line = {"type": type_, "data": data, "id": "e"} | ({} if agent is None else {"agentId": agent})
        return self.lines(line)

    def lines(self, *lines: object) -> list[Any]:
        return list(self.codec.received("stdout", "".join(json.dumps(line) + "\n" for line in lines).encode()))

    def announce(
        self, call: str = "c1", name: str = "bash", args: object = TOUCH, agent: str | None = None
    ) -> list[Any]:
        return self.says("tool.execution_start", agent, toolCallId=call, toolName=name, arguments=args, turnId="0")

    def before(self, name: str = "bash", args: object = TOUCH, **fields: object) -> list[Any]:
        return self.hook(hooks.BEFORE, toolName=name, toolArgs=args, **fields)

    def let_through(self, call: str = "c1", name: str = "bash", args: object = TOUCH) -> Key:
        self.announce(call, name, args)
        (consult,) = self.before(name, args)
        assert isinstance(consult, Consult)
        self.codec.decided(consult.key, "before", Proceed(args))
        return consult.key

    def after(self, text: str, name: str = "bash", args: object = TOUCH) -> list[Any]:
        result = {"resultType": "success", "textResultForLlm": text}
        return self.hook(hooks.AFTER, toolName=name, toolArgs=args, toolResult=result)

    def completes(self, call: str = "c1", **data: object) -> list[Any]:
        told = {"success": True, "result": {"content": "out"}} | data
        return self.says("tool.execution_complete", toolCallId=call, turnId="0", **told)


PLAIN = Needs(chain_before=True)


def wrapped(command: dict[str, str] = TOUCH) -> dict[str, object]:
    return {**command, "mode": "sync", "detach": False, "initial_wait": 86_400}


def events(actions: Sequence[Any], kind: type) -> list[Any]:
    found = (event for action in actions if isinstance(action, Emit) for event in action.events)
    return [event for event in found if isinstance(event, kind)]


def of(actions: Sequence[Any], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


def reply_of(actions: Sequence[Any]) -> Any:
    (reply,) = of(actions, Reply)
    return json.loads(reply.data)


def ending(actions: Sequence[Any]) -> Any:
    (done,) = of(actions, RunDone)
    return done.ending


# ---- The prompt -----------------------------------------------------------------------------------------------------


def test_the_prompt_goes_out_by_a_hook_once_the_session_has_called_home_too():
    agent = Agent()
    assert agent.hook(hooks.PROMPT, prompt=PLACEHOLDER) == []
    actions = agent.hook(hooks.START)
    assert actions[0] == Reply(hooks.START, "2", b"{}")
    assert [action.session_id for action in of(actions, Ready)] == ["s1"]
    assert actions[-1] == Reply(hooks.PROMPT, "1", b'{"modifiedPrompt": "go"}')


def test_the_prompt_goes_out_once_and_to_the_main_agent_alone():
    agent = Agent().begin()
    again = agent.hook(hooks.PROMPT, prompt=PLACEHOLDER)
    assert reply_of(again)["decision"] == "block"
    assert [action.kind for action in of(again, Suspicion)] == ["second_consult"]
    other = agent.hook(hooks.PROMPT, prompt=PLACEHOLDER, agentId="a1")
    assert other == [Reply(hooks.PROMPT, "4", b"{}")]


def test_a_session_in_another_directory_is_not_told_the_prompt():
    agent = Agent()
    agent.hook(hooks.START)
    actions = agent.hook(hooks.PROMPT, prompt=PLACEHOLDER, cwd="/elsewhere")
    assert reply_of(actions)["decision"] == "block"
    assert [action.reason for action in of(actions, Stop)] == [Reason.PROTOCOL]


def test_an_agent_that_goes_to_the_model_without_our_hooks_is_stopped():
    actions = Agent().says("user.message", content=PLACEHOLDER)
    assert [action.kind for action in of(actions, Suspicion)] == ["not_confirmed"]
    assert [action.reason for action in of(actions, Stop)] == [Reason.UNGUARDED]
    assert Agent().begin().says("user.message", content=PLACEHOLDER) == []


def test_what_ended_in_the_background_stops_the_run_where_outputs_are_judged():
    told = "<system_notification>\nShell command has completed.\n</system_notification>"
    judged = Agent().begin().hook(hooks.PROMPT, prompt=told)
    assert ([action.reason for action in of(judged, Stop)], of(judged, Reply)) == ([Reason.UNREPLACEABLE], [])
    assert reply_of(Agent(an_order(needs=PLAIN)).begin().hook(hooks.PROMPT, prompt=told)) == {}


# ---- Before a call --------------------------------------------------------------------------------------------------


def test_a_call_is_announced_asked_about_and_answered():
    agent = Agent().begin()
    (requested,) = events(agent.announce(), ToolRequested)
    assert (requested.tool_call_id, requested.subject.command) == ("c1", "touch f")
    (consult,) = agent.before()
    assert (consult.key, consult.stage, consult.call.input, consult.call.cwd) == (
        Key("main", "c1"),
        "before",
        TOUCH,
        CWD,
    )
    assert reply_of(agent.codec.decided(consult.key, "before", Refuse("policy"))) == {
        "permissionDecision": "deny",
        "permissionDecisionReason": "policy",
    }


def test_nothing_is_ever_approved_by_the_hook_before_a_call():
    agent = Agent(an_order(needs=PLAIN)).begin()
    agent.announce()
    (consult,) = agent.before()
    assert reply_of(agent.codec.decided(consult.key, "before", Proceed(TOUCH))) == {}
    agent.announce("c2")
    (consult,) = agent.before()
    changed = agent.codec.decided(consult.key, "before", Proceed({"command": "ls"}, changed=True))
    assert reply_of(changed) == {"modifiedArgs": {"command": "ls"}}


@pytest.mark.parametrize(
    ("name", "args", "told"),
    [
        ("bash", TOUCH | {"mode": "async", "shellId": "s"}, wrapped()),
        (
            "task",
            {"agent_type": "general-purpose", "mode": "background"},
            {"agent_type": "general-purpose", "mode": "sync"},
        ),
    ],
)
def test_nothing_runs_in_the_background_where_outputs_are_judged(name, args, told):
    agent = Agent().begin()
    agent.announce("c1", name, args)
    (consult,) = agent.before(name, args)
    assert consult.call.input == args
    assert reply_of(agent.codec.decided(consult.key, "before", Proceed(args))) == {"modifiedArgs": told}


def test_a_hook_that_overtakes_its_announcement_waits_for_it():
    agent = Agent().begin()
    assert agent.before() == [Wake("3", 5.0)]
    actions = agent.announce()
    assert [action.key.call for action in of(actions, Consult)] == ["c1"]
    assert list(agent.codec.woke("3")) == []


def test_a_hook_about_a_call_that_nobody_announces_is_refused_and_said():
    agent = Agent().begin()
    agent.announce(args={"command": "another"})
    agent.before()
    actions = list(agent.codec.woke("3"))
    assert reply_of(actions)["permissionDecision"] == "deny"
    assert [action.kind for action in of(actions, Suspicion)] == ["not_confirmed"]


def test_calls_alike_are_asked_about_in_order_and_each_agent_has_its_own():
    agent = Agent().begin()
    agent.announce("c1")
    agent.announce("c2")
    agent.announce("c1", agent="a1")
    keys = [agent.before()[0].key, agent.before(agentId="a1")[0].key, agent.before()[0].key]
    assert keys == [Key("main", "c1"), Key("a1", "c1"), Key("main", "c2")]
    assert of(agent.before(), Wake)


@pytest.mark.parametrize(
    ("shown", "asked", "fits"),
    [
        ("curl -H ****** x", "curl -H s3cr3t x", True),
        ("******", "anything", True),
        ("a ****** b ****** c", "a 1 b 2 c", True),
        ("a ****** b ****** c", "a 1 c", False),
        ("curl -H ****** x", "rm -rf x", False),
        ("aa******aa", "aaa", False),
    ],
)
def test_the_stream_masks_secrets_and_the_hook_does_not(shown, asked, fits):
    agent = Agent().begin()
    agent.announce(args={"command": shown})
    assert bool(of(agent.before(args={"command": asked}), Consult)) is fits


@pytest.mark.parametrize(("shown", "asked"), [(1.0, 1), (10**20, 1e20), (2**53 + 1, 2**53), ([1.5, None], [1.5, None])])
def test_numbers_are_of_one_type_to_the_agent(shown, asked):
    agent = Agent().begin()
    key = agent.let_through(args=TOUCH | {"n": shown})
    (consult,) = agent.after("out", args=wrapped() | {"n": asked})
    assert (consult.key, consult.call.input) == (key, TOUCH | {"n": shown})
    agent.announce("c2", args={"n": True})
    assert of(agent.before(args={"n": 1}), Wake)


def test_an_id_that_comes_again_is_another_call():
    agent = Agent().begin()
    first = agent.let_through()
    agent.after("out", args=wrapped())
    agent.codec.decided(first, "after", Keep())
    agent.completes()
    second = agent.let_through()
    assert (first.call, second.call) == ("c1", "c1~1")
    agent.after("out", args=wrapped())
    assert events(agent.completes(), ToolFinished)[0].tool_call_id == "c1~1"


def test_sub_agents_of_an_untrusted_workspace_are_not_started():
    agent = Agent().begin()
    agent.announce("t1", "task", {"agent_type": "explore"})
    actions = agent.before("task", {"agent_type": "explore"})
    assert reply_of(actions)["permissionDecision"] == "deny"
    assert [(event.decision, event.by) for event in events(actions, ToolDecided)] == [("deny", "policy")]
    agent.announce("t2", "task", {"agent_type": "general-purpose"})
    (consult,) = agent.before("task", {"agent_type": "general-purpose"})
    rewritten = agent.codec.decided(consult.key, "before", Proceed({"agent_type": "explore"}, changed=True))
    assert reply_of(rewritten)["permissionDecision"] == "deny"
    trusting = Agent(an_order(trust_workspace=True)).begin()
    trusting.announce("t1", "task", {"agent_type": "explore"})
    assert of(trusting.before("task", {"agent_type": "explore"}), Consult)


@pytest.mark.parametrize("verdict", [Defer(), Keep(), Substitute("x"), Proceed("text", changed=True), Proceed(3, True)])
def test_a_verdict_that_does_not_fit_refuses_the_call(verdict):
    agent = Agent().begin()
    agent.announce()
    (consult,) = agent.before()
    actions = agent.codec.decided(consult.key, "before", verdict)
    assert reply_of(actions)["permissionDecision"] == "deny"
    assert [event.code for event in events(actions, Notice)] == ["unanswerable"]
    permission = agent.hook(hooks.PERMISSION, toolName="bash", toolInput={"command": "touch f"})
    assert reply_of(permission)["behavior"] == "deny"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"\xff", b'{"sessionId":1}', b'{"sessionId":"s","cwd":"/","toolName":3}']
)
@pytest.mark.parametrize("channel", [*hooks.REFUSALS])
def test_a_hook_that_cannot_be_read_is_refused_and_said(channel, body):
    agent = Agent().begin()
    actions = list(agent.codec.called(channel, "x", body))
    assert [action.kind for action in of(actions, Suspicion)] == ["not_confirmed"]
    assert of(actions, Reply) == ([] if channel == hooks.FAILED else [Reply(channel, "x", hooks.REFUSALS[channel])])


# ---- Permissions ----------------------------------------------------------------------------------------------------


def test_a_permission_is_granted_for_what_was_let_through_and_confirmed():
    agent = Agent().begin()
    key = agent.let_through()
    (consult,) = agent.hook(hooks.PERMISSION, toolName="bash", toolInput={"command": "touch f"})
    assert (consult.key, consult.stage, consult.call.input) == (key, "confirm", TOUCH)
    assert reply_of(agent.codec.decided(key, "confirm", Proceed(TOUCH))) == {"behavior": "allow"}
    agent.hook(hooks.PERMISSION, toolName="bash", toolInput={"command": "touch f"})
    assert reply_of(agent.codec.decided(key, "confirm", Refuse("no")))["behavior"] == "deny"


def test_a_permission_for_what_nobody_was_shown_is_refused_and_said():
    agent = Agent().begin()
    agent.announce()
    actions = agent.hook(hooks.PERMISSION, toolName="bash", toolInput={"command": "touch f"})
    assert reply_of(actions)["behavior"] == "deny"
    assert [action.kind for action in of(actions, Suspicion)] == ["no_decision"]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("bash", {"command": "touch g"}),
        ("bash", {}),
        ("bash", None),
        ("edit", {"file_path": "/repo/f"}),
        ("birds/sing", TOUCH),
    ],
)
def test_a_permission_for_another_input_is_refused(name, asked):
    agent = Agent().begin()
    agent.let_through()
    actions = agent.hook(hooks.PERMISSION, toolName=name, toolInput=asked)
    assert reply_of(actions)["behavior"] == "deny"


def test_a_patch_is_permitted_file_by_file_and_no_other_file():
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Add File: sub/b\n+x\n*** End Patch\n"
    agent = Agent().begin()
    key = agent.let_through(name="apply_patch", args=patch)
    assert of(agent.hook(hooks.PERMISSION, toolName="edit", toolInput={"file_path": "/repo/a"}), Consult)
    assert agent.hook(hooks.PERMISSION, toolName="edit", toolInput={"file_path": "/repo/sub/b"}) == []
    other = agent.hook(hooks.PERMISSION, toolName="edit", toolInput={"file_path": "/repo/c"})
    assert reply_of(other)["behavior"] == "deny"
    granted = agent.codec.decided(key, "confirm", Proceed(patch))
    assert [reply.data for reply in of(granted, Reply)] == [hooks.GRANT, hooks.GRANT]


# ---- After a call ---------------------------------------------------------------------------------------------------


def test_an_output_is_judged_as_what_ran_and_replaced_whole():
    agent = Agent().begin()
    key = agent.let_through()
    (consult,) = agent.after("secret", args=wrapped())
    assert (consult.stage, consult.call.input, consult.output, consult.is_error) == ("after", TOUCH, "secret", False)
    result = reply_of(agent.codec.decided(key, "after", Substitute("***")))["modifiedResult"]
    assert result == {"resultType": "success", "textResultForLlm": "***", "sessionLog": "***", "contents": []}
    (finished,) = events(agent.completes(result={"content": "***"}), ToolFinished)
    assert (finished.status, finished.output) == ("ok", "***")


def test_a_denied_output_is_an_error_and_a_blank_one_is_not_let_through():
    agent = Agent().begin()
    key = agent.let_through()
    agent.after("secret", args=wrapped())
    result = reply_of(agent.codec.decided(key, "after", Refuse("not yours")))["modifiedResult"]
    assert (result["resultType"], result["textResultForLlm"], result["error"]) == ("failure",) + ("not yours",) * 2
    other = agent.let_through("c2")
    agent.after("secret", args=wrapped())
    shown = reply_of(agent.codec.decided(other, "after", Substitute("")))["modifiedResult"]
    assert shown["textResultForLlm"].strip()


def test_an_output_of_another_input_is_judged_as_that_of_the_other():
    agent = Agent().begin()
    agent.let_through()
    (consult,) = agent.after("secret", args={"command": "other"})
    assert consult.call.input == {"command": "other"}


def test_an_output_of_a_call_that_was_not_let_through_is_withheld_and_said():
    agent = Agent().begin()
    agent.announce()
    actions = agent.after("secret")
    assert reply_of(actions)["modifiedResult"]["resultType"] == "failure"
    assert [action.kind for action in of(actions, Suspicion)] == ["no_decision"]


def test_what_a_failed_call_says_is_held_until_it_is_judged_and_for_good_where_it_may_not_be_shown():
    agent = Agent().begin()
    key = agent.let_through()
    (consult,) = agent.hook(hooks.FAILED, toolName="bash", toolArgs=wrapped(), error="secret")
    assert (consult.output, consult.is_error, consult.replaceable) == ("secret", True, False)
    assert reply_of(agent.codec.decided(key, "after", Keep())) == {}
    other = agent.let_through("c2")
    agent.hook(hooks.FAILED, toolName="bash", toolArgs=wrapped(), error="secret")
    assert of(agent.codec.decided(other, "after", Refuse("no")), Reply) == []


def test_a_call_that_failed_before_it_was_asked_about_is_no_matter():
    agent = Agent().begin()
    agent.let_through("c0")
    agent.announce(args={})
    assert reply_of(agent.hook(hooks.FAILED, toolName="bash", toolArgs={}, error="no JSON")) == {}
    failed = agent.completes(success=False, error={"message": "no JSON", "code": "failure"}, result=None)
    assert [event.status for event in events(failed, ToolFinished)] == ["error"]


def test_a_call_whose_hook_after_it_never_came_is_said():
    agent = Agent().begin()
    agent.let_through()
    assert [action.kind for action in of(agent.completes(), Suspicion)] == ["not_confirmed"]


@pytest.mark.parametrize("code", ["denied", "rejected"])
def test_what_the_agent_denies_itself_is_a_denial(code):
    agent = Agent().begin()
    agent.let_through()
    told = agent.completes(success=False, error={"message": "not here", "code": code}, result=None)
    assert [(event.status, event.by, event.output) for event in events(told, ToolFinished)] == [
        ("denied", "agent", "not here")
    ]


def test_what_the_runtime_reads_by_itself_is_a_notice_and_a_completion_from_nowhere_is_a_call():
    agent = Agent().begin()
    told = agent.says("tool.execution_start", toolCallId="u1", toolName="read_bash", arguments={"shellId": "0"})
    assert [event.code for event in events(told, Notice)] == ["agent_reads"]
    assert agent.says("tool.execution_complete", toolCallId="u1", success=True, result={"content": "x"}) == []
    (finished,) = events(agent.completes("never-announced"), ToolFinished)
    assert (finished.status, finished.tool_kind) == ("ok", "unknown")


def test_who_hangs_up_is_no_longer_waited_for():
    agent = Agent().begin()
    agent.announce()
    (consult,) = agent.before()
    assert list(agent.codec.hung_up(hooks.BEFORE, "3")) == [Withdraw(consult.key, "before")]
    assert list(agent.codec.decided(consult.key, "before", Proceed(TOUCH))) == []
    agent.before(args={"command": "early"})
    assert list(agent.codec.hung_up(hooks.BEFORE, "4")) == []
    assert list(agent.codec.woke("4")) == []


@pytest.mark.parametrize("verdict", [Proceed("x"), Defer()])
def test_a_verdict_that_does_not_fit_withholds_the_output(verdict):
    agent = Agent().begin()
    key = agent.let_through()
    agent.after("secret", args=wrapped())
    assert reply_of(agent.codec.decided(key, "after", verdict))["modifiedResult"]["resultType"] == "failure"


# ---- Lines, and the end ---------------------------------------------------------------------------------------------

SAID = {"type": "assistant.message", "data": {"content": "done\u2028", "toolRequests": [], "turnId": "0", "model": "m"}}
INNER = {"type": "assistant.message", "agentId": "a1", "data": {"content": "inner", "toolRequests": [], "turnId": "0"}}
ASKS = {
    "type": "assistant.message",
    "data": {"content": "", "turnId": "1", "toolRequests": [{"toolCallId": "c", "name": "x"}]},
}
RESULT = {"type": "result", "sessionId": "s1", "exitCode": 0, "usage": {}}
ERROR = {"type": "session.error", "data": {"errorType": "query", "message": "m", "statusCode": 500}}
ABORT = {"type": "abort", "data": {"reason": "user_initiated"}}
USAGE = {
    "modelMetrics": {
        "a": {"requests": {"count": 2}, "usage": {"inputTokens": 100, "outputTokens": 5, "cacheReadTokens": 40}},
        "b": {"requests": {"count": 1}, "usage": {"inputTokens": 10, "outputTokens": 1, "reasoningTokens": 1}},
    }
}


@pytest.mark.parametrize("size", [*range(1, 8), 10_000])
def test_lines_may_come_in_pieces_of_any_size(size):
    lines = [
        {"type": "assistant.turn_start", "data": {"turnId": "0"}},
        {"type": "news", "data": {"x": 1}},
        SAID,
        RESULT,
    ]
    data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    agent = Agent().begin()
    actions = [
        action
        for start in range(0, len(data), size)
        for action in agent.codec.received("stdout", data[start : start + size])
    ]
    assert [event.text for event in events(actions, Text)] == ["done\u2028"]
    assert [event.data for event in events(actions, Raw)] == [lines[1]]
    last = ending(agent.codec.exited(0, None, {}))
    assert (last.status, last.text, last.turns, last.session_id) == (Status.COMPLETED, "done\u2028", 1, "s1")


def test_what_is_no_message_is_noise_and_ends_nothing():
    agent = Agent().begin()
    actions = list(agent.codec.received("stdout", b'banner {\n\n{"type":1}\n[]\n'))
    assert [event.code for event in events(actions, Notice)] == ["stdout_noise", "unreadable_line", "stdout_noise"]
    agent.lines(SAID, RESULT)
    assert ending(agent.codec.exited(0, None, {})).status is Status.COMPLETED


@pytest.mark.parametrize("line", [{"type": "result"}, {"type": "session.error", "data": {"message": 1}}])
def test_an_end_that_cannot_be_read_is_a_broken_protocol(line):
    assert ending(Agent().begin().lines(SAID, line)).reason is Reason.PROTOCOL


@pytest.mark.parametrize(
    ("lines", "code", "signal", "status", "reason"),
    [
        ([SAID, RESULT], 0, None, Status.COMPLETED, None),
        ([SAID, INNER, RESULT], 0, None, Status.COMPLETED, None),
        ([RESULT], 0, None, Status.FAILED, Reason.NO_OUTPUT),
        ([ASKS, RESULT], 0, None, Status.FAILED, Reason.NO_OUTPUT),
        ([INNER, RESULT], 0, None, Status.FAILED, Reason.NO_OUTPUT),
        ([SAID, ASKS, RESULT], 0, None, Status.FAILED, Reason.NO_OUTPUT),
        ([SAID, ERROR | {"agentId": "a1"}, RESULT], 0, None, Status.COMPLETED, None),
        ([SAID, RESULT | {"exitCode": 1}], 1, None, Status.FAILED, Reason.CRASHED),
        ([SAID], 0, None, Status.FAILED, Reason.CRASHED),
        ([SAID], None, 9, Status.FAILED, Reason.CRASHED),
        ([], 0, None, Status.FAILED, Reason.NO_OUTPUT),
        ([], 1, None, Status.FAILED, Reason.CRASHED),
        ([SAID, ERROR, RESULT], 0, None, Status.FAILED, Reason.API),
        ([SAID, ABORT, RESULT], 0, None, Status.CANCELLED, None),
        ([SAID, ABORT | {"agentId": "a1"}, RESULT], 0, None, Status.COMPLETED, None),
    ],
)
def test_how_a_run_ended_is_judged_by_what_was_said(lines, code, signal, status, reason):
    agent = Agent().begin()
    assert of(agent.lines(*lines), RunDone) == []
    last = ending(agent.codec.exited(code, signal, {}))
    assert (last.status, last.reason, last.final) == (status, reason, True)
    assert (last.text is None) is (status is not Status.COMPLETED)


@pytest.mark.parametrize(
    ("kind", "status", "message", "reason"),
    [
        ("authentication", 401, "m", Reason.AUTH),
        ("rate_limit", 429, "m", Reason.RATE_LIMIT),
        ("query", 400, "m", Reason.BAD_REQUEST),
        ("query", 503, "m", Reason.OVERLOADED),
        ("query", None, "exceeds the model's prompt budget", Reason.CONTEXT),
        ("query", None, "Could not connect to local model provider", Reason.API),
    ],
)
def test_an_error_has_its_reason(kind, status, message, reason):
    agent = Agent().begin()
    agent.says("session.error", errorType=kind, message=message, **({} if status is None else {"statusCode": status}))
    last = ending(agent.codec.exited(1, None, {}))
    assert (last.status, last.reason, last.message, last.api_status) == (Status.FAILED, reason, message, status)


def test_a_resumed_session_that_says_nothing_was_not_found():
    agent = Agent(an_order(session={"kind": "resume", "id": "s1"}))
    assert ending(agent.codec.exited(1, None, {})).reason is Reason.SESSION_NOT_FOUND


def test_usage_is_of_this_run_alone_and_unknown_is_not_zero():
    file = {"usage.json": json.dumps(USAGE).encode()}
    usage = ending(Agent().codec.exited(0, None, file)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (70, 6, 40)
    assert (usage.reasoning_tokens, usage.model_requests) == (1, 3)
    for unknown in ({}, {"usage.json": b"{"}, {"usage.json": b'{"modelMetrics":{}}'}):
        assert ending(Agent().codec.exited(0, None, unknown)).usage.input_tokens is None
    resumed = Agent(an_order(session={"kind": "resume", "id": "s1"}))
    assert ending(resumed.codec.exited(0, None, file)).usage.model_requests is None


def test_an_agent_that_does_not_exit_is_not_waited_for_and_ends_once():
    agent = Agent().begin()
    (wake,) = of(agent.lines(SAID, RESULT), Wake)
    assert ending(agent.codec.woke(wake.key)).status is Status.COMPLETED
    assert list(agent.codec.exited(0, None, {})) == []
    assert list(agent.codec.interrupt()) == []


def test_turns_beyond_the_bound_stop_the_run():
    agent = Agent(an_order(limits={"max_turns": 1})).begin()
    turn = {"type": "assistant.turn_start", "data": {"turnId": "0"}}
    assert agent.lines(turn, turn | {"agentId": "a1"}) == []
    assert [action.reason for action in of(agent.lines(turn), Stop)] == [Reason.MAX_TURNS]
