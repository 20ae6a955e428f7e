"""Plan mode of the real Claude Code through the engine: nothing is changed until somebody accepts the plan."""

import pytest

from interlock import Approve, Deny, Permission
from interlock.events import ApprovalRequested
from interlock.outcome import Status
from interlock_fixtures.scripted_model import ModelRequest, Text, ToolCall, Turn

pytestmark = [pytest.mark.anyio, pytest.mark.live]
PLAN = "1. make the file"
SUBMIT = ToolCall("ExitPlanMode", {"plan": PLAN}, id="p1")


def write(call_id: str = "w1") -> ToolCall:
    return ToolCall("Write", {"file_path": "made", "content": "x"}, id=call_id)


def plan_file(request: ModelRequest) -> str:
    """Where the agent says that its plan belongs."""
    home, _, rest = request.raw.decode().partition("/claude/plans/")
    return (
        home.rsplit(" ", 1)[-1].rsplit('"', 1)[-1].rsplit("\\n", 1)[-1]
        + "/claude/plans/"
        + rest.partition(".md")[0]
        + ".md"
    )


def note(request: ModelRequest) -> Turn:
    """The model writes its plan down where it was told to."""
    return Turn(ToolCall("Write", {"file_path": plan_file(request), "content": PLAN}, id="f1"))


async def test_a_plan_changes_nothing_and_is_the_answer(live):
    """Whatever posture and rules allow; reading goes on."""
    (live.workspace / "a.txt").write_text("heron\n")
    calls = [
        Turn(ToolCall("Read", {"file_path": str(live.workspace / "a.txt")}, id="r1")),
        Turn(write(), ToolCall("Bash", {"command": "touch made"}, id="b1")),
        note,
        Turn(SUBMIT),
        Turn(Text(PLAN)),
    ]
    permission = Permission(posture="full", allow=("write(made)", "shell(touch:*)"))
    played = await live.play(calls, mode="plan", permission=permission)
    assert played.decisions() == {
        "r1": "allow by posture", "w1": "deny by policy", "b1": "deny by policy",
        "f1": "allow by internal", "p1": "deny by policy",
    }  # fmt: skip
    assert "only plans" in played.result("p1").content
    assert not (live.workspace / "made").exists()
    assert (played.outcome.status, played.outcome.text, played.unguarded()) == (Status.COMPLETED, PLAN, [])


async def test_an_accepted_plan_is_carried_out_under_the_permission_of_the_request(live):
    script = [Turn(write("w0")), note, Turn(SUBMIT), Turn(write("w2")), Turn(Text("done"))]

    def respond(approval):
        return Approve() if approval.call.tool_name == "ExitPlanMode" else Deny(reason="not yet")

    permission = Permission(posture="edit", otherwise="ask")
    played = await live.play(script, mode="plan", permission=permission, respond=respond)
    asked = [event.approval for event in played.of(ApprovalRequested)]
    assert [approval.call.tool_name for approval in asked] == ["Write", "ExitPlanMode"]
    assert PLAN in asked[1].description
    assert played.decisions() == {
        "w0": "deny by user", "f1": "allow by internal", "p1": "allow by user", "w2": "allow by posture",
    }  # fmt: skip
    assert (live.workspace / "made").exists()
    assert (played.outcome.text, played.unguarded()) == ("done", [])


async def test_a_plan_that_is_not_accepted_leaves_the_run_planning(live):
    script = [Turn(SUBMIT), Turn(write("w2")), Turn(Text("better so"))]
    permission = Permission(posture="full", otherwise="ask")
    played = await live.play(script, mode="plan", permission=permission, respond=lambda approval: Deny(reason="go on"))
    assert played.decisions() == {"p1": "deny by user", "w2": "deny by user"}
    assert not (live.workspace / "made").exists()
    assert played.outcome.text == "better so"


async def test_another_file_that_looks_like_the_plan_is_none(live):
    (live.workspace / "claude" / "plans").mkdir(parents=True)
    fake = str(live.workspace / "claude" / "plans" / "x.md")
    script = [Turn(ToolCall("Write", {"file_path": fake, "content": "x"}, id="w1")), Turn(Text("done"))]
    played = await live.play(script, mode="plan", permission=Permission(posture="full"))
    assert played.decisions() == {"w1": "deny by policy"}
