"""Approvals, questions and interrupts of the real Copilot over its server."""

import json
from pathlib import Path

import anyio
import pytest

from interlock import Allow, Answer, Approve, Client, Deny, DenyCall, Unsupported
from interlock.events import ApprovalRequested, ApprovalResolved, QuestionAsked, ToolFinished, ToolRequested
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

HOSTNAME = Path("/etc/hostname").read_text().strip()
DONE = Turn(Text("done"))
FULL = {"posture": "full"}
ASK = {"posture": "read", "otherwise": "ask"}


def bash(command: str, call_id: str = "c1", **more: object) -> ToolCall:
    return ToolCall("bash", {"command": command, "description": "x", **more}, call_id)


def task(prompt: str, call_id: str = "t1") -> ToolCall:
    given = {"name": "n", "prompt": prompt, "agent_type": "general-purpose", "description": "d"}
    return ToolCall("task", given, call_id)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def not_no(approval):
    return Deny(reason="not that one") if "no" in json.dumps(approval.call.input) else Approve()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_approved_call_runs_once_and_a_denied_one_does_not(copilot):
    script = [Turn(bash("echo x >> yes", "c1"), bash("touch no", "c2")), DONE]
    played = await copilot.play(script, permission=ASK, respond=not_no)
    assert played.decisions() == {"c1": "allow by user", "c2": "deny by user"}
    assert (copilot.workspace / "yes").read_text() == "x\n"
    assert names(copilot.workspace) == ["yes"]
    assert "not that one" in played.result("c2").content
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_calls_of_every_kind_are_asked_about_and_judged_by_their_own_input(copilot):
    script = [
        Turn(ToolCall("create", {"path": "yes.txt", "file_text": "x\n"}, "c1")),
        Turn(ToolCall("create", {"path": "no.txt", "file_text": "x"}, "c2")),
        Turn(ToolCall("edit", {"path": "yes.txt", "old_str": "x", "new_str": "y"}, "c3")),
        Turn(ToolCall("view", {"path": "/etc/hostname"}, "c4"), ToolCall("view", {"path": "/etc/nologin"}, "c5")),
        DONE,
    ]
    played = await copilot.play(script, permission=ASK, respond=not_no)
    yes, no = "allow by user", "deny by user"
    assert list(played.decisions().values()) == [yes, no, yes, yes, no]
    assert (copilot.workspace / "yes.txt").read_text() == "y\n"
    assert names(copilot.workspace) == ["yes.txt"]
    assert HOSTNAME in played.result("c4").content


async def test_an_edited_input_is_what_runs_and_passes_the_chain_again(copilot, policy):
    def respond(approval):
        command = "touch edited" if "one" in json.dumps(approval.call.input) else "touch forbidden"
        return Approve(updated_input={**approval.call.input, "command": command})

    guard = policy(lambda call: DenyCall(reason="no") if "forbidden" in json.dumps(call.input) else Allow())
    script = [Turn(bash("touch one", "c1")), Turn(bash("touch two", "c2")), DONE]
    played = await copilot.play(script, guard, permission=ASK, respond=respond)
    assert names(copilot.workspace) == ["edited"]
    assert played.decisions()["c2"] == "deny by hook"
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_call_of_a_sub_agent_is_asked_about_and_a_denial_may_end_the_whole_run(copilot):
    script = [
        Turn(task("INNER")),
        Turn(bash("touch yes", "i1")),
        Turn(bash("touch no", "i2")),
        Turn(Text("inner")),
        DONE,
    ]

    def respond(approval):
        stops = "no" in json.dumps(approval.call.input)
        return Deny(reason="stop it all", interrupt=True) if stops else Approve()

    played = await copilot.play(script, permission=ASK, respond=respond)
    assert names(copilot.workspace) == ["yes"]
    assert (played.outcome.status, played.outcome.reason) == ("cancelled", "denied")
    assert len(played.requests) == 3
    assert played.unguarded() == []


async def test_a_question_of_the_agent_is_answered_and_the_model_reads_it(copilot):
    script = [
        Turn(ToolCall("ask_user", {"question": "Which?", "choices": ["red", "blue"]}, "c1")),
        Turn(ToolCall("ask_user", {"question": "Name?"}, "c2")),
        Turn(ToolCall("ask_user", {"question": "Else?"}, "c3")),
        DONE,
    ]
    words = {"Which?": Answer(answers={"1": ("red",)}), "Name?": Answer(answers={"1": ("Ada",)})}

    def answer(question):
        return words.get(question.items[0].text, Answer(declined=True))

    played = await copilot.play(script, permission=ASK, answer=answer)
    assert [event.question.tool_call_id for event in played.of(QuestionAsked)] == ["c1", "c2", "c3"]
    assert "red" in played.result("c1").content
    assert "Ada" in played.result("c2").content
    assert "unable to respond" in played.result("c3").content
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_without_anybody_to_answer_the_agent_cannot_ask(copilot):
    with ScriptedModel([DONE]) as model, anyio.fail_after(60):
        async with Client(state=copilot.state) as interlock:
            assert (await interlock.run(copilot.request(model))).ok
            with pytest.raises(Unsupported) as refused:
                await interlock.run(copilot.request(model, permission=ASK))
        offered = [tool["function"]["name"] for tool in model.requests[0].body["tools"]]
    assert "ask_user" not in offered
    assert [one.field for one in refused.value.unmet] == ["permission.otherwise"]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("how", ["interrupt", "cancel"])
@pytest.mark.sampled
async def test_a_run_that_is_ended_while_a_person_is_asked_runs_nothing(copilot, how):
    script = [Turn(bash("touch made")), DONE]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        async with (
            Client(state=copilot.state) as interlock,
            interlock.stream(copilot.request(model, permission=ASK)) as run,
        ):
            events = []
            async for event in run:
                events.append(event)
                if isinstance(event, ApprovalRequested):
                    await getattr(run, how)()
            outcome = await run.outcome()
    assert outcome.status == "cancelled"
    assert len(model.requests) == 1 or how == "cancel"
    assert names(copilot.workspace) == []
    assert [event.decision for event in events if isinstance(event, ApprovalResolved)] in (["withdrawn"], ["deny"])
    assert [event.status for event in events if isinstance(event, ToolFinished)] == ["denied"]


async def test_an_interrupt_ends_the_command_and_the_run(copilot):
    mark = copilot.workspace / "ended"
    script = [Turn(bash(f"trap 'touch {mark}' EXIT; touch began; sleep 600")), DONE]
    with ScriptedModel(script) as model, anyio.fail_after(60):
        async with (
            Client(state=copilot.state) as interlock,
            interlock.stream(copilot.request(model, permission=FULL)) as run,
        ):
            async with anyio.create_task_group() as group:

                async def interrupt():
                    while not (copilot.workspace / "began").exists():  # noqa: ASYNC110  another process says nothing
                        await anyio.sleep(0.02)
                    await run.interrupt()

                events = []
                async for event in run:
                    events.append(event)
                    if isinstance(event, ToolRequested):
                        group.start_soon(interrupt)
            outcome = await run.outcome()
    assert (outcome.status, len(model.requests)) == ("cancelled", 1)
    assert [event.status for event in events if isinstance(event, ToolFinished)] == ["error"]
