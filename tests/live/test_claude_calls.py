"""What the chain says about a call is what happens on the real CLI, and what the model reads of it."""

import pytest

from interlock import Allow, Deny, DenyCall, Modify
from interlock.events import ToolDecided, ToolFinished, ToolRequested
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
BOTH_LOOPS = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def bash(command: str, call_id: str = "t1") -> ToolCall:
    return ToolCall("Bash", {"command": command}, call_id)


@BOTH_LOOPS
async def test_a_denied_command_does_not_run_and_the_model_reads_the_reason(live, policy):
    guard = policy(lambda call: DenyCall(reason="not on a Friday"))
    played = await live.play([Turn(bash("touch made")), DONE], guard, permission=FULL)
    shown = played.result("t1")
    assert list(live.workspace.iterdir()) == []
    assert (shown.is_error, "not on a Friday" in shown.content, "policy" in shown.content) == (True, True, True)
    assert played.outcome.ok
    assert [(denial.by, denial.tool_name) for denial in played.outcome.denials] == [("hook", "Bash")]
    kinds = [type(event) for event in played.events if getattr(event, "tool_call_id", None) == "t1"]
    assert kinds == [ToolRequested, ToolDecided, ToolFinished]
    assert played.unguarded() == []


@BOTH_LOOPS
async def test_a_rewritten_command_is_the_one_that_runs(live, policy):
    guard = policy(lambda call: Modify(input={"command": "touch other; echo did"}))
    played = await live.play([Turn(bash("touch made")), DONE], guard, permission=FULL)
    assert [path.name for path in live.workspace.iterdir()] == ["other"]
    assert played.result("t1").content == "did"
    assert [call.round for call in guard.calls] == [1, 2]
    (decided,) = [event for event in played.of(ToolDecided) if event.event == "pre_tool_use"]
    assert decided.input == {"command": "touch other; echo did"}
    assert played.unguarded() == []


async def test_rewrites_of_every_changing_tool_are_what_runs(live, policy):
    def elsewhere(call):
        if call.tool_kind not in {"write", "edit"}:
            return Allow()
        path = str(call.input["file_path"])
        return Modify(input={**call.input, "file_path": path.replace("made", "moved")})

    (live.workspace / "made.txt").write_text("one\n")
    (live.workspace / "moved.txt").write_text("one\n")
    made, moved = str(live.workspace / "made.txt"), str(live.workspace / "moved.txt")
    script = [
        Turn(ToolCall("Read", {"file_path": made}, "r1"), ToolCall("Read", {"file_path": moved}, "r2")),
        Turn(ToolCall("Edit", {"file_path": made, "old_string": "one", "new_string": "two"}, "e1")),
        Turn(ToolCall("Write", {"file_path": str(live.workspace / "made2.txt"), "content": "new"}, "w1")),
        DONE,
    ]
    played = await live.play(script, policy(elsewhere), permission=FULL)
    files = {path.name: path.read_text() for path in live.workspace.iterdir()}
    assert files == {"made.txt": "one\n", "moved.txt": "two\n", "moved2.txt": "new"}
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_call_of_a_sub_agent_is_judged_under_its_own_name(live, policy, inner):
    def reply(request):
        if not inner(request):
            brief = {"description": "look", "prompt": "INNER", "subagent_type": "general-purpose"}
            return DONE if request.shown else Turn(ToolCall("Agent", brief, "outer"))
        return Turn(Text("report")) if request.shown else Turn(bash("touch made", "inner"))

    guard = policy(lambda call: DenyCall(reason="no touching") if call.tool_kind == "shell" else Allow())
    played = await live.play([reply] * 4, guard, permission=FULL)
    asked = {call.tool_call_id: call.agent_id for call in guard.calls}
    assert asked["outer"] == "main"
    assert asked["inner"] not in {"main", ""}
    assert list(live.workspace.iterdir()) == []
    assert "no touching" in played.result("inner").content
    assert "report" in played.result("outer").content
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_without_a_chain_an_allow_list_with_nothing_else_truly_restricts(live):
    kept = live.workspace / "kept.txt"
    kept.write_text("one\n")
    brief = {"description": "look", "prompt": "INNER", "subagent_type": "general-purpose"}
    script = [
        Turn(bash("touch allowed", "ok")),
        Turn(ToolCall("Read", {"file_path": str(kept)}, "read")),
        Turn(ToolCall("Edit", {"file_path": str(kept), "old_string": "one", "new_string": "two"}, "edit")),
        Turn(ToolCall("Write", {"file_path": str(live.workspace / "written"), "content": "x"}, "write")),
        Turn(bash("touch made", "bash")),
        Turn(bash("touch allowed; touch made", "compound")),
        Turn(ToolCall("WebFetch", {"url": "https://docs.python.org/", "prompt": "read"}, "fetch")),
        Turn(ToolCall("Agent", brief, "agent")),
        DONE,
    ]
    permission = {"posture": "none", "allow": ["shell(touch allowed)", "read(kept.txt)"], "otherwise": "deny"}
    played = await live.play(script, permission=permission)
    assert sorted(path.name for path in live.workspace.iterdir()) == ["allowed", "kept.txt"]
    assert kept.read_text() == "one\n"
    ran = {call for call, decision in played.decisions().items() if decision.startswith("allow")}
    assert ran == {"ok", "read"}
    assert {denial.tool_call_id for denial in played.outcome.denials} == {
        *("edit", "write", "bash", "compound", "fetch", "agent"),
    }
    assert {denial.by for denial in played.outcome.denials} == {"policy"}
    assert played.unguarded() == []


async def test_the_posture_read_lets_readers_run_and_nothing_else(live):
    (live.workspace / "a.txt").write_text("content of a\n")
    outside = live.folder / "outside.txt"
    outside.write_text("tiger-lily")
    script = [
        Turn(ToolCall("Read", {"file_path": str(live.workspace / "a.txt")}, "read"), bash("cat a.txt", "cat")),
        Turn(ToolCall("Read", {"file_path": str(outside)}, "outside")),
        Turn(bash(f"cat {outside}", "cat outside")),
        Turn(bash("git status", "git")),
        Turn(bash("touch made", "touch")),
        DONE,
    ]
    played = await live.play(script, permission={"posture": "read"})
    assert "content of a" in played.result("read").content
    assert played.result("cat").content == "content of a"
    assert {denial.tool_call_id for denial in played.outcome.denials} == {"outside", "cat outside", "git", "touch"}
    assert [path.name for path in live.workspace.iterdir()] == ["a.txt"]
    assert (played.outcome.ok, played.unguarded(), played.knows(b"tiger-lily")) == (True, [], False)


async def test_under_the_posture_none_nothing_runs(live):
    (live.workspace / "a.txt").write_text("tiger-lily\n")
    script = [
        Turn(ToolCall("Read", {"file_path": str(live.workspace / "a.txt")}, "read")),
        Turn(bash("cat a.txt", "cat")),
        Turn(bash("echo tiger-$((1+1))", "echo")),
        DONE,
    ]
    played = await live.play(script, permission={"posture": "none"})
    assert {denial.tool_call_id for denial in played.outcome.denials} == {"read", "cat", "echo"}
    assert (played.knows(b"tiger-lily"), played.knows(b"tiger-2"), played.unguarded()) == (False, False, [])


async def test_a_deny_rule_beats_the_posture_and_the_chain(live, policy):
    permission = {"posture": "full", "deny": ["shell(touch:*)"]}
    played = await live.play([Turn(bash("touch made")), DONE], policy(), permission=permission)
    assert played.decisions() == {"t1": "deny by rule"}
    assert list(live.workspace.iterdir()) == []


async def test_a_participant_with_the_power_to_grant_lets_run_what_it_does_not_object_to(live, policy):
    grants = policy(
        lambda call: Allow() if "good" in str(call.input) else DenyCall(reason="no"),
        may=("deny", "grant"),
    )
    script = [Turn(bash("touch good", "t1")), Turn(bash("touch bad", "t2")), DONE]
    played = await live.play(script, grants, permission={"posture": "none", "otherwise": "chain"})
    assert [path.name for path in live.workspace.iterdir()] == ["good"]
    assert played.decisions() == {"t1": "allow by grant", "t2": "deny by hook"}


async def test_what_the_agent_decides_itself_is_decided_by_its_own_rules(live, policy):
    script = [Turn(bash("echo free", "t1")), Turn(bash("touch made", "t2")), DONE]
    asked = []

    def respond(approval):
        asked.append(approval.call.input)
        return Deny(reason="not that")

    played = await live.play(script, policy(), respond=respond, permission={"posture": "none", "otherwise": "agent"})
    assert played.result("t1").content == "free"
    assert asked == [{"command": "touch made"}]
    assert "not that" in played.result("t2").content
    assert list(live.workspace.iterdir()) == []
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_without_a_gate_behind_it_the_chain_alone_still_decides(live, policy):
    guard = policy(lambda call: DenyCall(reason="no") if "bad" in str(call.input) else Allow())
    script = [
        Turn(bash("touch good", "t1")),
        Turn(bash("touch bad", "t2")),
        Turn(bash("cat bad.txt", "t3")),
        DONE,
    ]
    (live.workspace / "bad.txt").write_text("tiger-lily")
    permission = {"posture": "full", "backstop": "none"}
    played = await live.play(script, guard, permission=permission)
    assert sorted(path.name for path in live.workspace.iterdir()) == ["bad.txt", "good"]
    assert played.plan.backstop == "none"
    assert (played.outcome.ok, played.knows(b"tiger-lily"), played.unguarded()) == (True, False, [])
