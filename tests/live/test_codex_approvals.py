"""Asking over the real Codex: approvals by held hooks, and leaving the sandbox as a question of its own."""

import json

import anyio
import pytest

from interlock import Answer, Approve, Client, Deny, DenyCall, Unsupported
from interlock.events import ApprovalRequested, ToolFinished
from interlock_fixtures.scripted_model import ScriptedModel, Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
DIRECT, CODE = "gpt-5.5", "gpt-6.2-sol"
BOTH_STYLES = pytest.mark.parametrize("model", [DIRECT, CODE])
PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"
ASK = {"posture": "read", "otherwise": "ask"}
OUTSIDE = {"sandbox_permissions": "require_escalated", "justification": "must"}


def shell(model: str, command: str, call_id: str = "c1", **more: object) -> ToolCall:
    given = {"cmd": command, **more}
    if model == DIRECT:
        return ToolCall("exec_command", given, call_id)
    return ToolCall("exec", {"input": f"text(await tools.exec_command({json.dumps(given)}))"}, call_id)


def patch(model: str, path: str, call_id: str = "p1") -> ToolCall:
    text = PATCH.format(path)
    if model == DIRECT:
        return ToolCall("apply_patch", {"input": text}, call_id)
    return ToolCall("exec", {"input": f"text(await tools.apply_patch({json.dumps(text)}))"}, call_id)


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@BOTH_STYLES
async def test_an_approved_call_runs_once_and_a_denied_one_does_not(codex, model):
    def respond(approval):
        assert not approval.leaves_sandbox
        return Deny(reason="not that") if "no" in json.dumps(approval.call.input) else Approve()

    script = [
        Turn(shell(model, "echo x >> yes", "c1")),
        Turn(shell(model, "touch no", "c2")),
        Turn(patch(model, "yes.txt", "p1")),
        Turn(patch(model, "no.txt", "p2")),
        DONE,
    ]
    played = await codex.play(script, model=model, permission=ASK, respond=respond)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert names(codex.workspace) == ["yes", "yes.txt"]
    assert (codex.workspace / "yes").read_text() == "x\n"
    assert "not that" in played.result("c2").content
    assert "not that" in played.result("p2").content
    assert len(played.of(ApprovalRequested)) == 4


async def test_an_edited_input_is_what_runs(codex):
    edited = Approve(updated_input={"command": "touch edited"})
    played = await codex.play([Turn(shell(DIRECT, "touch made")), DONE], permission=ASK, respond=lambda _: edited)
    assert (played.outcome.ok, played.unguarded()) == (True, [])
    assert names(codex.workspace) == ["edited"]


async def test_two_parallel_calls_wait_together_and_are_answered_in_reverse(codex):
    waiting = []
    script = [Turn(shell(DIRECT, "touch a", "c1"), shell(DIRECT, "touch b", "c2")), DONE]
    with ScriptedModel(script) as served, anyio.fail_after(60):
        async with Client(state=codex.state) as client, client.stream(codex.request(served, permission=ASK)) as run:
            async for event in run:
                if isinstance(event, ApprovalRequested):
                    waiting.append(event.approval)
                    if len(waiting) == 2:
                        run.respond(waiting[1].id, Approve())
                        run.respond(waiting[0].id, Deny())
            outcome = await run.outcome()
    assert outcome.ok
    assert names(codex.workspace) == ["b" if "b" in json.dumps(waiting[1].call.input) else "a"]


@BOTH_STYLES
async def test_leaving_the_sandbox_is_a_question_of_its_own(codex, model):
    outside = codex.folder / "outside"
    outside.mkdir()
    asked = []

    def respond(approval):
        asked.append((approval.leaves_sandbox, approval.call.input["command"]))
        return Approve() if "yes" in approval.call.input["command"] else Deny()

    script = [
        Turn(shell(model, f"touch {outside}/yes", "c1", **OUTSIDE)),
        Turn(shell(model, f"touch {outside}/no", "c2", **OUTSIDE)),
        Turn(shell(model, f"touch {outside}/inside", "c3")),
        DONE,
    ]
    permission = {"posture": "edit", "otherwise": "ask"}
    played = await codex.play(script, model=model, permission=permission, respond=respond)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert names(outside) == ["yes"]
    assert asked == [(True, f"touch {outside}/yes"), (True, f"touch {outside}/no")]


@BOTH_STYLES
async def test_an_approval_of_a_command_alone_does_not_let_it_leave_the_sandbox(codex, model):
    outside = codex.folder / "outside"
    outside.mkdir()
    asked = []

    def respond(approval):
        asked.append(approval.leaves_sandbox)
        return Approve() if not approval.leaves_sandbox else Deny()

    script = [
        Turn(shell(model, f"touch made; touch {outside}/made", "c1")),
        Turn(shell(model, f"touch {outside}/made", "c2", **OUTSIDE)),
        DONE,
    ]
    played = await codex.play(script, model=model, permission=ASK, respond=respond)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert (names(outside), names(codex.workspace)) == ([], ["made"])
    assert asked == [False, False, True]


async def test_a_patch_outside_is_asked_about_and_leaves_the_sandbox_only_by_a_second_yes(codex):
    outside = codex.folder / "outside"
    outside.mkdir()
    asked = []

    def respond(approval):
        asked.append(approval.leaves_sandbox)
        return Approve() if "yes" in approval.call.input["command"] or not approval.leaves_sandbox else Deny()

    script = [Turn(patch(DIRECT, f"{outside}/yes.txt", "p1")), Turn(patch(DIRECT, f"{outside}/no.txt", "p2")), DONE]
    played = await codex.play(script, permission={"posture": "edit", "otherwise": "ask"}, respond=respond)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert asked == [False, True, False, True]
    assert names(outside) == ["yes.txt"]


@BOTH_STYLES
async def test_without_anybody_to_ask_nothing_leaves_the_sandbox(codex, model):
    outside = codex.folder / "outside"
    outside.mkdir()
    script = [
        Turn(shell(model, f"touch {outside}/escalated", "c1", **OUTSIDE)),
        Turn(patch(model, f"{outside}/patched", "p1")),
        Turn(shell(model, "touch .git/x; touch made", "c2")),
        DONE,
    ]
    (codex.workspace / ".git").mkdir()
    played = await codex.play(script, model=model, permission={"posture": "edit"})
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert names(outside) == []
    assert names(codex.workspace / ".git") == []
    assert names(codex.workspace) == [".git", "made"]


@BOTH_STYLES
async def test_the_posture_read_writes_nothing(codex, model):
    (codex.workspace / "a.txt").write_text("content of a\n")
    script = [
        Turn(shell(model, "cat a.txt; touch made; touch /tmp/made-by-codex", "c1")),
        Turn(shell(model, "touch escalated", "c2", **OUTSIDE)),
        Turn(patch(model, "patched", "p1")),
        DONE,
    ]
    played = await codex.play(script, model=model, permission={"posture": "read"})
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert names(codex.workspace) == ["a.txt"]
    assert "content of a" in played.result("c1").content
    assert played.plan.confined


async def test_under_the_posture_none_nothing_runs(codex):
    script = [Turn(shell(DIRECT, "cat a", "c1")), Turn(patch(DIRECT, "patched", "p1")), DONE]
    played = await codex.play(script, permission={"posture": "none"})
    assert played.outcome.ok
    assert [denial.by for denial in played.outcome.denials] == ["policy", "policy"]
    assert [event.status for event in played.of(ToolFinished)] == ["denied", "denied"]
    assert names(codex.workspace) == []


async def test_what_a_rule_allows_runs_even_where_the_posture_is_narrower(codex):
    permission = {"posture": "read", "allow": ["shell(touch made)"]}
    script = [Turn(shell(DIRECT, "touch made", "c1")), Turn(shell(DIRECT, "touch other", "c2")), DONE]
    played = await codex.play(script, permission=permission)
    assert names(codex.workspace) == ["made"]
    assert played.decisions() == {"c1": "allow by rule", "c2": "deny by policy"}


@BOTH_STYLES
async def test_a_command_runs_where_it_was_judged(codex, policy, model):
    sub = codex.workspace / "sub"
    sub.mkdir()
    guard = policy()
    script = [Turn(shell(model, "touch made", "c1", workdir=str(sub))), Turn(shell(model, "pwd", "c2")), DONE]
    played = await codex.play(script, guard, model=model, permission={"posture": "edit"})
    assert (played.outcome.ok, played.unguarded()) == (True, [])
    assert names(sub) == ["made"]
    assert [asked.cwd for asked in guard.calls] == [str(sub), str(codex.workspace)]


@BOTH_STYLES
async def test_a_question_of_the_agent_is_answered_and_the_model_reads_it(codex, model):
    options = [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}]
    question = {"id": "q1", "header": "Colour", "question": "Which?", "options": options}
    script = [Turn(ToolCall("request_user_input", {"questions": [question]}, "q")), DONE]
    answer = Answer(answers={"q1": ("blue",)})
    played = await codex.play(script, model=model, answer=lambda _: answer)
    assert (played.outcome.ok, played.unguarded()) == (True, []), played.outcome
    assert "blue" in played.result("q").content
    declined = await codex.play(script, model=model, answer=lambda _: Answer(declined=True))
    assert declined.outcome.ok
    assert "blue" not in declined.result("q").content


async def test_network_and_writable_are_what_the_sandbox_is_told(codex):
    extra = codex.folder / "extra"
    extra.mkdir()
    permission = {"posture": "edit", "writable": [str(extra)]}
    played = await codex.play([Turn(shell(DIRECT, f"touch {extra}/made")), DONE], permission=permission)
    assert (played.outcome.ok, names(extra)) == (True, ["made"])
    with pytest.raises(Unsupported) as caught:
        await codex.play([DONE], permission={"posture": "full", "network": False})
    assert "permission.network" in str(caught.value)


async def test_a_denied_call_stays_denied_when_the_model_asks_to_leave_the_sandbox(codex, policy):
    guard = policy(lambda _: DenyCall(reason="never"))
    script = [Turn(shell(DIRECT, "touch made", "c1", **OUTSIDE)), DONE]
    played = await codex.play(script, guard, permission={"posture": "edit", "otherwise": "ask"})
    assert (played.outcome.ok, played.unguarded(), played.of(ApprovalRequested)) == (True, [], [])
    assert names(codex.workspace) == []
