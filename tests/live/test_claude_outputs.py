"""A secret that the chain takes out of an output is in nothing that the model is ever sent, byte for byte."""

import pytest

from interlock import Allow, DenyCall, Modify, Reason, Replace, Status
from interlock.events import ToolFinished
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
SECRET = "hunter-48213"
HIDDEN = b"48213"
FULL = {"posture": "full"}
SEARCHING = {"extra_args": ["--tools=Bash,Read,Grep,Glob,Edit,Write,Agent"]}


def redact(call):
    """Everything but what an inner model says is replaced where it holds the secret."""
    return Replace(output="REDACTED", reason="a secret") if "48213" in str(call.output) else Allow()


OUTPUTS = {
    "Bash": ToolCall("Bash", {"command": "cat *.txt"}, "t1"),
    "Bash, long": ToolCall("Bash", {"command": "cat *.txt; seq 20000; cat *.txt"}, "t1"),
    "Bash, stderr": ToolCall("Bash", {"command": "cat *.txt >&2"}, "t1"),
    "Read": ToolCall("Read", {"file_path": "secret.txt"}, "t1"),
    "Grep": ToolCall("Grep", {"pattern": "hunter", "output_mode": "content"}, "t1"),
    "Glob": ToolCall("Glob", {"pattern": "*.log"}, "t1"),
}


@pytest.mark.parametrize("case", OUTPUTS)
@pytest.mark.sampled
async def test_a_replaced_output_is_all_that_the_model_is_shown(live, policy, case):
    (live.workspace / "secret.txt").write_text(SECRET + "\n")
    (live.workspace / f"{SECRET}.log").write_text("")
    script = [Turn(OUTPUTS[case]), Turn(ToolCall("Bash", {"command": "echo on"}, "t2")), DONE]
    played = await live.play(script, policy(after=redact), permission=FULL, **SEARCHING)
    assert "REDACTED" in played.result("t1").content
    assert not played.knows(HIDDEN)
    assert not any("48213" in event.model_dump_json() for event in played.events)
    assert (played.outcome.status, played.unguarded()) == (Status.COMPLETED, [])


async def test_a_secret_in_what_a_file_held_is_not_shown_when_it_is_changed(live, policy):
    path = live.workspace / "notes.txt"
    path.write_text(f"one\n{SECRET}\n")
    script = [
        Turn(ToolCall("Read", {"file_path": str(path)}, "read")),
        Turn(ToolCall("Edit", {"file_path": str(path), "old_string": "one", "new_string": "two"}, "edit")),
        Turn(ToolCall("Write", {"file_path": str(path), "content": "three\n"}, "write")),
        DONE,
    ]

    def after(call):
        return Allow() if call.tool_name == "Read" and "48213" not in str(call.output) else Replace(output="REDACTED")

    played = await live.play(script, policy(after=after), permission=FULL)
    assert path.read_text() == "three\n"
    assert all("REDACTED" in played.result(name).content for name in ("read", "edit", "write"))
    assert not played.knows(HIDDEN)
    assert played.unguarded() == []


async def test_the_report_of_a_sub_agent_and_the_outputs_that_it_sees_are_replaced(live, policy, inner):
    (live.workspace / "secret.txt").write_text(SECRET)

    def reply(request):
        if not inner(request):
            brief = {"description": "look", "prompt": "INNER", "subagent_type": "general-purpose"}
            return DONE if request.shown else Turn(ToolCall("Agent", brief, "outer"))
        if not request.shown:
            return Turn(ToolCall("Bash", {"command": "cat secret.txt"}, "inner"))
        return Turn(Text(f"I made up {SECRET}"))

    played = await live.play([reply] * 4, policy(after=redact), permission=FULL)
    assert played.result("inner").content == "REDACTED"
    assert "REDACTED" in played.result("outer").content
    assert not played.knows(HIDDEN)
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_denial_after_the_call_shows_its_reason_as_an_error(live, policy):
    (live.workspace / "secret.txt").write_text(SECRET)
    guard = policy(after=lambda call: DenyCall(reason="not for your eyes"))
    played = await live.play([Turn(OUTPUTS["Bash"]), DONE], guard, permission=FULL)
    shown = played.result("t1")
    assert ("not for your eyes" in shown.content, shown.is_error) == (True, True)
    assert not played.knows(HIDDEN)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_failed_command_whose_output_must_be_withheld_stops_the_run(live, policy):
    (live.workspace / "secret.txt").write_text(SECRET)
    script = [Turn(ToolCall("Bash", {"command": "cat secret.txt; exit 3"}, "t1")), DONE]
    played = await live.play(script, policy(after=redact), permission=FULL)
    assert (played.outcome.status, played.outcome.reason) == (Status.FAILED, Reason.UNREPLACEABLE)
    assert not played.knows(HIDDEN)
    assert not any("48213" in event.model_dump_json() for event in played.of(ToolFinished))
    kept = [path for path in live.state.rglob("*") if path.is_file() and HIDDEN in path.read_bytes()]
    assert kept == []


async def test_a_failed_command_that_says_nothing_secret_goes_on(live, policy):
    script = [Turn(ToolCall("Bash", {"command": "echo no; exit 3"}, "t1")), DONE]
    played = await live.play(script, policy(after=redact), permission=FULL)
    assert (played.result("t1").content, played.result("t1").is_error) == ("Exit code 3\nno", True)
    assert played.outcome.ok


async def test_the_shown_error_mark_is_the_chains_where_it_says_one(live, policy):
    guard = policy(after=lambda call: Replace(output="bad", is_error=True))
    played = await live.play([Turn(ToolCall("Bash", {"command": "echo fine"}, "t1")), DONE], guard, permission=FULL)
    assert ("bad" in played.result("t1").content, played.result("t1").is_error) == (True, True)


async def test_a_broken_participant_after_the_call_withholds_the_output(live, policy):
    (live.workspace / "secret.txt").write_text(SECRET)

    def broken(call):
        raise RuntimeError(SECRET)

    played = await live.play([Turn(OUTPUTS["Bash"]), DONE], policy(after=broken), permission=FULL)
    assert "policy" in played.result("t1").content
    assert not played.knows(HIDDEN)


async def test_the_chain_sees_after_a_rewrite_what_truly_ran(live, policy):
    seen = []

    def after(call):
        seen.append((call.input, call.output, call.is_error))
        return Allow()

    guard = policy(lambda call: Modify(input={"command": "echo other"}), after)
    await live.play([Turn(ToolCall("Bash", {"command": "echo one"}, "t1")), DONE], guard, permission=FULL)
    assert seen == [({"command": "echo other"}, "other", False)]


async def test_a_redacted_secret_stays_out_when_the_session_is_resumed(live, policy):
    (live.workspace / "secret.txt").write_text(SECRET)
    guard = policy(after=redact)
    first = await live.play([Turn(OUTPUTS["Read"]), DONE], guard, permission=FULL)
    session = {"kind": "resume", "id": first.outcome.session_id}
    second = await live.play([DONE], guard, permission=FULL, session=session)
    assert (first.outcome.ok, second.outcome.ok) == (True, True)
    assert any(b"REDACTED" in request.raw for request in second.requests)
    assert not second.knows(HIDDEN)


async def test_work_in_the_background_is_not_to_be_had(live, policy, inner):
    (live.workspace / "secret.txt").write_text(SECRET)

    def reply(request):
        if inner(request):
            return Turn(Text(f"I made up {SECRET}"))
        shown = {one.tool_use_id for one in request.shown}
        brief = {"description": "look", "prompt": "INNER", "subagent_type": "general-purpose"}
        if "t1" not in shown:
            return Turn(ToolCall("Bash", {"command": "cat secret.txt", "run_in_background": True}, "t1"))
        return DONE if "t2" in shown else Turn(ToolCall("Agent", {**brief, "run_in_background": True}, "t2"))

    played = await live.play([reply] * 5, policy(after=redact), permission=FULL)
    assert played.result("t1").is_error
    assert not played.knows(HIDDEN)
    assert (played.outcome.text, played.unguarded()) == ("done", [])


async def test_tools_that_show_outputs_past_the_chain_are_not_offered_where_it_may_replace(live, policy):
    played = await live.play([DONE], policy(after=redact), permission=FULL)
    (sent,) = [request for request in played.requests if request.kind == "turn"]
    offered = {tool["name"] for tool in sent.body["tools"]}
    assert offered & {"Monitor", "Skill", "CronCreate", "ScheduleWakeup", "Workflow", "RemoteTrigger"} == set()
    assert {"Bash", "Read", "Edit"} <= offered


async def test_what_replaces_a_long_output_does_not_say_where_the_original_lies(live, policy):
    (live.workspace / "secret.txt").write_text(SECRET)
    call = ToolCall("Bash", {"command": "cat secret.txt; seq 30000"}, "t1")
    played = await live.play([Turn(call), DONE], policy(after=redact), permission=FULL)
    assert played.result("t1").content == "REDACTED"
