"""Outputs of the real Copilot over its server: what the chain replaces or withholds is in nothing the model is sent."""

import base64
import json
import sys
from pathlib import Path

import pytest

from interlock import Allow, Answer, DenyCall, Modify, Replace
from interlock.events import ToolDecided, ToolFinished, ToolOutput
from interlock_adapters.copilot import wrapping
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
SECRET, CLEAN = "tiger-lily", "a flower"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
BIRDS = """
import json, sys
SECRET = "tiger" + "-lily"
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    params, result = asked.get("params", {}), {}
    if asked["method"] == "initialize":
        serves = {"name": "birds", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": serves}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("say", "fail")]}
    elif asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": SECRET}], "isError": params["name"] == "fail"}
        if params["name"] == "say":
            result["structuredContent"] = {"found": SECRET}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def bash(command: str, call_id: str = "c1", **more: object) -> ToolCall:
    return ToolCall("bash", {"command": command, "description": "x", **more}, call_id)


def view(path: str, call_id: str = "c1", **more: object) -> ToolCall:
    return ToolCall("view", {"path": path, **more}, call_id)


def task(prompt: str, call_id: str = "t1", **more: object) -> ToolCall:
    given = {"name": "n", "prompt": prompt, "agent_type": "general-purpose", "description": "d", **more}
    return ToolCall("task", given, call_id)


def redact(call):
    """Replaces every output that holds the secret."""
    text = call.output if isinstance(call.output, str) else json.dumps(call.output)
    return Replace(output=text.replace(SECRET, CLEAN)) if SECRET in text else Allow()


def withhold(call):
    return DenyCall(reason="not for you") if SECRET in json.dumps(call.output) else Allow()


@pytest.fixture
def birds(copilot) -> dict[str, object]:
    """An MCP server that knows the secret."""
    program = copilot.folder / "birds.py"
    program.write_text(BIRDS)
    return {"birds": {"type": "stdio", "command": sys.executable, "args": [str(program)]}}


@pytest.fixture
def secret(copilot) -> Path:
    """A file that holds the secret."""
    path = copilot.workspace / "secret.txt"
    path.write_text(f"{SECRET}\n")
    return path


@pytest.mark.sampled
async def test_a_replaced_output_is_all_that_the_model_is_shown(copilot, policy, birds, secret):
    here = copilot.workspace / f"{SECRET}-folder"
    here.mkdir()
    (here / "a.txt").write_text("one\n")
    in_folder = "cat *-folder/a.txt >/dev/null; "
    script = [
        Turn(bash(f"{in_folder}cat secret.txt", "c1"), view("secret.txt", "c2")),
        Turn(ToolCall("grep", {"pattern": "tiger", "output_mode": "content"}, "c3"), view(".", "c4")),
        Turn(ToolCall("glob", {"pattern": "**/a.txt"}, "c5"), ToolCall("birds-say", {}, "c6")),
        Turn(ToolCall("sql", {"description": "d", "query": "select 'tiger' || '-lily'"}, "c7")),
        Turn(bash("cat secret.txt >&2; cat secret.txt; exit 3", "c8")),
        DONE,
    ]
    played = await copilot.play(script, policy(after=redact), permission=FULL, mcp_servers=birds)
    for number in range(1, 9):
        assert CLEAN in played.result(f"c{number}").content
    assert not played.knows(SECRET.encode())
    shown = {event.tool_call_id: event.output for event in played.of(ToolFinished)}
    assert all(SECRET not in json.dumps(output) for output in shown.values())
    assert SECRET not in json.dumps([event.text for event in played.of(ToolOutput)])
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_secret_in_what_a_change_reports_is_not_shown(copilot, policy):
    folder = copilot.workspace / "sub"
    folder.mkdir()
    script = [
        Turn(ToolCall("create", {"path": "sub/a.txt", "file_text": "one\n"}, "c1")),
        Turn(ToolCall("edit", {"path": "sub/a.txt", "old_str": "one", "new_str": "two"}, "c2")),
        DONE,
    ]
    hiding = policy(after=lambda call: Replace(output=f"{call.tool_kind} hidden"))
    played = await copilot.play(script, hiding, permission=FULL)
    assert [played.result(call).content for call in ("c1", "c2")] == ["write hidden", "edit hidden"]
    patch = "*** Begin Patch\n*** Add File: b.txt\n+x\n*** End Patch\n"
    script = [Turn(ToolCall("apply_patch", {"input": patch}, "c1")), DONE]
    played = await copilot.play(script, hiding, permission=FULL, model="gpt-5.4")
    assert played.result("c1").content == "patch hidden"
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_the_report_of_a_sub_agent_and_the_outputs_that_it_sees_are_replaced(copilot, policy, secret):
    script = [
        Turn(task("INNER", mode="background")),
        Turn(bash("cat secret.txt", "i1")),
        Turn(Text("it says tiger and lily")),
        DONE,
    ]
    seen = policy(after=lambda call: redact(call) if call.tool_kind == "shell" else Replace(output="no report"))
    played = await copilot.play(script, seen, permission=FULL)
    assert CLEAN in played.result("i1").content
    assert played.result("t1").content == "no report"
    assert not played.knows(SECRET.encode())
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_work_in_the_background_is_not_to_be_had(copilot, policy, secret):
    script = [
        Turn(bash("sleep 0.3; cat secret.txt", "c1", mode="async")),
        Turn(bash("sleep 0.3; cat secret.txt", "c2", mode="async", detach=True, shellId="s")),
        Turn(ToolCall("read_bash", {"shellId": "s", "delay": 0}, "c3")),
        *([DONE] * 3),
    ]
    played = await copilot.play(script, policy(after=redact), permission=FULL)
    assert CLEAN in played.result("c1").content
    assert CLEAN in played.result("c2").content
    assert "does not exist" in played.result("c3").content
    assert not played.knows(SECRET.encode())
    assert [len(played.requests), played.outcome.ok, played.unguarded()] == [4, True, []]


@pytest.mark.slow
async def test_a_command_that_outlasts_the_agent_s_patience_is_stopped(copilot, policy, monkeypatch):
    monkeypatch.setattr(wrapping, "LONGEST_WAIT", 30)
    script = [Turn(bash("echo early; cat secret.txt; sleep 40; cat secret.txt; touch late")), DONE, DONE]
    (copilot.workspace / "secret.txt").write_text(f"{SECRET}\n")
    played = await copilot.play(script, policy(after=redact), permission=FULL)
    shown = played.result("c1").content
    assert ("early" in shown, CLEAN in shown, "was stopped" in shown) == (True, True, True)
    assert (len(played.requests), played.knows(SECRET.encode())) == (2, False)
    assert not (copilot.workspace / "late").exists()
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_what_the_model_reads_of_a_call_that_failed_holds_nothing_of_a_file(copilot, policy):
    (copilot.workspace / "a.txt").write_text(f"{SECRET} one\n{SECRET} two\n")
    before = policy(after=lambda _: Allow())
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-{}\n+x\n*** End Patch\n"
    calls = [
        ToolCall("edit", {"path": "a.txt", "old_str": "three", "new_str": "x"}, "c1"),
        ToolCall("edit", {"path": "a.txt", "old_str": "tiger", "new_str": "x"}, "c2"),
        ToolCall("create", {"path": "a.txt", "file_text": "x"}, "c3"),
        view("a.txt", "c4", view_range=[50, 60]),
        ToolCall("grep", {"pattern": "("}, "c5"),
        view("missing.txt", "c6"),
    ]
    played = await copilot.play([Turn(*calls), DONE], before, permission=FULL)
    assert {event.status for event in played.of(ToolFinished)} == {"error"}
    assert not played.knows(SECRET.encode())
    patches = [ToolCall("apply_patch", {"input": patch.format(line)}, line) for line in ("three", "four")]
    played = await copilot.play([*map(Turn, patches), DONE], before, permission=FULL, model="gpt-5.4")
    assert {event.status for event in played.of(ToolFinished)} == {"error"}
    assert not played.knows(SECRET.encode())


async def test_a_long_output_is_replaced_whole_and_lies_in_no_file(copilot, policy):
    command = "head -c 40000 /dev/zero | tr '\\0' 'x'; echo; printf 'tiger%s\\n' -lily"
    played = await copilot.play([Turn(bash(command)), DONE], policy(after=redact), permission=FULL)
    shown = played.result("c1").content
    assert (shown.count("x") > 39_000, CLEAN in shown, "tool-output" in shown) == (True, True, False)
    assert not played.knows(SECRET.encode())


async def test_an_image_is_replaced_by_words(copilot, policy):
    (copilot.workspace / "a.png").write_bytes(base64.b64decode(PIXEL))
    hiding = policy(after=lambda call: Replace(output="no picture") if PIXEL in json.dumps(call.output) else Allow())
    played = await copilot.play([Turn(view("a.png")), DONE], hiding, permission=FULL)
    assert played.result("c1").content == "no picture"
    assert not played.knows(PIXEL.encode())


async def test_the_answer_to_a_question_is_replaced(copilot, policy):
    script = [Turn(ToolCall("ask_user", {"question": "Who?"}, "c1")), DONE]
    said = Answer(answers={"1": (SECRET,)})
    played = await copilot.play(script, policy(after=redact), permission=FULL, answer=lambda _: said)
    assert CLEAN in played.result("c1").content
    assert not played.knows(SECRET.encode())


async def test_an_output_that_is_withheld_is_an_error_with_the_reason(copilot, policy, secret):
    played = await copilot.play([Turn(view("secret.txt")), DONE], policy(after=withhold), permission=FULL)
    assert "not for you" in played.result("c1").content
    assert not played.knows(SECRET.encode())
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_redacted_secret_stays_out_when_the_session_is_resumed(copilot, policy, secret):
    first = await copilot.play([Turn(view("secret.txt"), bash("cat secret.txt", "c2")), DONE], policy(after=redact))
    session = {"kind": "resume", "id": first.outcome.session_id}
    second = await copilot.play([DONE], policy(after=redact), session=session)
    assert CLEAN.encode() in second.requests[0].raw
    assert not first.knows(SECRET.encode())
    assert not second.knows(SECRET.encode())


async def test_a_failed_output_that_must_be_withheld_stops_the_run_and_is_not_in_the_session(copilot, policy, birds):
    script = [Turn(bash("echo before", "c1")), Turn(ToolCall("birds-fail", {}, "c2")), DONE, DONE]
    guard = policy(after=withhold)
    first = await copilot.play(script, guard, permission=FULL, mcp_servers=birds)
    assert (first.outcome.reason, len(first.requests), first.unguarded()) == ("unreplaceable", 2, [])
    session = {"kind": "resume", "id": first.outcome.session_id}
    second = await copilot.play([DONE], guard, session=session, mcp_servers=birds)
    assert second.outcome.ok
    assert b"before" in second.requests[0].raw
    assert not first.knows(SECRET.encode())
    assert not second.knows(SECRET.encode())


async def test_instructions_beside_a_file_that_is_read_are_not_looked_for(copilot, policy):
    folder = copilot.workspace / "sub"
    (folder / ".github").mkdir(parents=True)
    (folder / "a.txt").write_text("plain\n")
    for path in (folder / "AGENTS.md", folder / "CLAUDE.md", folder / ".github" / "copilot-instructions.md"):
        path.write_text(SECRET)
    played = await copilot.play([Turn(view("sub/a.txt")), DONE], policy(after=redact), permission=FULL)
    assert "plain" in played.result("c1").content
    assert not played.knows(SECRET.encode())


async def test_the_chain_sees_after_a_rewrite_what_truly_ran(copilot, policy):
    def after(call):
        assert call.input["command"] == "echo changed"
        return Replace(output=f"[{call.output.split()[0]}]")

    def before(call):
        return Modify(input={**call.input, "command": "echo changed"})

    played = await copilot.play([Turn(bash("echo plain")), DONE], policy(before, after), permission=FULL)
    assert played.result("c1").content == "[changed]"
    assert [one.decision for one in played.of(ToolDecided)] == ["allow", "replace"]
    assert played.unguarded() == []
