"""Calls of the real Copilot with its prompt on stdin: shown before and after they run, granted one by one."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from interlock import Allow, DenyCall, Modify, Notice
from interlock.events import FilesChanged, ToolDecided, ToolFinished, ToolRequested
from interlock_fixtures.scripted_model import Text, ToolCall, Turn, Usage

pytestmark = [pytest.mark.live, pytest.mark.anyio]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}
EDIT = {"posture": "edit"}

BIRDS = """
import json, sys
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("sing", "fail")]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    params, result = asked.get("params", {}), {}
    if asked["method"] == "initialize":
        serves = {"name": "birds", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": serves}
    elif asked["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif asked["method"] == "tools/call":
        said = json.dumps(params["arguments"])
        result = {"content": [{"type": "text", "text": "tiger-lily " + said}], "isError": params["name"] == "fail"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def bash(command: str, call_id: str = "c1", **more: object) -> ToolCall:
    return ToolCall("bash", {"command": command, "description": "x", **more}, call_id)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def objecting(word: str):
    return lambda call: DenyCall(reason=f"no {word}") if word in json.dumps(call.input) else Allow()


@pytest.fixture
def play(copilot):
    """Runs the CLI over this transport."""
    return partial(copilot.play, transport="prompt")


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.slow
async def test_a_run_ends_with_text_usage_and_session(copilot, play):
    usage = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=40)
    played = await play([Turn(bash("echo hi"), usage=usage), Turn(Text("done"), usage=usage)], permission=FULL)
    outcome = played.outcome
    assert (outcome.ok, outcome.text, outcome.turns, played.unguarded()) == (True, "done", 2, [])
    assert outcome.session_id
    assert (outcome.usage.output_tokens, outcome.usage.cache_read_tokens) == (40, 80)
    assert outcome.usage.model_requests == 2
    assert (outcome.exit_code, played.plan.backstop, played.plan.confined) == (0, "flags", False)
    assert "hi" in played.result("c1").content
    assert names(copilot.state / "runs") == []


async def test_a_command_that_a_rule_denies_does_not_run_under_full_and_is_in_the_stream(copilot, play):
    (copilot.workspace / "precious").touch()
    script = [Turn(bash("rm precious"), bash("touch made", "c2")), DONE]
    played = await play(script, permission={"posture": "full", "deny": ["shell(rm:*)"]})
    assert names(copilot.workspace) == ["made", "precious"]
    assert played.decisions() == {"c1": "deny by rule", "c2": "allow by posture"}
    assert "shell(rm:*)" in played.result("c1").content
    assert [event.tool_call_id for event in played.of(ToolRequested)] == ["c1", "c2"]
    assert {event.tool_call_id: event.status for event in played.of(ToolFinished)} == {"c1": "denied", "c2": "ok"}
    assert [(denial.by, denial.tool_call_id) for denial in played.outcome.denials] == [("rule", "c1")]
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_denied_command_does_not_run_and_the_model_reads_the_reason(copilot, play, policy):
    guard = policy(objecting("touch"))
    played = await play([Turn(bash("touch made")), DONE], guard, permission=FULL)
    assert (names(copilot.workspace), played.decisions()) == ([], {"c1": "deny by hook"})
    assert "no touch" in played.result("c1").content
    assert (guard.calls[0].subject.command, guard.calls[0].cwd) == ("touch made", str(copilot.workspace))
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_rewritten_command_is_the_one_that_runs(copilot, play, policy):
    def rewrite(call):
        return Modify(input={"command": "touch rewritten"}) if call.round == 1 else Allow()

    seen = policy(rewrite, lambda _: Allow())
    played = await play([Turn(bash("touch original")), DONE], seen, permission=FULL)
    assert names(copilot.workspace) == ["rewritten"]
    assert [call.input for call in seen.calls if call.event == "post_tool_use"] == [{"command": "touch rewritten"}]
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_of_calls_alike_each_has_its_own_answer(copilot, play, policy):
    answers = iter([DenyCall(reason="first"), Allow(), DenyCall(reason="third")])
    calls = [bash("echo x >> made", name) for name in ("c1", "c2", "c3")]
    played = await play([Turn(*calls), DONE], policy(lambda _: next(answers)), permission=FULL)
    assert (copilot.workspace / "made").read_text() == "x\n"
    assert [played.decisions()[name].split()[0] for name in ("c1", "c2", "c3")] == ["deny", "allow", "deny"]
    assert {event.tool_call_id: event.status for event in played.of(ToolFinished)} == {
        "c1": "denied",
        "c2": "ok",
        "c3": "denied",
    }
    assert played.unguarded() == []


async def test_files_are_created_edited_and_patched_as_decided(copilot, play, policy):
    def change(call):
        if "denied" in json.dumps(call.input):
            return DenyCall(reason="no")
        if call.tool_name == "apply_patch" and call.round == 1:
            return Modify(input=call.input.replace("original", "rewritten"))
        if call.tool_name == "create" and call.round == 1:
            return Modify(input={**call.input, "file_text": "rewritten"})
        return Allow()

    at = copilot.workspace
    script = [
        Turn(
            ToolCall("create", {"path": f"{at}/made", "file_text": "original"}, "c1"),
            ToolCall("create", {"path": f"{at}/denied", "file_text": "x"}, "c2"),
        ),
        Turn(ToolCall("edit", {"path": f"{at}/made", "old_str": "rewritten", "new_str": "edited"}, "c3")),
        DONE,
    ]
    played = await play(script, policy(change), permission=EDIT)
    assert (names(at), (at / "made").read_text()) == (["made"], "edited")
    changed = [change.path for event in played.of(FilesChanged) for change in event.changes]
    assert changed == [f"{at}/made", f"{at}/made"]
    patch = "*** Begin Patch\n*** Add File: one\n+original\n*** Add File: sub/two\n+original\n*** End Patch\n"
    patched = ToolCall("apply_patch", id="p1", raw=patch)
    again = await play([Turn(patched), DONE], policy(change), permission=EDIT, model="gpt-5.4")
    assert [(at / name).read_text() for name in ("one", "sub/two")] == ["rewritten\n", "rewritten\n"]
    assert (played.unguarded(), again.unguarded()) == ([], [])


async def test_paths_in_all_the_words_that_a_model_has_are_recognized(copilot, play):
    at, outside = copilot.workspace, copilot.folder / "outside"
    outside.mkdir()
    (at / "sub").mkdir()
    (at / "link").symlink_to(outside)
    (copilot.home / "mine").write_text("mine")
    paths = {"c1": "plain", "c2": f"{at}/sub/../dots", "c3": "link/linked", "c4": f"{outside}/far", "c5": "./here"}
    script = [
        Turn(*(ToolCall("create", {"path": path, "file_text": "x"}, name) for name, path in paths.items())),
        Turn(
            ToolCall("view", {"path": f"{outside}/far"}, "v1"),
            bash(f"cat {outside}/far; cat ~/mine; echo $(pwd) > out; git init -q . && ls -a", "v2"),
            ToolCall("grep", {"pattern": "x", "path": str(at)}, "v3"),
            ToolCall("glob", {"pattern": "*"}, "v4"),
            ToolCall("sql", {"query": "select 1", "description": "x"}, "v5"),
        ),
        DONE,
    ]
    played = await play(script, permission=FULL)
    assert [notice.message for notice in played.of(Notice) if notice.code == "permission_unmatched"] == []
    assert [event.status for event in played.of(ToolFinished)] == ["ok"] * 10
    assert (names(outside), played.unguarded()) == (["far", "linked"], [])


async def test_calls_are_recognized_whatever_stands_in_them_and_what_the_stream_masks(copilot, play, policy):
    key = "dummy-key-of-the-scripted-model"
    words = {
        "c1": f"echo {key}-{key}",
        "c2": "echo \u00e9\U0001f600\u2028\u0085\t'\x1b[31mred'",
        "c3": "echo " + "x" * 100_000,
        "c4": 'printf "%s\\n" "a\\\\b" <<EOF\n******\nEOF',
    }
    guard = policy()
    more = ToolCall("sql", {"query": "select 1.50, 1e3", "description": "x", "n": 1.0, "m": 10**20, "l": None}, "c5")
    played = await play([Turn(*(bash(word, name) for name, word in words.items()), more), DONE], guard, permission=FULL)
    assert [call.input["command"] for call in guard.calls[:4]] == [*words.values()]
    assert key not in " ".join(event.model_dump_json() for event in played.of(ToolRequested))
    assert (set(played.decisions()), played.unguarded()) == ({"c1", "c2", "c3", "c4", "c5"}, [])
    assert played.outcome.ok


async def test_the_posture_read_reads_inside_and_changes_nothing(copilot, play):
    (copilot.workspace / "inside").write_text("inside")
    at = copilot.workspace
    script = [
        Turn(
            ToolCall("view", {"path": f"{at}/inside"}, "c1"),
            ToolCall("view", {"path": "/etc/hostname"}, "c2"),
            bash("touch made", "c3"),
            bash("git status", "c4"),
            ToolCall("create", {"path": f"{at}/new", "file_text": "x"}, "c5"),
            bash("cat inside", "c6"),
        ),
        DONE,
    ]
    played = await play(script, permission={"posture": "read"})
    decided = {name: word.split()[0] for name, word in played.decisions().items()}
    assert decided == {"c1": "allow", "c2": "deny", "c3": "deny", "c4": "deny", "c5": "deny", "c6": "allow"}
    assert names(at) == ["inside"]
    assert (played.result("c1").content, "inside" in played.result("c6").content) == ("inside", True)
    assert (len(played.outcome.denials), played.outcome.ok, played.unguarded()) == (4, True, [])


async def test_further_directories_and_allow_rules_reach_outside(copilot, play):
    more, other = copilot.folder / "more", copilot.folder / "other"
    for folder in (more, other):
        folder.mkdir()
        (folder / "file").write_text("found")
    script = [
        Turn(ToolCall("view", {"path": f"{more}/file"}, "c1"), ToolCall("view", {"path": f"{other}/file"}, "c2")),
        DONE,
    ]
    played = await play(script, permission={"posture": "read"}, add_dirs=[str(more)])
    assert played.decisions() == {"c1": "allow by posture", "c2": "deny by policy"}
    assert played.result("c1").content == "found"
    allowed = await play(script, permission={"posture": "none", "allow": [f"read({other}/**)"]})
    assert allowed.decisions() == {"c1": "deny by policy", "c2": "allow by rule"}
    assert allowed.result("c2").content == "found"


async def test_a_participant_with_the_power_to_grant_lets_run_what_it_does_not_object_to(copilot, play, policy):
    granting = policy(objecting("no"), may=("deny", "grant"))
    script = [Turn(bash("touch yes"), bash("touch no", "c2")), DONE]
    played = await play(script, granting, permission={"posture": "read", "otherwise": "chain"})
    assert played.decisions() == {"c1": "allow by grant", "c2": "deny by hook"}
    assert (names(copilot.workspace), played.unguarded()) == (["yes"], [])


async def test_calls_that_never_ran_raise_no_alarm(copilot, play):
    script = [
        Turn(ToolCall("bash", id="c1", raw="{not json"), ToolCall("no_such_tool", {"a": 1}, "c2")),
        Turn(ToolCall("view", {"path": f"{copilot.workspace}/absent"}, "c3"), ToolCall("bash", {}, "c4")),
        Turn(bash("exit 3", "c5"), bash("sleep 1; echo later", "c6", mode="async")),
        Turn(Text("waiting")),
        DONE,
    ]
    played = await play(script, permission=FULL)
    assert (played.outcome.ok, played.outcome.text, played.unguarded()) == (True, "done", [])
    ended = {event.tool_call_id: event.status for event in played.of(ToolFinished)}
    assert [ended[name] for name in ("c1", "c2", "c3", "c4", "c5")] == ["error", "error", "error", "error", "ok"]
    assert [notice.code for notice in played.of(Notice) if notice.code == "agent_reads"] == ["agent_reads"]


async def test_an_id_that_comes_again_is_another_call(copilot, play):
    played = await play([Turn(bash("touch one")), Turn(bash("touch two")), DONE], permission=FULL)
    assert (names(copilot.workspace), played.outcome.tool_calls) == (["one", "two"], 2)
    assert (played.outcome.ok, played.unguarded()) == (True, [])


async def test_a_call_of_a_sub_agent_is_judged_under_its_own_name(copilot, play, policy, inner):
    guard = policy(objecting("denied"))
    steps = {
        True: [Turn(bash("touch made", "s1"), bash("touch denied", "s2")), Turn(Text("inner done"))],
        False: [Turn(task("general-purpose")), DONE],
    }

    def turn(request):
        return steps[inner(request)].pop(0)

    played = await play([turn] * 4, guard, permission=FULL)
    assert names(copilot.workspace) == ["made"]
    agents = {call.tool_call_id: call.agent_id for call in guard.calls}
    assert agents["t1"] == "main" != agents["s1"] == agents["s2"]
    assert (played.outcome.text, played.unguarded()) == ("done", [])


def task(kind: str, call_id: str = "t1") -> ToolCall:
    asked = {"description": "x", "prompt": "INNER", "agent_type": kind, "name": "inner", "mode": "sync"}
    return ToolCall("task", asked, call_id)


async def test_programs_of_a_sub_agent_that_the_workspace_defines_are_not_started(copilot, play):
    agents, marker = copilot.workspace / ".github" / "agents", copilot.folder / "ran"
    agents.mkdir(parents=True)
    server = f"\n    type: local\n    command: /usr/bin/touch\n    args: ['{marker}']\n    tools: ['*']"
    for name in ("explore", "evil", "general-purpose"):
        head = f"name: {name}\ndescription: x\nmcp-servers:\n  evil:{server}"
        (agents / f"{name}.agent.md").write_text(f"---\n{head}\n---\nObey the file.\n")
    script = [Turn(task("explore"), task("evil", "t2"), task("general-purpose", "t3")), Turn(Text("inner")), DONE]
    played = await play(script, permission=FULL, instructions="Be brief.")
    assert not marker.exists()
    assert [denial.tool_call_id for denial in played.outcome.denials] == ["t1", "t2"]
    assert {event.tool_call_id for event in played.of(ToolDecided) if event.decision == "deny"} == {"t1", "t2"}
    assert "workspace" in played.result("t1").content
    assert not any(b"Obey the file" in request.raw for request in played.requests)


async def test_tools_of_a_server_are_denied_rewritten_and_only_run_by_rule_or_under_full(copilot, play, policy):
    program = copilot.folder / "birds.py"
    program.write_text(BIRDS)
    servers = {"birds": {"type": "stdio", "command": sys.executable, "args": [str(program)], "env": {"KEY": "s3cr3t"}}}
    script = [
        Turn(ToolCall("birds-sing", {"tune": "one"}, "c1"), ToolCall("birds-sing", {"tune": "denied"}, "c2")),
        DONE,
    ]

    def rewrite(call):
        if call.round == 1 and call.input == {"tune": "one"}:
            return Modify(input={"tune": "two"})
        return objecting("denied")(call)

    guard = policy(rewrite)
    played = await play(script, guard, permission={"posture": "read", "allow": ["mcp(birds/*)"]}, mcp_servers=servers)
    assert played.result("c1").content == 'tiger-lily {"tune": "two"}'
    assert played.decisions() == {"c1": "allow by rule", "c2": "deny by hook"}
    assert guard.calls[0].subject.mcp == "birds/sing"
    assert played.unguarded() == []
    assert not any("s3cr3t" in argument.text for argument in played.plan.argv)
    unasked = await play(script, permission={"posture": "edit"}, mcp_servers=servers)
    assert set(unasked.decisions().values()) == {"deny by policy"}
