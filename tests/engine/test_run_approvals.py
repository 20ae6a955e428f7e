"""Approvals and questions at the API: each is answered once, by whom it is put to, and the answer is what happens."""

from typing import Any

import anyio
import pytest

from interlock.approval import Answer, Approval, Approve, Deny, Question
from interlock.errors import NotOpen, Unsupported
from interlock.events import (
    ApprovalRequested,
    ApprovalResolved,
    BaseEvent,
    Notice,
    QuestionAsked,
    ToolDecided,
    ToolFinished,
)
from interlock.hooks import Allow, DenyCall, HookCall
from interlock.outcome import Reason, Status
from interlock.permission import Permission

pytestmark = pytest.mark.anyio

ASK = Permission(posture="read", otherwise="ask")


def touch(name: str) -> dict[str, Any]:
    return {"tool": "Bash", "input": {"command": f"touch {name}"}}


def made(bench: Any) -> set[str]:
    return {path.name for path in bench.workspace.iterdir()}


def finished(events: list[BaseEvent]) -> list[ToolFinished]:
    return [event for event in events if isinstance(event, ToolFinished)]


@pytest.mark.behaviour("cancel:one-tool")
async def test_an_approved_call_runs_and_a_denied_one_tells_the_agent_why(bench: Any) -> None:
    """A plain denial leaves the next call to be asked about."""
    request = bench.request([touch("one"), touch("two"), {"text": "done"}], permission=ASK)
    answers = [Deny(reason="not this one"), Approve()]
    events = []
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            async for event in run:
                events.append(event)
                if isinstance(event, ApprovalRequested):
                    assert [open_.id for open_ in run.open_approvals] == [event.approval.id]
                    run.respond(event.approval.id, answers.pop(0))
            outcome = await run.outcome(check=True)
    assert made(bench) == {"two"}
    first, second = finished(events)
    assert (first.status, first.by, second.status) == ("denied", "user", "ok")
    assert "not this one" in str(first.output)
    [denial] = outcome.denials
    assert (denial.by, denial.reason, denial.allow_rule) == ("user", "not this one", "shell(touch one)")


async def test_an_answer_to_what_is_not_open_is_an_error_and_changes_nothing(bench: Any) -> None:
    request = bench.request([touch("one"), {"text": "done"}], permission=ASK)
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            with pytest.raises(NotOpen):
                run.respond("approval-unknown", Approve())
            asked = await bench.until(run, ApprovalRequested)
            with pytest.raises(NotOpen):
                run.answer(asked.approval.id, Answer())
            run.respond(asked.approval.id, Deny())
            with pytest.raises(NotOpen) as twice:
                run.respond(asked.approval.id, Approve())
            await run.outcome()
            with pytest.raises(NotOpen):
                run.respond(asked.approval.id, Approve())
    assert twice.value.id == asked.approval.id
    with pytest.raises(NotOpen):
        run.respond(asked.approval.id, Approve())
    assert made(bench) == set()


async def test_several_are_open_at_once_and_answered_in_any_order(bench: Any) -> None:
    tools = [{"tool": "mcp__s__t", "input": {"n": n}, "output": f"out {n}", "id": f"call-{n}"} for n in range(3)]
    request = bench.request([{"tools": tools}, {"text": "done"}], permission=ASK)
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            asked = [(await bench.until(run, ApprovalRequested)).approval for _ in tools]
            assert [one.id for one in run.open_approvals] == [one.id for one in asked]
            for approval in reversed(asked):
                number = approval.call.input["n"]
                run.respond(approval.id, Deny(reason="no") if number == 1 else Approve())
            events = await bench.events(run)
            await run.outcome(check=True)
    resolved = [event.id for event in events if isinstance(event, ApprovalResolved)]
    assert sorted(resolved) == sorted(one.id for one in asked)
    assert {event.tool_call_id: event.status for event in finished(events)} == {
        "call-0": "ok",
        "call-1": "denied",
        "call-2": "ok",
    }


async def test_an_edited_input_is_what_runs_after_the_chain_has_seen_it(bench: Any) -> None:
    seen: list[tuple[int, object]] = []

    class Watch:
        name = "watch"

        async def before(self, call: HookCall) -> Allow:
            seen.append((call.round, call.input))
            return Allow()

    request = bench.request([touch("one"), {"text": "done"}], permission=ASK)
    with anyio.fail_after(10):
        async with bench.client(interceptors=[Watch()]) as client, client.stream(request) as run:
            asked = await bench.until(run, ApprovalRequested)
            run.respond(asked.approval.id, Approve(updated_input={"command": "touch edited"}))
            events = await bench.events(run)
            await run.outcome(check=True)
    assert made(bench) == {"edited"}
    assert seen == [(1, {"command": "touch one"}), (2, {"command": "touch edited"})]
    [decided] = [event for event in events if isinstance(event, ToolDecided)]
    assert (decided.decision, decided.by, decided.input) == ("allow", "user", {"command": "touch edited"})


@pytest.mark.parametrize("layer", ["rule", "hook"])
async def test_an_edit_into_what_is_forbidden_is_denied(bench: Any, layer: str) -> None:
    class Guard:
        name = "guard"

        async def before(self, call: HookCall) -> Allow | DenyCall:
            forbidden = layer == "hook" and "evil" in (call.subject.command or "")
            return DenyCall(reason="evil") if forbidden else Allow()

    deny = ["shell(touch evil)"] if layer == "rule" else []
    permission = Permission(posture="read", otherwise="ask", deny=deny)
    request = bench.request([touch("one"), {"text": "done"}], permission=permission)
    with anyio.fail_after(10):
        async with bench.client(interceptors=[Guard()]) as client, client.stream(request) as run:
            asked = await bench.until(run, ApprovalRequested)
            run.respond(asked.approval.id, Approve(updated_input={"command": "touch evil"}))
            outcome = await run.outcome(check=True)
    assert made(bench) == set()
    assert [denial.by for denial in outcome.denials] == [layer]


async def test_a_denial_with_interrupt_ends_the_run(bench: Any) -> None:
    request = bench.request([touch("one"), touch("two"), {"text": "done"}], permission=ASK)
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            asked = await bench.until(run, ApprovalRequested)
            run.respond(asked.approval.id, Deny(reason="stop it", interrupt=True))
            outcome = await run.outcome()
    assert (outcome.status, outcome.reason) == (Status.CANCELLED, Reason.DENIED)
    assert "stop it" in outcome.message
    assert made(bench) == set()


@pytest.mark.behaviour("approvals:broken-handler")
async def test_an_approval_past_its_deadline_is_denied_as_expired(bench: Any) -> None:
    request = bench.request([touch("one"), {"text": "done"}], permission=ASK, limits={"approval": 0.2})
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            asked = await bench.until(run, ApprovalRequested)
            resolved = await bench.until(run, ApprovalResolved)
            with pytest.raises(NotOpen):
                run.respond(asked.approval.id, Approve())
            outcome = await run.outcome(check=True)
    assert asked.approval.deadline is not None
    assert (resolved.decision, resolved.by) == ("deny", "expired")
    assert [denial.by for denial in outcome.denials] == ["expired"]
    assert made(bench) == set()


async def test_a_remembered_rule_covers_later_calls_of_this_run_alone(bench: Any) -> None:
    script = [touch("one"), touch("one two"), {"tool": "Bash", "input": {"command": "rm one"}}, {"text": "done"}]
    asked = []
    with anyio.fail_after(20):
        async with bench.client() as client:
            for _ in range(2):
                async with client.stream(bench.request(script, permission=ASK)) as run:
                    async for event in run:
                        if isinstance(event, ApprovalRequested):
                            asked.append(event.approval.call.subject.command)
                            first = asked[-1] == "touch one"
                            run.respond(event.approval.id, Approve(remember="shell(touch:*)") if first else Deny())
    assert asked == ["touch one", "rm one"] * 2
    assert made(bench) == {"one", "two"}


async def test_a_deny_rule_beats_what_was_remembered(bench: Any) -> None:
    permission = Permission(posture="read", otherwise="ask", deny=["shell(touch evil)"])
    request = bench.request([touch("one"), touch("evil"), {"text": "done"}], permission=permission)
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            asked = await bench.until(run, ApprovalRequested)
            run.respond(asked.approval.id, Approve(remember="shell(touch:*)"))
            outcome = await run.outcome(check=True)
    assert made(bench) == {"one"}
    assert [denial.by for denial in outcome.denials] == ["rule"]


async def test_an_approver_answers_for_runs_that_nobody_reads(bench: Any) -> None:
    asked: list[Approval] = []

    async def approver(approval: Approval) -> Approve | Deny:
        asked.append(approval)
        return Approve() if "one" in (approval.call.subject.command or "") else Deny(reason="policy of the house")

    request = bench.request([touch("one"), touch("two"), {"text": "done"}], permission=ASK)
    with anyio.fail_after(10):
        async with bench.client(approver=approver) as client:
            outcome = await client.run(request)
    assert made(bench) == {"one"}
    assert [approval.agent for approval in asked] == ["claude", "claude"]
    assert [denial.by for denial in outcome.denials] == ["approver"]


async def raises(_: Approval) -> Approve:
    raise RuntimeError("a bug")


async def answers_nothing(_: Approval) -> None:
    return None


async def answers_a_word(_: Approval) -> str:
    return "approve"


@pytest.mark.parametrize("broken", [raises, answers_nothing, answers_a_word])
@pytest.mark.behaviour("approvals:broken-handler")
async def test_a_broken_approver_denies_and_says_so(bench: Any, broken: Any) -> None:
    request = bench.request([touch("one"), {"text": "done"}], permission=ASK)
    with anyio.fail_after(10):
        async with bench.client(approver=broken) as client:
            outcome = await client.run(request)
    assert made(bench) == set()
    assert [denial.by for denial in outcome.denials] == ["approver"]
    assert any("the approver failed" in warning for warning in outcome.warnings)


@pytest.mark.behaviour("approvals:nobody")
async def test_asking_with_nobody_to_answer_is_unsupported_before_anything_starts(bench: Any) -> None:
    request = bench.request([touch("one"), {"text": "done"}], permission=ASK)
    with anyio.fail_after(10), pytest.raises(Unsupported) as raised:
        await bench.client().run(request)
    assert [unmet.field for unmet in raised.value.unmet] == ["permission.otherwise"]
    assert bench.leftovers() == []
    assert not (bench.state / "runs").exists()


QUESTIONS = [
    {
        "question": "Which colour?",
        "header": "Colour",
        "multiSelect": False,
        "options": [{"label": "red", "description": ""}, {"label": "blue", "description": ""}],
    }
]


@pytest.mark.parametrize("declined", [False, True])
@pytest.mark.behaviour("approvals:questions")
async def test_a_question_is_answered_or_declined(bench: Any, declined: bool) -> None:
    request = bench.request([{"ask_question": QUESTIONS}, {"text": "done"}])
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            question = (await bench.until(run, QuestionAsked)).question
            [item] = question.items
            assert (item.text, [choice.label for choice in item.choices]) == ("Which colour?", ["red", "blue"])
            assert run.open_questions == (question,)
            with pytest.raises(NotOpen):
                run.respond(question.id, Approve())
            run.answer(question.id, Answer(declined=True) if declined else Answer(answers={item.id: ("blue",)}))
            with pytest.raises(NotOpen):
                run.answer(question.id, Answer(declined=True))
            events = await bench.events(run)
            await run.outcome(check=True)
    [resolved] = [event for event in events if isinstance(event, ApprovalResolved)]
    assert (resolved.id, resolved.decision) == (question.id, "declined" if declined else "answered")
    [tool] = finished(events)
    assert ("blue" in str(tool.output)) is not declined


async def test_an_answerer_answers_for_runs_that_nobody_reads(bench: Any) -> None:
    async def answerer(question: Question) -> Answer:
        return Answer(answers={question.items[0].id: ("red",)})

    async def approver(_: Approval) -> Deny:
        return Deny()

    request = bench.request([{"ask_question": QUESTIONS}, {"text": "done"}])
    with anyio.fail_after(10):
        async with bench.client(approver=approver, answerer=answerer) as client:
            outcome = await client.run(request)
    assert (outcome.text, outcome.tool_calls, outcome.denials) == ("done", 1, ())


@pytest.mark.behaviour("approvals:questions")
async def test_a_question_that_nobody_can_answer_is_not_offered(bench: Any) -> None:
    with anyio.fail_after(10):
        async with bench.client() as client:
            outcome = await client.run(bench.request([{"ask_question": QUESTIONS}, {"text": "done"}]))
    assert outcome.text == "done"


async def test_a_rule_that_cannot_be_remembered_is_said_and_the_call_runs_once(bench: Any) -> None:
    request = bench.request([touch("one"), {"text": "done"}], permission=ASK)
    with anyio.fail_after(10):
        async with bench.client().stream(request) as run:
            asked = await bench.until(run, ApprovalRequested)
            run.respond(asked.approval.id, Approve(remember="fetch(not a host)"))
            events = await bench.events(run)
            await run.outcome(check=True)
    assert [event.code for event in events if isinstance(event, Notice)] == ["rule_not_remembered"]
    assert made(bench) == {"one"}
