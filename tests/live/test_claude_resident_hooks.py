"""Whatever a resident hook does wrong, the call that it was asked about leaves no file, and later ones are judged.

One run at each end of the versions: each row has a resident program of its own, which misbehaves at the call of its
name and answers well at all others, also after it was replaced. The tests look at the one run, row by row.
"""

import sys
from pathlib import Path

import pytest

from interlock import HookSpec, Notice, Status
from interlock_fixtures.scripted_model import Text, ToolCall, Turn

pytestmark = [pytest.mark.live, pytest.mark.anyio, pytest.mark.xdist_group("resident hooks")]

DONE = Turn(Text("done"))
FULL = {"posture": "full"}

PROGRAM = """
import json, os, signal, sys, time
row = sys.argv[1]

def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()

if row == "answers_unasked":
    say(json.dumps({"id": 1, "decision": "allow"}) + "\\n")
if row == "ends_at_once":
    sys.exit(0)
for line in sys.stdin:
    call = json.loads(line)
    number = call["id"]
    allow = json.dumps({"id": number, "decision": "allow"}) + "\\n"
    deny = json.dumps({"id": number, "decision": "deny", "reason": "the hook says no"}) + "\\n"
    inside = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "r"}
    if call["input"]["command"] != "touch " + row:
        say(allow)
        continue
    match row:
        case "deny": say(deny)
        case "exit_0": sys.exit(0)
        case "exit_1": sys.exit(1)
        case "exit_2_stderr":
            sys.stderr.write("blocked")
            sys.exit(2)
        case "killed": os.kill(os.getpid(), signal.SIGKILL)
        case "too_late":
            time.sleep(1.0)
            say(allow)
        case "banner_then_deny": say("hello\\n" + deny)
        case "banner_then_allow": say("hello\\n" + allow)
        case "two_answers": say(allow[:-1] + deny)
        case "truncated":
            say(allow[:-4])
            sys.exit(0)
        case "empty_line": say("\\n" + allow)
        case "native_dialect": say(json.dumps({"id": number, "hookSpecificOutput": inside}) + "\\n")
        case "flat_dialect": say(json.dumps({"id": number, "permissionDecision": "deny"}) + "\\n")
        case "echo": say(line)
        case "ask": say(json.dumps({"id": number, "decision": "ask"}) + "\\n")
        case "no_id": say(json.dumps({"decision": "allow"}) + "\\n")
        case "id_of_another": say(json.dumps({"id": number + 1, "decision": "allow"}) + "\\n")
        case "id_as_text": say(json.dumps({"id": str(number), "decision": "allow"}) + "\\n")
        case "replace_before": say(json.dumps({"id": number, "decision": "replace", "output": "x"}) + "\\n")
        case "closes_its_output":
            os.close(1)
            time.sleep(30)
"""
ROWS = [line.split('"')[1] for line in PROGRAM.splitlines() if line.lstrip().startswith("case ")]
ON_OLDEST = ("deny", "killed", "too_late", "banner_then_deny")
PLAYED = {}
"""The one run of each version."""


def hook(folder: Path, row: str) -> HookSpec:
    """The resident program of a row."""
    program = folder / "guard.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = (sys.executable, "-S", str(program), row)
    return HookSpec(name=row, command=command, resident=True, timeout=0.6 if row == "too_late" else 5.0)


@pytest.fixture
async def played(live):
    """The run in which every row has its call, and a last one that all are asked about."""
    if live.which not in PLAYED:
        rows = ROWS if live.which == "newest" else ON_OLDEST
        calls = [Turn(ToolCall("Bash", {"command": f"touch {row}"}, row)) for row in (*rows, "later")]
        hooks = [hook(live.folder, row) for row in rows]
        run = await live.play([*calls, DONE], permission=FULL, hooks=hooks)
        PLAYED[live.which] = run, sorted(path.name for path in live.workspace.iterdir())
    return PLAYED[live.which]


CASES = [("newest", row) for row in ROWS] + [("oldest", row) for row in ON_OLDEST]


@pytest.mark.parametrize(("claude_which", "row"), CASES, indirect=["claude_which"])
@pytest.mark.sampled
async def test_a_resident_hook_that_misbehaves_leaves_no_file(played, row):
    run, files = played
    assert files == ["later"]
    assert run.decisions()[row] == "deny by hook"
    assert run.result(row).is_error
    broken = [notice.message for notice in run.of(Notice) if notice.code == "hook_broken"]
    assert any(f"'{row}'" in message for message in broken) == (row != "deny"), broken
    assert ("the hook says no" in run.result(row).content) == (row == "deny")
    assert (run.outcome.status, run.unguarded()) == (Status.COMPLETED, [])


@pytest.mark.parametrize("claude_which", ["newest"], indirect=True)
@pytest.mark.parametrize("row", ["answers_unasked", "ends_at_once"])
async def test_a_resident_hook_that_fails_whenever_it_is_started_lets_nothing_run(live, row):
    calls = [Turn(ToolCall("Bash", {"command": f"touch {name}"}, name)) for name in ("one", "two")]
    run = await live.play([*calls, DONE], permission=FULL, hooks=[hook(live.folder, row)])
    assert list(live.workspace.iterdir()) == []
    assert run.decisions() == {"one": "deny by hook", "two": "deny by hook"}
    assert (run.outcome.ok, run.unguarded()) == (True, [])
