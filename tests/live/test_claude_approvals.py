"""Approvals and questions on the real CLI: asked, answered in any order, and what was answered is what happens."""

import json

import anyio
import pytest

from interlock import (
    Allow,
    Answer,
    Approve,
    Client,
    Deny,
    DenyCall,
    NotOpen,
    Reason,
    Status,
    Unsupported,
)
from interlock.events import ApprovalRequested, ApprovalResolved, QuestionAsked
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
ASK = {"posture": "none", "otherwise": "ask"}
BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def bash(command: str, call_id: str = "t1") -> ToolCall:
    return ToolCall("Bash", {"command": command}, call_id)


@BOTH_LOOPS
async def test_an_approved_call_runs_once_and_a_denied_one_does_not(live):
    def respond(approval):
        return Approve() if "good" in approval.call.subject.command else Deny(reason="rather not")

    script = [Turn(bash("touch good", "t1")), Turn(bash("touch bad", "t2")), DONE]
    played = await live.play(script, respond=respond, permission=ASK)
    assert [path.name for path in live.workspace.iterdir()] == ["good"]
    assert "rather not" in played.result("t2").content
    assert [event.decision for event in played.of(ApprovalResolved)] == ["approve", "deny"]
    assert [(denial.tool_call_id, denial.by) for denial in played.outcome.denials] == [("t2", "user")]
    assert (played.outcome.status, played.unguarded()) == (Status.COMPLETED, [])


async def test_an_edited_input_is_what_runs(live):
    def respond(approval):
        return Approve(updated_input={"command": "touch edited"})

    played = await live.play([Turn(bash("touch made")), DONE], respond=respond, permission=ASK)
    assert [path.name for path in live.workspace.iterdir()] == ["edited"]
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_an_edited_input_passes_deny_rules_and_the_chain_again(live, policy):
    guard = policy(lambda call: DenyCall(reason="no worse") if "worse" in str(call.input) else Allow())
    edits = {"t1": "touch ruled", "t2": "touch worse"}

    def respond(approval):
        return Approve(updated_input={"command": edits[approval.call.tool_call_id]})

    script = [Turn(bash("touch one", "t1")), Turn(bash("touch two", "t2")), DONE]
    permission = {**ASK, "deny": ["shell(touch ruled)"]}
    played = await live.play(script, guard, respond=respond, permission=permission)
    assert list(live.workspace.iterdir()) == []
    assert played.decisions() == {"t1": "deny by rule", "t2": "deny by hook"}


async def test_a_denial_that_interrupts_ends_the_run(live):
    script = [Turn(bash("touch made")), DONE]
    played = await live.play(script, respond=lambda _: Deny(reason="stop it", interrupt=True), permission=ASK)
    assert (played.outcome.status, played.outcome.reason) == (Status.CANCELLED, Reason.DENIED)
    assert list(live.workspace.iterdir()) == []
    assert len([request for request in played.requests if request.kind == "turn"]) == 1


async def test_a_denial_that_interrupts_ends_the_run_from_a_sub_agent_too(live, inner):
    def reply(request):
        if not inner(request):
            brief = {"description": "look", "prompt": "INNER", "subagent_type": "general-purpose"}
            return DONE if request.shown else Turn(ToolCall("Agent", brief, "outer"))
        return Turn(Text("report")) if request.shown else Turn(bash("touch made", "inner"))

    def respond(approval):
        return Approve() if approval.call.tool_kind == "agent" else Deny(reason="stop it", interrupt=True)

    played = await live.play([reply] * 4, respond=respond, permission=ASK)
    assert (played.outcome.status, played.outcome.reason) == (Status.CANCELLED, Reason.DENIED)
    assert list(live.workspace.iterdir()) == []


@BOTH_LOOPS
async def test_two_parallel_calls_wait_together_and_are_answered_in_reverse(live):
    (live.workspace / "a.txt").write_text("content of a")
    script = [Turn(bash("echo one", "t1"), ToolCall("Read", {"file_path": "a.txt"}, "t2")), DONE]
    with ScriptedModel(script) as model, anyio.fail_after(30):
        async with Client(state=live.state).stream(live.request(model, permission=ASK)) as run:
            waiting, resolved = [], []
            async for event in run:
                match event:
                    case ApprovalRequested():
                        waiting.append(event.approval)
                        if len(waiting) == 2:
                            assert {approval.id for approval in run.open_approvals} == {one.id for one in waiting}
                            run.respond(waiting[1].id, Approve())
                            with pytest.raises(NotOpen):
                                run.respond(waiting[1].id, Deny())
                    case ApprovalResolved():
                        resolved.append(event.id)
                        if len(resolved) == 1:
                            run.respond(waiting[0].id, Deny(reason="not the first"))
                    case _:
                        pass
            outcome = await run.outcome()
        assert resolved == [waiting[1].id, waiting[0].id]
        shown = {one.tool_use_id: one for one in model.shown}
    denied, ran = (waiting[0].call.tool_call_id, waiting[1].call.tool_call_id)
    assert "not the first" in shown[denied].content
    assert ("content of a" in shown[ran].content) or shown[ran].content == "one"
    assert outcome.ok


async def test_calls_with_effects_are_each_asked_about(live):
    script = [Turn(bash("touch a", "t1"), bash("touch b", "t2"), bash("touch c", "t3")), DONE]
    answers = iter([Approve(), Deny(), Approve()])
    played = await live.play(script, respond=lambda _: next(answers), permission=ASK)
    assert sorted(path.name for path in live.workspace.iterdir()) == ["a", "c"]
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_remembered_rule_spares_the_next_question(live):
    asked = []

    def respond(approval):
        asked.append(approval.call.subject.command)
        return Approve(remember="shell(touch:*)")

    script = [Turn(bash("touch a", "t1")), Turn(bash("touch b", "t2")), Turn(bash("rm a", "t3")), DONE]
    await live.play(script, respond=respond, permission=ASK)
    assert asked == ["touch a", "rm a"]
    assert [path.name for path in live.workspace.iterdir()] == ["b"]


async def test_an_approval_past_its_deadline_is_denied_as_expired(live):
    limits = {"approval": 0.3}
    played = await live.play([Turn(bash("touch made")), DONE], permission=ASK, limits=limits)
    assert list(live.workspace.iterdir()) == []
    assert [denial.by for denial in played.outcome.denials] == ["expired"]
    assert played.outcome.ok


async def test_what_is_displayed_is_exactly_what_runs(live):
    command = "printf '%s' \"a\\tb\u202ec\" > made; echo \u00fc"
    displays = []

    def respond(approval):
        displays.append(approval.display())
        return Approve()

    played = await live.play([Turn(bash(command)), DONE], respond=respond, permission=ASK)
    assert "\\u202e" in displays[0]
    assert (live.workspace / "made").read_text(encoding="utf-8") == "a\\tb\u202ec"
    assert played.result("t1").content == "\u00fc"


async def test_an_approver_answers_for_a_run_that_nobody_streams(live):
    async def approver(approval):
        return Approve() if "good" in approval.call.subject.command else Deny(reason="no")

    script = [Turn(bash("touch good", "t1")), Turn(bash("touch bad", "t2")), DONE]
    with ScriptedModel(script) as model, anyio.fail_after(30):
        outcome = await Client(state=live.state, approver=approver).run(live.request(model, permission=ASK))
    assert outcome.text == "done"
    assert [path.name for path in live.workspace.iterdir()] == ["good"]


async def test_an_approver_that_raises_denies(live):
    async def approver(approval):
        raise RuntimeError("boom")

    with ScriptedModel([Turn(bash("touch made")), DONE]) as model, anyio.fail_after(30):
        outcome = await Client(state=live.state, approver=approver).run(live.request(model, permission=ASK))
    assert list(live.workspace.iterdir()) == []
    assert (outcome.ok, len(outcome.denials)) == (True, 1)


async def test_asking_with_nobody_to_answer_is_refused_before_anything_is_sent(live):
    with ScriptedModel([DONE]) as model:
        with pytest.raises(Unsupported) as refused:
            await Client(state=live.state).run(live.request(model, permission=ASK))
        assert model.requests == ()
    assert [unmet.field for unmet in refused.value.unmet] == ["permission.otherwise"]


QUESTIONS = {
    "questions": [
        {
            "question": "Which colour?",
            "header": "Colour",
            "options": [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}],
            "multiSelect": False,
        }
    ]
}


@BOTH_LOOPS
async def test_a_question_of_the_agent_is_answered_and_the_model_reads_it(live):
    asked = []

    def answer(question):
        asked.append([(item.text, [choice.label for choice in item.choices]) for item in question.items])
        return Answer(answers={question.items[0].id: ("blue",)})

    script = [Turn(ToolCall("AskUserQuestion", QUESTIONS, "t1")), DONE]
    played = await live.play(script, answer=answer, permission={"posture": "full"})
    assert asked == [[("Which colour?", ["red", "blue"])]]
    assert "blue" in played.result("t1").content
    assert len(played.of(QuestionAsked)) == 1
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_declined_question_is_a_denial_with_its_reason(live):
    script = [Turn(ToolCall("AskUserQuestion", QUESTIONS, "t1")), DONE]
    declined = Answer(declined=True, reason="ask me later")
    played = await live.play(script, answer=lambda _: declined, permission={"posture": "full"})
    assert "ask me later" in played.result("t1").content
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_the_question_tool_is_not_offered_where_nobody_answers(live):
    with ScriptedModel([DONE]) as model, anyio.fail_after(30):
        await Client(state=live.state).run(live.request(model))
        (request,) = [request for request in model.requests if request.kind == "turn"]
    names = {tool["name"] for tool in json.loads(request.raw)["tools"]}
    assert "AskUserQuestion" not in names
